"""pytest plugin: one test body on a simulated kernel, on a guest, or on the machine's own tracefs.

    pytest                                        the simulator, newest profile
    pytest --tracefs sim:6.1 --tracefs vm:6.1     every test that asks for `tracefs` runs twice
    KPROBE_TRACEFS=sim:6.1 pytest                 where no option says more

On guests (`vm:...`) each test module has a machine of its own, as it is after a boot, and what a test changes there is
undone after it; `--guest-per test`, or the marker `own_guest` on a test, gives each test a new machine.  So many
pytest-xdist workers as the host can bear have guests at once, the others wait a while for their turn; `-n` shares the
tests by files (`--dist loadfile`), as otherwise each worker has a guest for each module.

Each test has the properties `tracefs` and `kernel` (the release), also in JUnit's XML; a run on several tracefs ends
with a table of the tests that differ.

Fixtures: `tracefs` (pristine for each test), `tracer` (kprobe.Tracer on it), `workload` (a task that opens files and
forks there), `kernel` (the SimulatedKernel; the test is skipped elsewhere: "simulator only").
`trace_text`: each text of the corpus, for a parser (`--trace-kernels 6.*`, `--trace-scenarios`, `--trace-corpus`).
`sys_kernel_tracing` and `simulated_machine`: the `kernel`, for code that opens the paths itself (`kprobe_sim.expose`).
Markers: `needs("text", …)` (skipped where the kernel's README lacks a text), `vm` (only run if a guest was asked for),
`own_guest`, `kprobe_timeout(seconds)`.

A test that has waited for a trace 30 seconds in all fails, and tells how the trace stands: by the tracer, or by a read,
select or poll of its file (`--kprobe-timeout`, or `kprobe_timeout` in the configuration; 0: for ever).  What the
kernel refused is shown with its own words, and without the frames of these packages (`--full-trace` shows them).

With `--kprobe-check-clean`, `kprobe_check_clean = true` in the configuration, or the marker or fixture `check_clean`, a
test fails that leaves a probe, an instance, an enabled event, a changed option … or takes away what wasn't its own.

A real kernel that was asked for and can't run is an error, never a skip; a guest that died is shown as such.  This
module is imported in every run of pytest, so it imports the rest when a fixture needs it.
"""

from __future__ import annotations

from .choosing import (
    pytest_cmdline_main,
    pytest_collection_modifyitems,
    pytest_configure,
    pytest_generate_tests,
    pytest_report_header,
    pytest_sessionstart,
)
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
from .options import pytest_addoption
from .reporting import pytest_report_teststatus, pytest_runtest_call, pytest_runtest_makereport, pytest_runtest_protocol

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
