"""trace-cmd as a reader: what it reports of the trace.dat on standard input, by two regular expressions."""

import re
import subprocess
import tempfile

from kprobe.readers import answer

LINE = re.compile(r" *(.*)-(\d+) +\[(\d+)\] +(\d+)\.(\d+): (\w+): +\(([0-9a-f]+(?: <- [0-9a-f]+)?)\)(.*)", re.S)
ARGUMENT = re.compile(r' (\w+)=("[^"]*"|\{[^}]*\}|\S+)')


def value(word):
    if word.startswith("{"):
        return [value(part) for part in word[1:-1].split(",")]
    try:
        return int(word, 0)
    except ValueError:
        return None if word == "(fault)" else word.strip('"')


def read(dat):
    with tempfile.NamedTemporaryFile(suffix=".dat") as file:
        file.write(dat)
        file.flush()
        report = subprocess.run(["trace-cmd", "report", "-i", file.name], capture_output=True, check=True).stdout
    for line in report.decode("utf-8", "surrogateescape").split("\n"):
        if found := LINE.match(line):
            task, pid, cpu, seconds, micros, name, _, rest = found.groups()
            yield {"type": "event", "task": task, "pid": int(pid), "cpu": int(cpu), "name": name,
                   "timestamp": int(seconds) * 10**9 + int(micros) * 1000,
                   "fields": {key: value(word) for key, word in ARGUMENT.findall(rest)}}  # fmt: skip


answer(read)
