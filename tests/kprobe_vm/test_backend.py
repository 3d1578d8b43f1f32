import pytest

from kprobe_vm.guest.backend import Spec


@pytest.mark.parametrize(
    ("argument", "spec"),
    [
        ("", Spec("6.1")),
        ("6.12", Spec("6.12")),
        ("6.1,idle", Spec("6.1", idle=True)),
        ("6.1,cold", Spec("6.1", cold=True)),
        ("6.1,cpus=2,memory=512", Spec("6.1", cpus=2, memory=512)),
        ("/boot/vmlinuz,idle", Spec("/boot/vmlinuz", idle=True)),
    ],
)
def test_specs(argument: str, spec: Spec) -> None:
    assert Spec.parse(argument) == spec


@pytest.mark.parametrize("argument", ["6.1,busy", "6.1,cpus", "6.1,cpus=0", "6.1,cpus=two", "6.1,"])
def test_bad_specs(argument: str) -> None:
    with pytest.raises(ValueError, match="none of idle, cold, serial, cpus=N, memory=MiB"):
        Spec.parse(argument)
