# make            builds ./handoff
# make help       lists the targets
CC      ?= cc
BUILD   ?= build
PREFIX  ?= /usr/local
OPT     ?= -O2 -g
DEPS     = libcjson sndfile soxr libzip zlib libjpeg libwebp libzstd libbrotlidec liblz4 nettle expat openblas libmicrohttpd libcurl
ROOMS    = engine probe datasets eval reports

WARN     = -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wstrict-prototypes -Wmissing-prototypes
# -ffp-contract=off: a fused multiply-add happens only where the code says fma, so results do not depend on the
# compiler. There is no -ffast-math for the same reason.
ALLFLAGS = -std=c11 $(OPT) -ffp-contract=off $(WARN) -I. -pthread $(shell pkg-config --cflags $(DEPS)) $(CFLAGS)
LIBS     = $(shell pkg-config --libs $(DEPS)) -lm -pthread $(LDFLAGS)

SRC      = $(filter-out eval/main.c,$(foreach room,$(ROOMS),$(wildcard $(room)/*.c)))
OBJ      = $(SRC:%.c=$(BUILD)/%.o) $(BUILD)/datasets/suites/builtin.o $(BUILD)/reports/assets.o
TESTS    = $(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/test_*.c))
FUZZERS  = $(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/fuzz_*.c))

.PHONY: all test check-sanitize bench install clean help fuzz
# Not .SECONDARY: with it another BUILD beside an old ./handoff builds nothing.
.PRECIOUS: $(BUILD)/%.o

all: handoff

handoff: $(BUILD)/handoff
	@cp $< $@

$(BUILD)/handoff: $(BUILD)/eval/main.o $(BUILD)/libhandoff.a
	$(CC) $(ALLFLAGS) $^ $(LIBS) -o $@

$(BUILD)/libhandoff.a: $(OBJ)
	@rm -f $@
	ar rcs $@ $^

# The instruction set of a kernel file is in its name; which one runs is decided at start.
ifneq (,$(filter x86_64 amd64,$(shell uname -m)))
$(BUILD)/engine/kernels_avx2.o:   ISA = -mavx2 -mfma -mf16c
$(BUILD)/engine/kernels_avx512.o: ISA = -mavx512f -mavx512bw -mavx512vl -mavx512dq -mfma
$(BUILD)/engine/kernels_avx512vnni.o: ISA = -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mfma
# Older compilers do not know the matrix unit.
AMX = $(shell $(CC) -mamx-tile -mamx-int8 -x c -E /dev/null >/dev/null 2>&1 && echo -DHANDOFF_AMX)
$(BUILD)/engine/kernels.o:        CFLAGS += $(AMX)
$(BUILD)/engine/kernels_amx.o:    CFLAGS += $(AMX)
$(BUILD)/engine/kernels_amx.o:    ISA = -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mfma $(AMX:-DHANDOFF_AMX=-mamx-tile -mamx-int8)
endif
$(BUILD)/engine/kernels_%.o: OPT += -O3
$(BUILD)/engine/kernels_generic.o: OPT += -O2
$(BUILD)/engine/quantize_blocks.o $(BUILD)/engine/quantize_search.o: OPT += -O3 -fno-math-errno
$(BUILD)/engine/peaks.o $(BUILD)/engine/packed.o $(BUILD)/engine/ggml_codes.o: OPT += -O3
$(BUILD)/eval/stamp.o: CFLAGS += -DHANDOFF_COMMIT='"$(shell git describe --always --dirty 2>/dev/null || echo unknown)"'

# The suite files live inside the program too, so that `--suite mini` works wherever it is installed.
$(BUILD)/datasets/suites/builtin.c: datasets/suites/embed datasets/suites/mini.json datasets/suites/paper.json
	@mkdir -p $(@D)
	sh datasets/suites/embed datasets/suites/mini.json datasets/suites/paper.json > $@

$(BUILD)/datasets/suites/builtin.o: $(BUILD)/datasets/suites/builtin.c
	$(CC) $(ALLFLAGS) -c $< -o $@

# The style sheet and the script of the report, as arrays of bytes.
$(BUILD)/reports/assets.c: reports/page.css reports/page.js
	@mkdir -p $(@D)
	@for f in css js; do \
	    echo "extern const unsigned char report_page_$$f[]; const unsigned char report_page_$$f[] = {"; \
	    od -An -v -tu1 reports/page.$$f | sed 's/\([0-9]\)\( \|$$\)/\1,\2/g'; echo '0};'; done > $@

$(BUILD)/reports/assets.o: $(BUILD)/reports/assets.c
	$(CC) $(ALLFLAGS) -c $< -o $@

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(ALLFLAGS) $(ISA) -MMD -MP -c $< -o $@

$(BUILD)/tests/%: $(BUILD)/tests/%.o $(BUILD)/libhandoff.a
	$(CC) $(ALLFLAGS) $^ $(LIBS) -o $@

$(BUILD)/scripts/%: $(BUILD)/scripts/%.o $(BUILD)/libhandoff.a
	$(CC) $(ALLFLAGS) $^ $(LIBS) -o $@

test: $(BUILD)/handoff $(TESTS)                ## build and run all tests
	@cp $(BUILD)/handoff handoff
	@HANDOFF=$(BUILD)/handoff BUILD=$(BUILD) CC="$(CC)" LIBS="$(LIBS)" tests/run $(TESTS)

check-sanitize:                                ## the same tests under ASan and UBSan, then the fuzz seeds
	$(MAKE) BUILD=$(BUILD)-sanitize OPT="-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=undefined" test fuzz

fuzz: $(FUZZERS)                               ## replay the fuzz seeds
	@tests/fuzz_seeds $(FUZZERS)

bench: handoff                                 ## timings (never part of the tests)
	@scripts/bench

install: handoff                               ## install to $(DESTDIR)$(PREFIX)
	install -d $(DESTDIR)$(PREFIX)/bin
	install -m 755 handoff $(DESTDIR)$(PREFIX)/bin/handoff
	install -d $(DESTDIR)$(PREFIX)/share/handoff/datasets
	cp -r datasets/mini $(DESTDIR)$(PREFIX)/share/handoff/datasets/
	install -d $(DESTDIR)$(PREFIX)/share/handoff/tests/data
	cd tests/data && cp -r records import outputs.jsonl hidden.npy $(abspath $(DESTDIR)$(PREFIX))/share/handoff/tests/data/

clean:                                         ## remove what was built
	rm -rf $(BUILD) $(BUILD)-sanitize handoff

help:                                          ## this list
	@echo "make                 build ./handoff"
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1|\2/p' Makefile | awk -F'|' '{printf "%-20s %s\n", $$1, $$2}'

-include $(OBJ:.o=.d) $(BUILD)/eval/main.d $(TESTS:=.d) $(FUZZERS:=.d)
