#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# mote selftest and mote doctor on this machine.
. "$(dirname "$0")/lib.sh"

# Every level of this CPU passes every check.
call 0 selftest --json
json 'd["ok"] and d["model"] is None and d["levels"][0]["level"] == "ref"'
json 'all(c["runs"] > 0 and c["failed"] == 0 for l in d["levels"] for c in l["checks"])'
levels=$(python3 -c 'import json, sys; print(len(json.load(open(sys.argv[1]))["levels"]))' "$work/out")

# A file: the levels agree with each other.
need_model
call 0 selftest "$model"
[ "$(wc -l <"$work/out")" -eq $((levels + 1)) ] || fail "not one line per level"
grep -q DIFFERENT "$work/out" && fail "levels differ: $(cat "$work/out")"
stderr_is ""
call 3 selftest "$work/none.gguf"
head -c 100000 "$model" >"$work/cut.gguf"
call 6 selftest "$work/cut.gguf"
call 2 selftest "$model" --tokens 0

# doctor: whether this machine has a problem is not known, so the code is compared with the findings.
MOTE_MODELS=$DATA
HF_HUB_CACHE=$HOME/hub
USER=jdoe123
export MOTE_MODELS HF_HUB_CACHE USER
"$MOTE" doctor --json >"$work/out" 2>"$work/err"
code=$?
json 'd["problems"] == sum(f["state"] == "problem" for f in d["findings"])'
json "($code == 1) == (d['problems'] > 0)"
json '[f["section"] for f in d["findings"]] == sorted((f["section"] for f in d["findings"]), key=["CPU", "Memory", "Models", "System", "Settings"].index)'
json '{"level", "cores", "memory", "store", "models", "disk speed", "sandbox", "port", "clock"} <= {f["check"] for f in d["findings"]}'
json 'all(f["advice"] for f in d["findings"] if f["state"] == "problem")'
problems=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["problems"])' "$work/out")
[ "$problems" -eq 0 ] && wanted=0 || wanted=1

# The report has neither the home directory nor names.
call $wanted doctor --report "$work/report"
grep -q '~/hub' "$work/report" || fail "the report does not name the store: $(cat "$work/report")"
grep -q -F -e "$HOME" -e jdoe123 -e "$(uname -n)" "$work/report" && fail "the report has a name"
call 12 doctor --report "$work/none/report"

# Nor texts of settings, keys and tokens; a name of two letters is a name, too.
printf 'system = "my private words"\nmodel = %s/private.gguf\n[serve]\nlisten = private.example:80\n' "$HOME" >"$work/config"
MOTE_CONFIG=$work/config MOTE_API_KEY=private-key HF_TOKEN=private-token MOTE_HOST=private.example:80 USER=jo \
    "$MOTE" doctor --report "$work/report" >"$work/out" 2>"$work/err"
grep -q 'system is set, from ' "$work/report" || fail "$(cat "$work/report")"
grep -q -e private -e '/jo/' "$work/report" && fail "the report has private text: $(grep private "$work/report")"

# Settings and their origins; a wrong config file is a finding, not the end.
printf 'memory = 2GB\n[serve]\nparallel = 3\n' >"$work/config"
MOTE_KV=q8_0 MOTE_CONFIG=$work/config "$MOTE" doctor --config --json >"$work/out" 2>"$work/err"
json '("memory", "2GB", "'"$work"'/config:1") in [(s["name"], s["value"], s["origin"]) for s in d["settings"]]'
json '("kv", "q8_0", "MOTE_KV") in [(s["name"], s["value"], s["origin"]) for s in d["settings"]]'
json '"default" in [s["origin"] for s in d["settings"]]'
echo 'not a setting' >"$work/config"
MOTE_CONFIG=$work/config call 1 doctor -q
grep -q '^  problem  config file' "$work/out" || fail "no finding about the config file: $(cat "$work/out")"
finish
