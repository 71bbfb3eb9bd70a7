#!/usr/bin/env bash
# The verb export: what it writes is read again by the readers, which are tested against files of other tools.
. "$(dirname "$0")/e2e.sh"
cat >"$scratch/r.jsonl" <<'END'
{"id":"gsm8k/test/0","task":"gsm8k","group":"","output":"It is 7.","answer":"7","gold":["7"],"status":"ok","correct":true,"score":1,"confidence":0.1,"entropy":{"mean":0.25},"tokens":3}
{"id":"gsm8k/test/1","task":"gsm8k","group":"","output":"né\n24","answer":"24","gold":["25"],"status":"ok","correct":false,"score":0,"confidence":0.7812,"entropy":{"mean":1e-17},"tokens":9007199254740992}
{"id":"x/0","task":"arc-easy","group":"g","output":"B","answer":"B","gold":["B"],"status":"ok","correct":true,"score":1,"confidence":null,"labels":["A","B"],"options":["oxygen","iron"]}
END
# the fields that both forms carry, sorted by sample
fields() { sed -E 's/"(modality|p_wrong|status|group|answer|labels|subject)":[^,]*,//g; s/,"origin".*//' "$1" |
           grep -oE '"(id|task|output|gold|correct|score|confidence|entropy|tokens)":(\{[^}]*\}|\[[^]]*\]|"[^"]*"|[^,}]*)' ; }

round_trip_parquet() {
    "$handoff" export "$scratch/r.jsonl" --to parquet --out "$scratch/r.parquet" &&
    "$handoff" import --from table "$scratch/r.parquet" --verdicts-as-recorded --map entropy.mean=entropy_mean \
        --out "$scratch/p" >/dev/null && cmp <(fields "$scratch/r.jsonl") <(fields "$scratch/p/records.jsonl")
}
lm_eval_results() {         # one right of two; the standard error of 1, 0 is sqrt(1/2 / 2) = 1/2
    "$handoff" export "$scratch/r.jsonl" --to lm-eval --out "$scratch/l" &&
    grep -qF '"gsm8k":{"alias":"gsm8k","sample_len":2,"exact_match,none":0.5,"exact_match_stderr,none":0.5}' \
        "$scratch/l/results.json" && grep -qF '"acc_stderr,none":"N/A"' "$scratch/l/results.json"
}
round_trip_lm_eval() {
    "$handoff" import --from lm-eval "$scratch/l/samples_gsm8k.jsonl" --out "$scratch/e" >/dev/null &&
    cmp <(fields "$scratch/r.jsonl" | grep -v tokens | head -16) <(fields "$scratch/e/records.jsonl")
}
wrong_type() {
    echo '{"id":"1","task":"x","correct":"yes"}' >"$scratch/bad.jsonl"
    fails 3 'bad.jsonl:1: key "correct": true or false' "$handoff" export "$scratch/bad.jsonl" --to parquet \
        --out "$scratch/bad.parquet" && [ ! -e "$scratch/bad.parquet" ]
}
task_path() {
    echo '{"id":"1","task":"../x","correct":true}' >"$scratch/bad.jsonl"
    fails 3 "a name without '/'" "$handoff" export "$scratch/bad.jsonl" --to lm-eval --out "$scratch/bad"
}
check "parquet and back" round_trip_parquet
check "lm-eval: results" lm_eval_results
check "lm-eval and back" round_trip_lm_eval
check "refused: a wrong type" wrong_type
check "refused: a task that is a path" task_path
check "wrong usage" fails 2 'parquet or lm-eval' "$handoff" export x --to xml --out y
finish
