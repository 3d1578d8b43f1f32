"""Makes the project's own pytest plugin available when the project isn't installed (running from the checkout)."""

import signal
from importlib.metadata import entry_points

# a shell's background job ignores SIGINT, and nohup(1) SIGHUP; what the tests start must not inherit that
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

if not any(point.value == "kprobe_sim.pytest_plugin" for point in entry_points(group="pytest11")):
    pytest_plugins = ["kprobe_sim.pytest_plugin"]
