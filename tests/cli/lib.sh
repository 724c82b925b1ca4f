# SPDX-License-Identifier: Apache-2.0
# lib.sh - functions for the scripts of this directory, which run the real program.
#
# MOTE is the program, DATA the directory of the test models; ctest sets both. With
# MOTE_TEST_UPDATE=1 expected outputs are written instead of compared.
# shellcheck shell=sh disable=SC2034
set -u
here=$(dirname "$0")
model=$DATA/mote-tiny-Q4_K_M.gguf
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

# The caller's environment must not affect the output.
unset MOTE_CACHE_KEY MOTE_CONTEXT MOTE_THREADS MOTE_KV MOTE_ISA MOTE_MODEL NO_COLOR CLICOLOR_FORCE COLUMNS
MOTE_CONFIG=/dev/null
export MOTE_CONFIG
# Nor the models and settings of the user.
unset HF_HUB_CACHE HUGGINGFACE_HUB_CACHE HF_HOME OLLAMA_MODELS LLAMA_CACHE MOTE_MODELS
unset XDG_CONFIG_HOME XDG_CACHE_HOME XDG_DATA_HOME
HOME=$work/home
mkdir "$HOME"
export HOME
LC_ALL=C.UTF-8
export LC_ALL

fail() {
    echo "FAIL: $*"
    failures=$((failures + 1))
}

need_model() {
    [ -f "$model" ] || { echo "no $model"; exit 77; }
}

# The prefix cache on disk, for tests that share it between processes.
use_disk_cache() {
    MOTE_CACHE=$work/cache
    MOTE_CACHE_DISK=50MB
    export MOTE_CACHE MOTE_CACHE_DISK
}

# The answer of the last call of mote run --json.
content() {
    python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["content"])' "$work/out"
}

# call CODE ARGUMENTS...: runs mote without input; its output is in $work/out and $work/err.
call() {
    wanted=$1
    shift
    "$MOTE" "$@" >"$work/out" 2>"$work/err" </dev/null
    code=$?
    [ $code -eq "$wanted" ] || fail "mote $*: exit code $code, not $wanted: $(cat "$work/err")"
}

# stdout_is TEXT, stderr_is TEXT: the exact output of the last call.
stdout_is() {
    [ "$(cat "$work/out")" = "$1" ] || fail "stdout is '$(cat "$work/out")', not '$1'"
}

stderr_is() {
    [ "$(cat "$work/err")" = "$1" ] || fail "stderr is '$(cat "$work/err")', not '$1'"
}

# stdout_is_file NAME: stdout of the last call equals expected/NAME.
stdout_is_file() {
    if [ "${MOTE_TEST_UPDATE:-0}" = 1 ]; then
        cp "$work/out" "$here/expected/$1"
    elif ! diff -u "$here/expected/$1" "$work/out"; then
        fail "stdout is not expected/$1"
    fi
}

# json EXPRESSION: stdout of the last call is a JSON document d, and the expression is true.
json() {
    command -v python3 >/dev/null || return 0
    python3 -c 'import json, sys
d = json.loads(open(sys.argv[1], encoding="utf-8").read())
sys.exit(0 if eval(sys.argv[2]) else 1)' "$work/out" "$1" ||
        fail "false: $1, in $(head -c 2000 "$work/out")"
}

finish() {
    [ $failures -eq 0 ] && exit 0
    echo "$failures failed"
    exit 1
}
