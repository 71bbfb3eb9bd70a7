#!/usr/bin/env bash
# The command line: help, wrong usage, bad input, answers.
. "$(dirname "$0")/e2e.sh"

verbs=$("$handoff" --help | awk '/^  [a-z]/ {print $1}')
check "help lists verbs" test "$(echo "$verbs" | wc -l)" -ge 7
for verb in $verbs; do
    check "$verb --help has an example" bash -c '"$1" "$2" --help | grep -A3 "^Example:" | grep -q "handoff $2"' _ "$handoff" "$verb"
    check "$verb --help fits a screen" bash -c '[ "$("$1" "$2" --help | wc -l)" -le 40 ]' _ "$handoff" "$verb"
    check "$verb refuses an unknown option" fails 2 "unknown option" "$handoff" "$verb" --no-such-option
done
# Every example as pasted from the root, in the order of the verbs; what it writes goes to the scratch folder.
mkdir "$scratch/bin"; ln -s "$(realpath "$handoff")" "$scratch/bin/handoff"
port=$((20000 + $$ % 20000))
example() { "$handoff" "$1" --help | sed -n '/^Example:/,$p' | sed "1d; s#/tmp/#$scratch/#g; s#demo-out/#$scratch/demo-out/#g; s#8080#$port#g"; }
for verb in $verbs; do
    [ $verb = bench ] || check "$verb: the example works as pasted" bash -c 'PATH=$1:$PATH; eval "$2"' _ "$scratch/bin" "$(example $verb)"
done
# Installed, from another folder, as "handoff" from PATH.
make -s install BUILD="${BUILD:-build}" DESTDIR="$scratch/inst" PREFIX=/usr
mkdir "$scratch/away"
installed() (cd "$scratch/away" && PATH=$scratch/inst/usr/bin:$PATH && eval "$(handoff "$1" --help | sed '1,/^Example:/d')")
for verb in run generate auroc grade; do check "$verb: the example works installed" installed $verb; done
mkdir "$scratch/bare"; cp "$handoff" "$scratch/bare/"
check "without the embedded hold-outs" fails 2 "name the source's datasets/mini with --data-root DIR" \
    "$scratch/bare/handoff" run --model $mini/checkpoint --suite mini --out "$scratch/o"
check "a suite that is not there" fails 3 "nope: no such file; mini, paper or a suite file" \
    "$handoff" run --model $mini/checkpoint --suite nope --out "$scratch/o"
check "an empty --out" fails 2 "^handoff: --out: DIR was expected, not an empty text" \
    "$handoff" run --model $mini/checkpoint --suite mini --out ''
check "commands in messages work as pasted" fails 2 "see \"$(realpath "$handoff") auroc --help\"" "$(realpath "$handoff")" auroc
check "an empty prompt is one" "$handoff" generate --model $mini/checkpoint --prompt '' --max-tokens 1
check "0 tokens are the default" bash -c 'a=$("$1" generate --model "$2/checkpoint" --prompt Hi --json --max-tokens 0) &&
    [ "$a" = "$("$1" generate --model "$2/checkpoint" --prompt Hi --json)" ]' _ "$handoff" $mini
check "help VERB is VERB --help" cmp <("$handoff" help run) <("$handoff" run --help)
for what in --help --version "help run" "run --help" "selfcheck --model $mini/checkpoint" "report tests/data/records/bf16.jsonl --out $scratch/r"; do
    check "$what on a full disk" fails 4 "standard output cannot be written" bash -c '"$@" >/dev/full' _ "$handoff" $what
done
check "a range is named with its option" fails 2 "^handoff: --shots: a number from -1 to 1000 was expected, not -2$" \
    "$handoff" run --model m --suite mini --out o --shots -2
check "another BUILD is built although ./handoff is there" bash -c 'make -n BUILD="$1/other" handoff | grep -q other/engine/base.o' _ "$scratch"
check "unknown verb" fails 2 "unknown verb" "$handoff" frobnicate
check "no model" fails 3 "a checkpoint folder" "$handoff" generate --model "$scratch/none" --prompt x
check "two prompts" fails 2 "one of --prompt" "$handoff" generate --model $mini/checkpoint --prompt x --tokens 1

answer() { "$handoff" generate --model $mini/checkpoint --json "$@"; }
check "an answer" bash -c '"$1" generate --model "$2/checkpoint" --prompt "What is 3 + 4?" | grep -q confidence' _ "$handoff" $mini
check "as JSON" bash -c '"$1" generate --model "$2/checkpoint" --prompt "What is 3 + 4?" --json |
    grep -E "^\{\"text\":\"[^\"]*\",\"prompt_tokens\":[0-9]+,\"tokens\":\[[0-9,]+\],\"stop\":\"eos\",\"confidence\":0?\.?[0-9e.-]+,.*\"logprobs\":\[[-0-9.,e]+\]\}$"' _ "$handoff" $mini
check "token ids" bash -c 'test "$(echo "<bos>" | "$1" tokenize --model "$2/checkpoint")" = "[2]"' _ "$handoff" $mini
check "JSON strings to ids" bash -c 'test "$(printf "\"a\\\\nb\"\n\"\"\n" | "$1" tokenize --json-lines --model "$2/checkpoint" | wc -l)" -eq 2' _ "$handoff" $mini
check "a sampled answer repeats" bash -c '
    a=$("$1" generate --model "$2/checkpoint" --prompt Hi --json --temperature 1.5 --seed 7 --max-tokens 12)
    b=$("$1" generate --model "$2/checkpoint" --prompt Hi --json --temperature 1.5 --seed 7 --max-tokens 12)
    c=$("$1" generate --model "$2/checkpoint" --prompt Hi --json --temperature 1.5 --seed 8 --max-tokens 12)
    [ "$a" = "$b" ] && [ "$a" != "$c" ]' _ "$handoff" $mini
check "--ignore-eos goes on" bash -c '
    "$1" generate --model "$2/checkpoint" --prompt "What is 3 + 4?" --ignore-eos --max-tokens 9 --json | grep -q "\"stop\":\"length\""' _ "$handoff" $mini
check "inspect a checkpoint" bash -c '"$1" inspect "$2/checkpoint" | grep -q "handoff probe    reads layer 3"' _ "$handoff" $mini
check "inspect a tensor" "$handoff" inspect $mini/checkpoint --tensor handoff_probe.attn_query --out "$scratch/q.npy"
if [ -d ../shared/formats/cq ]; then
    check "inspect a Cactus archive" bash -c '"$1" inspect ../shared/formats/cq/bundles/tiny-a-cq3.zip >"$2/s" &&
        grep -q "handoff probe    reads layer 7" "$2/s" && grep -qE "self_attn.q_proj.weight CQ3 +10 +" "$2/s"' _ "$handoff" "$scratch"
    check "inspect an MLX folder" bash -c '"$1" inspect ../shared/formats/mlx/models/tiny-a-mlx-mixed_3_6 |
        grep -qE "self_attn.v_proj.weight mlx-6bit-g64 +2 +6\.50 "' _ "$handoff"
    check "a probe file of its own" bash -c '"$1" generate --model ../shared/formats/mlx/models/tiny-a-mlx-6bit-g32 \
        --tokens 2,36,200 --max-tokens 3 --probe ../shared/formats/cq/probe/p_128_32_128_64.bin --probe-layer 7 --json |
        grep -q "\"confidence\":0\.[0-9]"' _ "$handoff"
    check "a damaged probe file" fails 3 "bad_version.bin: version 1" "$handoff" generate --tokens 2,36 --probe-layer 7 \
        --model ../shared/formats/mlx/models/tiny-a-mlx-6bit-g32 --probe ../shared/formats/cq/probe/bad_version.bin
    check "a damaged bundle" fails 3 "cut.zip: a whole zip" bash -c 'head -c 5000 ../shared/formats/cq/bundles/tiny-a-cq3.zip \
        >"$2/cut.zip"; "$1" inspect "$2/cut.zip"' _ "$handoff" "$scratch"
fi
check "an unknown tensor" fails 2 "no tensor" "$handoff" inspect $mini/checkpoint --tensor nope --out "$scratch/q.npy"
check "grade" bash -c '"$1" grade --task gsm8k tests/data/outputs.jsonl | sed "s/,\"score.*//" | diff - <(printf "%s\n" \
    "{\"id\":\"1\",\"answer\":\"18\",\"correct\":true" "{\"id\":\"2\",\"answer\":\"\$1,200.\",\"correct\":true" \
    "{\"id\":\"3\",\"answer\":null,\"correct\":false")' _ "$handoff"
check "grade --extract strict" bash -c '"$1" grade --task gsm8k tests/data/outputs.jsonl --extract strict |
    sed -n 2p | grep -q "\"answer\":null,\"correct\":false"' _ "$handoff"
check "grade --extract all gives the band" bash -c '"$1" grade --task gsm8k tests/data/outputs.jsonl --extract all |
    grep -c "\"band\":{\"flexible\"" | grep -qx 3' _ "$handoff"
check "grade refuses another task's extractor" fails 2 "does not know" "$handoff" grade --task mmlu tests/data/outputs.jsonl --extract strict
check "grade of own questions goes by their type" bash -c 'printf "%s\n" "{\"id\":1,\"type\":\"numeric\",\"output\":\"so 1,080.\",\"gold\":1080}" \
    "{\"id\":2,\"output\":\"b\",\"gold\":\"B\",\"options\":[\"x\",\"y\"]}" "{\"id\":3,\"type\":\"asr\",\"output\":\"21 colours\",\"gold\":\"twenty one colors\"}" >"$2/own.jsonl"
    [ "$("$1" grade --task jsonl "$2/own.jsonl" | grep -c "\"correct\":true")" = 3 ]' _ "$handoff" "$scratch"
check "grade refuses an unknown normalizer" fails 2 "whisper-release" "$handoff" grade --task librispeech tests/data/outputs.jsonl --normalizer w
check "grade names the line" fails 3 "outputs.txt:1: invalid JSON" bash -c 'echo "{\"id\":1" >"$2/outputs.txt"; "$1" grade --task gsm8k "$2/outputs.txt"' _ "$handoff" "$scratch"
check "a line without an end" fails 3 "zeros:1: line of more than" bash -c 'truncate -s 65M "$2/zeros"; "$1" grade --task gsm8k "$2/zeros"' _ "$handoff" "$scratch"
say() { printf '%s' "$1" >"$scratch/m.json"; "$handoff" generate --model $mini/checkpoint --messages "$scratch/m.json" --max-tokens 1; }
check "a part that would be dropped" fails 3 'm.json: a part of a message has the type "video"' say '[{"role":"user","content":[{"type":"video","video":"a"},{"type":"text","text":"b"}]}]'
check "content that is a number" fails 3 'm.json: every message needs a "content"' say '[{"role":"user","content":5}]'
check "no content" fails 3 'm.json: every message needs a "content"' say '[{"role":"user"}]'
check "no message" fails 3 "m.json: an array of at least one message" say '[]'
check "a picture on the web" fails 3 "nothing is fetched" say '[{"role":"user","content":[{"type":"image","url":"http://x/y.png"}]}]'
own() { printf '%s\n' "$1" >"$scratch/q.jsonl"; rm -rf "$scratch/q"; "$handoff" run --model $mini/checkpoint --data jsonl="$scratch/q.jsonl" --out "$scratch/q"; }
check "own questions without a question" fails 3 "none of its rows can be used" own '{"id":"a","question":"","type":"text","answer":"x"}'
cp "$scratch/q.jsonl" "$scratch/damaged.jsonl"
check "a numeric answer that is no number" fails 3 "none of its rows can be used" own '{"id":"a","question":"q","type":"numeric","answer":"seven"}'
own '{"id":"a","question":"q","type":"text","answer":"x"}
{"id":"b","question":"r","type":"text","answer":"y"}' >"$scratch/check.out"
check "a report on two samples" "$handoff" report "$scratch/q" --out "$scratch/small"
for i in 1 2; do "$handoff" run --model $mini/checkpoint --suite mini --only gsm8k,docvqa --limit 6 --shard $i/2 --out "$scratch/s$i" >"$scratch/check.out"; done
sed -i 2d "$scratch/s1/records.jsonl"
check "a shard with a record less" fails 3 's1: records of "gsm8k" are missing' "$handoff" merge "$scratch/s1" "$scratch/s2" --out "$scratch/s"
sed -i 's/"complete":[ \t]*true/"complete":false/' "$scratch/q/run.json"
check "a run that is not complete" bash -c '"$1" auroc "$2/q" 2>&1 | grep -q "records.jsonl: the run is not complete"' _ "$handoff" "$scratch"
"$handoff" run --model $mini/checkpoint --suite mini --limit 3 --out "$scratch/graded" >/dev/null
check "a run graded again stays as it is" bash -c '"$1" grade "$2/graded" --write "$2/again.jsonl" && \
    cmp <(sed "s/,\"ms\":{.*//" "$2/again.jsonl") <(sed "s/,\"ms\":{.*//" "$2/graded/records.jsonl")' _ "$handoff" "$scratch"
mkdir "$scratch/sums"; echo '{"complete":true}' >"$scratch/sums/run.json"
for r in '"group":"1","correct":true' '"group":"2","correct":true' '"group":"1","correct":false' '"group":"2","correct":true' \
    '"group":"3","correct":true'; do
    i=$((${i:-0} + 1)); echo "{\"id\":\"$i\",\"task\":\"mmbench\",\"status\":\"ok\",$r}"
done >"$scratch/sums/records.jsonl"
echo '{"id":"a","task":"librispeech","status":"ok","correct":false,"score":0.5,"wer":{"edits":3,"words":6}}
{"id":"b","task":"librispeech","status":"ok","correct":true,"score":1,"wer":{"edits":0,"words":18}}' >>"$scratch/sums/records.jsonl"
check "status: rotations and word errors" bash -c '"$1" status "$2/sums" >"$2/s" &&
    grep -qE "^mmbench +5 +0 +0 +0\.8000  every answer of a group right 0\.6667 \(3 groups\)$" "$2/s" &&
    grep -qE "^librispeech +2 +0 +0 +0\.5000  WER 0\.1250$" "$2/s"' _ "$handoff" "$scratch"
for range in "curve --call-price -1" "curve --points -1" "curve --remote-ms -1" "curve --local-price -2" "plan --ms -3" \
    "generate --threshold 7" "report --threshold 2" "compare --threads -1" "auroc --threads -1"; do
    set -- $range
    case $1 in
        curve) more="tests/data/records/bf16.jsonl --reference tests/data/records/reference.jsonl" ;;
        plan) more= ;;
        generate) more="--model $mini/checkpoint --prompt x" ;;
        report) more="tests/data/records/bf16.jsonl --out $scratch/never" ;;
        compare) more="tests/data/records/bf16.jsonl tests/data/records/q4.jsonl" ;;
        auroc) more=tests/data/records/bf16.jsonl ;;
    esac
    # shellcheck disable=SC2086
    check "$range" fails 2 "^handoff: $2: a number from 0 to" "$handoff" "$@" $more
done
cp tests/data/hidden.npy "$scratch/long.npy"; printf abc >>"$scratch/long.npy"
check "bytes behind an array" fails 3 "long.npy: [0-9]* numbers are announced" "$handoff" probe --weights $mini/checkpoint --hidden "$scratch/long.npy"
check "identical runs are ok" bash -c '"$1" compare tests/data/records/bf16.jsonl tests/data/records/bf16.jsonl >"$2/c" &&
    grep -q "^bf16 against bf16: ok (identical records)$" "$2/c" && grep -q "^all .* +.000 *1  ok$" "$2/c" && "$1" compare tests/data/records/bf16.jsonl tests/data/records/bf16.jsonl --json |
    grep -q "\"reason\":\"identical records\""' _ "$handoff" "$scratch"
check "no time is no 0.0" bash -c '"$1" plan | grep -qE "^guess .* -  +-$"' _ "$handoff"
check "one shard is said to be one" bash -c '"$1" auroc "$2/s2" 2>&1 | grep -q "shard 2 of 2"' _ "$handoff" "$scratch"
check "inspect says what it takes" fails 3 "README.md: a file of tensors was expected: safetensors, GGUF or Cactus" "$handoff" inspect README.md
check "a data set of damaged rows alone" fails 3 "none of its rows can be used" "$handoff" inspect --data jsonl="$scratch/damaged.jsonl"
check "report's help has no formats" bash -c '! "$1" report --help | grep -q -e "--csv"' _ "$handoff"
check "one token" bash -c '"$1" generate --model "$2/checkpoint" --prompt Hi --max-tokens 1 | grep -q "^1 token, "' _ "$handoff" $mini
# A checkpoint whose template is a link to itself, or holds zeros: no falling back to another template.
mkdir "$scratch/model"; for f in "$PWD"/$mini/checkpoint/*; do ln -s "$f" "$scratch/model/"; done
rm "$scratch/model/chat_template.jinja"; ln -s chat_template.jinja "$scratch/model/chat_template.jinja"
check "a template that is a link to itself" fails 3 "chat_template.jinja: cannot be opened" "$handoff" generate --model "$scratch/model" --prompt x
rm "$scratch/model/chat_template.jinja"; printf 'a\0\0' >"$scratch/model/chat_template.jinja"
check "a template with zeros" fails 3 "chat_template.jinja: byte 1: a text was expected, not NUL" "$handoff" generate --model "$scratch/model" --prompt x
check "a media cache that is no folder" fails 3 "/dev/null: a folder for encoded media was expected" "$handoff" run \
    --model $mini/checkpoint --suite mini --only docvqa --limit 2 --media-cache /dev/null --out "$scratch/c1"
check "a media cache is made" bash -c '"$1" run --model "$2/checkpoint" --suite mini --only docvqa --limit 2 --media-cache "$3/new" --out "$3/c2" &&
    [ "$(ls "$3/new" | wc -l)" -gt 0 ]' _ "$handoff" $mini "$scratch"
for f in "$scratch"/new/*; do rm "$f"; mkdir "$f"; done
check "what cannot be kept is said once" bash -c '"$1" run --model "$2/checkpoint" --suite mini --only docvqa --limit 2 --media-cache "$3/new" \
    --out "$3/c3" 2>&1 >/dev/null | grep -c "soft: cannot be written.*the media cache" | grep -qx 1' _ "$handoff" $mini "$scratch"
check "two runs are paired" bash -c '"$1" auroc tests/data/records/bf16.jsonl tests/data/records/q4.jsonl --csv |
    grep -qE "^q4,librispeech,60,0?\.036938"' _ "$handoff"
finish
