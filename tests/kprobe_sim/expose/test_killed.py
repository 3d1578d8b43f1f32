"""Real kprobes that are killed on a mount, and `kprobe clean` after them."""

from __future__ import annotations

import sys
from typing import Any

import pytest

SCRIPT = """\
kprobe() { "$PYTHON" -m kprobe "$@"; }
"$PYTHON" -m kprobe p:myopen do_sys_openat2 2>&1 | head -1
"$PYTHON" -m kprobe 'p:myopen do_sys_openat2' >/dev/null 2>&1 &
cd /sys/kernel/tracing/instances
until [ "$(cat kprobe_$!_*_0*/events/kprobe_$!_*_0*/myopen/enable 2>/dev/null)" = 1 ]; do kill -0 $! || exit 9; done
session=$(ls)
kprobe clean | grep -c "^kept instances/$session: process $! "
kill -KILL $!
wait $! 2>/dev/null
kprobe clean --dry-run | sed "s/$session/SESSION/g; s/process $!/process PID/"
ls | sed "s/$session/SESSION/"
kprobe -d 0 'p:myopen do_sys_openat2' 2>&1 >/dev/null | grep -c "of a kprobe that was killed: removed"
ls
cat ../kprobe_events
kprobe clean
kprobe -d 0 'p:myopen do_sys_openat2' 2>/dev/null
echo "status $?"
"""


@pytest.mark.slow
def test_a_kprobe_that_is_killed(run: Any) -> None:
    done = run(["env", f"PYTHON={sys.executable}", "sh", "-c", SCRIPT])
    assert done.stdout.splitlines() == [
        "ERROR: 'do_sys_openat2' isn't a filter; if it belongs to the definition, quote both: "
        "kprobe 'p:myopen do_sys_openat2'",
        "1",
        "would remove instances/SESSION (process PID is gone)",
        "would remove SESSION/myopen (p:SESSION/myopen do_sys_openat2)",
        "SESSION",
        "2",
        "status 0",
    ], done.stderr
