# make help lists the targets. Everything needs Go, a C compiler and Python 3; what else is needed the scripts get or name.
VERSION := $(shell scripts/version)
BUILD := $(shell scripts/version -build)
LDFLAGS := -s -w -X github.com/memgauge/memgauge/internal/faces/cli/app.build=$(BUILD) -X github.com/memgauge/memgauge/internal/probe/agent.build=$(BUILD)
export CGO_ENABLED := 1

# Where the C++ runtime is there as an archive, it is linked in: loading libstdc++.so and binding DuckDB's symbols to it was half
# of the time that a command took to start. DuckDB's bindings ask for -lstdc++, so a directory with the archive alone comes first.
# Nothing loads a library that needs our symbols: exporting DuckDB's 60,000 only makes those tables longer.
STDCXX = $(wildcard $(shell $$(go env CC) -print-file-name=libstdc++.a))
STATIC = $(if $(STDCXX),-extldflags "-L$(CURDIR)/bin/link -static-libgcc -Wl$(,)--no-export-dynamic -Wl$(,)--unresolved-symbols=report-all")
, := ,

.DEFAULT_GOAL := build
.PHONY: build test test-long test-trino check demo bench bench-cost bench-look accuracy wheel release generate licenses gpu-kit fuzz clean help

build: ## bin/memgauge, and bin/libmemgauge_alloc.so with its header
	@echo "building bin/memgauge $(VERSION) (the first time DuckDB is downloaded and linked: a minute or two)"
	@go run ./scripts/web || echo "the page of memgauge web is not made, for the reason above; everything else is"
	@mkdir -p bin/link && $(if $(STDCXX),ln -sf $(STDCXX) bin/link/,true)
	@scripts/native "$$(go env CC)" "$$(go env GOARCH)"
	@go build -trimpath -ldflags '$(LDFLAGS) $(STATIC)' -o bin/memgauge ./cmd/memgauge
	@go build -trimpath -buildmode=c-shared -ldflags '-s -w' -o bin/libmemgauge_alloc.so ./cmd/memgauge_alloc
	@cp cmd/memgauge_alloc/memgauge_alloc.h bin/ && rm bin/libmemgauge_alloc.h # cgo's own header is not for people

test: ## the short lane: lint, Go, and the agent on three Pythons; what CI runs (12 minutes; the first time 10 more)
	@scripts/runtests

test-long: ## every test, on every Python, with kills, clusters, frameworks, wheels (two hours); SCALE=10 for ten times the counts
	@scripts/runtests --long=$(or $(SCALE),1)
	@scripts/trinolane

test-trino: ## a real Trino over the lake gives DuckDB's answers (fetches 821 MB once; a minute, 1.8 GB of memory)
	@home=$$(scripts/testenv --only trino) && MEMGAUGE_TRINO_HOME="$$home" MEMGAUGE_REQUIRE=trino go test -count=1 -v ./test/trino

check: ## the quick part of test: vet, the house's rules, licences, staticcheck, gosec, known vulnerabilities
	@scripts/runtests lint
	@go test ./internal/arch
	@scripts/staticcheck
	@scripts/gosec
	@scripts/vulncheck

demo: build ## train a small PyTorch model that leaks on purpose, and ask about it in SQL
	@scripts/demo

bench: build ## the speed table with this machine's figures
	@python=$$(scripts/testenv --only torch) && probing=$$(scripts/testenv --only probing || true) && \
	go run ./test/bench -memgauge bin/memgauge -python "$$python" -probing "$$probing"

bench-cost: build ## what a training pays, with intervals, into docs/benchmarks.md
	@python=$$(scripts/testenv --only torch) && \
	python3 test/bench/cost --python "$$python" --write docs/benchmarks.md

bench-look: build ## what looking costs: the page, a large snapshot in it, top (needs Chromium, tmux and 1.3 GB in /tmp)
	go run ./test/bench/web
	@file=$$(mktemp) && trap 'rm -f "$$file"' EXIT && python3 test/bench/snapshots.py --megabytes 1300 "$$file" && \
	go run ./test/bench/websnapshot -file "$$file"
	python3 test/bench/top.py

accuracy: build ## how well leaks are told: 1000 simulated runs of each family, and the labelled corpus
	@python=$$(scripts/testenv --only torch) && go run ./test/accuracy -sim 1000 -memgauge bin/memgauge -python "$$python"

gpu-kit: build ## dist/memgauge-gpu-kit.tar.xz: everything to try memgauge on a machine with a GPU (docs/gpu.md)
	@mkdir -p dist && test/gpukit/build.sh bin/memgauge bin/libmemgauge_alloc.so dist

wheel: ## dist/memgauge-*.whl for x86-64, or for ARCH=aarch64; then: pip install dist/memgauge-*.whl
	@scripts/release --wheel $(or $(ARCH),x86_64)

release: ## dist/: wheels and tarballs for x86-64 and aarch64, what they are made of, checksums, the changelog
	@scripts/release

fuzz: ## every fuzz target for 10 minutes; FUZZTIME=1m for less
	@scripts/fuzz $(or $(FUZZTIME),10m)

generate: ## what is derived from internal/formats/wire/spec.go, internal/formats/table, internal/base/secret/rules.go and the commands
	go generate ./...

licenses: ## THIRD_PARTY_LICENSES, from the modules that are linked in
	go run ./scripts/licenses

clean: ## what was built here (the tests' Pythons stay in ~/.cache/memgauge-test)
	rm -rf bin dist

help: ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## /  make \1\t/p' Makefile | expand -t 20
