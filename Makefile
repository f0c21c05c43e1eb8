# mcpd: one program, one list of objects, no configure step; Debian 12 is the target.
# `make setup` installs what is missing, `make demo` shows the product, `make check` tests it.
CC      ?= gcc
BUILD   ?= build
PREFIX  ?= /usr/local
PYTHON  := /usr/bin/python3
PKGS    := libczmq libzmq libcurl msgpack sqlite3 jansson libprotobuf-c zlib libzstd libcrypto yaml-0.1 libpq
WARN    := -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla
CFLAGS  ?= -O2 -g
override CFLAGS += -std=c11 -D_GNU_SOURCE $(WARN) -fno-common -fstack-protector-strong -pthread \
           -I. -I$(BUILD)/gen $(SANITIZE)
# Asked when something is linked: before `make setup` there may be no pkg-config.
LDLIBS   = $(shell pkg-config --libs $(PKGS)) -lcivetweb -lm -pthread
DIRS    := common proto gateway broker courier store
SRC     := $(foreach d,$(DIRS),$(wildcard $(d)/*.c))
OBJ     := $(SRC:%.c=$(BUILD)/%.o) $(BUILD)/gen/otlp.pb-c.o
LIB     := $(BUILD)/libmcpd.a
FAULTS  := $(BUILD)/faults/fsio.o $(BUILD)/faults/fsio_faults.o
FUZZ    := $(patsubst tests/fuzz/%.c,$(BUILD)/bin/%,$(wildcard tests/fuzz/*_fuzz.c))
UNIT    := $(patsubst tests/unit/%.c,$(BUILD)/unit/%,$(wildcard tests/unit/*_test.c))
LINKS   := gateway broker courier
# System tests at once: they mostly wait.
JOBS    ?= 3

# `make V=1` shows the commands.
Q       := $(if $(V),,@)
.PHONY: all setup run demo check unit system asan lint docs bench fault interop containers fuzz fuzzers install sizes clean format
.SECONDARY:
all: $(BUILD)/mcpd $(BUILD)/mcpd-faults

$(BUILD)/mcpd: $(BUILD)/mcpd.o $(LIB)
	$(Q)$(CC) $(CFLAGS) -o $@ $^ $(LDLIBS)
	@for r in $(LINKS); do ln -sf mcpd $(BUILD)/mcpd-$$r; done

# The same program with scripted faults in common/fsio (tests only).
$(BUILD)/mcpd-faults: $(BUILD)/mcpd.o $(FAULTS) $(LIB)
	$(Q)$(CC) $(CFLAGS) -o $@ $^ $(LDLIBS)
$(BUILD)/faults/%.o: common/%.c
	@mkdir -p $(@D)
	@echo "  CC $@"
	$(Q)$(CC) $(CFLAGS) -DFSIO_FAULTS -MMD -MP -c -o $@ $<

$(LIB): $(OBJ)
	@rm -f $@
	$(Q)ar rcs $@ $^
$(BUILD)/%.o: %.c | $(BUILD)/gen/otlp.pb-c.h
	@mkdir -p $(@D)
	@echo "  CC $@"
	$(Q)$(CC) $(CFLAGS) -MMD -MP -c -o $@ $<
$(BUILD)/gen/otlp.pb-c.c $(BUILD)/gen/otlp.pb-c.h &: proto/otlp.proto
	@pkg-config --exists $(PKGS) && command -v protoc-c >/dev/null || \
	  { echo "packages are missing: make setup" >&2; exit 1; }
	@mkdir -p $(BUILD)/gen
	$(Q)protoc-c --proto_path=proto --c_out=$(BUILD)/gen otlp.proto
$(BUILD)/gen/otlp.pb-c.o: $(BUILD)/gen/otlp.pb-c.c
	$(Q)$(CC) $(filter-out -W%,$(CFLAGS)) -c -o $@ $<

# Unit tests link the fault-scripting fsio, so that they can fail any write.
$(BUILD)/unit/%: tests/unit/%.c $(FAULTS) $(LIB)
	@mkdir -p $(@D)
	@echo "  CC $@"
	$(Q)$(CC) $(CFLAGS) -DFSIO_FAULTS -MMD -MP -o $@ $< $(FAULTS) $(LIB) -lcmocka $(LDLIBS)

$(BUILD)/bench/append: tests/bench/append.c $(LIB)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -o $@ $< $(LIB) $(LDLIBS)

setup:
	@tests/setup.sh
unit: $(UNIT)
	@status=0; for t in $(UNIT); do echo "== $$t"; $$t || status=1; done; exit $$status
system: all
	MCPD_BUILD=$(abspath $(BUILD)) $(PYTHON) -m pytest -q -rs -x -n $(JOBS) tests/system $(PYTEST_ARGS)
check: setup
	@$(MAKE) --no-print-directory -j2 all lint
	@$(MAKE) --no-print-directory unit system
asan:
	$(MAKE) BUILD=build/asan CFLAGS="-O1 -g" \
	  SANITIZE="-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer" \
	  all unit system
# Each decoder for FUZZ_SECONDS (60) under libFuzzer; needs clang's own run-time library.
fuzz:
	@echo 'int main(void){return 0;}' | clang -fsanitize=fuzzer-no-link,address -x c - -o /dev/null || \
	  { echo "fuzz: libclang-rt-14-dev is missing: make setup" >&2; exit 1; }
	$(MAKE) BUILD=build/fuzz CC=clang CFLAGS="-O1 -g" \
	  SANITIZE="-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined" fuzzers
	tests/fuzz/run.sh
fuzzers: $(FUZZ)
$(BUILD)/bin/%_fuzz: tests/fuzz/%_fuzz.c $(LIB)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -fsanitize=fuzzer -o $@ $< $(LIB) $(LDLIBS)
# clang's warnings and clang-tidy, a file at a time and only when it or its headers changed.
LINTED  := $(patsubst %.c,$(BUILD)/lint/%.ok,mcpd.c $(SRC))
# The analyzer gives up on a function after so many states; the standard 225,000 take four times as long.
TIDY    := clang-tidy --quiet --warnings-as-errors='*' $(addprefix --extra-arg=,-Xclang \
  -analyzer-config -Xclang max-nodes=40000)
LINTC   := -std=c11 -D_GNU_SOURCE $(WARN) -I. -I$(BUILD)/gen
lint: $(BUILD)/gen/otlp.pb-c.h $(LINTED)
	tests/lint.sh
$(BUILD)/lint/%.ok: %.c .clang-tidy | $(BUILD)/gen/otlp.pb-c.h
	@mkdir -p $(@D)
	$(Q)clang $(LINTC) -fsyntax-only -MMD -MF $@.d -MT $@ $<
	$(Q)$(TIDY) $< -- $(LINTC) 2>$@.log || { cat $@.log; exit 1; }
	@touch $@
docs: all
	for page in options metrics messages attributes statuses settings where; do $(BUILD)/mcpd docs $$page > docs/$$page.md; done
demo: setup
	@$(MAKE) --no-print-directory -j2 all
	$(PYTHON) tests/demo.py
run: all
	$(PYTHON) tests/demo.py --stay
bench: all
	tests/bench/run.sh
fault: all
	MCPD_BUILD=$(abspath $(BUILD)) $(PYTHON) -m pytest -q -rs tests/fault $(PYTEST_ARGS)
# Against a real OpenTelemetry SDK and Collector; what cannot be built here is skipped, loudly.
interop: all
	tests/setup.sh proxies
	MCPD_BUILD=$(abspath $(BUILD)) $(PYTHON) -m pytest -q tests/interop $(PYTEST_ARGS)
	MCPD_BUILD=$(abspath $(BUILD)) $(PYTHON) tests/interop/bench_collector.py $(B11_ARGS)
# The image and the example of several regions, really run; skipped, loudly, without a Docker engine.
containers: all
	tests/setup.sh containers
	MCPD_BUILD=$(abspath $(BUILD)) $(PYTHON) -m pytest -q -rs tests/containers $(PYTEST_ARGS)
format:
	clang-format -i mcpd.c $(SRC) $(wildcard $(DIRS:%=%/*.h)) $(wildcard tests/*/*.c tests/*/*.h)
install: all
	install -D -m 755 $(BUILD)/mcpd $(DESTDIR)$(PREFIX)/bin/mcpd
	for r in $(LINKS); do ln -sf mcpd $(DESTDIR)$(PREFIX)/bin/mcpd-$$r; done
sizes: # the outliers among our files and functions; a mirror, not a gate
	@wc -l mcpd.c $(SRC) | sort -n | tail -15
clean:
	rm -rf build
-include $(OBJ:.o=.d) $(BUILD)/mcpd.d $(wildcard $(BUILD)/unit/*.d $(BUILD)/faults/*.d) $(LINTED:=.d)
