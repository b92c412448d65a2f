# Everything is set up by the targets themselves: a virtualenv in .venv, and
# downloads (Debian packages with the real runtimes and Prometheus) in .cache.
# Neither needs root; the tests against a real containerd do.

PYTHON := .venv/bin/python
STAMP := .venv/.stamp-$(shell cat pyproject.toml constraints.txt scripts/venv | cksum | cut -d' ' -f1)
# Twenty at least: for ten memory grows by what is remembered.
SOAK_MINUTES := 20
# Seconds after which a long-running test hangs: several take five minutes on a quiet machine.
HANGS := 3600
PICTURES_MINUTES := 15
RENDER := .cache/render
RENDER_FROM := $(wildcard tests/dashboards/render/*.js* tests/dashboards/render/*.mjs) tests/dashboards/render/.npmrc
RENDERED := $(RENDER)/out/.stamp-$(shell cat $(RENDER_FROM) | cksum | cut -d' ' -f1)
# What is compiled stays: else each process of the tests compiles all that it imports.
unexport PYTHONDONTWRITEBYTECODE
# Many tests wait most of the time: three times as many at a time as there are cores.
PYTEST := .venv/bin/pytest -n $(shell expr 3 \* $$(nproc))
NODE := PATH=$(CURDIR)/.venv/bin:$$PATH

.DEFAULT_GOAL := help
# No target with such a name is a file.
.PHONY: $(shell grep -oE '^[a-z][a-z-]*' $(firstword $(MAKEFILE_LIST)))

help: ## list these targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | sort | expand -t 15

demo: .venv/.installed ## run the exporter against a simulated runtime, and print its URL
	@exec .venv/bin/shadow-pleg demo $(DEMO_FLAGS)

# These never wait: as many at a time as there are cores.
quick: check ## checks, and the tests that need neither root nor network
	@$(PYTHON) -m testbed.debian fetch promtool
	.venv/bin/pytest -n $(shell nproc) -m "(quick or virtual_time) and not soak" --ignore tests/pleg/test_worlds.py

# Tests wait for each other less than for time: the core's run beside the others, and are reported last.
test: ready check ## checks, and all tests but the long-running ones
	@$(MAKE) --no-print-directory -j2 unit core-beside

core-beside:
	@mkdir -p build
	@$(MAKE) --no-print-directory core >build/core.log 2>&1 || { cat build/core.log; exit 1; }
	@grep -E 'coverage: [0-9]|passed' build/core.log

check: $(STAMP) build/.workflows stale ## format, lint, types, layers, generated files: no tests
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy
	.venv/bin/lint-imports

stale: $(STAMP) ## list generated files that are not what their sources make
	@$(PYTHON) -m scripts.generate --check

generate: $(STAMP) ## write every generated file: tables in docs, rules, dashboards, compiled protos
	@$(PYTHON) -m scripts.generate

# Takes two seconds: only where one was changed.
build/.workflows: $(wildcard .github/workflows/* .github/ISSUE_TEMPLATE/*) | $(STAMP)
	.venv/bin/check-jsonschema --quiet --builtin-schema vendor.github-workflows $(filter .github/workflows/%,$^)
	.venv/bin/check-jsonschema --quiet --builtin-schema vendor.github-issue-forms $(filter .github/ISSUE_TEMPLATE/%,$^)
	@mkdir -p build && touch $@

# The core, and the pure halves of other packages: their own tests take every branch.
CORE := conditions cri.flaws model pleg runtimes timing node.chronicle node.state node.history evidence.reasons
# Many examples, lives and worlds take long while coverage is measured, and add none.
MANY := $(patsubst %,tests/pleg/test_%.py,laws worlds)
CORE_TESTS := $(filter-out $(MANY),$(wildcard tests/pleg/test_*.py)) tests/conditions tests/test_runtimes.py tests/test_timing.py tests/node tests/evidence/test_reasons.py tests/cri/test_flaws.py tests/loops/test_permission.py
core: $(STAMP)
	.venv/bin/pytest -n $(shell nproc) $(CORE_TESTS) $(CORE:%=--cov=exporter.%) --cov-report=term:skip-covered --cov-fail-under=100
	.venv/bin/pytest -n $(shell nproc) $(MANY)

unit: ready
	$(PYTEST) $(patsubst %,--ignore=%,$(CORE_TESTS) $(MANY)) --durations=20

coverage: ready ## all tests with branch coverage, at least 90 %
	$(PYTEST) --cov --cov-report=
	.venv/bin/coverage report --skip-covered --fail-under=90

mutants: $(STAMP) ## mutation tests of the core, or of MUTANTS ('exporter.pleg.oom.*'): docs/proof.md
	.venv/bin/mutmut run $(MUTANTS)
	$(PYTHON) -m tests.mutants

bench: image go ## run the benchmarks as root (5 min), and write docs/benchmarks.md
	$(PYTHON) -m bench --python build/image/python --output docs/benchmarks.md $(BENCH_FLAGS)

worlds: $(STAMP) ## compare core and oracle in a million states (10 min)
	$(PYTHON) -m tests.worlds $(WORLDS_FLAGS)

# Only bench needs it.
go: | $(PYTHON)
	@$(PYTHON) -m testbed.debian fetch go

soak: $(STAMP) grounds emulated ## long-running tests, ten times the random examples, a troubled node for SOAK_MINUTES (20)
	SOAK_MINUTES=$(SOAK_MINUTES) $(PYTEST) -m soak --timeout=$(HANGS)
	$(PYTEST) -m hypothesis --hypothesis-profile=search --timeout=$(HANGS)
	$(PYTHON) -m tests.worlds

vm: emulated ## OOM kills, ghosts and strays on a real kernel with cgroup v2, under qemu (10 min; VM_OOM=full: 60)
	.venv/bin/pytest -rs -m soak tests/test_vm.py

emulated: $(STAMP)
	@$(PYTHON) -m testbed.vm.machine

track-record: $(STAMP) ## reproduce the bugs of docs/track-record.md (8 min); BUG=name: only that one
	@$(PYTHON) -m testbed.debian fetch containerd-2.1 containerd-1.7 runc crun runsc busybox
	.venv/bin/pytest -s -rs -m soak tests/track_record $(BUG:%=-k %)

# Python's, Debian's and npm's packages at the same time.
ready: ## download everything that the tests need, once (650 MB): .venv and .cache
	@$(MAKE) --no-print-directory -j $(STAMP) grounds image render

grounds: | $(PYTHON) ## download Debian packages: runtimes, Prometheus, a browser
	@$(PYTHON) -m testbed.debian fetch

# Only root can build it, and only root's tests need it.
image: $(STAMP) grounds ## build the Containerfile as root without docker or a registry: build/image
	@[ $$(id -u) != 0 ] || $(PYTHON) -m testbed.observer_image

release: $(STAMP) ## write the files of a release of this commit to dist
	$(PYTHON) -m deploy.release

pictures: grounds render ## take the pictures of docs/dashboards, of a fleet that runs for PICTURES_MINUTES (15)
	$(PYTHON) -m tests.dashboards.pictures $(PICTURES_MINUTES)

render: $(RENDERED) ## download what browsers need: Grafana's components, bundled, and axe

$(RENDERED): | $(STAMP)
	@rm -rf $(RENDER) && mkdir -p $(RENDER) && cp $(RENDER_FROM) $(RENDER)
	cd $(RENDER) && $(NODE) npm install --ignore-scripts --loglevel=error && $(NODE) node bundle.mjs out
	@rm -rf $(RENDER)/node_modules && touch $@

status-pictures: grounds render ## take docs/status-light.png and -dark.png of a demo (12 min)
	$(PYTHON) -m tests.support.browser

$(PYTHON):
	scripts/venv .venv

# What users need, and nothing else.
.venv/.installed: pyproject.toml constraints.txt scripts/venv
	scripts/venv .venv
	$(PYTHON) -m pip install --quiet --disable-pip-version-check -c constraints.txt --editable .
	@touch $@

# What developers need. Earlier versions of pip take a minute to choose what is named here exactly.
$(STAMP): | $(PYTHON)
	scripts/venv .venv
	$(PYTHON) -m pip install --quiet --disable-pip-version-check 'pip>=26'
	$(PYTHON) -m pip install --quiet --disable-pip-version-check -c constraints.txt --editable '.[dev]'
	@rm -f .venv/.stamp-* && touch $@ .venv/.installed

PIP_COMPILE := CUSTOM_COMPILE_COMMAND='make lock' .venv/bin/pip-compile --quiet --generate-hashes --strip-extras --no-emit-index-url \
  --no-emit-trusted-host --no-emit-find-links --no-annotate

lock: $(STAMP) ## pin the versions in use: constraints.txt, deploy/*.lock
	.venv/bin/pip freeze --exclude-editable > constraints.txt
	$(PIP_COMPILE) -c constraints.txt --output-file deploy/requirements.lock pyproject.toml
	$(PIP_COMPILE) --allow-unsafe --only-build-deps --build-deps-for wheel --output-file deploy/build-requirements.lock pyproject.toml

clean: ## remove what was built; downloads stay
	rm -rf .venv build dist mutants *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage*
