"""Users run `make demo`: the tracer traces opens on a simulated kernel, and ends two seconds after the first."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading

COMMAND = ["--tracefs", "sim", "p:myopen do_sys_openat2 filename=+0(%si):string"]
SECONDS = 2.0
DEADLINE = 60.0  # seconds for the first event, on the slowest machine


def main() -> int:
    print("$ kprobe --tracefs sim 'p:myopen do_sys_openat2 filename=+0(%si):string'", flush=True)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it, and all they start
    command = [sys.executable, "-m", "kprobe", *COMMAND]
    # words and events by one pipe, or the words would overtake events
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as tracer:
        assert tracer.stdout is not None
        end = threading.Timer(DEADLINE, tracer.kill)
        end.start()
        shown = False
        for line in tracer.stdout:
            sys.stdout.buffer.write(line)
            sys.stdout.flush()
            if not shown and b": myopen: " in line:
                shown = True
                end.cancel()
                end = threading.Timer(SECONDS, tracer.send_signal, [signal.SIGINT])  # as Ctrl-C in a terminal would
                end.start()
        end.cancel()
        return tracer.wait(10)


if __name__ == "__main__":
    sys.exit(main())
