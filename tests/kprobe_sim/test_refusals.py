"""What pytest shows of a test that failed by a refusal, or that waited for a trace for ever."""

from __future__ import annotations

from collections.abc import Callable

import pytest

pytest_plugins = ["pytester"]

Failed = Callable[..., dict[str, list[str]]]


@pytest.fixture
def failed(pytester: pytest.Pytester) -> Failed:
    """Run pytest on tests that all fail; return by name what is shown of each, without empty lines and underlines."""

    def failed(source: str, *arguments: str) -> dict[str, list[str]]:
        pytester.makepyfile(test_it=source)
        result = pytester.runpytest_inprocess("--tracefs=sim:6.12", *arguments)
        result.assert_outcomes(failed=source.count("def test_"))
        shown: dict[str, list[str]] = {}
        lines: list[str] = []
        for line in result.outlines:
            if line.startswith("____"):
                lines = shown[line.strip("_ ").partition("[")[0]] = []
            elif "short test summary" in line:
                break
            elif line.strip(" ^"):  # Python 3.13 and later underline what failed
                lines.append(line)
        return shown

    return failed


REFUSED = """
import os

def put(path, data):
    file = os.open("/sys/kernel/tracing/" + path, os.O_WRONLY | os.O_APPEND)
    os.write(file, data)

def test_tracer(tracer):
    with tracer.trace("p:x vfs_read path=+0(%sj):string"):
        pass

def test_filter(tracer):
    with tracer.trace("p:mine/x vfs_read", filter="nosuch == 1"):
        pass

def test_tracefs(tracefs):
    try:
        tracefs.write("kprobe_events", b"p:x nosuch")
    except OSError:
        pass
    tracefs.write("kprobe_events", b"p:y vfs_read\\np:x vfs_read path=%sj")

def test_patched(sys_kernel_tracing):
    put("kprobe_events", b"p:x vfs_read path=%sj")

def test_without_words(tracefs):
    try:
        tracefs.write("kprobe_events", b"p:x nosuch")
    except OSError:
        pass
    tracefs.write("current_tracer", b"nosuch")

def test_wrong(tracer):
    tracer.trace(7)
"""


def test_a_refusal_is_shown_in_the_kernels_words_without_our_frames(failed: Failed) -> None:
    shown = failed(REFUSED)
    assert shown["test_tracer"][1:] == [
        "    def test_tracer(tracer):",
        '>       with tracer.trace("p:x vfs_read path=+0(%sj):string"):',
        "E       kprobe.errors.Refused: kprobe_events refused 'p:x vfs_read path=+0(%sj):string': "
        "Invalid argument (EINVAL)",
        "E       trace_kprobe: error: Invalid register name",
        "E         Command: p:x vfs_read path=+0(%sj):string",
        "E                                       ^",
        "E       hint: x86-64 registers are written %ax %bx %cx %dx %si %di %bp %sp %ip %r8 … %r15",
        "test_it.py:8: Refused",
    ]
    pytest.LineMatcher(shown["test_filter"][1:]).fnmatch_lines(
        [
            "    def test_filter(tracer):",
            '>       with tracer.trace("p:mine/x vfs_read", filter="nosuch == 1"):',
            "E       kprobe.errors.FilterRefused: filter of mine/x refused 'nosuch == 1': Invalid argument (EINVAL)",
            "E       event filter parse error: error: Field not found",
            "E         Command: nosuch == 1",
            "E                         ^",
            "E       hint: the event's fields: __probe_ip common_type common_flags common_preempt_count common_pid",
            "test_it.py:12: FilterRefused",
        ],
        consecutive=True,
    )
    words = [
        "E       trace_kprobe: error: Invalid register name",
        "E         Command: p:x vfs_read path=%sj",
        "E                                    ^",
    ]
    assert shown["test_tracefs"][-6:] == [  # the words about this write, not about the one before
        '>       tracefs.write("kprobe_events", b"p:y vfs_read\\np:x vfs_read path=%sj")',
        "E       OSError: [Errno 22] Invalid argument: 'kprobe_events'",
        *words,
        "test_it.py:20: OSError",
    ]
    assert shown["test_patched"][-6:] == [
        ">       os.write(file, data)",
        "E       OSError: [Errno 22] Invalid argument",
        *words,
        "test_it.py:5: OSError",
    ]
    assert [line for line in shown["test_without_words"] if line.startswith(("E", "/"))] == [
        "E       OSError: [Errno 22] Invalid argument: 'current_tracer'"
    ]
    assert [line for line in shown["test_wrong"] if "kprobe/tracing/tracer.py" in line]  # may be a bug of ours


def test_everything_is_shown_on_request(failed: Failed) -> None:
    shown = failed('def test_one(tracefs): tracefs.write("kprobe_events", b"p:x nosuch")', "--full-trace")
    assert [line for line in shown["test_one"] if "kprobe_sim/probes/registry.py" in line]


FORGOTTEN = """
import asyncio
import pytest

@pytest.fixture
def trace(tracer):
    with tracer.trace("p:myopen do_sys_openat2", filter="common_pid != 7") as trace:
        yield trace

def test_nothing_comes(trace):
    for event in trace: pass

def test_no_more_comes(trace, kernel):
    kernel.call("do_sys_openat2")
    for event in trace: pass

def test_it_asks_again_and_again(trace):
    while True:
        try: trace.read(0.01)
        except TimeoutError: pass

def test_there_is_no_end(trace, kernel):
    kernel.call("do_sys_openat2")
    for event in trace: kernel.call("do_sys_openat2")

@pytest.mark.kprobe_timeout(0.25)
def test_asyncio(tracer):
    async def work():
        async with tracer.trace("p:myopen do_sys_openat2") as trace:
            async for event in trace: pass

    asyncio.run(work())
"""


@pytest.mark.slow
def test_a_trace_that_nobody_stops(failed: Failed) -> None:
    shown = failed(FORGOTTEN, "--kprobe-timeout=0.2")
    for name, hits in (("nothing_comes", 0), ("no_more_comes", 1), ("it_asks_again_and_again", 0)):
        pytest.LineMatcher(shown[f"test_{name}"]).fnmatch_lines(
            [
                "E*kprobe.errors.WaitedTooLong: waited * s in all for a trace, which nobody stopped:",
                "E*event        p:myopen do_sys_openat2",
                "E*enabled      1",
                f"E*hits so far  {hits}",
                "E*filter       common_pid != 7",
                "E*tracing_on   1",
                "E*hint: trace.stop() ends it, as does a duration; kprobe_timeout says how many seconds a test may*",
            ],
            consecutive=True,
        )
    assert [line for line in shown["test_there_is_no_end"] if "WaitedTooLong: waited " in line]
    assert [line for line in shown["test_asyncio"] if "WaitedTooLong: waited " in line]


def test_how_long_it_may_wait(pytester: pytest.Pytester) -> None:
    """The command line, else the configuration, else half a minute; a marker says it for a test; 0 is for ever."""
    pytester.makepyfile(
        """
        import pytest
        from concurrent.futures import ThreadPoolExecutor
        from kprobe.tracing.waiting import limit

        def test_here():
            with ThreadPoolExecutor() as others:
                print(f"HERE {limit()}, elsewhere {others.submit(limit).result()}")

        @pytest.mark.kprobe_timeout(7)
        def test_marked(): print(f"MARKED {limit()}")

        @pytest.mark.kprobe_timeout(0)
        def test_for_ever(): print(f"EVER {limit()}")
        """
    )
    every = ["*MARKED 7.0", "*EVER None"]
    pytester.runpytest_inprocess("-s").stdout.fnmatch_lines(["*HERE 30.0, elsewhere None", *every])
    pytester.makeini("[pytest]\nkprobe_timeout = 5.5\n")
    pytester.runpytest_inprocess("-s").stdout.fnmatch_lines(["*HERE 5.5, elsewhere None", *every])
    pytester.runpytest_inprocess("-s", "--kprobe-timeout=0").stdout.fnmatch_lines(
        ["*HERE None, elsewhere None", *every]
    )
    pytester.makeini("[pytest]\nkprobe_timeout = soon\n")
    result = pytester.runpytest_inprocess()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: kprobe_timeout: 'soon' is not a number of seconds"])
