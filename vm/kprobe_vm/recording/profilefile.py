"""Writes the files of a profile, from the answers of a booted guest.

profile.json     what every simulated kernel needs at its start: small
symbols.bin      see symboltable.py                prototypes.bin   see btf.py
tracefs.bin      the pristine tracefs: see kprobe_sim/builds/recorded_tracefs.py, which reads it
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kprobe_vm.recording import packed

MAGIC = b"kprobtfs"
FORMATS = 16  # formats of events that are compressed together

Entry = Sequence[Any]  # of a directory: name, mode, uid, gid, links

# The configuration facts that change answers of the tracefs; absent means "not set" or "doesn't exist".
CONFIG = (
    "BTF", "CFI_CLANG", "DEBUG_INFO_BTF", "DYNAMIC_FTRACE", "FPROBE", "FPROBE_EVENTS", "FRAME_POINTER",
    "FUNCTION_GRAPH_TRACER", "FUNCTION_TRACER",
    "HIST_TRIGGERS", "HIST_TRIGGERS_DEBUG", "HZ", "KALLSYMS_ALL", "KASAN", "KGDB",
    "KPROBES", "KPROBES_ON_FTRACE", "KPROBE_EVENTS", "KPROBE_EVENTS_ON_NOTRACE", "NR_CPUS", "OPTPROBES", "PREEMPTION",
    "PREEMPT_DYNAMIC", "PREEMPT_LAZY", "PREEMPT_RT", "PROBE_EVENTS", "PROBE_EVENTS_BTF_ARGS", "SMP", "SYNTH_EVENTS",
    "TRACER_SNAPSHOT", "TRACE_EVENT_INJECT", "UNWINDER_ORC", "UPROBE_EVENTS", "X86_KERNEL_IBT",
)  # fmt: skip


def parse_config(text: str) -> dict[str, str]:
    """Return the facts of CONFIG from a kernel's configuration: name -> value, only those that are set."""
    values = dict(re.findall(r"^CONFIG_(\w+)=(.*)$", text, re.MULTILINE))
    return {name: values[name].strip('"') for name in CONFIG if name in values}


def version_of(banner: str) -> str:
    """Return the kernel's version, "6.1.190", from /proc/version: Debian's release string doesn't have it."""
    release = banner.split()[2]
    build = banner.rpartition("#")[2]  # what comes before it names the compiler, with the compiler's versions
    matched = re.search(r"\bDebian (\d+\.\d+(?:\.\d+)?)", build) or re.match(r"(\d+\.\d+(?:\.\d+)?)", release)
    if matched is None:
        raise ValueError(f"no version in {banner!r}")
    return matched.group(1)


def parse_tree(text: str) -> dict[str, list[list[Any]]]:
    """Return the directories from lines `mode(hex) uid gid links size path`, as `find -exec stat` prints them."""
    directories: dict[str, list[list[Any]]] = {"": []}
    for line in text.splitlines():
        mode, uid, gid, links, _, path = line.split(" ", 5)
        path = path.removeprefix("./")
        if path == ".":
            continue
        parent, _, name = path.rpartition("/")
        if int(mode, 16) >> 12 == 4:
            directories[path] = []
        directories[parent].append([name, int(mode, 16), int(uid), int(gid), int(links)])
    return directories


def root_mode(text: str) -> int:
    """Return the permission bits of the root, from the same lines."""
    return next(int(line.split(" ", 1)[0], 16) for line in text.splitlines() if line.endswith(" .")) & 0o7777


def pristine_tracefs(
    files: Mapping[str, str], directories: Mapping[str, Sequence[Entry]], formats: Mapping[str, str]
) -> bytes:
    """Return tracefs.bin: of texts and directories by path, and of the events' formats by the paths of these files.

    All events of a kind have the same files with the same modes, so a kind is stored once.
    """
    kinds: list[Any] = []
    systems: dict[str, bytes] = {}
    texts: list[bytes] = []
    of_events = {"events/" + entry[0] for entry in directories["events"] if _is_dir(entry)}
    for path in [f"events/{entry[0]}" for entry in directories["events"] if _is_dir(entry)]:
        members: list[Any] = []
        for entry in filter(_is_dir, directories[path]):
            event = f"{path}/{entry[0]}"
            of_events.add(event)
            kind = [entry[1:], directories[event]]
            if kind not in kinds:
                kinds.append(kind)
            text = formats[event + "/format"].encode("latin-1")
            found = re.search(rb"^ID: (\d+)$", text, re.MULTILINE)
            if found is None:
                raise ValueError(f"no id in the format of {event}")
            members.append([entry[0], int(found.group(1)), kinds.index(kind), len(texts)])
            texts.append(text)
        entries = directories[path]
        own = [entry for entry in entries if not _is_dir(entry)]
        systems[path.removeprefix("events/")] = json_bytes([own, bool(entries) and not _is_dir(entries[0]), members])
    tree = {path: json_bytes(entries) for path, entries in directories.items() if path not in of_events}
    sections = {
        "files": packed.named({path: text.encode("latin-1") for path, text in files.items()}),
        "tree": packed.named(tree),
        "kinds": packed.texts([json_bytes(kinds)]),
        "events": packed.named(systems),
        "formats": packed.texts([b"\0".join(texts[at : at + FORMATS]) for at in range(0, len(texts), FORMATS)]),
    }
    return packed.file(MAGIC, sections)


def _is_dir(entry: Entry) -> bool:
    return int(entry[1]) >> 12 == 4


def trace_options(text: str) -> list[list[Any]]:
    """Return [[name, default], ...] from the text of trace_options."""
    options: list[list[Any]] = []
    for word in text.split():
        options.append([word[2:], False] if word.startswith("no") else [word, True])
    return options


def json_bytes(value: Any) -> bytes:
    """Return JSON without blanks; the same value gives the same bytes."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True).encode()


def write(directory: Path, answers: Mapping[str, bytes], config: str | None) -> None:
    """Write all files of a profile but the binary ones.  `answers` are the recorder's, by the names it gave them."""
    text = {name: data.decode("latin-1") for name, data in answers.items()}
    files = {name.removeprefix("files/"): value for name, value in text.items() if name.startswith("files/")}
    for name in ("available_filter_functions", "available_filter_functions_addrs"):
        files.pop(name, None)  # the symbol table has it
    banner = text["version"].strip()
    formats = {"events/" + name: value for name, value in _formats(text).items()}
    directories = parse_tree(text["tree"])
    directories["instances/*"] = parse_tree(text["instance.tree"])[""]
    for path, entries in parse_tree(text["instance.tree"]).items():
        if path and not path.startswith("events"):
            directories["instances/*/" + path] = entries
    if "kprobes.tree" in text:
        probe = parse_tree(text["kprobes.tree"].replace("events/kprobes", "."))
        directories["events/*/*"] = probe["one"]
        directories["events/*"] = [entry for entry in probe[""] if entry[0] != "one"]
    facts = {
        "release": banner.split()[2],
        "version": version_of(banner),
        "banner": banner,
        "cpus": len(re.findall(r"^processor\s*:", text["cpuinfo"], re.MULTILINE)),
        "page_size": int(text["page_size"]),
        "first_dynamic_id": int(text["id1"]),
        "second_dynamic_id": int(text["id2"]),
        "options": trace_options(files["trace_options"]),
        "clocks": files["trace_clock"].replace("[", "").replace("]", "").split(),
        "default_clock": re.search(r"\[([^\[\]]*)\]", files["trace_clock"]).group(1),  # type: ignore[union-attr]
        "tracers": files["available_tracers"].split(),
        "buffer_size_kb": files["buffer_size_kb"],
        "buffer_size_kb_expanded": int(text["expanded/buffer_size_kb"]),
        "buffer_total_size_kb_expanded": int(text["expanded/buffer_total_size_kb"]),
        "saved_cmdlines_size": int(files["saved_cmdlines_size"]),
        "preempt_model": text["preempt_model"].strip(),
        "marker_offset": int(text["marker_offset"], 16),
        "chains": json.loads(text["chains"]),
        "hashed": text["hashed"].strip(),
        "modules": [line.split()[0] for line in text["modules"].splitlines()],
        "tasks": [[int(pid), comm] for pid, _, comm in (line.partition(" ") for line in text["tasks"].splitlines())],
        "config": parse_config(config) if config else None,
        "root_mode": root_mode(text["tree"]),
        "answers": json.loads(text["answers"]),
        "errors": {name[7:]: int(value) for name, value in text.items() if name.startswith("errors/")},
    }
    instance = {name[9:]: value for name, value in text.items() if name.startswith("instance/")}
    files.update({f"instances/*/{name}": value for name, value in instance.items()})
    files.update({f"events/*/*/{name[6:]}": value for name, value in text.items() if name.startswith("probe/")})
    files.update({f"events/*/{name[6:]}": value for name, value in text.items() if name.startswith("group/")})
    (directory / "profile.json").write_bytes(json_bytes(facts) + b"\n")
    (directory / "tracefs.bin").write_bytes(pristine_tracefs(files, directories, formats))


def _formats(text: Mapping[str, str]) -> dict[str, str]:
    """Return SYSTEM/EVENT/format -> text from the concatenated texts and the list of their paths."""
    paths = [path.removeprefix("events/") for path in text["formats.list"].splitlines()]
    parts = re.split(r"^(?=name: \S+\nID: \d+\nformat:\n)", text["formats"], flags=re.MULTILINE)[1:]
    if len(paths) != len(parts):
        raise ValueError(f"{len(paths)} format files, but {len(parts)} texts")
    return dict(zip(paths, parts, strict=True))
