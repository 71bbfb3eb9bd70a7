#!/usr/bin/env bash
# The verb import. The files of lm-evaluation-harness, Inspect, VLMEvalKit's writers (pandas with xlsxwriter and
# openpyxl) and llama-perplexity were written by those tools; lmms-eval's and the leaderboard's by their documentation.
. "$(dirname "$0")/e2e.sh"
from=tests/data/import out=$scratch/run

import() { local kind=$1; shift; rm -rf "$out"; "$handoff" import --from "$kind" "$@" --out "$out"; }
# all: for every "N fragment" on standard input, the Nth record holds the fragment
all() { while read -r n text; do has "$n" "$text" || return 1; done; }
has() { sed -n "$1p" "$out/records.jsonl" | grep -qF -- "$2" || { echo "record $1 is without $2"; return 1; }; }

lm_eval_generation() {
    import lm-eval $from/samples_gsm8k_*.jsonl | grep -q '^2 records' && all <<'END'
1 "id":"gsm8k/test/0"
1 "task":"gsm8k"
1 "answer":"7"
1 "gold":["7"]
1 "correct":true
2 "correct":false
2 "gold":["24"]
2 "filter":"strict-match"
2 "metric":"exact_match"
END
}
lm_eval_filter() {
    import lm-eval $from/samples_gsm8k_*.jsonl --filter flexible-extract >/dev/null && all <<'END'
1 "row":3
1 "filter":"flexible-extract"
END
}
lm_eval_choices() {
    import lm-eval $from/samples_mmlu_*.jsonl >/dev/null && all <<'END'
1 "task":"mmlu"
1 "answer":"B"
1 "correct":true
3 "answer":"A"
3 "gold":["C"]
3 "correct":false
3 "option_logprobs":{"A":-1,"B":-1.5,"C":-2,"D":-2.5}
END
}
inspect_eval() {
    import inspect $from/*_arc-easy_*.eval >/dev/null && all <<'END'
1 "id":"Mercury_1"
1 "task":"arc-easy"
1 "correct":true
1 "tokens":5
1 "stop":"eos"
2 "answer":"C"
2 "gold":["A"]
2 "metric":"choice"
2 "correct":false
END
}
inspect_json() {
    import inspect $from/*_gsm8k_*.json >/dev/null && all <<'END'
1 "confidence":0.7812
1 "group":"1"
2 "id":"1/epoch2"
2 "correct":true
END
}
vlmevalkit() {
    import vlmevalkit "$from/tiny_MMBench_DEV_EN.$1" >/dev/null && all <<'END'
1 "id":"101"
1 "task":"mmbench"
1 "options":["red","blue","green"]
2 "question":"How many\ndogs?"
2 "answer":"B"
2 "correct":false
2 "correct":false
3 "question":"Größe & Form <x>?"
3 "labels":["A","B"]
END
}
python_lists() {
    import vlmevalkit $from/tiny_ChartQA_TEST.xlsx >/dev/null && all <<'END'
1 "gold":["12","12.0"]
1 "correct":true
2 "correct":false
END
}
open_asr() {        # both know the spellings of "counselled"; the leaderboard also joins "in to" into "into"
    import open-asr $from/MODEL_*.jsonl >/dev/null && all <<'END' || return 1
1 "task":"librispeech"
1 "modality":"audio"
1 "wer":{"edits":0,
2 "wer":{"edits":0,
END
    import open-asr $from/MODEL_*.jsonl --normalizer whisper >/dev/null &&
        has 2 '"wer":{"edits":2,"words":8,"sub":1,"del":0,"ins":1}'
}
lmms_eval() {
    import lmms-eval $from/lmms_samples_chartqa.jsonl >/dev/null && all <<'END'
1 "task":"chartqa"
1 "metric":"relaxed_overall"
1 "correct":true
2 "correct":false
END
}
llama() {           # right so far: 0, 0, 0, 25, 20 percent
    import llama-perplexity --task hellaswag $from/hellaswag.txt >/dev/null && all <<'END'
3 "correct":false
4 "correct":true
5 "correct":false
5 "id":"hellaswag/4"
END
}
winogrande() { import llama-perplexity --task winogrande $from/winogrande.txt >/dev/null && has 1 '"correct":false'; }
any_table() {
    printf 'qid,text,p,ok,grp\n7,"a, b",0.25,True,g1\n8,,0.75,False,g1\n' >"$scratch/t.csv"
    import table "$scratch/t.csv" --task mine --map id=qid --map output=text --map confidence=p --map correct=ok \
        --map group=grp >/dev/null && all <<'END'
1 "id":"7"
1 "output":"a, b"
1 "confidence":0.25
1 "correct":true
2 "p_wrong":0.25
2 "correct":false
2 "group":"g1"
END
}
nested_columns() {
    echo '{"id":1,"r":{"p":[0.5]},"task":"x","score":0.25,"wer":{"edits":3,"words":12}}' >"$scratch/t.jsonl"
    import table "$scratch/t.jsonl" --map confidence=r.p.0 >/dev/null && all <<'END'
1 "confidence":0.5
1 "correct":false
1 "wer":{"edits":3,"words":12}
END
}
used_by_auroc() { any_table && "$handoff" auroc "$out" --json | grep -q '"n":2'; }
refuses() { fails "$1" "$2" import "${@:3}" && [ ! -e "$out/records.jsonl" ]; }

check "lm-eval: generation" lm_eval_generation
check "lm-eval: another filter" lm_eval_filter
check "lm-eval: choices by log-likelihood" lm_eval_choices
check "inspect: .eval" inspect_eval
check "inspect: .json, with trailer and epochs" inspect_json
for form in xlsx tsv json; do check "vlmevalkit: .$form" vlmevalkit $form; done
check "lists in Python's notation" python_lists
check "open-asr" open_asr
check "lmms-eval" lmms_eval
check "llama-perplexity" llama
check "llama-perplexity --winogrande" winogrande
check "any table" any_table
check "nested columns" nested_columns
check "auroc takes it" used_by_auroc

echo '{"doc_id":0,"resps":[["x"]]' >"$scratch/torn.jsonl"
echo '{"id":1,"task":"x","correct":true,"confidence":1.5}' >"$scratch/high.jsonl"
printf '{"id":1,"task":"x","correct":true}\n{"id":1,"task":"x","correct":true}\n' >"$scratch/twice.jsonl"
echo '{"id":1,"correct":true}' >"$scratch/plain.jsonl"
printf '1\t100.0\n2\t10.0\n' >"$scratch/jump.txt"
head -c 4000 $from/tiny_MMBench_DEV_EN.xlsx >"$scratch/cut.xlsx"
check "refused: a torn line" refuses 3 'torn.jsonl:1' lm-eval "$scratch/torn.jsonl"
check "refused: a confidence above 1" refuses 3 'high.jsonl:1: a confidence between 0 and 1' table "$scratch/high.jsonl"
check "refused: an id twice" refuses 3 'sample "1" of task x occurs twice' table "$scratch/twice.jsonl"
check "refused: figures that jump" refuses 3 'jump.txt:2: 10% of 2' llama-perplexity --task x "$scratch/jump.txt"
check "refused: a cut workbook" refuses 3 'cut.xlsx' vlmevalkit "$scratch/cut.xlsx"
check "refused: another tool's file" refuses 3 '"index" and "prediction"' vlmevalkit $from/samples_gsm8k_*.jsonl
check "refused: no such file" refuses 3 'none.jsonl' lm-eval none.jsonl
check "refused: no task" refuses 3 'with --task' table "$scratch/plain.jsonl"
check "wrong usage: kind" refuses 2 'is no kind' nothing x
check "wrong usage: --map" refuses 2 'FIELD=COLUMN' table x --map colour=x
finish
