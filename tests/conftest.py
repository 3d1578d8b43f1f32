"""Makes the project's own pytest plugin available when the project isn't installed (running from the checkout)."""

import signal
from importlib.metadata import entry_points

# a shell's background job ignores SIGINT and SIGQUIT, and nohup(1) SIGHUP; what the tests start must not inherit that
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
for number in (signal.SIGQUIT, signal.SIGHUP):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.SIG_DFL)

if not any(point.value == "kprobe_sim.pytest_plugin" for point in entry_points(group="pytest11")):
    pytest_plugins = ["kprobe_sim.pytest_plugin"]
