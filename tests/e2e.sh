# e2e.sh - sourced by the *.test.sh files: checks that count, a scratch folder, the program.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/.."
handoff=${HANDOFF:-build/handoff}
mini=datasets/mini
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
passed=0 failed=0

# check NAME COMMAND...: the command must succeed
check() {
    local name=$1; shift
    if "$@" >"$scratch/check.out" 2>&1; then
        passed=$((passed + 1)); echo "  ok $name"
    else
        failed=$((failed + 1)); echo "FAIL $name"; tail -n 12 "$scratch/check.out"
    fi
}
# fails STATUS PATTERN COMMAND...: it must end with this status and say, in one line on stderr, what matches PATTERN
fails() {
    local want=$1 pattern=$2; shift 2
    "$@" >"$scratch/out" 2>"$scratch/err"; local status=$?
    [ $status -eq "$want" ] || { echo "status $status, not $want: $(cat "$scratch/err")"; return 1; }
    [ "$(wc -l <"$scratch/err")" -eq 1 ] || { echo "not one line: $(cat "$scratch/err")"; return 1; }
    grep -qE -- "$pattern" "$scratch/err" || { echo "no \"$pattern\" in: $(cat "$scratch/err")"; return 1; }
}
# records RUN: its records without the timings
records() { sed 's/,"ms":{[^}]*}//' "$1/records.jsonl"; }
same_records() { records "$1" >"$scratch/a"; records "$2" >"$scratch/b"; cmp "$scratch/a" "$scratch/b"; }
finish() { echo "$passed passed, $failed failed"; [ "$failed" -eq 0 ]; }
