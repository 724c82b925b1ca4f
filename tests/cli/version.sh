#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# mote version, as text and as JSON.
. "$(dirname "$0")/lib.sh"

call 0 version -q
stdout_is "mote 0.1.0"
stderr_is ""
for way in version --version -V; do
    call 0 $way
    [ "$(head -n 1 "$work/out")" = "mote 0.1.0" ] || fail "mote $way"
done
for fact in commit numerics compiler 'instruction sets' libraries; do
    grep -q "^  $fact  *[^ ]" "$work/out" || fail "no $fact in the output"
done
call 0 version --json
json 'set(d) == {"version", "commit", "numerics", "compiler", "isa", "libraries"}'
json 'd["version"] == "0.1.0" and d["isa"]["used"] in d["isa"]["built"] and d["isa"]["built"][0] == "ref"'
finish
