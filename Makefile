# make alone lists what there is, what a newcomer needs first.

GO      ?= go
BENCHTIME ?= 1s
FUZZTIME  ?= 20s
BIN     := bin/chatstack_exporter
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
PKG     := github.com/prometheus/common/version
BRANCH  ?= $(shell git rev-parse --abbrev-ref HEAD 2>/dev/null)
LDFLAGS  = -s -w \
	-X $(PKG).Version=$(VERSION) \
	-X $(PKG).Revision=$(shell git rev-parse HEAD 2>/dev/null) \
	-X $(PKG).Branch=$(BRANCH)

# The race detector needs cgo and a C compiler.
RACE := $(shell [ "$$($(GO) env CGO_ENABLED 2>/dev/null)" = 1 ] && command -v "$$($(GO) env CC)" >/dev/null 2>&1 && echo -race)

.PHONY: help binary build run test test-race cross generate dashboards-schema test-rules test-rules-vmalert lint-rules mutate-rules mutate-health test-kubernetes lint fuzz soak kills integration workloads chaos drill messages relay noban story bench microbench capacity pictures install uninstall release vuln image test-deploy

help: ## Print this list.
	@awk -F ':.*## ' '/^##@ / { printf "\n%s\n", substr($$0, 5) } /^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

##@ Start here

run: binary ## Watch the built-in simulated stack; prints the three addresses to open.
	@$(BIN) demo

# Time enough for a machine that does something else besides.
TEST = $(GO) test -vet=off -timeout 20m

test: ## Run every test that needs neither root nor packages.
	$(GO) vet ./...
ifeq ($(RACE),)
	$(TEST) ./...
else
	$(TEST) -race -skip '$(LONG)' $(CONCURRENT)
	$(TEST) $$($(GO) list ./... | grep -vxF "$$($(GO) list $(CONCURRENT))")
	$(TEST) -run '$(LONG)' ./collectors ./internal/app ./internal/poll
endif
	@# A module of its own, since Prometheus and Alertmanager bring half a thousand others.
	cd internal/e2e/story && $(GO) vet . && $(TEST) . -story.seeds 0 -story.longest 12m -story.routings 1000
	@# Parsers of feeds and calendars.
	cd internal/e2e/feeds && $(GO) vet . && $(TEST) .

# The packages that start goroutines: `make test` runs them with the race detector, but for LONG_TESTS, which take minutes with it.
# The simulated stack and the rest are left to test-race.
CONCURRENT := ./collectors/... ./internal/app ./internal/docker/api ./internal/docker/cgroup ./internal/exchange/... ./internal/exposition ./internal/maintenance ./internal/poll \
	./internal/state ./internal/status ./internal/web
LONG_TESTS := TestEveryFaultIsToldApart TestMaintenanceSaysWhichAlertsGoOn TestClientLeavesHalfOfTheConnectionsToOthers TestReadingLeavesNoGoroutineOrDescriptor \
	TestDescriptionsTakeLittleMemory TestContainersBeyondTheMostAreLeftOut \
	TestRateLimitedTargetKeepsItsDistance TestDriftingClashesAreLoggedWithABound TestPageIsRenewedOnlyWhereNothingElseDoesSo \
	TestReadingsEndJustBeforeTheScrape TestReadingsWithoutARhythmStaySpread TestReadingsFollowAScraperThatMoves \
	TestListenerThatPanicsAgainAndAgainIsStartedLessOften TestAdviceClaimsOnlyWhatTheProbeSaw \
	TestKilledProcessGoesOnAsIfItHadNotBeen TestKilledAtAnyMomentItLosesNothingThatWasShown TestStoriesShowWhatTheyAnnounce \
	TestHistoryOutlivesKills TestFlappingTargetsWriteLittle
LONG := ^($(subst $() $(),|,$(strip $(LONG_TESTS))))$$

binary:
	@echo 'building $(BIN); the first time takes a few minutes'
	@CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN) ./cmd/chatstack_exporter

build: binary ## Build the static binary, its man page and completions, in bin/.
	@# The program writes its own man page and completions; what is for another machine cannot be asked here.
	@[ "$$($(GO) env GOOS GOARCH)" != "$$($(GO) env GOHOSTOS GOHOSTARCH)" ] || \
		{ rm -rf bin/extras && .ci/extras '$(CURDIR)/$(BIN)' bin/extras; }

##@ While you change something

lint: ## Run golangci-lint, pinned.
	$(GO) run .ci/tools/literals/main.go
	$(GO) run .ci/tools/places/main.go --max 3
	$(GO) tool -modfile=.ci/tools/golangci-lint/go.mod golangci-lint run --allow-parallel-runners
	cd internal/e2e/story && $(GO) tool -modfile=$(CURDIR)/.ci/tools/golangci-lint/go.mod golangci-lint run --allow-parallel-runners
	cd internal/e2e/feeds && $(GO) tool -modfile=$(CURDIR)/.ci/tools/golangci-lint/go.mod golangci-lint run --allow-parallel-runners

generate: ## Renew every generated file: rules, dashboards, golden pages, tables in documents, BENCHMARKS.md from its last numbers.
	@# Each package says beside its flag -update how its files are made.
	@silent=$$(grep -rl --include='*_test.go' 'flag.Bool("update"' . | xargs grep -L '^//go:generate'); \
		[ -z "$$silent" ] || { echo "$$silent can update files and lacks //go:generate" >&2; exit 1; }
	$(GO) generate -x ./...

# The tests that need no real server have run in `make test`. Those that do are called TestReal..., which is held here.
# INTEGRATION=-short leaves out what waits for more than half a minute.
integration: ## Tests against real servers; needs Debian's packages, see .ci/run.
	@if grep -l 'go:build realservers' $$(git ls-files 'collectors/*_test.go' 'internal/app/*_test.go' 'internal/notify/service/*_test.go' 'internal/state/*_test.go' 'dashboards/*_test.go' 'internal/web/*_test.go' 'internal/e2e/workloads/*_test.go') | \
		xargs grep -n '^func Test' | grep -v 'func Test\(Real\|Main\)'; then \
		echo 'the tests above need real servers, so their names must begin with TestReal'; exit 1; fi
	$(GO) test -count=1 -tags realservers $(RACE) ./internal/e2e/realstack
	$(GO) test -count=1 -timeout 30m -tags realservers $(RACE) -run '^TestReal' $(INTEGRATION) ./collectors ./internal/app ./internal/notify/service ./internal/state ./internal/e2e/workloads
	$(GO) test -count=1 -tags realservers -run '^TestReal' $(INTEGRATION) ./dashboards
	$(GO) test -count=1 -tags realservers -run '^TestReal' $(INTEGRATION) ./internal/web

# The oldest Prometheus that the rules are for, which Debian has, and the newest. PROMTOOL=promtool tries the oldest alone.
PROMTOOL ?= promtool $(CURDIR)/bin/promtool
# Settings whose printed tests are run; the shipped ones are those of exporter.yaml.
RULES    ?= exporter.yaml alerts/testdata/other.yaml
# to_build is which of these programs are built here.
to_build  = $(patsubst $(CURDIR)/%,%,$(filter $(CURDIR)/bin/%,$(1)))

test-rules: $(call to_build,$(PROMTOOL)) ## Run the tests that `rules --tests` prints, with the oldest and the newest promtool; needs Debian's package prometheus.
	@for tool in $(PROMTOOL); do \
		$$tool --version 2>&1 | head -n 1 && $$tool check rules alerts/*.yml || exit 1; done
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && $(GO) build -o "$$dir/exporter" ./cmd/chatstack_exporter && \
	for settings in $(RULES); do \
		"$$dir/exporter" rules --config.file="$$settings" >"$$dir/chatstack.rules.yml" && \
		"$$dir/exporter" rules --tests --config.file="$$settings" >"$$dir/chatstack_test.yml" || exit 1; \
		for tool in $(PROMTOOL); do echo "$$settings, $$tool" && $$tool test rules "$$dir/chatstack_test.yml" || exit 1; done; \
	done && for tool in $(PROMTOOL); do $$tool test rules alerts/testdata/*_test.yml || exit 1; done

test-rules-vmalert: bin/vmalert-tool ## Run the tests that `rules --tests --vmalert` prints, with VictoriaMetrics' vmalert-tool.
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && $(GO) build -o "$$dir/exporter" ./cmd/chatstack_exporter && \
	for settings in $(RULES); do \
		"$$dir/exporter" rules --config.file="$$settings" >"$$dir/chatstack.rules.yml" && \
		"$$dir/exporter" rules --tests --vmalert --config.file="$$settings" >"$$dir/chatstack_test.yml" && \
		TMPDIR="$$dir" bin/vmalert-tool unittest --files="$$dir/chatstack_test.yml" || exit 1; \
	done

lint-rules: bin/pint ## Run pint over the alert rules.
	bin/pint --offline --no-color lint --min-severity info --fail-on info alerts/chatstack.rules.yml alerts/chatstack.recording.yml

# What is found on the way is hardly minimized: that takes all the time otherwise. Those that make connections or write to
# the disk are slow, and may have less.
SLOWFUZZTIME ?= $(FUZZTIME)
FUZZ     := FuzzRead:internal/openmetrics FuzzRoundTrip:internal/openmetrics FuzzConfig:internal/config FuzzKeptValues:collectors \
	FuzzXMPPStream:internal/exchange FuzzIRCLines:internal/exchange FuzzLoginLog:collectors FuzzIRCRPC:collectors FuzzCut:internal/notify/service FuzzMarkdown:internal/web \
	FuzzRequestsLearnNothing:internal/public FuzzWrite:internal/setup FuzzStanzas:internal/chat FuzzIRCSession:internal/chat
SLOWFUZZ := FuzzAnswers:collectors FuzzDocker:collectors FuzzCgroup:collectors FuzzDecode:internal/state

fuzz: ## Made-up input for every reader of foreign data: FUZZTIME for each target, SLOWFUZZTIME for the slow ones.
	@if grep -ro '^func Fuzz[A-Za-z]*' --include='*_test.go' . | sed -E 's!^\./(.*)/[^/]*:func (.*)!\2:\1!' | grep -vxF "$$(printf '%s\n' $(FUZZ) $(SLOWFUZZ))"; then \
		echo 'the targets above are in neither list of the Makefile'; exit 1; fi
	@try() { $(GO) test -run '^$$' -fuzz "^$${1%:*}$$" -fuzztime "$$2" -fuzzminimizetime 50x "./$${1#*:}"; }; \
	for target in $(FUZZ); do try "$$target" '$(FUZZTIME)' || exit 1; done; \
	for target in $(SLOWFUZZ); do try "$$target" '$(SLOWFUZZTIME)' || exit 1; done

microbench: ## Benchmarks of single parts; BENCHTIME=1x only shows that they run.
	$(GO) test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) ./internal/bench ./collectors

##@ Slow tests, which .ci/run and .ci/nightly run

test-race: ## Run the tests of what is concurrent with the race detector, every round of them.
	$(GO) test -count=1 -timeout 60m -race $(CONCURRENT)

# The servers' images are made of Debian's packages, so that no registry is needed. What is committed is what is tried.
# DEPLOY=-short ends where the stack is up and restricted as it should be.
test-deploy: bin/docker-compose ## deploy/README.md, command by command, on the engine that CHATSTACK_TEST_DOCKER names.
	images=$$(.ci/deploy-images "$$CHATSTACK_TEST_DOCKER") && env $$images \
		$(GO) test -count=1 -v -timeout 25m -tags realservers -run '^TestReal' $(DEPLOY) ./internal/e2e/deploy

test-kubernetes: ## Build deploy/kubernetes and check it against the types of Kubernetes and the Prometheus Operator.
	@# The test reads files outside of its module, whose change would not undo a kept result.
	cd .ci/tools/kubernetes && $(GO) vet ./... && $(GO) test -count=1 ./...

# Most of it is waiting for deadlines, so that more fit beside each other than there are processors. The race detector is
# the soak's: it would take the time that readings have.
chaos: ## Every fault before every kind of target, and of the machine; root for all of it.
	$(GO) test -count=1 -v -timeout 20m -parallel 7 -tags chaos ./internal/e2e/chaos

# WORKLOADS=-workloads.seed=N makes other changes and cuts.
WORKLOADS ?= -workloads.seed $(SEED)

workloads: ## 200 random changes of containers, 500 cuts of the stream of events, slow starts, a swarm; needs root, Docker and Podman.
	$(GO) test -count=1 -v -timeout 30m -tags realservers -run '^TestReal' ./internal/e2e/workloads -workloads.changes 200 -workloads.cuts 500 $(WORKLOADS)

# Sites wait most of the time, so that many more fit beside each other than there are processors.
drill: ## Cause every alert's fault for real, and read who is paged when; needs root, Docker and Debian's packages.
	$(GO) test -count=1 -v -timeout 16m -parallel 20 -tags realservers -run '^TestRealFireDrill$$' ./internal/e2e/drill

# Times are divided by MESSAGES_SCALE; 1 takes 45 minutes. MESSAGES_TREE is a checkout of another version, whose messages are
# counted for comparison.
MESSAGES_SCALE ?= 10
MESSAGES_TREE  ?= .

messages: ## Count the pages, mails and posts of a fault of a whole stack; needs root and Debian's packages.
	$(GO) test -count=1 -v -timeout 90m -parallel 16 -tags realservers -run '^TestRealMessages$$' ./internal/e2e/drill -messages.scale $(MESSAGES_SCALE) -messages.tree $(abspath $(MESSAGES_TREE))

RELAYTIME ?= 1h

relay: ## A relay check each second over a real bridge, RELAYTIME long: no message is lost or heard twice, and nothing grows.
	$(GO) test -count=1 -v -timeout 24h -tags realservers -run '^TestRealRelayStaysFlat$$' ./collectors -relay.time=$(RELAYTIME)

NOBANTIME          ?= 15m
NOBANTIME_INSPIRCD ?= 70m

noban: ## A wrong password against ejabberd and ngIRCd, NOBANTIME long, and InspIRCd, NOBANTIME_INSPIRCD long: no server bans the exporter.
	$(GO) test -count=1 -v -timeout 24h -tags realservers -run '^TestRealNoBan$$' ./collectors -noban.time=$(NOBANTIME) -noban.inspircd=$(NOBANTIME_INSPIRCD)

# Random tests begin with this number, which a commit keeps: what fails fails again, and the next commit tries others.
# SEED=$(date +%s) tries others at once.
SEED ?= $(shell printf %d 0x$$(git rev-parse HEAD 2>/dev/null | cut -c1-8 | grep . || echo 1))

kills: ## SIGKILL at 200 random moments while targets flap: the state file has what was shown.
	$(GO) test -count=1 -v -timeout 60m -run '^TestFlappingIncidentsOutliveKills$$' ./internal/app -app.kills 200

# Once with the race detector, once as it is shipped.
SOAKTIME ?= 30m
SOAKRUNS ?= -race -race=false

soak: ## The exporter at 100 times its rate under faults, SOAKTIME for each of two runs: it must stay flat.
	for race in $(SOAKRUNS); do \
		$(GO) test -count=1 -v -timeout 24h -tags soak $$race -run '^TestSoak$$' ./internal/e2e/soak -soak.time=$(SOAKTIME) -soak.seed=$(SEED) $(SOAK) || exit 1; done

# The name of a test has its seed: STORY='-story.seed N -story.seeds 1' repeats one. A day is a script like any other.
STORY ?= -story.seed $(SEED) -story.seeds 12 -story.lasts 2h
DAY   ?= 24h
# `make test` plays the scenarios of up to 12 minutes; none is longer than this.
LONGEST ?= 48h

story: ## Random faults in virtual time: whatever is on the page must be told, and nothing else; the last is a day long.
	cd internal/e2e/story && $(GO) test -count=1 -timeout 60m . -story.longest $(LONGEST) $(STORY)
	cd internal/e2e/story && $(GO) test -count=1 -v -timeout 60m -run '^TestRandomScripts$$/^alone' . -story.seed $(SEED) -story.seeds 1 -story.lasts $(DAY)

# MUTATE='-rules.seed=N' tries the random settings of another run.
mutate-rules: $(call to_build,$(PROMTOOL)) ## Change everything in the alert rules, one thing at a time: a unit test must fail for each.
	PROMTOOL='$(PROMTOOL)' $(GO) test -count=1 -v -timeout 30m -parallel 2 -tags promtool -run 'Mutant|AnySettings' ./alerts -rules.seed=$(SEED) $(MUTATE)

# MUTATE='judge.go:4' tries only the lines that match.
mutate-health: ## Change everything in internal/health, one thing at a time: one of its tests must fail for each.
	$(GO) run .ci/tools/mutants/main.go ./internal/health '$(MUTATE)'

cross: ## Build for macOS, FreeBSD and OpenBSD.
	$(GO) test -count=1 -tags cross -run '^TestBuildsForOtherSystems$$' ./internal/release

# Its database is on the network: that it cannot be reached is said, and is no fault of the code.
vuln: bin/govulncheck ## Known vulnerabilities in the code that is called, if their database can be reached.
	@out=$$(bin/govulncheck ./... 2>&1); status=$$?; printf '%s\n' "$$out"; \
	if [ $$status -ne 0 ] && printf '%s' "$$out" | grep -q 'fetching vulnerabilities'; then \
		echo 'vuln: NOT CHECKED, the vulnerability database cannot be reached from here' >&2; exit 0; fi; exit $$status

##@ Measurements and pictures

# BENCH=-short only shows that it runs, BENCH=-bench.only=containers measures a part, BEFORE=/an/older/exporter compares one with this. BLACKBOX=, TELEGRAF= and CADVISOR=
# leave those programs out, which take minutes to build; with an absolute path each is another build.
BENCH    ?= -bench.write
BLACKBOX ?= $(CURDIR)/bin/blackbox_exporter
TELEGRAF ?= $(CURDIR)/bin/telegraf
CADVISOR ?= $(CURDIR)/bin/cadvisor

bench: $(call to_build,$(BLACKBOX) $(TELEGRAF) $(CADVISOR)) ## Measure BENCHMARKS.md, BENCHMARKS-RAW.md and charts anew, in 45 minutes; needs root and Debian's packages.
	BLACKBOX=$(BLACKBOX) TELEGRAF=$(TELEGRAF) CADVISOR=$(CADVISOR) BEFORE=$(BEFORE) $(GO) test -count=1 -v -timeout 90m -tags bench,realservers -run '^TestRealBenchmarks$$' ./internal/bench $(BENCH)

# CAPACITY=-short only shows that it runs.
CAPACITY ?= -capacity.page=$(CURDIR)/deploy/many-hosts/capacity.md

capacity: ## Measure what one exporter carries, for deploy/many-hosts/capacity.md, in 10 minutes.
	$(GO) test -count=1 -v -timeout 20m -tags bench,realservers -run '^TestCapacity$$' ./internal/bench $(CAPACITY)

pictures: ## Take the README's pictures of the status page anew; needs Debian's package chromium.
	$(GO) test -count=1 -tags realservers -run '^TestRealBrowserTakesPictures$$' ./internal/web -pictures $(CURDIR)/internal/web/pictures

##@ Install and release

# What is installed goes below DESTDIR; configuration that is there already stays. Nothing is built, since this is root's.
PREFIX     ?= /usr/local
INSTALL    ?= install
DOC         = $(PREFIX)/share/doc/chatstack_exporter
BASH        = $(PREFIX)/share/bash-completion/completions/chatstack_exporter
ZSH         = $(PREFIX)/share/zsh/site-functions/_chatstack_exporter
MAN         = $(PREFIX)/share/man/man1/chatstack_exporter.1
# Whatever names another file that is installed is told where that is; an archive's units are for /usr, and stay so.
installed   = sed '/^\*\*From an archive/,/^These documents/!s!/usr/\(bin\|share\|share/doc\)/chatstack_exporter!$(PREFIX)/\1/chatstack_exporter!g'
UNITS       = chatstack_exporter.service chatstack_docker_proxy.service
# What the program has written of itself.
EXTRAS     ?= bin/extras

install: ## Install what make build has made, units, rules and documents below PREFIX; DESTDIR for packages.
	@for made in $(BIN) $(EXTRAS)/man/chatstack_exporter.1 $(EXTRAS)/docker_proxy.nginx.conf; do \
		[ -e $$made ] || { echo "install: $$made is not there: run 'make build' first, as yourself" >&2; exit 1; }; done
	$(INSTALL) -D -m 0755 $(BIN) $(DESTDIR)$(PREFIX)/bin/chatstack_exporter
	$(INSTALL) -d $(DESTDIR)$(PREFIX)/lib/systemd/system $(DESTDIR)$(PREFIX)/lib/sysusers.d $(DESTDIR)/etc/chatstack_exporter
	for unit in $(UNITS); do \
		$(installed) deploy/systemd/$$unit | $(INSTALL) -m 0644 /dev/stdin $(DESTDIR)$(PREFIX)/lib/systemd/system/$$unit || exit 1; done
	$(INSTALL) -m 0644 deploy/systemd/chatstack_docker_proxy.sysusers $(DESTDIR)$(PREFIX)/lib/sysusers.d/chatstack_docker_proxy.conf
	$(INSTALL) -m 0644 deploy/systemd/chatstack_exporter.sysusers $(DESTDIR)$(PREFIX)/lib/sysusers.d/chatstack_exporter.conf
	@# The service reads the first as its own user, whose group deploy/systemd/README.md gives it to; systemd reads the second as root.
	test -e $(DESTDIR)/etc/chatstack_exporter/exporter.yaml || \
		$(installed) deploy/systemd/exporter.yaml | $(INSTALL) -m 0640 /dev/stdin $(DESTDIR)/etc/chatstack_exporter/exporter.yaml
	test -e $(DESTDIR)/etc/chatstack_exporter/chatstack_exporter.env || \
		$(installed) deploy/systemd/chatstack_exporter.env | $(INSTALL) -m 0600 /dev/stdin $(DESTDIR)/etc/chatstack_exporter/chatstack_exporter.env
	$(INSTALL) -D -m 0644 -t $(DESTDIR)$(PREFIX)/share/chatstack_exporter \
		alerts/chatstack.rules.yml alerts/chatstack.recording.yml $(EXTRAS)/docker_proxy.nginx.conf
	$(INSTALL) -D -m 0644 -t $(DESTDIR)$(PREFIX)/share/chatstack_exporter/dashboards dashboards/*.json
	$(installed) deploy/systemd/setup | $(INSTALL) -m 0755 /dev/stdin $(DESTDIR)$(PREFIX)/share/chatstack_exporter/setup
	[ ! -d $(EXTRAS)/doc ] || (cd $(EXTRAS)/doc && find . -type f) | while read -r document; do \
		$(installed) "$(EXTRAS)/doc/$$document" | $(INSTALL) -D -m 0644 /dev/stdin "$(DESTDIR)$(DOC)/$$document" || exit 1; done
	$(INSTALL) -D -m 0644 $(EXTRAS)/man/chatstack_exporter.1 $(DESTDIR)$(MAN)
	$(INSTALL) -D -m 0644 $(EXTRAS)/completions/chatstack_exporter.bash $(DESTDIR)$(BASH)
	$(INSTALL) -D -m 0644 $(EXTRAS)/completions/_chatstack_exporter $(DESTDIR)$(ZSH)

uninstall: ## Remove what make install has installed below PREFIX; /etc and /var stay.
	rm -rf $(addprefix $(DESTDIR),$(PREFIX)/bin/chatstack_exporter $(PREFIX)/share/chatstack_exporter $(DOC) $(MAN) $(BASH) $(ZSH) \
		$(PREFIX)/lib/sysusers.d/chatstack_exporter.conf $(PREFIX)/lib/sysusers.d/chatstack_docker_proxy.conf $(UNITS:%=$(PREFIX)/lib/systemd/system/%))

image: ## Build the container image that deploy/compose.yaml names; the engine needs golang:1.26.
	docker build --build-arg VERSION=$(VERSION) --build-arg REVISION=$(shell git rev-parse HEAD 2>/dev/null) $(IMAGEFLAGS) -t chatstack_exporter:local .

# Whoever builds a tag again is on no branch, and must get the same bytes.
release: BRANCH = main
release: bin/nfpm ## Archives, deb and rpm packages for amd64 and arm64 with checksums and licences, in dist/; needs VERSION=x.y.z and a clean tree.
	.ci/release '$(VERSION)' '$(LDFLAGS)'
	@cat dist/sha256sums.txt

dashboards-schema: ## Renew the schema of dashboards from Grafana's published types; needs Node.js and npm.
	cd .ci/tools/grafana-schema && npm ci --silent && npm run --silent schema >schema.json

# Tools that the targets above need.

# Of the same Go as the exporter beside which it is measured.
bin/blackbox_exporter: .ci/tools/blackbox_exporter/go.mod
	cd .ci/tools/blackbox_exporter && CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w' -o $(CURDIR)/$@ github.com/prometheus/blackbox_exporter

bin/docker-compose: .ci/tools/compose/go.mod
	cd .ci/tools/compose && $(GO) build -trimpath -ldflags '-s -w' -o $(CURDIR)/$@ github.com/docker/compose/v2/cmd

bin/govulncheck: .ci/tools/govulncheck/go.mod
	cd .ci/tools/govulncheck && $(GO) build -trimpath -o $(CURDIR)/$@ golang.org/x/vuln/cmd/govulncheck

bin/nfpm: .ci/tools/nfpm/go.mod
	cd .ci/tools/nfpm && $(GO) build -trimpath -ldflags '-s -w' -o '$(CURDIR)/$@' github.com/goreleaser/nfpm/v2/cmd/nfpm

bin/pint: .ci/tools/pint/go.mod
	cd .ci/tools/pint && $(GO) build -trimpath -ldflags '-s -w' -o $(CURDIR)/$@ github.com/cloudflare/pint/cmd/pint

bin/promtool: .ci/tools/promtool/go.mod
	cd .ci/tools/promtool && $(GO) build -tags remove_all_sd -trimpath -ldflags '-s -w' -o $(CURDIR)/$@ github.com/prometheus/prometheus/cmd/promtool

bin/vmalert-tool: .ci/tools/vmalert-tool/go.mod
	cd .ci/tools/vmalert-tool && CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w' -o $(CURDIR)/$@ github.com/VictoriaMetrics/VictoriaMetrics/app/vmalert-tool

bin/telegraf bin/cadvisor: bin/%: .ci/tools/%/go.mod .ci/tools/%/main.go
	cd .ci/tools/$* && CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w' -o $(CURDIR)/$@ .
