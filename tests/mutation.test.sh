#!/usr/bin/env bash
# Breaks one formula of the forward pass at a time, in a copy, and expects the goldens to notice: a test that cannot
# fail proves nothing.
set -u
cd "$(dirname "$0")/.."
build=${BUILD:-build} cc=${CC:-cc} passed=0 failed=0
if [ ! -d ../shared/model ] || [ ! -f "$build/tests/test_decoder.o" ] || [[ $build == *-sanitize ]]; then
    echo "  skipped: no ../shared/model, no built tests, or a sanitizer build"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
libs=${LIBS:?run this through make test}

# mutant NAME FILE SED: builds the decoder test with engine/FILE changed; 0 if the goldens still hold.
mutant() {
    sed -E "$3" "engine/$2" >"$work/$2"
    if [ "$1" != control ] && cmp -s "engine/$2" "$work/$2"; then
        echo "FAIL $1: the line to be broken is not in engine/$2"
        return 2
    fi
    # shellcheck disable=SC2046,SC2086
    "$cc" -std=c11 -O1 -w -ffp-contract=off -I. $(pkg-config --cflags libcjson) -c "$work/$2" -o "$work/mutant.o" &&
        "$cc" "$work/mutant.o" "$build/tests/test_decoder.o" "$build/libhandoff.a" $libs -o "$work/mutant" ||
        { echo "FAIL $1: does not build"; return 2; }
    "$work/mutant" goldens >"$work/log" 2>&1
}

expect_caught() {
    mutant "$@"
    case $? in
    0) echo "FAIL $1: the goldens did not notice"; failed=$((failed + 1)) ;;
    2) failed=$((failed + 1)) ;;
    *) echo "  ok $1: $(grep -c '^  tests/' "$work/log") checks failed"; passed=$((passed + 1)) ;;
    esac
}

if mutant control decoder.c ''; then passed=$((passed + 1)); else echo "FAIL control"; cat "$work/log"; failed=1; fi
expect_caught "scores scaled by 1/sqrt(d)" decoder.c \
    's/kernels->softmax\((scores [^,]*), n\);/{ scale(\1, n, 1 \/ sqrtf((float)d)); & }/'
expect_caught "norm weight as 1 + w" decoder.c \
    's/l->d->owned\[l->d->n_owned\+\+\] = v;/for (int64_t i = 0; n > 1 \&\& i < n; i++) v[i] += 1;/'
expect_caught "window one too wide" decoder.c 's/position - kind->window \+ 1/position - kind->window/'
expect_caught "shared layers read another source" decoder.c \
    's/cache\[c->layer\[p->layer\]\.kv_layer\]/cache[p->layer < 6 ? p->layer : c->layer[p->layer].full ? 2 : 3]/'
expect_caught "layer_scalar left out" decoder.c '/scale\(row_of.*p->w->scalar\);/d'
expect_caught "values without their norm" decoder.c \
    's/kernels->rms_norm\(cache->v \+ to, p->d->v \+ from,.*/memcpy(cache->v + to, p->d->v + from, d * 4);/'
expect_caught "per-layer embedding without sqrt(size)" decoder.c '/scale\(token,/d'
expect_caught "logits not capped" decoder.c '/k->softcap\(/d'
expect_caught "soft tokens scaled" decoder.c \
    's/memcpy\(x, row->soft,.*/& scale(x, c->hidden_size, sqrtf((float)c->hidden_size));/'
expect_caught "rope exponent over the rotated part" rope.c \
    's/-2\.0 \* c \/ kind->head_dim/-2.0 * c \/ (2 * kind->rope_pairs)/'
expect_caught "rope halves cut at the rotated part" rope.c 's/head \+ kind->head_dim \/ 2/head + kind->rope_pairs/'
expect_caught "placeholders keep their own embeddings" config.c 's/\? c->pad_id : id;/? id : id;/'
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
