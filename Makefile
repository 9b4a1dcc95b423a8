# `make run` and `make test` install everything that they need in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# Browser for the tests of `pliant drive`: $CHROMIUM, or the first installed one.
BROWSERS := chromium chromium-browser google-chrome google-chrome-stable chrome
FOUND := [ -n "$$CHROMIUM" ] $(foreach browser,$(BROWSERS),|| command -v $(browser) >/dev/null 2>&1)

.PHONY: run test types compiled particles browser bench clean

run: $(VENV)/.run
	$(BIN)/pliant run arm-circle

# Two workers on two cores. BLAS uses one thread, so that the workers do not compete for cores.
test: export OPENBLAS_NUM_THREADS := 1
test:
	@$(MAKE) --no-print-directory --jobs=3 types compiled particles browser
	$(BIN)/pytest -n 2 --dist worksteal
	@$(FOUND) || printf '\n*** THE BROWSER TESTS WERE SKIPPED: no Chromium or Chrome was found. Install one, or use CHROMIUM=path make test. ***\n\n'

types: $(VENV)/.test
	$(BIN)/ruff format --check src tests examples
	$(BIN)/ruff check src tests examples
	$(BIN)/mypy

# Compile the kernels once before the parallel tests; otherwise both workers would compile them.
# These tests use most of the kernels. They take little time when they run again.
compiled: $(VENV)/.test
	$(BIN)/pytest tests/actuators/test_cable.py tests/actuators/test_hydraulic_merged.py tests/contracts/test_core_interface.py::test_registry_every_rule_is_in_a_case

particles: $(VENV)/.test
	$(BIN)/pytest tests/mpm/test_material_point.py::test_single_precision_gives_the_same_motion

# Install Chromium from Debian if there is no browser and the user is root.
browser:
	@$(FOUND) || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && apt-get install -y -qq chromium >/dev/null; } || true

bench: $(VENV)/.bench
	OPENBLAS_NUM_THREADS=1 $(BIN)/pliant bench fem

clean:
	rm -rf $(VENV) .cache build results *.egg-info src/*.egg-info .pytest_cache .mypy_cache .ruff_cache

# The Python of `make test PYTHON=...`; otherwise uv finds one that Pliant supports.
CHOSEN := $(if $(filter-out python3,$(PYTHON)),--python $(PYTHON))

# Install with uv, which is much faster than pip. If uv is not installed, install it in .venv.
# If that fails, install with pip.
define make_venv
	@[ -x $(BIN)/python ] || { command -v uv >/dev/null && uv venv --seed --quiet $(CHOSEN) $(VENV); } || $(PYTHON) -m venv $(VENV)
	@command -v uv >/dev/null || [ -x $(BIN)/uv ] || $(BIN)/python -m pip install --quiet --disable-pip-version-check uv || true
endef

define install
	$(make_venv)
	@PATH="$$PATH:$(BIN)"; uv pip install --quiet --python $(BIN)/python -e '$(1)' || $(BIN)/python -m pip install --quiet --disable-pip-version-check -e '$(1)'
	@touch $@
endef

# The tests of `pliant.learning` need torch, but no graphics card. pip is asked for one version that
# has a small build for the CPU; uv would choose the build for graphics cards, which is gigabytes
# large. The extra `learn` accepts this version, so the next install keeps it. If this version does
# not exist for a platform, the next install chooses another.
TORCH := torch==2.13.0
define install_torch
	$(make_venv)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check '$(TORCH)' || true
endef

$(VENV)/.run: pyproject.toml
	$(call install,.)

$(VENV)/.test: pyproject.toml
	$(install_torch)
	$(call install,.[fast$(comma)dev$(comma)learn])
	@touch $(VENV)/.run

$(VENV)/.bench: pyproject.toml
	$(call install,.[fast$(comma)bench])

comma := ,
