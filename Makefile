# wsctl: `make help` lists the targets.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help build test race bench soak lint vuln cross engine clean

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION)
TOOL    := go tool -modfile=lint/go.mod

# What testcontainers-go needs where no image can be pulled, and on machines that
# it takes for a container.
export TESTCONTAINERS_RYUK_DISABLED := true
export TESTCONTAINERS_HOST_OVERRIDE := 127.0.0.1

# Run once more as a user without rights when make runs as root, since they ask for
# what a user may: the first list whole, the second, which takes longer, under -short.
OTHER       := keeper,cmd/wsctl
OTHER_SHORT := host,search,snapshot,wrapper,container,reaper
TESTRUN     := go run ./internal/testrun -other=$(OTHER) -other-short=$(OTHER_SHORT)
RUN         ?=
RETRY       ?=
PKG         ?= ./...

help: ## print this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 16

build: ## static binaries of wsctl and wskeeper in ./bin
	CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags='$(LDFLAGS)' -o bin/ ./cmd/...

test: ## all tests, as root also as another user; says at the end what was not run [PKG=./host RUN=Regexp RETRY=1]
	@$(TESTRUN) $(if $(RETRY),-retry) -run='$(RUN)' $(PKG)

race: ## all tests with the race detector, which needs gcc [PKG=./host RUN=Regexp]
	@CGO_ENABLED=1 $(TESTRUN) $(if $(RETRY),-retry) -race -timeout=20m -run='$(RUN)' $(PKG)

soak: ## all tests with every round of kills and races: an hour or more [PKG=./host RUN=Regexp]
	@WSCTL_SOAK=1 $(TESTRUN) -timeout=3h -run='$(RUN)' $(PKG)

bench: build ## measure against peers, last a line for each bar [ONLY=files|exec|snapshots|tools|orchestrator]
	@go run ./internal/bench -bin=bin -only='$(ONLY)'

lint: cross ## go vet, gofumpt, staticcheck, go mod tidy -diff, and vet for other systems
	go mod tidy -diff
	cd lint && go mod tidy -diff
	go vet ./...
	@bad=$$($(TOOL) gofumpt -l .) && { [ -z "$$bad" ] || { printf 'gofumpt would change:\n%s\n' "$$bad"; exit 1; }; }
	$(TOOL) staticcheck ./...

cross: ## vet what builds for Linux on arm64, macOS and Windows
	CGO_ENABLED=0 GOOS=linux GOARCH=arm64 go vet ./...
	CGO_ENABLED=0 GOOS=darwin GOARCH=arm64 go vet ./...
	CGO_ENABLED=0 GOOS=windows GOARCH=amd64 go vet ./...

vuln: ## known vulnerabilities in what we link; needs the network
	$(TOOL) govulncheck ./...

engine: ## start a Docker engine where none answers (Debian, root)
	@.ci/engine

clean: ## remove ./bin and the images and programs that tests keep
	rm -rf bin "$${XDG_CACHE_HOME:-$$HOME/.cache}/wsctl-test"
	@docker images -q --filter=reference='wsctl-test:*' 2>/dev/null | sort -u | xargs -r docker rmi -f
