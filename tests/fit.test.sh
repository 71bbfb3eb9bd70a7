#!/usr/bin/env bash
# run --trace-hidden and probe fit.
. "$(dirname "$0")/e2e.sh"
run() { "$handoff" run --model $mini/checkpoint --suite mini --only arc-easy,gsm8k --limit 40 --trace-hidden 2,3 "$@" 2>/dev/null; }

recorded() { run --out "$scratch/one" >/dev/null && [ -s "$scratch/one/hidden.bin" ]; }
# A run that was killed, with a torn block and a lost record, ends with the same rows and records.
resumed() {
    run --batch 1 --out "$scratch/two" >/dev/null && cp -r "$scratch/two" "$scratch/three" || return 1
    sed -i '$d' "$scratch/three/records.jsonl" && truncate -s -1000 "$scratch/three/hidden.bin" &&
    sed -i 's/"complete":[^,}]*/"complete":false/' "$scratch/three/run.json" &&
    run --out "$scratch/three" >/dev/null && same_records "$scratch/one" "$scratch/three" &&
    cmp "$scratch/one/hidden.bin" "$scratch/three/hidden.bin" && cmp "$scratch/one/hidden.bin" "$scratch/two/hidden.bin"
}
other_layers() { fails 2 'trace_hidden|hidden' "$handoff" run --model $mini/checkpoint --suite mini --only arc-easy,gsm8k \
                     --limit 40 --trace-hidden 1 --out "$scratch/one"; }
no_such_layer() { fails 2 'layers from 0 to' "$handoff" run --model $mini/checkpoint --suite mini --trace-hidden 99 \
                      --out "$scratch/x"; }
fitted() { "$handoff" probe fit "$scratch/one" --layer 3 --epochs 8 --out "$scratch/p.safetensors" | grep -q 'attention'; }
# The fitted probe runs, in each form, with the same confidence.
used() {
    local form
    for form in gguf bin; do
        "$handoff" probe fit "$scratch/one" --layer 3 --epochs 8 --threads 1 --out "$scratch/p.$form" >/dev/null || return 1
    done
    for form in safetensors gguf bin; do
        "$handoff" generate --model $mini/checkpoint --probe "$scratch/p.$form" --probe-layer 3 --prompt 'Which?' --json |
            grep -o '"confidence":[^,]*' >"$scratch/$form.txt"
    done
    [ -s "$scratch/gguf.txt" ] && cmp "$scratch/safetensors.txt" "$scratch/gguf.txt" &&
        cmp "$scratch/safetensors.txt" "$scratch/bin.txt"
}
compared() { [ "$("$handoff" probe fit "$scratch/one" --compare --epochs 2 --json | grep -o '"layer"' | wc -l)" -eq 10 ]; }
several() { fails 2 'choose one with --layer' "$handoff" probe fit "$scratch/one"; }
damaged() {
    cp -r "$scratch/one" "$scratch/d" && printf 'X' | dd of="$scratch/d/hidden.bin" bs=1 conv=notrunc 2>/dev/null &&
    fails 3 'hidden.bin: a block' "$handoff" probe fit "$scratch/d" --layer 3
}
without() { fails 3 'no hidden.bin' "$handoff" probe fit tests/data; }

check "hidden rows are recorded" recorded
check "killed and resumed: the same rows" resumed
check "other layers on resume are refused" other_layers
check "a layer that is not there" no_such_layer
check "a probe is fitted" fitted
check "and used, in every form" used
check "variants side by side" compared
check "several layers: one must be named" several
check "refused: damaged rows" damaged
check "refused: no rows" without
finish
