import pytest

from kprobe_vm.boot import Deadlines
from kprobe_vm.pace import NOMINAL_BOOT, SLOWEST, after_start, before_start


@pytest.mark.parametrize(
    ("program_seconds", "load", "cores", "factor"),
    [
        (0.02, 0.3, 2, 1.0),  # an idle host
        (0.02, 8.0, 2, 2.0),  # four times as much to do as it can
        (0.6, 1.0, 2, 4.0),  # the load is not in the average yet
        (0.6, 40.0, 2, 10.0),
        (100.0, 1.0, 2, SLOWEST),
    ],
)
def test_before_the_start(program_seconds: float, load: float, cores: int, factor: float) -> None:
    assert before_start(program_seconds, load, cores) == pytest.approx(factor)


def test_after_the_start() -> None:
    assert after_start(1.8, NOMINAL_BOOT) == 1.0  # a quick start makes nothing stricter
    assert after_start(18.0, NOMINAL_BOOT) == pytest.approx(3.0)
    scaled = Deadlines().scaled(after_start(18.0, NOMINAL_BOOT))
    assert (scaled.ping, scaled.operation) == (pytest.approx(30.0), pytest.approx(180.0))
