#!/usr/bin/env bash
# The batch run: the same records whatever the batch, threads, shards, or how often it is killed.
. "$(dirname "$0")/e2e.sh"
export text=mmlu,mmlu-pro,arc-easy,arc-challenge,gsm8k

run() { "$handoff" run --model $mini/checkpoint --suite mini --only $text --limit 24 "$@" 2>&1; }

check "an undisturbed run" run --out "$scratch/whole"
for option in "--threads 1" "--threads 2" "--batch 1" "--batch 3" "--kernel generic --limit 4"; do
    name=$(echo "$option" | tr -d ' -')
    # shellcheck disable=SC2086
    check "runs with $option" run $option --out "$scratch/$name"
    case $option in
        *limit*) continue ;;
    esac
    check "same records with $option" same_records "$scratch/whole" "$scratch/$name"
done
check "same records from the generic kernel" bash -c '
    sed "s/,\"ms\":{[^}]*}//" "$1/kernelgenericlimit4/records.jsonl" > "$1/g"
    sed "s/,\"ms\":{[^}]*}//" "$1/whole/records.jsonl" > "$1/w"
    [ -s "$1/g" ] && ! grep -vxFf "$1/w" "$1/g"' _ "$scratch"

check "shard 1" run --shard 1/2 --out "$scratch/s1"
check "shard 2" run --shard 2/2 --out "$scratch/s2"
check "merge" "$handoff" merge "$scratch/s2" "$scratch/s1" --out "$scratch/merged"
check "merged shards equal the whole" same_records "$scratch/whole" "$scratch/merged"
check "a shard missing" fails 3 "all 2 were expected" "$handoff" merge "$scratch/s1" --out "$scratch/m1"

# Killed at 50 instants spread over the run's length, restarted each time.
start=$(date +%s%N); run --out "$scratch/timed" >/dev/null; length=$((($(date +%s%N) - start) / 1000))
kills=0
for i in $(seq 1 200); do
    [ $kills -lt 50 ] || break
    [ -f "$scratch/killed/run.json" ] && grep -q '"complete":.*true' "$scratch/killed/run.json" && rm -rf "$scratch/killed"
    "$handoff" run --model $mini/checkpoint --suite mini --only $text --limit 24 --batch $((i % 5 + 1)) \
        --out "$scratch/killed" >/dev/null 2>&1 &
    pid=$!
    sleep "$(awk -v n="$RANDOM" -v l=$length 'BEGIN {printf "%.4f", l / 1e6 * (0.05 + 0.6 * n / 32768)}')"
    if kill -KILL $pid 2>/dev/null; then kills=$((kills + 1)); fi
    wait $pid 2>/dev/null
done
check "50 kills happened" test $kills -eq 50
check "the run goes on after the last kill" run --out "$scratch/killed"
check "same records after kills" same_records "$scratch/whole" "$scratch/killed"

cp -r "$scratch/whole" "$scratch/torn"
sed -i 's/"complete":.*true/"complete":false/' "$scratch/torn/run.json"
truncate -s -17 "$scratch/torn/records.jsonl"
check "a torn last line is repaired" run --out "$scratch/torn"
check "same records after the repair" same_records "$scratch/whole" "$scratch/torn"

before=$(stat -c '%Y %s' "$scratch/whole/run.json"; sha256sum "$scratch/whole/records.jsonl")
check "a complete run again" run --out "$scratch/whole"
check "is a no-op" test "$before" = "$(stat -c '%Y %s' "$scratch/whole/run.json"; sha256sum "$scratch/whole/records.jsonl")"

cp -r "$scratch/whole" "$scratch/errors"
sed -i '3s/"status":"[a-z]*"/"status":"error"/; 3s/"correct":[a-z]*/"correct":null/' "$scratch/errors/records.jsonl"
check "errors are retried when asked" run --retry-errors --out "$scratch/errors"
check "and stand in their place" same_records "$scratch/whole" "$scratch/errors"

check "another setting is refused" fails 2 "tasks\[mmlu\].max_tokens is [0-9]* in the one and 2 in the other" "$handoff" run --model $mini/checkpoint --suite mini --only $text \
    --limit 24 --max-tokens 2 --out "$scratch/whole"
for signal in INT TERM HUP; do
    check "SIG$signal exits with 4" bash -c '
    env --default-signal="$4" "$1" run --model "$2/checkpoint" --suite mini --only $text --out "$3/$4" >"$3/o" 2>"$3/e" & pid=$!
    for i in $(seq 100); do [ -s "$3/$4/records.jsonl" ] && break; sleep 0.05; done
    kill -$4 $pid; wait $pid; [ $? -eq 4 ] && grep -q "the same command goes on" "$3/e"' _ "$handoff" $mini "$scratch" $signal
done
arc() { "$handoff" run --model $mini/checkpoint --suite mini --only arc-easy "$@"; }
check "traces cannot begin in the middle" fails 2 "trace is absent in the one and true in the other" \
    "$handoff" run --model $mini/checkpoint --suite mini --only $text --limit 24 --trace --out "$scratch/whole"
arc --out "$scratch/arc" >"$scratch/o"
cp -r "$scratch/arc" "$scratch/stranger"
sed -n '1s/"id":"[^"]*"/"id":"x"/p' "$scratch/arc/records.jsonl" >>"$scratch/stranger/records.jsonl"
check "a record of another sample" fails 3 "records.jsonl:[0-9]*: the data have no sample x of arc-easy" arc --out "$scratch/stranger"
check "is no fault with --limit" arc --limit 3 --out "$scratch/stranger"
sed -i '2s/"confidence":[^,]*/"confidence":7/' "$scratch/stranger/records.jsonl"
check "a confidence of 7" fails 3 'records.jsonl:2: "confidence"' arc --out "$scratch/stranger"
truncate -s -9 "$scratch/arc/records.jsonl"
sed -i 's/"complete":[ \t]*true/"complete":false/; s/"kernel":\([ \t]*\)"[a-z0-9]*"/"kernel":\1"abacus"/' "$scratch/arc/run.json"
check "another kernel is said" bash -c '"$@" 2>&1 >/dev/null | grep -q "kernel abacus; the results"' _ \
    "$handoff" run --model $mini/checkpoint --suite mini --only arc-easy --out "$scratch/arc"
check "and stamped" bash -c 'tr -d " \t\n" <"$1" | grep -q "\"earlier_kernels\":\[\"abacus\"\]"' _ "$scratch/arc/run.json"
for stamp in null '[]' 7; do
    echo "$stamp" >"$scratch/arc/run.json"
    for verb in status auroc inspect "merge --out $scratch/m" "calibrate" grade \
        "export --to parquet --out $scratch/x.parquet"; do
        # shellcheck disable=SC2086
        check "$verb: a stamp of $stamp" fails 3 "run.json: an object was expected" "$handoff" $verb "$scratch/arc"
    done
done
echo '{"id":"a","question":"","type":"text","answer":"x"}' >"$scratch/none.jsonl"
check "nothing usable" fails 3 "none of its rows" "$handoff" run --model $mini/checkpoint --data jsonl="$scratch/none.jsonl" --out "$scratch/none"
check "leaves no folder" test ! -e "$scratch/none"
mkdir "$scratch/mine"
"$handoff" run --model $mini/checkpoint --data jsonl="$scratch/none.jsonl" --out "$scratch/mine" >"$scratch/o" 2>&1
check "but one that was there" test -d "$scratch/mine"
"$handoff" run --model $mini/checkpoint --suite mini --only $text --limit 2 --out "$scratch/quiet" >"$scratch/o2" 2>"$scratch/e2"
check "and nothing on stderr" test ! -s "$scratch/e2"
check "dry run shows a prompt" bash -c '"$1" run --model "$2/checkpoint" --suite mini --only $text --dry-run | grep -q "<|turn>user"' \
    _ "$handoff" $mini
printf 'arc-easy\t%s\n' "$(sed -n 's/^{"id":"\([^"]*\)","task":"arc-easy".*/\1/p' "$scratch/whole/records.jsonl" | sed -n 2p)" >"$scratch/ids"
check "--ids takes one sample" run --ids "$scratch/ids" --out "$scratch/one"
check "just that one" test "$(wc -l <"$scratch/one/records.jsonl")" -eq 1
check "status" "$handoff" status "$scratch/whole"

# A long system prompt, and pictures that several questions share: computed once, the same records.
rules=$(for i in $(seq 40); do echo -n "Rule $i: read question $i twice. "; done)
cat >"$scratch/shared.json" <<END
{"tasks": [
 {"task": "mmlu", "path": "mmlu", "system": "$rules", "prompt": "{question}\n{options}\nAnswer with the letter.", "shots": 0,
  "max_tokens": 3, "grader": "choice"},
 {"task": "gsm8k", "path": "gsm8k/test.jsonl", "system": "$rules", "prompt": "{question}", "shots": 0, "max_tokens": 12,
  "grader": "number"},
 {"task": "chartqa", "path": "chartqa", "prompt": "{question}\nAnswer with one word.", "max_tokens": 4,
  "grader": "relaxed"}]}
END
shared() { "$handoff" run --model $mini/checkpoint --suite "$scratch/shared.json" --data-root $mini --limit 30 "$@" 2>&1; }
check "shared beginnings" shared --out "$scratch/shared"
check "most of the prompts' tokens are shared" bash -c '"$1" status "$2" | grep -E "prompt tokens, .* \((7|8|9).%\) shared"' _ \
    "$handoff" "$scratch/shared"
check "without the prefix store" shared --no-prefix-cache --out "$scratch/cold"
check "same records without" same_records "$scratch/cold" "$scratch/shared"
check "one at a time" shared --batch 1 --out "$scratch/shared1"
check "same records one at a time" same_records "$scratch/cold" "$scratch/shared1"
check "nothing is left of the store" test ! -e "$scratch/shared/prefix"
for i in $(seq 8); do
    timeout -s KILL 0.$((i % 4 + 2)) "$handoff" run --model $mini/checkpoint --suite "$scratch/shared.json" --data-root $mini \
        --limit 30 --batch $((i % 3 + 1)) --out "$scratch/sharedkill" >/dev/null 2>&1
done
check "selfcheck first" run --limit 1 --selfcheck --out "$scratch/checked"
check "is noted in the stamp" grep -A2 '"selfcheck"' "$scratch/checked/run.json"
check "goes on after kills" shared --out "$scratch/sharedkill"
check "same records after kills, with shared beginnings" same_records "$scratch/cold" "$scratch/sharedkill"
finish
