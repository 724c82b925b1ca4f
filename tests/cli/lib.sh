# SPDX-License-Identifier: Apache-2.0
# lib.sh - sourced by the tests of this folder, which run the real program.
#
# MOTE is the program, DATA the folder of test models; ctest sets both. With
# MOTE_TEST_UPDATE=1 the expected outputs are written instead of compared.
# shellcheck shell=sh disable=SC2034
set -u
here=$(dirname "$0")
model=$DATA/mote-tiny-Q4_K_M.gguf
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

# Nothing of the caller's surroundings may show in an output.
unset MOTE_CONTEXT MOTE_THREADS MOTE_KV MOTE_ISA NO_COLOR CLICOLOR_FORCE COLUMNS
LC_ALL=C.UTF-8
export LC_ALL

fail() {
    echo "FAIL: $*"
    failures=$((failures + 1))
}

need_model() {
    [ -f "$model" ] || { echo "there is no $model"; exit 77; }
}

# call CODE ARGUMENTS...: runs mote without input; its output is in $work/out and $work/err.
call() {
    wanted=$1
    shift
    "$MOTE" "$@" >"$work/out" 2>"$work/err" </dev/null
    code=$?
    [ $code -eq "$wanted" ] || fail "mote $*: exit code $code, not $wanted: $(cat "$work/err")"
}

# prints TEXT, says TEXT: exactly what the last call wrote to stdout, to stderr.
prints() {
    [ "$(cat "$work/out")" = "$1" ] || fail "stdout is '$(cat "$work/out")', not '$1'"
}

says() {
    [ "$(cat "$work/err")" = "$1" ] || fail "stderr is '$(cat "$work/err")', not '$1'"
}

# prints_file NAME: stdout of the last call is expected/NAME.
prints_file() {
    if [ "${MOTE_TEST_UPDATE:-0}" = 1 ]; then
        cp "$work/out" "$here/expected/$1"
    elif ! diff -u "$here/expected/$1" "$work/out"; then
        fail "stdout is not expected/$1"
    fi
}

# json EXPRESSION: stdout of the last call is one JSON document d for which it holds.
json() {
    command -v python3 >/dev/null || return 0
    python3 -c 'import json, sys
d = json.loads(open(sys.argv[1], encoding="utf-8").read())
sys.exit(0 if eval(sys.argv[2]) else 1)' "$work/out" "$1" ||
        fail "not so: $1, in $(head -c 2000 "$work/out")"
}

finish() {
    [ $failures -eq 0 ] && exit 0
    echo "$failures failed"
    exit 1
}
