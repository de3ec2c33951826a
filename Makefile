# make help lists the targets.
SHELL       := /bin/bash
PREFIX      ?= /usr/local
BIN         := bin
KUBE        := 1.37.2
VERSION     ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
COMMIT      := $(shell git rev-parse --short=12 HEAD 2>/dev/null)
DATE        := $(shell git log -1 --format=%cI 2>/dev/null)
STAMP       := lj.aliyun.com/kit/pkg/cliutil
# Kubernetes' own packages parse their version at run time and refuse the
# placeholder that an unstamped build carries.
KUBESTAMP   := -X k8s.io/component-base/version.gitVersion=v$(KUBE) -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=37
LDFLAGS     := -s -w -X $(STAMP).Version=$(VERSION) -X $(STAMP).Commit=$(COMMIT) -X $(STAMP).Date=$(DATE) $(KUBESTAMP)
GO          ?= go
PROGRAMS    := ljctl ljnode ljsandbox
# One setting of cgo for all development builds, and no -trimpath: each other
# setting compiles all of Kubernetes once more.
export CGO_ENABLED ?= 1

.PHONY: help
help: ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: $(PROGRAMS:%=$(BIN)/%) ## build the programs into bin/

# Programs are linked one after the other: the one with the API server takes
# 3 GB to link.
.NOTPARALLEL:
.PHONY: FORCE
$(BIN)/%: FORCE
	@mkdir -p $(BIN)
	$(GO) build -ldflags '$(LDFLAGS)' -o $@ ./cmd/$*

.PHONY: demo
demo: build ## build, start a cluster on this machine and run the main job on it
	$(BIN)/ljsandbox demo

# Some tests run the built programs.
.PHONY: test
test: $(BIN)/ljctl $(BIN)/ljnode ## all tests
	LJCTL=$(CURDIR)/$(BIN)/ljctl LJNODE=$(CURDIR)/$(BIN)/ljnode $(GO) test -ldflags '$(KUBESTAMP)' -timeout 30m ./...

.PHONY: soak
soak: ## the property tests and the scheduler's model check with many more seeds, and each fuzz target for a minute
	$(GO) test $$(grep -rl --include='*_test.go' 'pgregory.net/rapid' pkg | xargs -n1 dirname | sort -u | sed 's,^,./,') -rapid.checks=20000 -timeout 2h
	LJ_SEEDS=1000 LJ_STEPS=10000 $(GO) test ./pkg/sched -run '^(TestModel|TestRivalGangs)$$' -parallel 8 -timeout 24h
	@hack/fuzz-all 60s

.PHONY: bench
bench: ## the benchmarks, ten times each, for benchstat
	$(GO) test -run '^$$' -bench . -benchmem -count 10 ./pkg/core/... ./pkg/sched/... ./pkg/ljctl/...

$(BIN)/kube-scheduler: FORCE
	@mkdir -p $(BIN)
	$(GO) build -ldflags '$(LDFLAGS)' -o $@ k8s.io/kubernetes/cmd/kube-scheduler

.PHONY: bench-sched
bench-sched: $(BIN)/ljnode $(BIN)/ljsandbox $(BIN)/kube-scheduler ## the scheduler against the stock one and its targets, as one table
	$(GO) run ./hack/bench-sched $(BENCH_ARGS)

.PHONY: lint
lint: ## gofmt, vet and staticcheck
	@test -z "$$(gofmt -l cmd pkg examples deploy hack | tee /dev/stderr)"
	$(GO) vet ./...
	$(GO) tool staticcheck ./...

.PHONY: static
static: ## prove that ljctl builds without a C compiler
	CGO_ENABLED=0 $(GO) build -ldflags '$(LDFLAGS)' -o /dev/null ./cmd/ljctl

.PHONY: golden
golden: ## write the golden files anew
	$(GO) test $$(grep -rl --include='*_test.go' 'flag.Bool("update"' pkg | xargs -n1 dirname | sort -u | sed 's,^,./,') -update

.PHONY: install
install: $(BIN)/ljctl $(BIN)/ljnode ## install ljctl, kubectl-lj, its completion and ljnode under PREFIX
	install -d $(DESTDIR)$(PREFIX)/bin
	install -m 0755 $(BIN)/ljctl $(BIN)/ljnode $(DESTDIR)$(PREFIX)/bin/
	ln -sf ljctl $(DESTDIR)$(PREFIX)/bin/kubectl-lj
	ln -sf ljctl $(DESTDIR)$(PREFIX)/bin/kubectl_complete-lj

.PHONY: uninstall
uninstall: ## remove what install put there
	rm -f $(addprefix $(DESTDIR)$(PREFIX)/bin/,ljctl ljnode kubectl-lj kubectl_complete-lj)

.PHONY: clean
clean: ## remove bin/
	rm -rf $(BIN)
