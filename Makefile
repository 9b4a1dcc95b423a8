# `make run` and `make test` do all the set-up on a fresh machine, in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# A browser for the tests of `pliant drive`: the one that CHROMIUM names, or one that is installed.
BROWSERS := chromium chromium-browser google-chrome google-chrome-stable chrome
FOUND := [ -n "$$CHROMIUM" ] $(foreach browser,$(BROWSERS),|| command -v $(browser) >/dev/null 2>&1)

.PHONY: run test types compiled particles browser bench clean

run: $(VENV)/.run
	$(BIN)/pliant run arm-circle

# Two workers on two cores: threads of a BLAS would take the cores from each other.
test: export OPENBLAS_NUM_THREADS := 1
test:
	@$(MAKE) --no-print-directory --jobs=3 types compiled particles browser  # the browser beside the packages, types beside compilers
	$(BIN)/pytest -n 2 --dist worksteal
	@$(FOUND) || printf '\n*** THE BROWSER TESTS WERE LEFT OUT: there is no Chromium or Chrome here. Install one, or say CHROMIUM=path make test. ***\n\n'

types: $(VENV)/.test
	$(BIN)/ruff format --check src tests examples
	$(BIN)/ruff check src tests examples
	$(BIN)/mypy

# What both workers would compile at the same time is compiled before, by the tests that need most of it; they run again in no time.
compiled: $(VENV)/.test
	$(BIN)/pytest tests/actuators/test_cable.py tests/actuators/test_hydraulic_merged.py tests/contracts/test_core_interface.py::test_registry_every_rule_is_in_a_case

particles: $(VENV)/.test
	$(BIN)/pytest tests/mpm/test_material_point.py::test_single_precision_gives_the_same_motion

# Debian's Chromium, where none is there and we may install it.
browser:
	@$(FOUND) || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && apt-get install -y -qq chromium >/dev/null; } || true

bench: $(VENV)/.bench
	OPENBLAS_NUM_THREADS=1 $(BIN)/pliant bench fem

clean:
	rm -rf $(VENV) .cache build results *.egg-info src/*.egg-info .pytest_cache .mypy_cache .ruff_cache

# With uv, which takes seconds where pip takes minutes: the one that is installed, else one of our own; and where that cannot be, with pip.
define install
	@[ -x $(BIN)/python ] || { command -v uv >/dev/null && uv venv --seed --quiet $(VENV); } || $(PYTHON) -m venv $(VENV)
	@command -v uv >/dev/null || [ -x $(BIN)/uv ] || $(BIN)/python -m pip install --quiet --disable-pip-version-check uv || true
	@PATH="$$PATH:$(BIN)"; uv pip install --quiet --python $(BIN)/python -e '$(1)' || $(BIN)/python -m pip install --quiet --disable-pip-version-check -e '$(1)'
	@touch $@
endef

$(VENV)/.run: pyproject.toml
	$(call install,.)

$(VENV)/.test: pyproject.toml
	$(call install,.[fast$(comma)dev])
	@touch $(VENV)/.run

$(VENV)/.bench: pyproject.toml
	$(call install,.[fast$(comma)bench])

comma := ,
