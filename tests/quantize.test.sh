#!/usr/bin/env bash
# The verb quantize: what it prints, where it writes, what it refuses, and that nothing half-written stays.
. "$(dirname "$0")/e2e.sh"

quantize() { "$handoff" quantize $mini/checkpoint "$@"; }
mkdir "$scratch/q"
check "into a folder, named after model and type" quantize "$scratch/q" --type q4_k_m
check "the model and its towers" test "$(ls "$scratch/q" | tr '\n' ' ')" = "checkpoint-Q4_K_M.gguf mmproj-checkpoint-BF16.gguf "
check "it runs without further options" bash -c '"$1" run --model "$2/q/checkpoint-Q4_K_M.gguf" --suite mini --limit 1 --out "$2/r" |
    grep -q "12 records"' _ "$handoff" "$scratch"
check "its probe and its stop tokens are there" bash -c '"$1" inspect "$2" | grep -q "reads layer 3" &&
    "$1" inspect "$2" | grep -q "stop tokens      1 <eos> 6 <turn|>$"' _ "$handoff" "$scratch/q/checkpoint-Q4_K_M.gguf"
check "what exists stays" fails 2 "exists already" quantize "$scratch/q" --type q4_k_m
check "but with --force" quantize "$scratch/q" --type Q4_K_M --force --no-mmproj
check "a table" bash -c '"$1" quantize "$2/checkpoint" "$3" --type q8_0 --no-mmproj |
    grep -Eq "^quant size +3\.5[0-9] MB, +8\.[0-9]+ bits per weight"' _ "$handoff" $mini "$scratch/t.gguf"
int8() { "$handoff" run --model "$scratch/q/checkpoint-Q4_K_M.gguf" --suite mini --limit 1 --out "$scratch/r8" "$@"; }
check "a run with activations of 8 bits" bash -c '"$@" | grep -q "12 records"' _ "$handoff" run \
    --model "$scratch/q/checkpoint-Q4_K_M.gguf" --suite mini --limit 1 --out "$scratch/r8" --activations int8
check "its stamp says so" grep -Eq '"activations":[[:space:]]*"int8"' "$scratch/r8/run.json"
check "another choice is another run" fails 2 "activations" int8
check "unknown activations" fails 2 "float32 or int8" int8 --activations int4
check "other answers than in float32" bash -c '! diff -q <(grep -o "\"confidence\":[0-9.]*" "$1/r/records.jsonl") \
    <(grep -o "\"confidence\":[0-9.]*" "$1/r8/records.jsonl") >/dev/null' _ "$scratch"
check "what it alone changes" bash -c '"$1" selfcheck --model "$2" | grep -A1 "^activations int8 against float32, on the same 7" |
    grep -Eq "^confidence changes by 0\.[0-9]+ \(0\.[0-9]+ at most\), KL divergence [0-9.e-]+ nats"' _ "$handoff" "$scratch/t.gguf"
check "against itself in float32" bash -c '"$1" parity "$2" "$2" --activations int8 | grep -q "BEYOND THE BOUNDS"' _ "$handoff" "$scratch/t.gguf"
check "as JSON" bash -c '"$1" quantize "$2/checkpoint" "$3" --type iq4_xs --no-mmproj --json |
    grep -Eq "^\{\"type\":\"IQ4_XS\",\"fallbacks\":[0-9]+,\"files\":\[\"[^\"]*j.gguf\"\],\"tensors\":\[\{\"name\":"' _ "$handoff" $mini "$scratch/j.gguf"
check "without a probe" bash -c '"$1" quantize "$2/checkpoint" "$3" --type q4_0 --no-mmproj --no-probe >/dev/null &&
    "$1" inspect "$3" | grep -q "handoff probe    no"' _ "$handoff" $mini "$scratch/n.gguf"
check "and the probe back" bash -c '"$1" generate --model "$3" --probe "$2/checkpoint" --prompt Hi --max-tokens 1 |
    grep -q confidence' _ "$handoff" $mini "$scratch/n.gguf"
check "no type" fails 2 "--type T" quantize "$scratch/x.gguf"
check "an unknown type" fails 2 "\"q9\" is unknown" quantize "$scratch/x.gguf" --type q9
check "no checkpoint" fails 3 "checkpoint folder" "$handoff" quantize README.md "$scratch/x.gguf" --type q8_0
check "a matrix that is none" fails 3 "importance matrix" quantize "$scratch/x.gguf" --type q8_0 --imatrix README.md
check "a folder that is not there" fails 4 "cannot be written" quantize "$scratch/none/x.gguf" --type q8_0
check "a full disk" fails 4 "cannot be written" quantize /dev/full --force --type q8_0 --no-mmproj
check "nothing half-written stays" bash -c '! ls -R "$1" | grep -E "\.tmp\.|x\.gguf"' _ "$scratch"
finish
