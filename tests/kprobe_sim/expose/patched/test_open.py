"""open(), as Python code on the machine calls it: layers, buffering, errors at close."""

# ruff: noqa: SIM115  (when a file is closed is what these tests are about)

from __future__ import annotations

import codecs
import errno
import os
from typing import Any

import pytest

from kprobe_sim import SimulatedKernel

from .conftest import LISTED, PROBE, T, open_text, refused


def test_text_write_fails_at_close_and_the_file_is_closed(kernel: SimulatedKernel) -> None:
    file = open(f"{T}/kprobe_events", "w")
    assert file.write("nonsense") == 8
    with pytest.raises(OSError) as error:
        file.close()
    assert refused(error) == (errno.EINVAL, None)
    assert file.closed
    file.close()


def test_text_write_fails_at_flush_and_again_at_close(kernel: SimulatedKernel) -> None:
    file = open(f"{T}/kprobe_events", "w")
    file.write("nonsense")
    for call in (file.flush, file.close):
        with pytest.raises(OSError) as error:
            call()
        assert refused(error) == (errno.EINVAL, None)
    assert file.closed


def test_with_statement_fails_at_its_end(kernel: SimulatedKernel) -> None:
    reached = False
    with pytest.raises(OSError) as error, open(f"{T}/kprobe_events", "w") as file:  # noqa: PT012
        file.write("p nosuchsymbol\n")
        reached = True
    assert (reached, error.value.errno) == (True, errno.ENOENT)


def test_line_buffering_fails_at_the_newline(kernel: SimulatedKernel) -> None:
    file = open(f"{T}/kprobe_events", "w", buffering=1)
    with pytest.raises(OSError, match="No such file"):
        file.write("p nosuchsymbol\n")
    with pytest.raises(OSError, match="No such file"):
        file.close()


def test_unbuffered_fails_at_write(kernel: SimulatedKernel) -> None:
    with open(f"{T}/kprobe_events", "wb", 0) as file, pytest.raises(OSError, match="No such file"):
        file.write(b"p nosuchsymbol\n")


def test_one_write_per_flush(kernel: SimulatedKernel) -> None:
    with open(f"{T}/trace_marker", "w") as file:
        print("one", "two", file=file)
        print("three", file=file)
        file.flush()
        print("four", file=file)
    records = open_text("trace").split("tracing_mark_write: ")[1:]
    assert [record.split(" <...>")[0].strip() for record in records] == ["one two\nthree", "four"]


def test_appending_to_a_seq_file_fails_as_it_does_on_the_kernel(kernel: SimulatedKernel) -> None:
    with pytest.raises(OSError, match="Invalid argument"):  # FileIO seeks to the end, and seq_lseek can't
        open(f"{T}/kprobe_events", "a")
    with open(f"{T}/tracing_on", "a") as file:
        file.write("0")
    assert open_text("tracing_on") == "0\n"


@pytest.mark.parametrize(
    ("mode", "number"),
    [("w", errno.EACCES), ("a", errno.EACCES), ("x", errno.EACCES), ("r", errno.ENOENT), ("r+", errno.ENOENT)],
)
def test_no_such_file(kernel: SimulatedKernel, mode: str, number: int) -> None:
    with pytest.raises(OSError) as error:
        open(f"{T}/nosuch", mode)
    assert refused(error) == (number, f"{T}/nosuch")


def test_exclusive_creation_of_a_file_that_is_there(kernel: SimulatedKernel) -> None:
    with pytest.raises(FileExistsError):
        open(f"{T}/trace", "x")


def test_a_directory(kernel: SimulatedKernel) -> None:
    with pytest.raises(IsADirectoryError) as error:
        open(f"{T}/events")
    assert refused(error) == (errno.EISDIR, f"{T}/events")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mode": "z"}, "invalid mode: 'z'"),
        ({"mode": "rr"}, "invalid mode: 'rr'"),
        ({"mode": "rw"}, "exactly one of create/read/write/append"),
        ({"mode": "rbt"}, "text and binary"),
        ({"mode": "rb", "encoding": "utf-8"}, "encoding argument"),
        ({"mode": "r", "buffering": 0}, "unbuffered text"),
        ({"mode": "r", "closefd": False}, "closefd"),
    ],
)
def test_bad_arguments_are_refused_as_for_any_file(
    kernel: SimulatedKernel, arguments: dict[str, Any], message: str
) -> None:
    for path in (f"{T}/trace", "/dev/null"):
        with pytest.raises(ValueError, match=message):
            open(path, **arguments)


@pytest.mark.parametrize(
    ("mode", "buffering"),  # text is always buffered
    [
        *((mode, -1) for mode in ("r", "w", "rb", "wb", "r+", "rb+", "r+b")),
        *((m, 0) for m in ("rb", "wb", "rb+", "r+b")),
    ],
)
def test_the_layers_look_as_for_any_file(kernel: SimulatedKernel, mode: str, buffering: int) -> None:
    with open(f"{T}/tracing_on", mode, buffering) as ours, open("/dev/null", mode, buffering) as other:
        assert repr(ours).replace(f"{T}/tracing_on", "/dev/null").replace("name=3", "") == repr(other)
        if buffering:
            assert type(ours) is type(other)
        assert (ours.mode, ours.readable(), ours.writable()) == (other.mode, other.readable(), other.writable())


def test_reading_and_writing_one_file(kernel: SimulatedKernel) -> None:
    with open(f"{T}/tracing_on", "r+") as file:
        assert file.read() == "1\n"
        file.seek(0)
        file.write("0")
        file.flush()
        file.seek(0)
        assert file.read() == "0\n"


@pytest.mark.filterwarnings("ignore:codecs.open:DeprecationWarning")  # since 3.14; programs have it all the same
def test_encodings_and_newlines(kernel: SimulatedKernel) -> None:
    with open(f"{T}/tracing_on", encoding="utf-16-le") as file:
        assert file.read() == "\u0a31"
    with open(f"{T}/kprobe_events", newline="\n") as file:
        assert file.readlines() == []
    with codecs.open(f"{T}/tracing_on", "r", "ascii") as file:
        assert file.readlines() == ["1\n"]


def test_descriptor_to_stream_and_back(kernel: SimulatedKernel) -> None:
    descriptor = os.open(f"{T}/kprobe_events", os.O_WRONLY)
    with os.fdopen(descriptor, "w") as file:
        assert file.fileno() == descriptor
        file.write(PROBE)
    assert open_text("kprobe_events") == LISTED
    with pytest.raises(OSError, match="Bad file"):
        os.write(descriptor, b"")
