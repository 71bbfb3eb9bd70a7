#!/usr/bin/env bash
# grade from the command line, over files and runs; the dry run.
. "$(dirname "$0")/e2e.sh"

# lines OUT ERR COMMAND...: what a command says on both streams
says() { "$handoff" "$@" 2>&1; }

# Joined, "twenty" and "one" are the number 21, on either side.
cat >"$scratch/call.jsonl" <<'END'
{"id":"call_10","group":"7","output":"Thank you","gold":"thank you all"}
{"id":"call_2","group":"7","output":"we sold 21","gold":"we sold twenty"}
{"id":"call_9","group":"7","output":"units","gold":"one units"}
{"id":"other_0","group":"8","output":"","gold":"good morning"}
END
check "segments alone" bash -c '[ "$("$1" grade --task earnings22 "$2" 2>&1 >/dev/null | tail -n 1)" = \
    "earnings22: WER 0.5000 (5 errors, 10 words)" ]' _ "$handoff" "$scratch/call.jsonl"
check "whole calls" bash -c '"$1" grade --task earnings22 --calls "$2" 2>/dev/null | diff - <(cat <<END
{"id":"7","segments":3,"answer":"we sold 21 units Thank you","correct":false,"score":0.8571428571428572,"status":"ok","wer":{"edits":1,"words":7,"sub":0,"del":1,"ins":0}}
{"id":"8","segments":1,"answer":"","correct":false,"score":0,"status":"ok","wer":{"edits":2,"words":2,"sub":0,"del":2,"ins":0}}
END
)' _ "$handoff" "$scratch/call.jsonl"
check "one reference for all segments of a call" bash -c '"$1" grade --task earnings22 --calls <(cat <<END
{"id":"0","group":"7","output":"a b","gold":"a b c d"}
{"id":"1","group":"7","output":"c x","gold":"a b c d"}
END
) 2>&1 | grep -q "\"edits\":1,\"words\":4"' _ "$handoff"
check "a segment without its call" fails 3 ":1: --calls needs" "$handoff" grade --task earnings22 --calls \
    <(echo '{"id":"0","output":"a","gold":"a"}')
right() { "$handoff" grade --task librispeech --tau "$1" <(echo '{"id":"0","output":"a b c d x","gold":"a b c d e"}') \
    2>/dev/null | grep -o '"correct":[a-z]*'; }
check "wrong above tau" test "$(right 0.19) $(right 0.2) $(right 0)" = '"correct":false "correct":true "correct":false'
check "a negative tau" fails 2 "--tau" "$handoff" grade --task librispeech --tau -1 "$scratch/call.jsonl"

# Question 7 in three rotations, one of them wrong; question 8 in two.
for i in 7:B:B 1000007:C:C 2000007:D:A 8:A:A 1000008:B:B; do
    IFS=: read -r id gold output <<<"$i"
    echo "{\"id\":$id,\"output\":\"$output\",\"gold\":\"$gold\",\"labels\":[\"A\",\"B\",\"C\",\"D\"]}"
done >"$scratch/mmbench.jsonl"
check "circular accuracy of a file" bash -c '"$1" grade --task mmbench "$2" 2>&1 >/dev/null | diff - <(cat <<END
mmbench: 4 of 5 right (0.8000), 0 unparsed
mmbench: every rotation right: 0.5000 (1 of 2 questions)
END
)' _ "$handoff" "$scratch/mmbench.jsonl"
check "the band over extractors" bash -c '"$1" grade --task gsm8k tests/data/outputs.jsonl --extract all 2>&1 >/dev/null |
    grep -qx "gsm8k: right by extractor: flexible 0.6667, strict 0.3333, official 0.3333, numeric 0.6667, numeric-strict 0.3333"' \
    _ "$handoff"

mkdir "$scratch/run"
echo '{"identity":{"tasks":[{"task":"mb","format":"mmbench","grader":"mmbench"},
    {"task":"calls","format":"earnings22","grader":"speech","normalizer":"whisper"}]}}' >"$scratch/run/run.json"
{ sed 's/"id":\([0-9]*\)\([78]\),/"task":"mb","status":"ok","correct":true,"group":"\2","id":"\1\2",/' "$scratch/mmbench.jsonl"
  sed 's/^{/{"task":"calls","status":"ok","correct":false,/; s/"gold":\(".*"\)/"gold":[\1]/' "$scratch/call.jsonl"
} >"$scratch/run/records.jsonl"
check "a run once more" bash -c '"$1" grade "$2/run" --calls --write "$2/new.jsonl" | tr -s " " | diff - <(cat <<END
mb 2000007 right -> wrong (lone label)
task n before now changed unparsed
mb 5 1.0000 0.8000 1 0
calls 4 0.0000 0.0000 0 0
mb: every rotation right: 1.0000 -> 0.5000 (1 of 2 questions)
calls: WER 0.5000 (5 errors, 10 words)

whole calls segments errors words WER
calls 7 3 1 7 0.1429
calls 8 1 2 2 1.0000
all calls 4 3 9 0.3333
END
) && grep -c . "$2/new.jsonl" | grep -qx 9 && grep "\"2000007\"" "$2/new.jsonl" | grep -q "\"correct\":false"' _ "$handoff" "$scratch"
echo '{"id":1}' >>"$scratch/run/records.jsonl"
check "nothing is written of a damaged run" fails 3 "records.jsonl:10: a record" "$handoff" grade "$scratch/run" \
    --write "$scratch/half.jsonl"
check "no half file stays" bash -c '! ls "$1"/half* 2>/dev/null' _ "$scratch"

cat >"$scratch/suite.json" <<END
{"system": "Be brief.", "tasks": [
 {"task": "pictures", "format": "mmbench", "path": "$PWD/$mini/mmbench"},
 {"task": "mine", "format": "jsonl", "path": "q.jsonl", "prompt": "{question}?", "max_tokens": 3}]}
END
echo '{"question":"Why","answer":"so"}' >"$scratch/q.jsonl"
check "dry run of a suite file" bash -c '"$1" run --model '$mini'/checkpoint --suite "$2/suite.json" --dry-run >"$2/dry" &&
    grep -q "published dev split has 4329: this is a part; 1 of them read" "$2/dry" &&
    grep -q "^--- mine/0, [0-9]* tokens, at most 3 generated" "$2/dry" && grep -qx "Why?<turn|>" "$2/dry" &&
    grep -c "Be brief" "$2/dry" | grep -qx 2' _ "$handoff" "$scratch"
# The picture's soft tokens are counted: the run of the same sample says how many prompt tokens there were.
check "its token count is the run's" bash -c '"$1" run --model '$mini'/checkpoint --suite "$2/suite.json" --limit 1 \
    --max-tokens 1 --out "$2/r" >/dev/null && n=$(grep -o "\"prompt_tokens\":[0-9]*" "$2/r/records.jsonl" | head -n 1) &&
    grep -q "^--- .*, ${n#*:} tokens, " "$2/dry"' _ "$handoff" "$scratch"

# Six questions: 2 repeats 0, the dev split holds 3, the list names 4 by its id and 5 by its text.
mkdir -p "$scratch/mmlu/test" "$scratch/mmlu/dev"
printf '%s\n' "Q zero?,a,b,c,d,A" "Q one?,a,b,c,d,B" "Q zero?,a,b,c,d,A" "Q three?,a,b,c,d,C" "Q four?,a,b,c,d,D" \
    "Q  five?,a,b,c,d,A" >"$scratch/mmlu/test/x_test.csv"
printf '%s\n' "Q three?,a,b,c,d,C" "Q one?,b,a,c,d,B" >"$scratch/mmlu/dev/x_dev.csv"
printf '%s\n' "mmlu/test/x/4" '{"question":"Q five?"}' "" "mmlu/test/y/1" >"$scratch/list"
echo '{"tasks":[{"task":"mmlu","path":"mmlu","contaminated":"list"}]}' >"$scratch/marked.json"
check "a run with repeated and contaminated questions" "$handoff" run --model $mini/checkpoint --suite "$scratch/marked.json" \
    --max-tokens 1 --out "$scratch/marked"
check "they are marked in the records" bash -c 'sed "s/,\"modality.*\"subject\":\"x\"/ /; s/,\"output.*//" "$1/marked/records.jsonl" |
    diff - <(cat <<END
{"id":"mmlu/test/x/0","task":"mmlu" 
{"id":"mmlu/test/x/1","task":"mmlu" 
{"id":"mmlu/test/x/2","task":"mmlu" ,"repeats":"mmlu/test/x/0"
{"id":"mmlu/test/x/3","task":"mmlu" ,"contaminated":"dev"
{"id":"mmlu/test/x/4","task":"mmlu" ,"contaminated":"list"
{"id":"mmlu/test/x/5","task":"mmlu" ,"contaminated":"list"
END
)' _ "$scratch"
check "the run's notes count them" bash -c 'grep -q "repeated questions (same choices, same media): 1.*holds too: 1.*list: 2" \
    "$1/marked/run.json"' _ "$scratch"
check "status counts them" bash -c '"$1" status "$2/marked" | grep -q "repeated 1  contaminated 3"' _ "$handoff" "$scratch"
for i in 0:true:0.9 1:false:0.8 2:true:0.7:repeats 3:false:0.6:contaminated 4:true:0.85; do
    IFS=: read -r id correct confidence flag <<<"$i"
    echo "{\"id\":\"$id\",\"task\":\"mmlu\",\"correct\":$correct,\"confidence\":$confidence${flag:+,\"$flag\":\"0\"}}"
done >"$scratch/flagged.jsonl"
# Of all 3 x 2 pairs only 2 against 1 is wrong: 5/6. Without the marked ones 0 and 4 both beat 1.
check "AUROC with and without them" bash -c '"$1" auroc "$2/flagged.jsonl" --json | tr -d "\n " |
    grep -q "\"without_repeated_and_contaminated\":{\"n\":3,\"repeated\":1,\"contaminated\":1,\"confidence\":{\"auroc\":1,"' \
    _ "$handoff" "$scratch"
check "a list that is not there" bash -c 'rm "$1/list"; '"$(declare -f fails)"'; scratch=$1; fails 3 "list: no such file" \
    "$2" run --model '$mini'/checkpoint --suite "$1/marked.json" --dry-run' _ "$scratch" "$handoff"
finish
