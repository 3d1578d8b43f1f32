import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from kprobe_vm.machine.console import NO_MEMORY, OOPS, PANIC, Console


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[tuple[socket.socket, Console]]:
    ours, theirs = socket.socketpair()
    console = Console(ours, tmp_path / "console.log")
    with theirs:
        yield theirs, console
    console.close()


def test_everything_is_kept_in_the_file_and_the_end_at_hand(wire: tuple[socket.socket, Console]) -> None:
    theirs, console = wire
    theirs.sendall(b"".join(b"line %d\r\n" % number for number in range(1000)) + b"\xff unfinished")
    theirs.close()
    assert console.ended.wait(10)
    assert console.tail(2) == "line 999\n\ufffd unfinished"
    assert console.file.read_bytes().startswith(b"line 0\r\nline 1\r\n")


def test_the_end_at_hand_starts_with_the_panic(wire: tuple[socket.socket, Console]) -> None:
    theirs, console = wire
    lines = ["[    1.4] Freeing memory", "[    2.8] Kernel panic - not syncing: sysrq triggered crash"]
    lines += [f"[    2.8]  frame {number}" for number in range(80)]
    theirs.sendall("\r\n".join(lines).encode() + b"\r\n")
    theirs.close()
    assert console.ended.wait(10)
    assert console.tail(50).splitlines() == lines[1:]


def test_the_first_byte_is_told(wire: tuple[socket.socket, Console]) -> None:
    theirs, console = wire
    assert not console.first_byte.is_set()
    theirs.sendall(b"\0")
    assert console.first_byte.wait(10)


def test_a_panic_is_seen_across_pieces(wire: tuple[socket.socket, Console]) -> None:
    theirs, console = wire
    theirs.sendall(b"[    1.446182] Kernel panic - not sy")
    assert console.first_byte.wait(10)
    assert not console.panicked.is_set()
    theirs.sendall(b"ncing: sysrq triggered crash\r\n")
    assert console.panicked.wait(10)
    assert console.find(PANIC) == "sysrq triggered crash"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "[    2.1] BUG: kernel NULL pointer dereference, address: 0000000000000000",
            "BUG: kernel NULL pointer dereference, address: 0000000000000000",
        ),
        ("[    2.1] Oops: 0002 [#1] PREEMPT SMP NOPTI", "Oops: 0002 [#1] PREEMPT SMP NOPTI"),
        ("[    2.1] invalid opcode: 0000 [#1] PREEMPT SMP NOPTI", "invalid opcode: 0000 [#1] PREEMPT SMP NOPTI"),
        (
            "[    2.1] general protection fault, probably for non-canonical address 0xdead: 0000 [#1] PREEMPT SMP",
            "general protection fault, probably for non-canonical address 0xdead: 0000 [#1] PREEMPT SMP",
        ),
    ],
)
def test_what_an_oops_looks_like(line: str, said: str) -> None:
    found = OOPS.search(line)
    assert found
    assert found[1] == said


def test_a_plain_panic_is_no_oops() -> None:
    assert not OOPS.search("[    1.446182] Kernel panic - not syncing: sysrq triggered crash")
    assert not OOPS.search("[    1.446182] CPU: 0 PID: 81 Comm: sh Not tainted 6.1.0-56-cloud-amd64 #1")


def test_a_panic_for_want_of_memory() -> None:
    assert NO_MEMORY.search("Out of memory: compulsory panic_on_oom is enabled")
    assert NO_MEMORY.search("System is deadlocked on memory")
