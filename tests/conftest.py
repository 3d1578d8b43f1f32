"""Makes the project's own pytest plugin available when the project isn't installed (running from the checkout)."""

from importlib.metadata import entry_points

if not any(point.value == "kprobe_sim.pytest_plugin" for point in entry_points(group="pytest11")):
    pytest_plugins = ["kprobe_sim.pytest_plugin"]
