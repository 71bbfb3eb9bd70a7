#!/usr/bin/env bash
# Who includes whom: each room sees its own headers and the public ones of the rooms below it, nothing else.
. "$(dirname "$0")/e2e.sh"

allowed_engine='engine/'
allowed_probe='probe/|engine/(base|engine)\.h'
allowed_datasets='datasets/|engine/base(_archive)?\.h|datasets_'
allowed_eval='eval/|engine/(base|engine|quantize)\.h|probe/probe\.h|datasets/datasets\.h|reports/report\.h'
allowed_reports='reports/|eval/results\.h|engine/base\.h'

includes_ok() {
    local room=$1 allowed=$2
    grep -nE '^ *# *include *"' "$room"/*.[ch] | grep -vE "include *\"($allowed)"
    [ "${PIPESTATUS[1]}" -ne 0 ]
}
for room in engine probe datasets eval reports; do
    allowed=allowed_$room
    check "$room includes what it may" includes_ok $room "${!allowed}"
done
check "the top level is the design's" bash -c '
    git ls-tree --name-only HEAD | grep -vE "^(engine|probe|eval|datasets|reports|scripts|tests|Makefile|README\.md|LICENSE|\..*)$" |
    (! grep .)'
check "no file is too long" bash -c 'wc -l engine/*.[ch] probe/*.[ch] eval/*.[ch] datasets/*.[ch] reports/*.[ch] |
    awk "\$2 != \"total\" && \$2 !~ /_(table|grids)\.h$/ && \$1 > 1200 {print; bad = 1} END {exit bad}"'
finish
