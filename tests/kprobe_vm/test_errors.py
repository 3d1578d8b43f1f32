import subprocess
import sys

import pytest

from kprobe_vm import errors
from kprobe_vm.errors import GuestOops, GuestPanic, MachineDied, MachineError, NotReady, QemuMissing


def test_a_dead_machine_tells_everything_it_knows() -> None:
    error = GuestPanic(
        "the guest's kernel panicked: sysrq triggered crash",
        console="[    1.44] sysrq: Trigger a crash\n[    1.45] Kernel panic - not syncing: sysrq triggered crash",
        qemu_state="exited with status 0, guest-reset",
        console_file="/cache/console/6.1.log",
    )
    assert str(error) == (
        "the guest's kernel panicked: sysrq triggered crash\n"
        "QEMU: exited with status 0, guest-reset\n"
        "console (all of it: /cache/console/6.1.log):\n"
        "  | [    1.44] sysrq: Trigger a crash\n"
        "  | [    1.45] Kernel panic - not syncing: sysrq triggered crash"
    )


def test_each_thread_gets_an_error_of_its_own() -> None:
    error = GuestOops("oops", console="line", qemu_state="gone", console_file="file")
    other = error.again()
    assert other is not error
    assert type(other) is GuestOops
    assert str(other) == str(error)


def test_a_missing_qemu_is_one_line_with_the_remedy() -> None:
    assert str(QemuMissing()) == (
        "qemu-system-x86_64 is not installed (runs the guest kernels): apt-get install qemu-system-x86"
    )


def test_every_error_is_drawn_in_the_tree() -> None:
    for name in errors.__all__:
        assert issubclass(getattr(errors, name), MachineError)
        assert f"{name} " in errors.__doc__ or f"{name}\n" in errors.__doc__, name


def test_every_fault_has_an_exit_status_of_its_own() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, MachineError)]
    named = [kind for kind in kinds if kind not in (MachineError, NotReady, MachineDied)]
    statuses = {kind.exit_status for kind in named}
    assert len(statuses) == len(named)
    assert min(statuses) > 90  # few programs end so
    assert max(statuses) < 125  # the shell's own begin there
    assert NotReady.exit_status == 125


@pytest.mark.parametrize("kind", [QemuMissing])
def test_what_the_host_lacks_is_no_dead_machine(kind: type[NotReady]) -> None:
    assert not issubclass(kind, MachineDied)


CLOSED = "kprobe-vm: standard output is closed: there is nowhere to print to\n"


@pytest.mark.parametrize(
    ("closing", "status", "shown", "said"),
    [(">&-", 2, 0, CLOSED), ("2>&-", 0, 2, ""), ("<&-", 0, 2, ""), ("<&- >&- 2>&-", 2, 0, "")],
)
def test_the_command_ends_well_without_standard_files(closing: str, status: int, shown: int, said: str) -> None:
    script = f'"$0" -m kprobe_vm list --offline 6.1 {closing}'
    done = subprocess.run(["sh", "-c", script, sys.executable], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (status, said)
    assert len(done.stdout.splitlines()) == shown
