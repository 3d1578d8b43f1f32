# make without an argument lists the targets: a text after `##` is shown by `make help`, one after `#+` by `make help-all`
.DEFAULT_GOAL := help
KERNEL ?= 6.1
KERNELS ?= 5.10 6.1 6.12 6.19 7.2 7.3
VENV := .venv
PY := $(VENV)/bin/python
PACKAGES := kprobe kprobe_text kprobe_corpus kprobe_check kprobe_sim vm/kprobe_vm vm/kprobe_lab
SOURCES := $(PACKAGES) tests tools distributions docs/playground docs/readers
# Processes that share the tests.  The default is three for two processors, as a third of a test is waiting; 0 runs the
# tests in this process, as a debugger needs.
WORKERS ?= auto
SHARED := -n $(WORKERS) --dist worksteal $(SEED:%=--shuffle %)
# the first line of what boots guests: say what this machine lacks for that
CHECK_HOST = @$(PY) -m kprobe_vm check

help: ## list the targets that users and developers need
	@sed -n 's/^\([a-z0-9-]*\):.* ## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 18 | sed '/^help /d; s/^/make /'

help-all: ## list all targets: tests of other kinds, recordings, pages of evidence, benchmarks, fuzzing
	@sed -n 's/^\([a-z0-9-]*\):.* #[#+] \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 18 | sed '/^help/d; s/^/make /'

.PHONY: $(shell sed -n 's/^\([a-z][a-z0-9-]*\):.*/\1/p' $(MAKEFILE_LIST))

# the demo needs python3 and nothing else; the rest needs the tools of the extra [dev]
$(VENV)/.bare:
	@python3 tools/setup/environment.py && touch $@

$(VENV)/.dev: pyproject.toml $(wildcard distributions/*/pyproject.toml) tools/setup/environment.py
	@python3 tools/setup/environment.py --dev && touch $(VENV)/.bare $@

demo: $(VENV)/.bare ## trace opens on the simulator for a moment
	@$(PY) tools/setup/demo.py

# --- tests

# Hundreds of tests start a command; without bytecode each of them compiles all that it imports.
test test-all test-python vm-test: export PYTHONDONTWRITEBYTECODE :=

test: $(VENV)/.dev ## fast tests without guests (SEED=7: another order; REQUIRE_ALL=1: a missing program is an error)
	$(PY) -m pytest -q $(SHARED) -m 'not slow'

# the conformance suite runs as well on the kernel that vm-test compares with by default
test-all: test ## all tests without guests
	$(PY) -m pytest -q $(SHARED) -m slow
	$(PY) -m pytest -q $(SHARED) --tracefs sim:6.1 tests/conformance

PYTHON ?= 3.12
test-python: $(VENV)/.dev #+ the tests of the packages and the conformance suite on another Python (PYTHON=3.13)
	$$($(PY) tools/setup/interpreters.py $(PYTHON)) tools/setup/environment.py --dev .venv-$(PYTHON)
	.venv-$(PYTHON)/bin/python -m pytest -q $(SHARED) -m 'not slow' tests/kprobe tests/kprobe_text tests/kprobe_corpus \
	    tests/kprobe_check tests/kprobe_sim tests/conformance

ROOT ?= bookworm
fresh: $(VENV)/.dev #+ make demo and make test in a minimal Debian, as an ordinary user; needs root (ROOT=sid)
	$(PY) tools/setup/fresh.py $(ROOT)

# What needs a guest and nothing else: the rest of these files is in `make test`.  Each file stays with one process, and
# those with few tests that wait or boot come first, so that no process is left with one of them at the end.  A KERNEL
# given as a path runs the conformance suite alone: the other tests speak of kernels that they know.
GUESTS := tests/kprobe_vm tests/kprobe_lab tests/test_docs.py tests/kprobe_sim/expose/test_results.py
vm-test: $(VENV)/.dev ## the tests that need a guest, with the conformance suite on a real kernel in QEMU (KERNEL=6.1)
	$(CHECK_HOST)
	$(PY) -m pytest -q -m vm -n $(WORKERS) --dist loadfile --no-loadscope-reorder \
	    $(KERNEL:%=--tracefs vm:%) $(if $(findstring /,$(KERNEL)),,$(GUESTS)) tests/conformance

# each kernel has a run of its own, and the last line says which of them failed
vm-test-all: $(VENV)/.dev #+ make vm-test on all kernels, one after the other (KERNELS="6.1 7.3")
	@failed=; for kernel in $(KERNELS); do \
	    echo "== $$kernel"; $(MAKE) --no-print-directory vm-test KERNEL=$$kernel || failed="$$failed $$kernel"; \
	done; if [ "$$failed" ]; then echo "failed on:$$failed"; exit 1; fi

# minutes where guests are emulated, as the guest decodes its own code
vm-record-local: $(VENV)/.dev #+ record a guest from inside and from outside, and compare (KERNEL=6.1); minutes
	$(CHECK_HOST)
	KERNEL="$(KERNEL)" $(PY) -m pytest -q -m vm tests/recording

vm-ftracetest: $(VENV)/.dev #+ the kernel's whole ftracetest on the mount, held to docs/evidence/ftracetest.md; minutes
	$(CHECK_HOST)
	$(PY) -m pytest -q -m vm tests/kprobe_sim/expose/test_ftracetest.py

# the engines of docs/guides/bulk.md, which nothing else needs
$(VENV)/.engines: $(VENV)/.dev
	@$(PY) -m pip install --quiet --disable-pip-version-check -e '.[engines]' && touch $@

bulk-test: $(VENV)/.engines #+ query tables of traces with DuckDB and Dask, which it installs
	$(PY) -m pytest -q -m engines tests/kprobe_text/columns

# --- the source

check: $(VENV)/.dev ## lint, format, unused code and types, also of the examples in documents
	$(PY) -m ruff check $(SOURCES)
	$(PY) -m ruff format --check $(SOURCES)
	$(PY) -m vulture
	$(PY) -m mypy
	MYPYPATH=docs/playground:vm $(PY) -m mypy docs/playground/*.py
	$(PY) tools/docs/document_types.py

format: $(VENV)/.dev ## format the code
	$(PY) -m ruff check --fix $(SOURCES)
	$(PY) -m ruff format $(SOURCES)

clean: ## remove the virtual environment, caches and what was built
	rm -rf $(VENV) .venv-* .mypy_cache .ruff_cache .pytest_cache .hypothesis build *.egg-info
	find . -name __pycache__ -prune -exec rm -rf {} +

# --- the site and the playground

# node and npm for the build, and a driver of Chromium: a hundred megabytes that nothing else needs
$(VENV)/.playground: $(VENV)/.dev
	@$(PY) -m pip install --quiet --disable-pip-version-check -e '.[playground]' && touch $@

playground: $(VENV)/.playground ## build the page with simulated kernels in build/playground, for any file server
	$(PY) tools/docs/playground.py

# the playground is a page of the site; PLAYGROUND= leaves it out
PLAYGROUND ?= build/playground
docs: $(VENV)/.dev ## build the documents as a site in build/site, the playground included (PLAYGROUND= leaves it out)
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict
	$(if $(PLAYGROUND),@[ -f $(PLAYGROUND)/index.html ] || $(MAKE) --no-print-directory playground)
	$(if $(PLAYGROUND),@cp -r $(PLAYGROUND) build/site/playground)

playground-test: playground #+ the same, and run its tests in Chromium
	$(PY) -m pytest -q -m browser tests/playground

# --- recordings

# a failed kernel is named and doesn't stop the others
DIRECTORY ?= profiles
profiles: $(VENV)/.dev ## record kernels into files (DIRECTORY=profiles ONLY="6.12 7.2"; all locked ones take minutes)
	$(CHECK_HOST)
	$(PY) tools/guests/profiles.py $(DIRECTORY) $(ONLY)

distribution: $(VENV)/.dev #+ record the kernels of distributions/kprobe-sim-profiles again (ONLY="6.16 7.1"); minutes
	$(CHECK_HOST)
	$(PY) tools/guests/profiles.py --distribution $(ONLY)

# ONLY="recorded documents 7.3"; each kernel needs a guest, and a minute
corpus: $(VENV)/.dev #+ make the archives of distributions/kprobe-corpus (ONLY="recorded 7.3"), and corpus-table.md
	$(PY) tools/corpus/corpus.py $(ONLY)
	$(PY) tools/corpus/corpus_table.py

# --- pages of docs/evidence

changes: $(VENV)/.dev #+ ask all simulated kernels what changed from one to the next; writes changes.md
	$(PY) tools/docs/changes.py

growth: $(VENV)/.dev #+ what operations cost with many probes, instances and events; writes growth.md
	$(PY) tools/bench/growth.py

# installs trappy and LISA into .readers, hundreds of megabytes that nothing else needs
readers: $(VENV)/.dev #+ test five parsers on the corpus, and break them; writes readers-table.md; minutes
	$(PY) tools/corpus/readers.py

transcripts: $(VENV)/.dev #+ run each verb of kprobe in a terminal, simulated and on a guest; writes transcripts.md
	$(PY) tools/docs/transcripts.py

vm-held: $(VENV)/.dev #+ compare each locked kernel's simulator with its guest (ONLY="6.16"); writes held.md; minutes each
	$(CHECK_HOST)
	$(PY) tools/guests/held.py $(ONLY)

vm-matrix: $(VENV)/.dev #+ ask kernels and simulators for every feature; writes kernels.md and .html
	$(CHECK_HOST)
	$(PY) -m kprobe_vm matrix

vm-programs: $(VENV)/.dev #+ trace-cmd, libtracefs and perf on the mount and on a guest; writes programs.md
	$(CHECK_HOST)
	$(PY) tools/docs/programs.py --write

vm-scenarios: $(VENV)/.dev #+ play all scenarios with all options on guests and simulators (ONLY="6.1 7.3"); minutes each
	$(CHECK_HOST)
	$(PY) tools/guests/scenarios.py $(ONLY)

# --- benchmarks

bench: $(VENV)/.dev ## benchmarks, as ratios measured side by side (BEFORE=DIR: with an older checkout; ONLY=hit; RECORD=1)
	$(PY) tools/bench/bench.py $(BEFORE:%=--before %) $(ONLY:%=--only %) $(if $(RECORD),--record)

bench-check: $(VENV)/.dev #+ a short run, compared with the last recorded figures; it warns and never fails
	$(PY) tools/bench/bench.py --check

# not LINES, which a shell may set for its terminal
COUNT ?= 200000
bench-lines: $(VENV)/.dev #+ CPU time per printed line, beside cat trace_pipe (COUNT=200000; KERNEL=6.12: in a guest, too)
	$(PY) tools/bench/bench_lines.py $(COUNT)
	$(if $(filter command line,$(origin KERNEL)),$(PY) tools/bench/bench_lines_guest.py $(KERNEL) $(COUNT))

# needs trace-cmd; installs trappy and LISA into ~/.cache/kprobe-bench and makes a million lines there, once
bench-parse: $(VENV)/.dev #+ how fast traces are parsed, compared with other parsers; writes bench-parse.md; minutes
	$(PY) tools/bench/bench_parse.py

bench-vm: $(VENV)/.dev #+ benchmarks of guests (KERNEL=6.12): boot, clone, requests, streams, the suite
	$(CHECK_HOST)
	$(PY) tools/bench/bench_vm.py $(KERNEL)
	$(PY) tools/bench/bench_suite.py $(KERNEL)

# --- fuzzing

# atheris searches for bytes that run new code; .[dev] leaves it out, as it is built for few machines
$(VENV)/.fuzz: $(VENV)/.dev
	@$(PY) -m pip install --quiet --disable-pip-version-check -e '.[fuzz]' && touch $@

fuzz: $(VENV)/.fuzz #+ feed generated bytes to all that reads foreign files (ONLY=pages, SECONDS=600 for each)
	nice $(PY) tools/fuzz/fuzz.py $(ONLY) --seconds $(or $(SECONDS),600)

forging: $(VENV)/.dev #+ imitate records in strings on every kernel with every option (TEXTS=5000 SEED=32); minutes
	nice $(PY) tools/fuzz/forging.py --texts $(or $(TEXTS),5000) --seed $(or $(SEED),32)

faults: COUNT = 6000
faults: $(VENV)/.dev #+ sessions on a simulator that fails, lies and is noisy (COUNT=6000 SEED=32)
	$(PY) tools/fuzz/faults.py $(COUNT) --seed $(or $(SEED),32)

kill9: COUNT = 500
kill9: SERIES = 6.12
kill9: $(VENV)/.dev #+ kill sessions at random (COUNT=500 SECONDS=0.15 SEED=18 SERIES=6.12 GUEST=1 SIGNALS=1); minutes
	$(PY) tools/fuzz/kill9.py $(SERIES) --seed $(or $(SEED),18) --count $(COUNT) --seconds $(or $(SECONDS),0.15) \
	    $(if $(GUEST),--guest) $(if $(SIGNALS),--signals)
