"""Makes the project's own pytest plugin available when the project isn't installed (running from the checkout)."""

import signal
from importlib.metadata import entry_points

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in a shell's background job; what the tests start needs it
    signal.signal(signal.SIGINT, signal.default_int_handler)

if not any(point.value == "kprobe_sim.pytest_plugin" for point in entry_points(group="pytest11")):
    pytest_plugins = ["kprobe_sim.pytest_plugin"]
