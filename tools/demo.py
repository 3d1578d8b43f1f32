"""The demo: the tracer traces opens on a simulated kernel for two seconds."""

from __future__ import annotations

import subprocess
import sys

COMMAND = ["--tracefs", "sim", "p:myopen do_sys_openat2 filename=+0(%si):string"]
SECONDS = 2


def main() -> int:
    print("$ kprobe --tracefs sim 'p:myopen do_sys_openat2 filename=+0(%si):string'", flush=True)
    with subprocess.Popen([sys.executable, "-m", "kprobe", *COMMAND]) as tracer:
        try:
            tracer.wait(SECONDS)
        except subprocess.TimeoutExpired:
            tracer.send_signal(2)  # as Ctrl-C in a terminal would
        return tracer.wait(10)


if __name__ == "__main__":
    sys.exit(main())
