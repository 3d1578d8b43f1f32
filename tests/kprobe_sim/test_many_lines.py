"""Traces of many lines, which are made together: each is as it would be alone."""

from __future__ import annotations

from kprobe_sim import SimulatedKernel, Task

CAT, IDLE_SHELL = Task(2841, "cat"), Task(17, "sh")
LINE = "%16s-%-7d [%03d] ..... %5d.%06d: myopen: (do_sys_openat2+0x0/0x170) %s\n"


def kernel_with(arguments: str, cpus: int = 1) -> SimulatedKernel:
    """Return a kernel that traces do_sys_openat2, from 10 seconds after boot on."""
    kernel = SimulatedKernel("6.1", cpus=cpus)
    kernel.tracefs.write("kprobe_events", f"p:myopen do_sys_openat2 {arguments}\n".encode())
    kernel.tracefs.write("events/kprobes/myopen/enable", b"1")
    return kernel


def lines_of(kernel: SimulatedKernel) -> str:
    return "".join(line for line in kernel.tracefs.read("trace").decode().splitlines(True) if line[0] != "#")


def test_times_that_share_a_second_or_not_are_rounded_to_microseconds() -> None:
    for step in (700, 250_000, 13_000_300_500):
        kernel = kernel_with("dfd=%di:s32")
        for number in range(200):
            at = 10_999_999_000 + number * step
            kernel.call("do_sys_openat2", task=CAT, args=(number % 3 - 100,), returns=3, at=at)
        expected = []
        for number in range(200):
            micros = (10_999_999_000 + number * step + 500) // 1000
            expected.append(LINE % ("cat", 2841, 0, micros // 10**6, micros % 10**6, f"dfd={number % 3 - 100}"))
        assert lines_of(kernel) == "".join(expected)


def test_times_that_go_back_are_shown_as_they_are() -> None:
    kernel = kernel_with("dfd=%di:s32")
    for number in range(100):
        kernel.call("do_sys_openat2", task=CAT, args=(number,), returns=3, at=20_000_000_000 - number * 1_000_000)
    assert lines_of(kernel) == "".join(
        LINE % ("cat", 2841, 0, 19 + (number == 0), (1000 - number) % 1000 * 1000, f"dfd={number}")
        for number in range(100)
    )


def test_strings_of_all_lengths_stand_beside_those_that_cannot_be_read() -> None:
    kernel = kernel_with("name=+0(%si):string dfd=%di:s32 again=+0(%si):string")
    names = ["/etc/hosts", "a\nb", 'x"y', "\r", "z" * 300, "caf"]
    for number in range(120):
        name: str | int = 0x10 if number % 7 == 6 else names[number % 6] + str(number % 40)
        kernel.call("do_sys_openat2", task=CAT, args=(number % 2, name), returns=3, at=10_000_000_000 + number * 2000)
    expected = []
    for number in range(120):
        shown = "(fault)" if number % 7 == 6 else f'"{names[number % 6]}{number % 40}"'
        text = f"name={shown} dfd={number % 2} again={shown}"
        expected.append(LINE % ("cat", 2841, 0, 10, number * 2, text))
    assert kernel.tracefs.read("trace").decode().endswith("".join(expected))


def test_tasks_and_processors_are_those_of_each_line_in_order_of_time() -> None:
    kernel = kernel_with("path=+0(%si):string", cpus=2)
    for number in range(150):
        kernel.call(
            "do_sys_openat2",
            task=IDLE_SHELL if number % 3 else CAT,
            args=(0, f"/{number}"),
            returns=3,
            cpu=number % 2,
            at=10_000_000_000 + number * 1000,
        )
    assert lines_of(kernel) == "".join(
        LINE % ("sh" if number % 3 else "cat", 17 if number % 3 else 2841, number % 2, 10, number, f'path="/{number}"')
        for number in range(150)
    )


def test_marks_between_the_lines_of_probes_stay_in_their_places() -> None:
    kernel = kernel_with("dfd=%di:s32")
    for number in range(90):
        if number % 5:
            kernel.call("do_sys_openat2", task=CAT, args=(number,), returns=3)
        else:
            kernel.tracefs.write("trace_marker", b"two\nlines %d" % number)
    bodies = [line.partition(": ")[2] for line in lines_of(kernel).splitlines() if ": " in line]
    assert [body.rpartition("=")[2] for body in bodies if body.startswith("myopen")] == [
        str(number) for number in range(90) if number % 5
    ]
    text = lines_of(kernel)
    places = [text.index(f"lines {number}\n" if number % 5 == 0 else f"dfd={number}\n") for number in range(90)]
    assert places == sorted(places)
