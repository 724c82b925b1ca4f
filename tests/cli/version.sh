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

# Flags of every command are accepted before and after its name.
cp "$work/out" "$work/after"
for way in "--json version" "--color never --json version" "--json --color=never --version" "-q --json -V"; do
    # shellcheck disable=SC2086
    call 0 $way
    cmp -s "$work/out" "$work/after" || fail "mote $way is not mote version --json"
done
call 0 -q version
stdout_is "mote 0.1.0"
call 0 --json
json '"commands" in d'
call 2 --threads 2 version
stderr_is "mote: unknown flag --threads before the command; flags of a command follow its name (try: mote help) [bad_argument]"
call 2 -qZ version
call 2 --json vresion
stderr_is "mote: unknown command vresion; did you mean version? [bad_argument]"
finish
