"""pytest plugin: specs of tracefs -> one test body run on simulated kernels, on guests and on this machine's tracefs.

    pytest                                        the simulator, newest profile
    pytest --tracefs sim:6.1 --tracefs vm:6.1     every test that asks for `tracefs` runs twice
    KPROBE_TRACEFS=sim:6.1 pytest                 counts where no option is given

On guests (`vm:...`) each test module has its own machine, freshly booted, and each test's changes are undone after it.
`--guest-per test`, or the marker `own_guest`, gives each test a new machine.  As many pytest-xdist workers as the host
can bear have guests at once; the others wait for their turn.  `-n` distributes the tests by file (`--dist loadfile`),
since otherwise each worker would start a guest for each module.

Each test has the properties `tracefs` and `kernel` (the release), also in JUnit's XML.  A run on several tracefs ends
with a table of the tests whose results differ.

Fixtures: `tracefs` (pristine for each test), `tracer` (kprobe.Tracer on it), `workload` (a task that opens files and
forks there), `kernel` (the SimulatedKernel; other backends skip the test: "simulator only").
`trace_text`: each text of the corpus, for a parser (`--trace-kernels 6.*`, `--trace-scenarios`, `--trace-corpus`).
`sys_kernel_tracing` and `simulated_machine`: the `kernel`, for code that opens the paths itself (`kprobe_sim.expose`).
Markers: `needs("text", …)` (skips where the kernel's README lacks a text), `vm` (runs only if a guest was asked for),
`own_guest`, `kprobe_timeout(seconds)`.

A test fails once it has waited for a trace for 30 seconds in all, and says what state the trace is in.  The tracer's
waits count, and reads, selects and polls of the file.  `--kprobe-timeout`, or `kprobe_timeout` in the configuration,
sets the limit; 0 means none.  A refusal is shown in the kernel's own words, without the frames of these packages
(`--full-trace` shows them).

With `--kprobe-check-clean`, `kprobe_check_clean = true` in the configuration, or the marker or fixture `check_clean`, a
test fails if it leaves a probe, an instance, an enabled event, a changed option … or removes one that wasn't its own.

A real kernel that was asked for and can't run is an error, never a skip; a guest that died is reported as such.

Where to start: `session_hooks` has the hooks of a whole run, `item_hooks` those around one test, `fixtures` the
fixtures; the others are what these use.  pytest imports this package in every run, so they import the rest late.
"""

from __future__ import annotations

from .fixtures import (
    check_clean,
    kernel,
    simulated_machine,
    sys_kernel_tracing,
    trace_text,
    tracefs,
    tracefs_backend,
    tracefs_spec,
    tracer,
    workload,
)
from .item_hooks import (
    pytest_report_teststatus,
    pytest_runtest_call,
    pytest_runtest_makereport,
    pytest_runtest_protocol,
)
from .options import pytest_addoption
from .session_hooks import (
    pytest_cmdline_main,
    pytest_collection_modifyitems,
    pytest_configure,
    pytest_generate_tests,
    pytest_report_header,
    pytest_sessionstart,
)

__all__ = [
    "check_clean",
    "kernel",
    "pytest_addoption",
    "pytest_cmdline_main",
    "pytest_collection_modifyitems",
    "pytest_configure",
    "pytest_generate_tests",
    "pytest_report_header",
    "pytest_report_teststatus",
    "pytest_runtest_call",
    "pytest_runtest_makereport",
    "pytest_runtest_protocol",
    "pytest_sessionstart",
    "simulated_machine",
    "sys_kernel_tracing",
    "trace_text",
    "tracefs",
    "tracefs_backend",
    "tracefs_spec",
    "tracer",
    "workload",
]
