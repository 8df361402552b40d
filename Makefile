# Verbs only. Each prints and installs missing packages with scripts/need.sh (INSTALL=no only prints them), then calls
# cmake, ctest or go.
PREFIX ?= /usr/local
DESTDIR ?=
JOBS ?= $(shell nproc)
FUZZ_RUNS ?= 200000
SOAK_SECONDS ?= 3600
OUT ?= build/results
PRESET ?= asan
SCALE ?= 0,100,500
TOOL ?= build/bin/granary

.DEFAULT_GOAL := all
.PHONY: scale vm vm-short all ship tool programs demo test unit coverage bench bench-full lint install uninstall deb chroot image rpm musl arm64 fuzz soak clean help

all: ship tool ## build the library and the command (the default)

ship:
	@scripts/need.sh build
	cmake --preset release
	cmake --build build --target ship -j $(JOBS)

tool:
	@scripts/need.sh build
	CGO_ENABLED=0 scripts/go.sh build -trimpath -buildvcs=false \
	  -ldflags "-s -w" -o $(TOOL) ./tool/cmd/granary

programs: ship
	cmake --build build --target bench/all -j $(JOBS)

demo: ## compare Granary with its peers under a real Redis, in under four minutes
	@scripts/need.sh build demo
	@$(MAKE) --no-print-directory all
	build/bin/granary bench redis --quick

test: ## build everything and run every test
	@scripts/need.sh build test
	@$(MAKE) --no-print-directory all
	JOBS=$(JOBS) scripts/test.sh

unit: ## run the unit tests and fuzzers built with PRESET: asan, ubsan, tsan or coverage
	@scripts/need.sh build test
	JOBS=$(JOBS) scripts/unit.sh $(PRESET)

coverage: ## report which lines the unit tests and the Go tests reach, into build/coverage-report
	@scripts/need.sh build test coverage
	@$(MAKE) --no-print-directory all
	JOBS=$(JOBS) scripts/coverage.sh build/coverage-report

bench: ## run the benchmark programs under every allocator found (ARGS= for its flags)
	@scripts/need.sh build demo
	@$(MAKE) --no-print-directory all programs
	build/bin/granary bench micro $(ARGS)

scale: all ## measure the exporter and the profile agent with SCALE processes (default 0,100,500)
	GRANARY_SCALE=$(SCALE) GRANARY_TOOL=$(abspath $(TOOL)) scripts/go.sh test -count=1 -p 1 -v -run 'Crowd|CostOfTheAgent' \
	  ./tool/internal/exporter ./tool/internal/profile

bench-full: ## run every scenario under every allocator, hours or ARGS="--budget 40m": OUT=folder
	@scripts/need.sh build demo test bench
	@$(MAKE) --no-print-directory all programs
	build/bin/granary bench all --out $(OUT) $(ARGS)

lint: ## check format, layers, scripts and documents without running anything
	@scripts/need.sh build test lint
	scripts/lint.sh

install: all programs ## install below PREFIX, inside DESTDIR
	DESTDIR=$(DESTDIR) cmake --install build --prefix $(PREFIX)

uninstall: ## remove from below PREFIX, inside DESTDIR, what install put there
	scripts/uninstall.sh $(DESTDIR)$(PREFIX)

deb: all programs ## build the Debian packages of this machine's architecture into build/packages
	@scripts/need.sh build deb
	scripts/package_deb.sh

chroot: deb ## install the Debian packages in a bare Debian, and run every command and every scenario there
	@scripts/need.sh test
	KEEP=yes scripts/test_chroot.sh
	KEEP=yes scripts/test_chroot.sh --servers

image: deb ## build the image with every allocator and server of the comparison, and measure Redis in it
	@scripts/need.sh test image
	scripts/test_image.sh

rpm: all programs ## build the RPM packages of this machine's architecture into build/packages
	@scripts/need.sh build rpm
	scripts/package_rpm.sh

musl: ## build the library for musl and try it there
	@scripts/need.sh build musl
	cmake --preset musl
	cmake --build build/musl --target ship -j $(JOBS)
	scripts/smoke_musl.sh build/musl/lib

arm64: ## cross-compile for arm64 and run the conformance programs under emulation
	@scripts/need.sh build arm64
	cmake --preset arm64
	cmake --build build/arm64 -j $(JOBS)
	ctest --test-dir build/arm64 --output-on-failure -j $(JOBS) -R '^(conform|compat|unwind)\.'

vm: all ## run tests in emulated machines with other kernels, CPUs and settings, hours (MACHINES= for some of them)
	@scripts/need.sh build test demo vm vm-all arm64
	cmake --build build --target core/test/all bench_programs -j $(JOBS)
	cmake --preset arm64
	cmake --build build/arm64 -j $(JOBS)
	core/test/vm/vm.py run $(MACHINES)

vm-short: all ## the same on two machines, in minutes
	@scripts/need.sh build test vm
	cmake --build build --target core/test/all -j $(JOBS)
	core/test/vm/vm.py short

fuzz: ## run every fuzzer for FUZZ_RUNS inputs under the address sanitizer
	@scripts/need.sh build test
	cmake --preset asan
	cmake --build build/asan -j $(JOBS)
	scripts/fuzz.sh build/asan/test/fuzz $(FUZZ_RUNS)

soak: all ## build Redis, Valkey and others on Granary and run their tests, then the storms for SOAK_SECONDS
	@scripts/need.sh test
	cmake --build build --target core/test/all -j $(JOBS)
	scripts/soak.sh build $(SOAK_SECONDS)

clean: ## remove everything that was built
	rm -rf build

help: ## print this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-9s %s\n", $$1, $$2 }' Makefile
