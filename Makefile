# Everything is set up by the targets themselves: a virtualenv in .venv, and
# downloads (Debian packages with the real runtimes and Prometheus) in .cache.
# Neither needs root; the tests against a real containerd do.

PYTHON := .venv/bin/python
PROTOS := proto/runtime_v1.proto:exporter/cri tests/grounds/cri_actions.proto:tests/grounds
STAMP := .venv/.stamp-$(shell cat pyproject.toml constraints.txt scripts/venv | cksum | cut -d' ' -f1)
SOAK_MINUTES := 10
USERS := build/users
PICTURES_MINUTES := 15
RENDER := .cache/render
RENDER_FROM := $(wildcard tests/dashboards/render/*.js* tests/dashboards/render/*.mjs)
# Most tests wait most of the time: twice as many at a time as there are cores.
PYTEST := .venv/bin/pytest -n $(shell expr 2 \* $$(nproc))
NODE := PATH=$(CURDIR)/.venv/bin:$$PATH

.DEFAULT_GOAL := help
.PHONY: help demo quick test check core coverage durations lint types layers unit bench users soak alerts stale-alerts proto stale-proto grounds readme lock clean
.PHONY: dashboards stale-dashboards pictures render
.PHONY: compatibility stale stale-compatibility

help: ## say what there is
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | sort | expand -t 15

demo: .venv/.installed ## run the exporter against the embedded runtime, and print its URL
	@exec .venv/bin/shadow-pleg demo $(DEMO_FLAGS)

quick: check ## every check, and the tests that need neither root nor network nor time
	$(PYTEST) -m "quick or virtual_time"

test: check core unit ## every check, and every test but the soaks

check: lint types layers stale ## every check, no test

stale: stale-proto stale-alerts stale-dashboards stale-compatibility

lint: $(STAMP)
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .

types: $(STAMP)
	.venv/bin/mypy

layers: $(STAMP)
	.venv/bin/lint-imports

# The core's own tests take every branch of it.
core: $(STAMP)
	$(PYTEST) tests/pleg --cov=exporter.pleg --cov-report=term:skip-covered --cov-fail-under=100

unit: $(STAMP) grounds render browser
	$(PYTEST) -m "not soak" --ignore=tests/pleg --durations=20

coverage: $(STAMP) grounds render browser ## all tests, and how much of the code they execute: 90 % at least
	$(PYTEST) -m "not soak" --cov --cov-report=
	.venv/bin/coverage report --skip-covered --fail-under=90

durations: $(STAMP) grounds render browser ## all tests, and docs/test-durations.md of what each took
	$(PYTEST) -m "not soak" --write-durations

bench: $(STAMP) grounds users ## measure what the observer costs a node, and write docs/benchmarks.md
	$(PYTHON) -m bench --python $(USERS)/bin/python --output docs/benchmarks.md $(BENCH_FLAGS)

# As users have it: without what developers need, which libraries import where they find it.
users: $(STAMP)
	scripts/venv $(USERS)
	@rm -rf build/lib build/bdist.*
	$(USERS)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt .
	$(USERS)/bin/python -m compileall -q $(USERS)/lib

soak: $(STAMP) grounds ## what takes long: soaks, ten times the examples by chance, a troubled node for SOAK_MINUTES (10)
	$(PYTEST) -m soak
	$(PYTEST) -m hypothesis --hypothesis-profile=search --timeout=1800
	$(PYTHON) -m bench.soak --minutes $(SOAK_MINUTES)

grounds: $(STAMP) ## fetch the real parts that the tests run
	$(PYTHON) -m tests.grounds.debian fetch

alerts: $(STAMP) ## write the rules and Alertmanager's example from alerts/values.yaml
	$(PYTHON) -m alerts

stale-alerts: $(STAMP)
	@$(PYTHON) -m alerts --check

.PHONY: deploy stale-deploy image
stale: stale-deploy

deploy: $(STAMP) ## write what deploy/ takes from elsewhere: rules, dashboards, flags
	PYTHONPATH=. $(PYTHON) scripts/deploy-files

stale-deploy: $(STAMP)
	@PYTHONPATH=. $(PYTHON) scripts/deploy-files --check

image: $(STAMP) ## build the image, as root: build/image/shadow-pleg.tar
	PYTHONPATH=. $(PYTHON) deploy/image/build

proto: $(STAMP) ## compile the descriptions of the CRI
	@for each in $(PROTOS); do \
	  from=$${each%%:*}; to=$${each##*:}; \
	  $(PYTHON) -m grpc_tools.protoc -I $$(dirname $$from) --python_out=$$to --pyi_out=$$to $$from || exit 1; \
	done

stale-proto: $(STAMP)
	@scripts/stale-proto $(PROTOS)

dashboards: $(STAMP) ## render Grafana's dashboards
	$(PYTHON) -m dashboards

stale-dashboards: $(STAMP)
	@$(PYTHON) -m dashboards --check

pictures: render ## watch two fleets for PICTURES_MINUTES (15), and draw docs/dashboards
	$(PYTHON) -m tests.dashboards.pictures $(PICTURES_MINUTES)

render: .venv/.stamp-render $(RENDER)/out/page.js ## fetch and bundle what draws the dashboards (300 MB, once)

# Node.js, Grafana's components and a browser: for the tests of the dashboards, and nothing else.
.venv/.stamp-render: | $(STAMP)
	$(PYTHON) -m pip install --quiet --disable-pip-version-check -c constraints.txt --editable '.[render]'
	@touch $@

$(RENDER)/out/page.js: $(RENDER_FROM) | .venv/.stamp-render
	$(PYTHON) -m tests.grounds.debian fetch chromium
	@mkdir -p $(RENDER) && cp $(RENDER_FROM) tests/dashboards/render/.npmrc $(RENDER)
	cd $(RENDER) && $(NODE) npm ci --ignore-scripts --loglevel=error && $(NODE) node bundle.mjs out

PAGE := .cache/page
.PHONY: browser status-pictures
status-pictures: browser ## watch a demo for 12 minutes, and draw docs/status-light.png and -dark.png
	$(PYTHON) -m tests.page.pictures

browser: $(PAGE)/node_modules/.package-lock.json ## fetch what judges the status page: a browser and its scripts

$(PAGE)/node_modules/.package-lock.json: tests/page/package.json tests/page/package-lock.json | .venv/.stamp-render
	$(PYTHON) -m tests.grounds.debian fetch chromium
	@mkdir -p $(PAGE) && cp tests/page/package*.json tests/page/.npmrc $(PAGE)
	cd $(PAGE) && $(NODE) npm ci --ignore-scripts --loglevel=error
	@touch $@

# What users need, and nothing else.
.venv/.installed: pyproject.toml constraints.txt scripts/venv
	scripts/venv .venv
	$(PYTHON) -m pip install --quiet --disable-pip-version-check -c constraints.txt --editable .
	@touch $@

# What developers need besides.
$(STAMP): .venv/.installed
	$(PYTHON) -m pip install --quiet --disable-pip-version-check -c constraints.txt --editable '.[dev]'
	@rm -f .venv/.stamp-* && touch $@

readme: $(STAMP) ## write README's tables of metrics and flags from the code
	$(PYTHON) scripts/readme-tables

compatibility: $(STAMP) ## write docs/compatibility.md from the profiles and the recordings
	$(PYTHON) -m tests.traces.compatibility

stale-compatibility: $(STAMP)
	$(PYTHON) -m tests.traces.compatibility --check

lock: $(STAMP) ## write down the versions in use, so that every machine uses the same
	.venv/bin/pip freeze --exclude-editable > constraints.txt
	CUSTOM_COMPILE_COMMAND='make lock' .venv/bin/pip-compile --quiet --generate-hashes --strip-extras --no-emit-index-url \
	  --no-emit-trusted-host --no-emit-find-links --no-annotate -c constraints.txt --output-file deploy/requirements.lock pyproject.toml

clean: ## remove what the targets made; downloads stay
	rm -rf .venv build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage*
