"""trace-cmd as a reader: what it reports of the trace.dat on standard input, by regular expressions."""

import os
import re
import subprocess
import tempfile

from kprobe_corpus.parsers import answer

# strings may hold newlines, so an event goes on to the line that begins the next
BEGINS = re.compile(r"^(?: *(.*)-(\d+) +\[(\d+)\] +(\d+)\.(\d+): (\w+): +|CPU:\d+ \[\d+ EVENTS DROPPED\]\n)", re.M)
OWN = ("print", "raw_data", "kernel_stack", "user_stack", "function")  # of ftrace: marks and stacks
PROBE = re.compile(r"\([0-9a-f]+(?: <- [0-9a-f]+)?\)")
CALL, RETURN, RETURNED = re.compile(r"NR (\d+) \((.*)\)"), re.compile(r"NR (\d+) = (-?\d+)"), re.compile(r"0x[0-9a-f]+")
PAIR, ELEMENT = re.compile(r"(\w+)(?:=|: )([^ ,]+)"), re.compile(r'"[^"]*"|[^,]+')


def formats():
    """Return the names of the arguments of each probe's event, in their order."""
    if not (path := os.environ.get("KPROBE_FORMATS")):
        return {}
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        found = re.findall(r'^name: (\w+)$.*?^print fmt: "\(%lx[^)]*\)(.*?)"(?:,|$)', file.read(), re.M | re.S)
    return {name: re.findall(r" (\w+)=", shown) for name, shown in found}


def value(word):
    if word.startswith("{"):
        return [value(part) for part in ELEMENT.findall(word[1:-1])]
    if len(word) > 1 and word[0] == word[-1] and word[0] in "\"'":
        return word[1:-1]
    try:
        return int(word, 0)
    except ValueError:
        return None if word == "(fault)" else word


def arguments(names, text):
    """Return a probe's arguments, and those of them that are guesses: a string may hold what ends it."""
    first = re.fullmatch("".join(rf" {name}=(.*?)" for name in names), text, re.S)
    last = re.fullmatch("".join(rf" {name}=(.*)" for name in names), text, re.S)
    if first is None or last is None:
        return {}, []
    guessed = [name for name, one, other in zip(names, first.groups(), last.groups(), strict=True) if one != other]
    return {name: value(word) for name, word in zip(names, first.groups(), strict=True)}, guessed


def others(text):
    """Return the fields of an event that isn't a probe's, where its text names them, or is a system call's."""
    if found := CALL.fullmatch(text):
        return {"id": int(found[1]), "args": [int(word, 16) for word in found[2].split(", ")]}
    if found := RETURN.fullmatch(text):
        return {"id": int(found[1]), "ret": int(found[2])}
    if RETURNED.fullmatch(text):
        return {"ret": int(text, 0)}
    return {name: value(word) for name, word in PAIR.findall(text)}


def read(dat):
    with tempfile.NamedTemporaryFile(suffix=".dat") as file:
        file.write(dat)
        file.flush()
        # -N: no plugins, which print some events otherwise than their formats say
        report = subprocess.run(["trace-cmd", "report", "-N", "-i", file.name], capture_output=True, check=True).stdout
    text, known = report.decode("utf-8", "surrogateescape"), formats()
    beginnings = list(BEGINS.finditer(text))
    ends = [found.start() for found in beginnings[1:]] + [len(text)]
    for found, end in zip(beginnings, ends, strict=True):
        task, pid, cpu, seconds, micros, name = found.groups()
        if name is None:
            continue
        rest = text[found.end() : end].removesuffix("\n")
        record = {"type": "event", "task": task, "pid": int(pid), "cpu": int(cpu), "name": name,
                  "timestamp": int(seconds) * 10**9 + int(micros) * 1000}  # fmt: skip
        if place := PROBE.match(rest):
            record["fields"], record["guessed"] = arguments(known.get(name, []), rest[place.end() :])
            yield record
        elif name not in OWN:
            fields = others(rest)
            yield record | {"fields": fields, "guessed": sorted(fields), "complete": False}


answer(read)
