"""A parser as people write it: one regular expression for a line, one for an argument."""

import re

from kprobe_corpus.parsers import answer

LINE = re.compile(r"\s*(.+)-(\d+)\s+\[(\d+)\]\s+(\S+)\s+(\d+)\.(\d+): (\w+): \(([^)]*)\)(.*)")
ARGUMENT = re.compile(r'(\w+)=("[^"]*"|\S+)')


def number(text):
    try:
        return int(text, 0)
    except ValueError:
        return text.strip('"')


def read(trace):
    for line in trace.decode("utf-8", "replace").splitlines():
        if found := LINE.match(line):
            task, pid, cpu, flags, seconds, micros, name, _, rest = found.groups()
            fields = {key: number(value) for key, value in ARGUMENT.findall(rest)}
            yield {"type": "event", "task": task, "pid": int(pid), "cpu": int(cpu), "flags": flags, "name": name,
                   "timestamp": int(seconds) * 10**9 + int(micros) * 1000, "fields": fields}  # fmt: skip


if __name__ == "__main__":
    answer(read)
