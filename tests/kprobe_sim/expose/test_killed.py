"""Real kprobes that are killed on a mount, and `kprobe clean` after them."""

from __future__ import annotations

import sys
from typing import Any

SCRIPT = """\
kprobe() { "$PYTHON" -m kprobe "$@"; }
"$PYTHON" -m kprobe p:myopen do_sys_openat2 2>&1 | head -1
"$PYTHON" -m kprobe 'p:myopen do_sys_openat2' >/dev/null 2>&1 &
enabled=/sys/kernel/tracing/instances/kprobe_$!_0/events/kprobes/myopen/enable
until [ "$(cat $enabled 2>/dev/null)" = 1 ]; do kill -0 $! || exit 9; done
kprobe clean | grep -c "^kept instances/kprobe_$!_0: process $! "
kill -KILL $!
wait $! 2>/dev/null
kprobe -d 0 'p:myopen do_sys_openat2' 2>&1 | grep -c 'kprobe clean removes both'
kprobe clean --dry-run | wc -l
kprobe clean | cut -d' ' -f1
ls /sys/kernel/tracing/instances
cat /sys/kernel/tracing/kprobe_events
kprobe -d 0 'p:myopen do_sys_openat2' 2>/dev/null
echo "status $?"
"""


def test_a_kprobe_that_is_killed(run: Any) -> None:
    done = run(["env", f"PYTHON={sys.executable}", "sh", "-c", SCRIPT])
    assert done.stdout.splitlines() == [
        "ERROR: 'do_sys_openat2' is no filter; if it belongs to the definition, quote both: "
        "kprobe 'p:myopen do_sys_openat2'",
        "1",
        "1",
        "2",
        "removed",
        "removed",
        "status 0",
    ], done.stderr
