"""Make profiles of kernels before 5.10 from what was recorded of them: small facts, not a whole kernel.

    tools/early_profiles.py RECORDED...    e.g. fixtures of 4.4: a directory with files/, ls_before.txt, symbols.tsv …

A recording of that kind knows a few hundred symbols, some files' texts and the formats of a few static events.  What
else the kernel had isn't in the profile, and `unrecorded` in its facts says so: a symbol that isn't known is refused as
if there were none, an offset that nobody probed as if no instruction began there.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from early_formats import by_source
from profiles import write_index

from kprobe_sim.builds.portable.file import packed
from kprobe_vm.recording import profilefile
from kprobe_vm.recording.instructions import Kind, Special, Text
from kprobe_vm.recording.symboltable import KallsymsEntry, KernelSymbols, parse_blacklist

OUTPUT = Path(__file__).parents[1] / "distributions/kprobe-sim-profiles-old/src/kprobe_sim_profiles_old"
UNRECORDED = (
    "symbols other than some 340 and those that recorded traces name",
    "addresses of symbols that only definitions name: they stand after all others",
    "where instructions begin, but for the places that the recorded definitions probed",
    "which functions ftrace can stop in: those whose entry was probed count",
    "static events other than the few whose format or lines were recorded",
    "formats of sched_wakeup, sched_process_fork and sched_process_exec: they are their source's, ids by their order",
    "texts of files in instances, and values of the options of tracers",
    "call chains of what programs do",
    "the mode of the root directory",
)
_DIR, _FILE = 0o040000, 0o100000
_PLACED = re.compile(r"[pr][^ \t]*[ \t]+([A-Za-z_]\w*)(?:\+(\w+))?(?:[ \t\n]|$)")
_SHOWN = re.compile(r"\b([A-Za-z_][\w.]*)\+0x([0-9a-f]+)/0x([0-9a-f]+) <([0-9a-f]{16})>")


class Known(NamedTuple):
    """What is known of the symbols: (address, size, letter) by name, oldest first, and where probes may stand."""

    symbols: dict[str, list[tuple[int, int, str]]]
    good: set[int]  # instructions begin here
    bad: set[int]  # function entries that are refused
    traced: set[int]  # ftrace locations


def _lines(path: Path) -> list[str]:
    return path.read_text("latin-1").splitlines() if path.exists() else []


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    return (json.loads(line) for line in _lines(path))


def _symbols(recorded: Path) -> dict[str, list[tuple[int, int, str]]]:
    found: dict[str, list[tuple[int, int, str]]] = {}
    for line in _lines(recorded / "symbols.tsv")[1:]:
        name, address, *rest = line.split("\t")
        if address != "-":
            found.setdefault(name, []).append((int(address, 16), int(rest[1], 16), rest[0]))
    for path in sorted((recorded / "traces").iterdir()):
        if path.suffix == ".trace":
            for name, offset, size, address in _SHOWN.findall(path.read_text("latin-1")):
                found.setdefault(name, [(int(address, 16) - int(offset, 16), int(size, 16), "T")])
    for name, start, length in _of_stacks(recorded / "traces"):
        found.setdefault(name, [(start, length, "t")])
    found.setdefault("kretprobe_trampoline", _trampoline(recorded / "traces"))
    return {name: sorted(set(places)) for name, places in found.items() if places}


def _trampoline(traces: Path) -> list[tuple[int, int, str]]:
    """Return where what return probes return to is: on the stack of a call that one of them hit, before all else."""
    types = (traces / "01_types.trace").read_text("latin-1")
    offsets = "".join(path.read_text("latin-1") for path in sorted(traces.glob("*sym*offset.trace")))
    on_stack = set(re.findall(r": t_stk: .* arg2=(?:0x)?([0-9a-f]{16}) ", types))
    length = re.search(r"^ => kretprobe_trampoline\+0x0/0x([0-9a-f]+)$", offsets, re.MULTILINE)
    return [(int(address, 16), int(length[1], 16), "t") for address in on_stack] if length else []


def _of_stacks(traces: Path) -> Iterator[tuple[str, int, int]]:
    """Yield the functions of the stacks that were recorded twice, with addresses and with offsets: where, how long."""
    addresses = (traces / "03_opt_stacktrace,sym-addr.trace").read_text("latin-1")
    offsets = (traces / "03_opt_stacktrace,sym-offset.trace").read_text("latin-1")
    told = re.findall(r"^ => (\S+)\+0x([0-9a-f]+)/0x([0-9a-f]+)$", offsets, re.MULTILINE)
    for name, address in re.findall(r"^ => (\S+) <([0-9a-f]{16})>$", addresses, re.MULTILINE):
        name = "kretprobe_trampoline" if name.startswith("[unknown") else name
        for function, offset, size in told:
            if function == name:
                yield name, int(address, 16) - int(offset, 16), int(size, 16)


def _number(text: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        return 1 << 40  # nowhere


def known(recorded: Path) -> Known:
    """Return what a recording says about symbols and the places of probes."""
    symbols = _symbols(recorded)
    good = {place[0] for places in symbols.values() for place in places if place[2] in "tTwW"}
    bad: set[int] = set()
    probed: set[int] = set()
    for row in _rows(recorded / "definitions.jsonl"):
        address, taken = _answer(row, symbols)
        if taken:
            probed.add(address)
        elif address in good:
            bad.add(address)
    good |= probed
    bad -= probed
    _without_address(recorded, symbols, good)
    for path in (recorded / "traces").glob("*.kprobe_events"):
        found = [match for line in _lines(path) if (match := _PLACED.match(line)) and match[1] in symbols]
        good |= {symbols[match[1]][0][0] + int(match[2] or "0", 0) for match in found}
    listed = [line for path in (recorded / "traces").glob("*.kprobes_list") for line in _lines(path)]
    stood = {int(line.split()[0], 16): "[FTRACE]" in line for line in listed}
    bad -= stood.keys()
    traced = {address for address, is_traced in stood.items() if is_traced}
    return Known(symbols, (good | stood.keys()) - bad, bad, traced)


def _answer(row: dict[str, Any], symbols: dict[str, list[tuple[int, int, str]]]) -> tuple[int, bool]:
    """Return the address that a definition is about, -1 if that isn't clear, and whether it was taken."""
    text, refused = row["input"], row.get("errname") == "EINVAL"
    if (number := re.match(r"p\S* (0x[0-9a-f]+)\n$", text)) and refused:
        return int(number[1], 16), False
    found = _PLACED.match(text)
    if found is None or text.count("\n") > 1 or len(text.split()) > 2 or found[1] not in symbols:
        return -1, False
    address = symbols[found[1]][0][0] + _number(found[2] or "0")
    taken = bool(row.get("ok") and row["readback"] and "-" not in text)
    return (address, taken) if taken or (refused and text.startswith("p")) else (-1, False)


def _without_address(recorded: Path, symbols: dict[str, list[tuple[int, int, str]]], good: set[int]) -> None:
    """Add symbols that definitions show to be there, and of which nothing else is known, after all others.

    What was refused other than for want of the symbol is text that takes no probe.
    """
    place = (
        max(start + size for places in symbols.values() for start, size, _ in places if start < 1 << 64) + 0xFFF
        & ~0xFFF
    )
    for row in _rows(recorded / "definitions.jsonl"):
        found = _PLACED.match(row["input"])
        if (
            found
            and not found[2]
            and found[1] not in symbols
            and row.get("errname") in ("", "EINVAL")
            and "=" not in row["input"]
        ):
            if row["input"].count(" ") > 1 or row["target"] != "kprobe_events" or not row["input"].startswith("p"):
                continue
            symbols[found[1]] = [(place, 16, "t")]
            if not row["errname"] and row["readback"]:
                good.add(place)
            place += 16
    symbols.setdefault("tracing_mark_write", [(place, 16, "t")])  # which the records of marks name


def symbol_table(recorded: Path) -> bytes:
    """Return symbols.bin."""
    symbols, good, bad, traced = known(recorded)
    letters = {place[0]: place[2] for places in symbols.values() for place in places}
    # what can be probed is taken for traceable: kernels from 4.16 on refuse what isn't
    entries_traced = {address for address in good if letters.get(address, "d") in "tTwW"} | traced
    entries = sorted(
        (KallsymsEntry(address, letter, name, "") for name in symbols for address, _, letter in symbols[name]),
        key=lambda entry: entry.address,
    )
    spans = sorted((address, address + size) for places in symbols.values() for address, size, _ in places)
    merged: list[list[int]] = []
    for start, end in [*spans, *[(address, address + 1) for address in good]]:
        merged.append([start, end])
    merged.sort()
    regions: list[list[int]] = []
    for start, end in merged:
        if regions and start <= regions[-1][1]:
            regions[-1][1] = max(regions[-1][1], end)
        else:
            regions.append([start, end])
    first = min(address for address in good)
    last = symbols["_etext"][0][0]
    bits = bytearray((last - first) // 8 + 1)
    for address in good:
        if first <= address < last:
            bits[(address - first) >> 3] |= 1 << ((address - first) & 7)
    texts = [Text(first, bytes(last - first), bits)]
    texts += [Text(address, bytes(8), bytearray([1])) for address in sorted(good) if address >= last]
    special = [Special(address, 1, Kind.RESERVED) for address in sorted(bad)]
    blacklist = parse_blacklist((recorded / "files/debugfs_kprobes_blacklist.txt").read_text())
    return KernelSymbols(
        entries, (regions[0][0], regions[0][1]), [], texts, special, blacklist,
        sorted(entries_traced), regions=[(start, end) for start, end in regions[1:]],
    ).packed()  # fmt: skip


def _mode(letter: str, octal: str) -> int:
    return (_DIR if letter == "d" else _FILE) | int(octal, 8)


def tree(recorded: Path) -> dict[str, list[list[Any]]]:
    """Return the directories that were listed."""
    directories: dict[str, list[list[Any]]] = {"": []}
    listed = [*_lines(recorded / "ls_before.txt"), *_lines(recorded / "ls_events.txt")]
    listed += _lines(recorded / "traces/13_instance.ls")
    for line in dict.fromkeys(listed):
        octal, letter, uid, gid, path = line.split(" ", 4)
        path = path.replace("instances/foo", "instances/*")
        parent, _, name = path.rpartition("/")
        if letter == "d":
            directories.setdefault(path, [])
        directories.setdefault(parent, []).append(
            [name, _mode(letter, octal), int(uid), int(gid), 2 if letter == "d" else 1]
        )
    return directories


def _caller(recorded: Path) -> str:
    """Return where the function was called that opens files, in openat(2) if that is told."""
    text = (recorded / "traces/02_comms.trace").read_text("latin-1")
    return re.search(r"ret: \((\S+?)/0x[0-9a-f]+ <- do_sys_open\)", text)[1]  # type: ignore[index]


def facts(recorded: Path, texts: dict[str, str]) -> dict[str, Any]:
    """Return what profile.json says."""
    banner = next(line for line in _lines(recorded / "uname.txt") if line.startswith("Linux version"))
    config = "\n".join(_lines(recorded / "config.txt"))
    lsprobe = "\n".join(_lines(recorded / "event_files.txt"))
    identity = int(re.findall(r"^ID: (\d+)$", lsprobe, re.MULTILINE)[0])
    latency = (recorded / "traces/04_clock_local_latency.trace").read_text("latin-1")
    model = re.search(r"\(M:(\w+) VP", latency)
    size = texts["buffer_size_kb"]
    return {
        "release": banner.split()[2],
        "version": re.match(r"[\d.]+", banner.split()[2])[0],  # type: ignore[index]
        "banner": banner,
        "cpus": 2,
        "page_size": 4096,
        "first_dynamic_id": identity,
        "second_dynamic_id": identity + 1,
        "options": profilefile.trace_options(texts["trace_options"]),
        "clocks": texts["trace_clock"].replace("[", "").replace("]", "").split(),
        "default_clock": re.search(r"\[(.*?)\]", texts["trace_clock"])[1],  # type: ignore[index]
        "tracers": texts["available_tracers"].split(),
        "buffer_size_kb": size,
        "buffer_size_kb_expanded": int(re.search(r"expanded: (\d+)", size)[1]),  # type: ignore[index]
        "saved_cmdlines_size": int(texts.get("saved_cmdlines_size", "128")),
        "preempt_model": model[1] if model else "server",
        "modules": [],
        "tasks": [[1, "init"]],
        "config": profilefile.parse_config(config)
        | ({"FRAME_POINTER": "y"} if "CONFIG_FRAME_POINTER=y" in config else {}),
        "chains": {"do_sys_open": [_caller(recorded)]},
        "unrecorded": list(UNRECORDED),
        "answers": {},
    }


def write(recorded: Path, directory: Path) -> None:
    """Write the files of a profile."""
    directories = tree(recorded)
    paths = {"/".join(filter(None, (parent, entry[0]))) for parent in directories for entry in directories[parent]}
    flat = {path.replace("/", "_"): path for path in paths if "*" not in path}
    texts: dict[str, str] = {}
    formats: dict[str, str] = {}
    for path in sorted((recorded / "files").iterdir()):
        text = path.read_bytes().decode("latin-1")
        if found := re.match(r"name: (\S+)\nID: \d+\n", text):
            system = re.sub(rf"_{found[1]}_format$", "", path.stem).removeprefix("events_")
            formats[f"events/{system}/{found[1]}/format"] = text
        elif path.stem in flat:
            texts[flat[path.stem]] = text
    told = by_source(recorded, formats["events/sched/sched_switch/format"])
    formats |= {f"events/sched/{name}/format": text for name, text in told.items()}
    said = facts(recorded, texts)
    groups = {entry[0] for entry in directories["events/kprobes/lsprobe"]}
    directories["events/*/*"] = directories.pop("events/kprobes/lsprobe")
    directories["events/*"] = [entry for entry in directories.pop("events/kprobes") if entry[0] != "lsprobe"]
    own = directories["events/sched"]
    systems: dict[str, list[str]] = {}
    for event in sorted(formats, key=lambda event: _id(formats[event]), reverse=True):
        systems.setdefault(event.split("/")[1], []).append(event.split("/")[2])
    of_ftrace = systems.pop("ftrace")
    newest, *older = systems
    ordered = {newest: systems[newest], "ftrace": of_ftrace} | {name: systems[name] for name in older}
    for name in [name for name in directories if name.startswith("events/") and "*" not in name]:
        del directories[name]
    directories["events"] = [[name, _DIR | 0o755, 0, 0, 2] for name in ordered] + [
        entry for entry in directories["events"] if not entry[1] & _DIR
    ]
    for name, members in ordered.items():
        directories[f"events/{name}"] = [[member, _DIR | 0o755, 0, 0, 2] for member in members]
        directories[f"events/{name}"] += [entry for entry in own if not entry[1] & _DIR and name != "ftrace"]
        for member in members:
            kept = groups if name != "ftrace" else {"format", "id"}
            directories[f"events/{name}/{member}"] = [e for e in directories["events/*/*"] if e[0] in kept]
    event_files = "\n".join(_lines(recorded / "event_files.txt"))
    trigger = re.search(r"^== events/kprobes/lsprobe/trigger\n(.*?)^== ", event_files, re.MULTILINE | re.DOTALL)
    if trigger:
        texts["events/*/*/trigger"] = trigger[1]
    for name in [name for name in texts if name.startswith("events/") and "*" not in name and "header" not in name]:
        del texts[name]
    (directory / "profile.json").write_bytes(profilefile.json_bytes(said) + b"\n")
    (directory / "tracefs.bin").write_bytes(profilefile.pristine_tracefs(texts, directories, formats))
    (directory / "symbols.bin").write_bytes(symbol_table(recorded))


def _id(text: str) -> int:
    return int(re.search(r"^ID: (\d+)$", text, re.MULTILINE)[1])  # type: ignore[index]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recorded", nargs="+", type=Path)
    parser.add_argument("--output", type=Path, default=OUTPUT, help="the directory (that of kprobe-sim-profiles-old)")
    options = parser.parse_args(arguments)
    for recorded in options.recorded:
        with tempfile.TemporaryDirectory() as place:
            write(recorded, Path(place))
            data = packed(Path(place))
            release = json.loads(Path(place, "profile.json").read_bytes())["release"]
        (options.output / f"{release}.kprofile").write_bytes(data)
        print(f"{release}.kprofile", len(data))
    write_index(options.output)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
