#!/usr/bin/env bash
# compare --engines: one sample of each kind, and the parts of the drift.
. "$(dirname "$0")/e2e.sh"
head='"task":"t","correct":true'
cat >"$scratch/a.jsonl" <<END
{"id":"same",$head,"output":"B","confidence":0.5,"logprob":-0.1,"entropy":{"mean":0.2},"prompt_tokens":9}
{"id":"tokens",$head,"output":"B","confidence":0.5,"prompt_tokens":9}
{"id":"media",$head,"output":"B","confidence":0.5,"prompt_tokens":9,"input_sha":["aa"]}
{"id":"answer",$head,"output":"B","confidence":0.5,"prompt_tokens":9}
{"id":"arithmetic",$head,"output":"B","confidence":0.5,"logprob":-0.1,"prompt_tokens":9}
{"id":"probe",$head,"output":"B","confidence":0.5,"logprob":-0.1,"prompt_tokens":9}
{"id":"untold",$head,"output":"B","confidence":0.5}
{"id":"quiet",$head,"output":"B","confidence":0.5,"entropy":{"mean":0.2}}
END
cat >"$scratch/b.jsonl" <<END
{"id":"same",$head,"output":"B\n[[hybrid:confidence=0.5004]]","confidence":0.5004,"logprob":-0.1004,"entropy":{"mean":0.2},"prompt_tokens":9}
{"id":"tokens",$head,"output":"C","confidence":0.58,"prompt_tokens":10}
{"id":"media",$head,"output":"C","confidence":0.5,"prompt_tokens":9,"input_sha":["ab"]}
{"id":"answer",$head,"output":"C","confidence":0.9,"prompt_tokens":9}
{"id":"arithmetic",$head,"output":"B","confidence":0.6,"logprob":-0.2,"prompt_tokens":9}
{"id":"probe",$head,"output":"B","confidence":0.3,"logprob":-0.1,"prompt_tokens":9}
{"id":"untold",$head,"output":"B","confidence":0.6}
{"id":"quiet",$head,"output":"B","confidence":0.5,"entropy":{"mean":0.1},"entropy_truncated":{"top":5}}
END
json() { "$handoff" compare "$scratch/a.jsonl" "$scratch/b.jsonl" --engines --json; }
kinds() { json | grep -qF '"n":8,"samples":{"same":2,"tokens":1,"media":1,"answer":1,"arithmetic":1,"probe":1,"untold":1}'; }
# .0004 + .08 + .4 + .1 - .2 + .1 over 8 samples: answer .4/8, arithmetic .1/8, probe -.2/8
drift() { "$handoff" compare "$scratch/a.jsonl" "$scratch/b.jsonl" --engines | grep -qE '^all .* \+\.0600 +\+\.0500 +\+\.0125 +-\.0250'; }
strict() { "$handoff" compare "$scratch/a.jsonl" "$scratch/b.jsonl" --engines --tolerance 0 --json |
           grep -qF '"same":1,"tokens":1,"media":1,"answer":1,"arithmetic":2'; }
lacking() {
    sed 2d "$scratch/b.jsonl" >"$scratch/c.jsonl"
    fails 3 'a.jsonl:2: .* has no such sample' "$handoff" compare "$scratch/a.jsonl" "$scratch/c.jsonl" --engines &&
    "$handoff" compare "$scratch/a.jsonl" "$scratch/c.jsonl" --engines --common --json | grep -q '"n":7'
}
check "each kind of difference" kinds
check "parts of the drift" drift
# A server without a probe: no drift, and no "nan".
reference() {
    sed 's/"confidence":[0-9.]*,//; s/,"confidence":[0-9.]*}/}/' "$scratch/b.jsonl" >"$scratch/d.jsonl"
    "$handoff" compare "$scratch/a.jsonl" "$scratch/d.jsonl" --engines | grep -Eq '^all +8 .* - +- +- +-$'
}
check "without confidence" reference
check "--tolerance" strict
check "samples that one lacks" lacking
finish
