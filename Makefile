# make without an argument tells what there is
.DEFAULT_GOAL := help
.PHONY: help demo test documents vm-test vm-test-all vm-matrix vm-record-local vm-ftracetest vm-programs vm-scenarios vm-held changes profiles distribution corpus readers playground playground-test bulk-test check format bench bench-parse growth fuzz bench-check bench-lines bench-vm transcripts kill9 clean
KERNEL ?= 6.1
KERNELS ?= 5.10 6.1 6.12 6.19 7.2 7.3
VENV := .venv
PY := $(VENV)/bin/python
SOURCES := kprobe kprobe_sim vm tests tools distributions docs/playground docs/readers
# processes that share the tests: three for two processors, as a third of a test is waiting; 0 is this one alone, as a
# debugger wants it
WORKERS ?= auto
SHARED := -n $(WORKERS) --dist worksteal $(SEED:%=--shuffle %)

help:
	@echo 'make demo                 trace opens on the simulator for a moment'
	@echo 'make test [SEED=7]        all tests that need no VM, on all processors (WORKERS=1); SEED: in another order'
	@echo 'make vm-test [KERNEL=6.1] the conformance suite on a real kernel in QEMU, and all tests that need a guest'
	@echo 'make vm-test-all          the same on all kernels, one after the other (KERNELS="$(KERNELS)")'
	@echo 'make vm-matrix            ask kernels and simulators for every feature; writes docs/kernels.md and .html'
	@echo 'make vm-record-local      record a guest from within and from without, and compare; minutes (KERNEL=6.1)'
	@echo 'make vm-ftracetest        all of the kernel'"'"'s ftracetest on the mount, against docs/ftracetest.md; minutes'
	@echo 'make vm-programs          trace-cmd, libtracefs and perf on the mount and on a guest; writes docs/programs.md'
	@echo 'make vm-scenarios         all scenarios with all options on guests, against the simulator; minutes each (ONLY="6.1 7.3")'
	@echo 'make changes              ask all simulated kernels what changed from one to the next; writes docs/changes.md'
	@echo 'make vm-held              hold every locked kernel to its guest; writes docs/held.md; minutes each (ONLY="6.16 7.1")'
	@echo 'make profiles             record every locked kernel into files (DIRECTORY=profiles ONLY="6.12 7.2"); minutes'
	@echo 'make distribution         record the kernels of distributions/kprobe-sim-profiles anew (ONLY="6.16 7.1"); minutes'
	@echo 'make corpus               make the archives of distributions/kprobe-corpus anew, and docs/corpus-table.md (ONLY="recorded 7.3")'
	@echo 'make readers              five parsers held to the corpus, two from pip among them, and broken; writes docs/readers-table.md; minutes'
	@echo 'make playground           assemble the page on which simulated kernels answer into build/playground, for any file server'
	@echo 'make playground-test      the same, and its tests in Chromium'
	@echo 'make bulk-test            query tables of traces by DuckDB and Dask, as docs/bulk.md does; installs them'
	@echo 'make check                lint, format, types'
	@echo 'make format               put the code into its format'
	@echo 'make bench [BEFORE=DIR]   benchmarks, as ratios measured side by side; of an older checkout, too; ONLY=hit, RECORD=1'
	@echo 'make bench-parse          how fast traces are parsed, beside other parsers; writes docs/bench-parse.md; minutes'
	@echo 'make bench-lines          what a printed line costs in CPU time, beside cat trace_pipe (COUNT=200000; KERNEL=6.12: in a guest too)'
	@echo 'make bench-check          a short run, compared with the last recorded figures; it warns and never fails'
	@echo 'make documents DIRECTORY=…  look in the five documents for what the list of items and the replays leave out'
	@echo 'make growth               what operations cost with many probes, instances and events; writes docs/growth.md'
	@echo 'make fuzz [ONLY=pages]    throw bytes at what reads files of others, SECONDS=600 for each of them and by each engine'
	@echo 'make bench-vm [KERNEL=…]  those of the guests: boot, clone, requests, streams, the suite'
	@echo 'make kill9 [GUEST=1]       kill COUNT=500 sessions of SECONDS=0.15 at random moments (SEED=18) on the mount of SERIES=6.12'
	@echo '                          or in a guest, and compare the tracefs before and after; minutes'
	@echo 'make transcripts          run each verb of kprobe in a terminal, simulated and on a guest; writes docs/transcripts.md'
	@echo 'make clean                remove the virtual environment and caches'

# the demo needs python3 and nothing else; the rest needs the tools of the extra [dev]
$(VENV)/.bare:
	@python3 tools/environment.py && touch $@

$(VENV)/.dev: pyproject.toml distributions/kprobe-sim-profiles/pyproject.toml distributions/kprobe-sim-profiles-old/pyproject.toml distributions/kprobe-corpus/pyproject.toml tools/environment.py
	@python3 tools/environment.py --dev && touch $(VENV)/.bare $@

demo: $(VENV)/.bare
	@$(PY) tools/demo.py

# Hundreds of tests start a command; without bytecode each of them compiles all that it imports.
test vm-test: export PYTHONDONTWRITEBYTECODE :=

# by rule, from the documents' texts, which aren't part of the project
documents: $(VENV)/.dev
	@$(PY) tools/document_listings.py $(DIRECTORY)

# on the newest kernel, and on the one that vm-test is held to by default
test: $(VENV)/.dev
	$(PY) -m pytest -q $(SHARED) --tracefs sim --tracefs sim:6.1

# What needs a guest and nothing else: the rest of these files is in `make test`.  Each file stays with one process, and
# those with few tests that wait or boot come first, so that no process is left with one of them at the end.  A kernel by
# its path is asked what a kernel answers: the rest is about guests, and speaks of kernels that it knows.
GUESTS := tests/kprobe_vm tests/test_docs.py tests/kprobe_sim/expose/test_results.py
vm-test: $(VENV)/.dev
	@$(PY) -m kprobe_vm check
	$(PY) -m pytest -q -m vm -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(KERNEL:%=--tracefs vm:%) $(if $(findstring /,$(KERNEL)),,$(GUESTS)) tests/conformance

# minutes where guests are emulated, as the guest then decodes its own code
vm-record-local: $(VENV)/.dev
	@$(PY) -m kprobe_vm check
	KERNEL="$(KERNEL)" $(PY) -m pytest -q -m vm tests/recording

# each kernel has a run of its own, and the last word is which of them failed
vm-ftracetest: $(VENV)/.dev
	@$(PY) -m kprobe_vm check
	$(PY) -m pytest -q -m vm tests/kprobe_sim/expose/test_ftracetest.py

vm-test-all: $(VENV)/.dev
	@failed=; for kernel in $(KERNELS); do \
	    echo "== $$kernel"; $(MAKE) --no-print-directory vm-test KERNEL=$$kernel || failed="$$failed $$kernel"; \
	done; if [ "$$failed" ]; then echo "failed on:$$failed"; exit 1; fi

vm-matrix: $(VENV)/.dev
	@$(PY) -m kprobe_vm check
	$(PY) -m kprobe_vm matrix

vm-programs: $(VENV)/.dev
	@$(PY) -m kprobe_vm check
	$(PY) tools/programs.py --write

vm-scenarios: $(VENV)/.dev
	@$(PY) -m kprobe_vm check
	$(PY) tools/scenarios.py $(ONLY)

changes: $(VENV)/.dev
	$(PY) tools/changes.py

vm-held: $(VENV)/.dev
	@$(PY) -m kprobe_vm check
	$(PY) tools/held.py $(ONLY)

# ONLY="6.12 7.2" of the kernels; what fails is named, and the others go on
DIRECTORY ?= profiles
profiles: $(VENV)/.dev
	@$(PY) -m kprobe_vm check
	$(PY) tools/profiles.py $(DIRECTORY) $(ONLY)

distribution: $(VENV)/.dev
	@$(PY) -m kprobe_vm check
	$(PY) tools/profiles.py --distribution $(ONLY)

# ONLY="recorded documents 7.3"; the kernels need guests, a minute each
corpus: $(VENV)/.dev
	$(PY) tools/corpus.py $(ONLY)
	$(PY) tools/corpus_table.py

# installs trappy and LISA into .readers, hundreds of megabytes that nothing else needs
readers: $(VENV)/.dev
	$(PY) tools/readers.py

# node and npm for what is built, and what drives Chromium: a hundred megabytes that nothing else needs
$(VENV)/.playground: $(VENV)/.dev
	@$(PY) -m pip install --quiet --disable-pip-version-check -e '.[playground]' && touch $@

playground: $(VENV)/.playground
	$(PY) tools/playground.py

playground-test: playground
	$(PY) -m pytest -q -m browser tests/playground

# the engines of docs/bulk.md, which nothing else needs
$(VENV)/.engines: $(VENV)/.dev
	@$(PY) -m pip install --quiet --disable-pip-version-check -e '.[engines]' && touch $@

bulk-test: $(VENV)/.engines
	$(PY) -m pytest -q -m engines tests/kprobe/bulk

check: $(VENV)/.dev
	$(PY) -m ruff check $(SOURCES)
	$(PY) -m ruff format --check $(SOURCES)
	$(PY) -m mypy
	MYPYPATH=docs/playground:vm $(PY) -m mypy docs/playground/*.py

format: $(VENV)/.dev
	$(PY) -m ruff check --fix $(SOURCES)
	$(PY) -m ruff format $(SOURCES)

bench: $(VENV)/.dev
	$(PY) tools/bench.py $(BEFORE:%=--before %) $(ONLY:%=--only %) $(if $(RECORD),--record)

# needs trace-cmd; installs trappy and LISA into ~/.cache/kprobe-bench and makes a million lines there, once
bench-parse: $(VENV)/.dev
	$(PY) tools/bench_parse.py

growth: $(VENV)/.dev
	$(PY) tools/growth.py

# not LINES, which a shell may say of its terminal
COUNT ?= 200000
bench-lines: $(VENV)/.dev
	$(PY) tools/bench_lines.py $(COUNT)
	$(if $(filter command line,$(origin KERNEL)),$(PY) tools/bench_lines_guest.py $(KERNEL) $(COUNT))

transcripts: $(VENV)/.dev
	$(PY) tools/transcripts.py

kill9: COUNT = 500
kill9: SECONDS = 0.15
kill9: SEED = 18
kill9: SERIES = 6.12
kill9: $(VENV)/.dev
	$(PY) tools/kill9.py $(SERIES) --seed $(SEED) --count $(COUNT) --seconds $(SECONDS) $(if $(GUEST),--guest)

bench-check: $(VENV)/.dev
	$(PY) tools/bench.py --check

# atheris looks for bytes that run new code; it has no place in .[dev], as it comes for few machines
$(VENV)/.fuzz: $(VENV)/.dev
	@$(PY) -m pip install --quiet --disable-pip-version-check -e '.[fuzz]' && touch $@

SECONDS ?= 600
fuzz: $(VENV)/.fuzz
	nice $(PY) tools/fuzz.py $(ONLY) --seconds $(SECONDS)

bench-vm: $(VENV)/.dev
	@$(PY) -m kprobe_vm check
	$(PY) tools/bench_vm.py $(KERNEL)
	$(PY) tools/bench_suite.py $(KERNEL)

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build *.egg-info
	find . -name __pycache__ -prune -exec rm -rf {} +
