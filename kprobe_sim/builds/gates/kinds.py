"""Events of other kinds than kprobes: event probes, fprobes, uprobes, synthetic events."""

from __future__ import annotations

from typing import Any

from kprobe_sim.builds.gates.gate import gate, since, until
from kprobe_sim.builds.gates.question import ABSENT, TOO_OLD, Question, refused_variable

_FETCH = "Invalid fetch argument @"


def _defined(line: str, values: dict[str, Any]) -> Question:
    return Question((f"write dynamic_events {line}",), "log", values)


def _kind(line: str) -> Question:
    """Ask whether a kernel has a kind of events."""
    return _defined(line, {"ok": True, "EINVAL": False, "EINVAL No matching dynamic event type @0": False})


class KindGates:
    """Events of other kinds than kprobes: event probes, fprobes, uprobes, synthetic events."""

    # ---- event probes, fprobes and uprobes ----

    # event probes: e: in dynamic_events
    eprobes: bool = since((5, 15, 0), "trace_eprobe.c; README of 5.10 and 6.1", _kind("e:zz/q sched/sched_switch"))
    # fprobes and tracepoint probes: f: and t:
    fprobes: bool = since(
        (6, 5, 0),
        "trace_fprobe.c; README of 6.1 and 6.12; docs/kernel/dynamic_events.md#definition-of-an-fprobe",
        _kind("f:zz/q vfs_read"),
    )
    # f<digits>: sets maxactive
    fprobe_maxactive: bool = until(
        (6, 14, 0),
        "kinds 6.12 and 7.2: 'f10:fe vfs_read%return'",
        _defined(
            "f10:zz/q vfs_read%return", {"EINVAL": ABSENT, "ok": True, "EINVAL Invalid maxactive number @1": False}
        ),
    )
    # refusals of fprobes and tracepoint probes are EINVAL; they are built on the function graph
    fprobes_late: bool = since(
        (6, 16, 0),
        "trace_fprobe.c 7.2.13: trace_fprobe_verify_target(); kinds 6.12 and 7.2",
        _defined(
            "f:zz/q no_such_function_xyz",
            {
                "EINVAL": ABSENT,
                "EINVAL Failed to register probe event @7": False,
                "EINVAL Invalid probed address or symbol @7": True,
            },
        ),
    )
    # they attach to their functions when they are enabled, else when they are created
    fprobes_wait: bool = since(
        (6, 17, 0),
        "guests of 6.12.117 to 6.17.13: 't:q sched_switch' and 't:r sched_switch'",
        Question(
            ("? write dynamic_events t:zz/q sched_switch", "? write dynamic_events t:zz/r sched_switch"),
            "errno",
            {"EINVAL EINVAL": ABSENT, "ok EEXIST": False, "ok EINVAL": False, "ok ok": True},
        ),
    )
    # a field is looked up after the rest of its argument
    eprobe_fields_late: bool = until(
        (6, 5, 0),
        "kinds 6.1 and 6.12: 'e:ep ... a=$nosuch'",
        _defined(
            "e:zz/q sched/sched_switch a=$nosuch",
            {
                "EINVAL": ABSENT,
                "ENOENT Attached event does not have this field @26": True,
                **refused_variable("EINVAL {} @28", False),
                **refused_variable("EINVAL {} @26", False),
            },
        ),
    )
    # $ with a word that isn't a field is refused at the $, else at the start of the argument
    event_variable_caret: bool = gate(
        True,
        {(6, 16, 0): False, (7, 0, 0): True},
        "campaigns on 6.12.117, 6.16.12 to 6.19.14 and 7.0.13: 'e:a sched/sched_switch y=$nosuch'",
        _defined(
            "e:zz/q sched/sched_switch a=$nosuch",
            {
                "EINVAL": ABSENT,
                "ENOENT Attached event does not have this field @26": ABSENT,
                **refused_variable("EINVAL {} @28", True),
                **refused_variable("EINVAL {} @26", False),
            },
        ),
    )
    # event probes take FIELD as well as $FIELD
    event_fields_by_name: bool = since(
        (7, 3, 0),
        "kinds 7.2 and 7.3: 'e:ep sched/sched_switch prev_pid'",
        _defined(
            "e:zz/q sched/sched_switch a=prev_pid",
            {
                "EINVAL": ABSENT,
                f"EINVAL {_FETCH}28": False,
                "EINVAL BTF is not available or not supported @28": False,
                "ok": True,
            },
        ),
    )
    # an event probe takes the address of a field that is an array, not 8 bytes of it
    event_arrays_are_addresses: bool = since(
        (6, 17, 0),
        "trace_eprobe.c 6.12.117 and 7.2.13: get_event_field()",
        Question(
            (
                "write dynamic_events e:zz/q raw_syscalls/sys_enter id=$id a=$args:x64",
                "write @/events/zz/q/enable 1",
                "open /etc/hostname",
                "write @/tracing_on 0",
                "read @/trace",
            ),
            r"workload-.* id=0x101 a=0x(?:(ffffff9c|ffffffffffffff9c)$|ffff[89a-e])",
            {"none": ABSENT, "ffffff9c": False, "ffffffffffffff9c": False, "match": True},
        ),
    )
    # %REG in an event probe or fprobe is logged as two faults
    registers_refused_twice: bool = until(
        (7, 3, 0),
        "kinds 7.2 and 7.3: 'f:fe vfs_read a=%di'",
        _defined(
            "f:zz/q vfs_read a=%di",
            {
                "EINVAL": ABSENT,
                **refused_variable(f"EINVAL {{}} @18 {_FETCH}18", True),
                **refused_variable("EINVAL {} @18", False),
            },
        ),
    )
    # uprobes refuse the types symbol and symstr
    uprobes_reject_symbols: bool = since(
        (6, 5, 0),
        "kinds 6.1 and 6.12: 'p:up /bin/busybox:0x1000 a=%di:symbol'",
        _defined(
            "p:zz/q /bin/busybox:0x1000 a=%di:symbol", {"ok": False, "EINVAL Unknown type is specified @33": True}
        ),
    )
    # dynamic_events logs "No matching dynamic event type"
    unmatched_is_logged: bool = since(
        (6, 19, 0),
        "docs/kernel/dynamic_events.md#no-kind",
        _defined("zz", {"EINVAL": False, "EINVAL No matching dynamic event type @0": True}),
    )

    # ---- synthetic events ----

    # print fmt of a synthetic event separates its fields by blanks, not commas
    synthetic_spaces: bool = since(
        (6, 16, 0),
        "kinds 6.12 and 7.2: 's:syn u64 lat; pid_t pid'",
        Question(
            ("write dynamic_events s:zz_q u64 a; pid_t b", "read events/synthetic/zz_q/format"),
            r"print fmt: \"a=%llu(,?) b",
            {"ENOENT": ABSENT, ",": False, "match": True},
        ),
    )
    # names, lengths and types in synthetic events are checked, and refusals logged
    synthetic_checked: bool = since(
        (5, 10, 0), "parse_synth_field() of 5.4.273; guests: 's char c[]', 's bool b', '1x u64 v'", TOO_OLD
    )
    # a value fits a field of the same size and sign; else of the same type only
    synthetic_fits_by_size: bool = since((5, 10, 0), "check_synth_field() of 5.4.273", TOO_OLD)
    # synthetic_events lists the newest first
    synthetic_newest_first: bool = until(
        (4, 20, 0), "a guest of 4.19.108: 'a u64 x', 'b u64 x'; dynamic events came with 5.0", TOO_OLD
    )
    # a semicolon after an array is a part of its type
    synthetic_semicolon_kept: bool = since((5, 4, 0), "guests of 4.19.108 and 5.4.273: 's char c[16]; u64 b'", TOO_OLD)
    # a field can have the type gfp_t
    synthetic_gfp: bool = since((5, 4, 0), "guests of 4.19.108 and 5.4.273: 'e gfp_t f'", TOO_OLD)
    # the most fields of a synthetic event, and parameters of an action
    synthetic_fields: int = gate(16, {(5, 10, 0): 64}, "SYNTH_FIELDS_MAX of 5.4.273 and 6.1", TOO_OLD)
    # bytes of a synthetic event's string
    synthetic_string: int = gate(32, {(5, 10, 0): 256}, "STR_VAR_LEN_MAX of 5.4.273 and 6.1", TOO_OLD)
