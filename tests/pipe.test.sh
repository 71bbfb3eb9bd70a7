#!/usr/bin/env bash
# run --pipe: commands that answer, misbehave, and end early; the adaptors' common part where there is a Python.
. "$(dirname "$0")/e2e.sh"
cat >"$scratch/q.jsonl" <<'END'
{"id":"1","question":"One?","type":"text","answers":["yes"]}
{"id":"2","question":"Two?","type":"text","answers":["yes"]}
{"id":"3","question":"Three?","type":"text","answers":["yes"]}
END
# A command that answers line by line; what follows "case" may be replaced.
answering() {
    cat >"$scratch/command" <<END
say() { printf '%s\\n' "\$1"; }
while read -r line; do
    id=\${line#*:}; id=\${id%%,*}
    $1
done
END
    echo "sh $scratch/command"
}
yes='say "{\"id\":$id,\"response\":{\"choices\":[{\"message\":{\"content\":\"yes\"},\"finish_reason\":\"stop\"}],\"confidence\":0.75,\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":2}}}"'
run() { "$handoff" run --pipe "$1" --model-name m --data jsonl="$scratch/q.jsonl" --out "$scratch/run" "${@:2}"; }
fresh() { rm -rf "$scratch/run"; }
has() { sed -n "$1p" "$scratch/run/records.jsonl" | grep -qF -- "$2" || { echo "record $1 is without $2"; return 1; }; }

answers() {
    fresh; run "$(answering "$yes")" 2>/dev/null >/dev/null && [ "$(wc -l <"$scratch/run/records.jsonl")" -eq 3 ] &&
    has 1 '"correct":true' && has 1 '"confidence":0.75' && has 1 '"prompt_tokens":7' && has 3 '"id":"3"' &&
    grep -q '"command"' "$scratch/run/run.json"
}
no_op() { cp "$scratch/run/records.jsonl" "$scratch/before"; run false >/dev/null 2>&1; run "$(answering "$yes")" >/dev/null 2>&1 &&
          cmp "$scratch/before" "$scratch/run/records.jsonl"; }
trailer() {
    fresh; run "$(answering 'say "{\"id\":$id,\"response\":{\"choices\":[{\"message\":{\"content\":\"yes\\n[[hybrid:confidence=0.1234]]\"},\"finish_reason\":\"stop\"}]}}"')" >/dev/null 2>&1 &&
    has 2 '"output":"yes"' && has 2 '"confidence":0.1234' && has 2 '"correct":true'
}
out_of_order() {        # the first answer comes last
    fresh; run "$(answering "if [ \$id = 1 ]; then first=1; else $yes; fi; if [ \$id = 3 ]; then id=1; $yes; fi")" --concurrency 3 \
        >/dev/null 2>&1 && has 1 '"id":"1"' && has 3 '"id":"3"'
}
one_error() {
    fresh; run "$(answering "if [ \$id = 2 ]; then say '{\"id\":2,\"error\":\"too hot\"}'; else $yes; fi")" >/dev/null 2>&1 &&
    has 2 '"status":"error"' && has 2 'too hot' && has 3 '"correct":true'
}
no_response() { fresh; run "$(answering 'say "{\"id\":$id,\"response\":{\"choices\":[]}}"')" >/dev/null 2>&1; has 1 '"status":"error"'; }
# ends after one answer; nothing is lost, the same command goes on
ends_early() {
    fresh; fails 4 'ended with 1 question open.*1 record in' run "$(answering "if [ \$id = 2 ]; then exit 0; fi; $yes")" &&
    [ "$(wc -l <"$scratch/run/records.jsonl")" -eq 1 ] && run "$(answering "$yes")" >/dev/null 2>&1 &&
    [ "$(wc -l <"$scratch/run/records.jsonl")" -eq 3 ]
}
garbage() { fresh; fails 4 'a line .* was expected, not "hello"' run "$(answering 'echo hello')"; }
other_id() { fresh; fails 4 'no question of that id' run "$(answering 'say "{\"id\":77,\"error\":\"\"}"')"; }
silent() { fresh; fails 4 'no answer to question 1 within 0.3 s' run "$(answering 'sleep 3')" --timeout 0.3; }
absent() { fresh; fails 4 'ended with|cannot be written' run 'no-such-command-here 2>/dev/null'; }
both() { fails 2 'one of --endpoint and --pipe' run true --endpoint http://127.0.0.1:1; }
thought() {
    fresh; run "$(answering 'say "{\"id\":$id,\"response\":{\"choices\":[{\"message\":{\"content\":\"<|channel>thought\\nno<channel|>yes\"},\"finish_reason\":\"stop\"}]}}"')" >/dev/null 2>&1 &&
    has 1 '"correct":true'
}
# The Cactus adaptor against a module that answers as the package documents it: the engine itself is not on PyPI for x86.
cactus() {
    fresh; PYTHONPATH=tests/data/cactus run "python3 scripts/adaptors/with_cactus.py bundle" >/dev/null 2>&1 &&
    has 1 'bundle: One?' && has 1 '"confidence":0.8123' && has 1 '"prompt_tokens":31' && has 1 '"stop":"length"'
}
cactus_media() {
    "$handoff" run --pipe "PYTHONPATH=tests/data/cactus python3 scripts/adaptors/with_cactus.py b" --model-name m --suite mini \
        --only chartqa,mmau --limit 1 --out "$scratch/media" >/dev/null 2>&1 &&
    [ "$(grep -cE '"output":"b: .*\[[0-9]{3,}\]' "$scratch/media/records.jsonl")" -eq 2 ]
}

check "answers become records" answers
check "a complete run is left as it is" no_op
check "the trailer" trailer
check "answers in any order" out_of_order
check "an error of one question" one_error
check "a response without a choice" no_response
check "a command that ends early: resumed" ends_early
check "a line that is no answer" garbage
check "an answer to no question" other_id
check "no answer in time" silent
check "no such command" absent
check "a thought channel" thought
check "wrong usage" both
if command -v python3 >/dev/null; then
    check "adaptor: cactus" cactus
    check "adaptor: cactus with pictures and sounds" cactus_media
fi
finish
