#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Help of the commands at three widths; mote help COMMAND and mote COMMAND --help are the same.
. "$(dirname "$0")/lib.sh"

call 0
stdout_is_file overview.txt
stderr_is ""
cp "$work/out" "$work/overview"
for way in help --help -h; do
    call 0 $way
    cmp -s "$work/out" "$work/overview" || fail "mote $way is not the overview"
done

# With an installed model the overview ends with a suggestion.
mkdir "$work/models"
cp "$DATA/mote-tiny-Q4_K_M.gguf" "$work/models/tiny.gguf"
MOTE_MODELS=$work/models "$MOTE" >"$work/out"
{ cat "$work/overview" && echo "To chat with an installed model: mote chat"; } | cmp -s - "$work/out" ||
    fail "no suggestion: $(tail -n 2 "$work/out")"

for command in run tokenize show logits version help; do
    call 0 help $command
    stdout_is_file $command.80.txt
    stderr_is ""
    cp "$work/out" "$work/help"
    call 0 $command --help
    cmp -s "$work/out" "$work/help" || fail "mote $command --help is not mote help $command"
    call 0 $command -h --no-progress
    cmp -s "$work/out" "$work/help" || fail "mote $command -h is not mote help $command"
done

# All widths have the same words. No line is longer than the terminal, except a single word and the
# examples, which are not wrapped.
words() { tr -s ' \n' '\n\n' <"$1" | sort; }
call 0 help run
words "$work/out" >"$work/words"
for columns in 40 200; do
    COLUMNS=$columns
    export COLUMNS
    call 0 help run
    stdout_is_file run.$columns.txt
    words "$work/out" | cmp -s - "$work/words" || fail "the words differ at $columns columns"
    sed '/^Examples/,$d' "$work/out" >"$work/text"
    awk -v most=$columns 'length($0) > most && !/--/ { bad = 1 } END { exit bad }' "$work/text" ||
        fail "a line is longer than $columns columns"
done
unset COLUMNS

call 0 help run --color=always
grep -q "$(printf '\033\\[1mPrompt')" "$work/out" || fail "--color=always shows no bold heading"
NO_COLOR=1 CLICOLOR_FORCE=1 "$MOTE" help run >"$work/out"
grep -q "$(printf '\033')" "$work/out" && fail "NO_COLOR shows colours"
CLICOLOR_FORCE=1 "$MOTE" help run >"$work/out"
grep -q "$(printf '\033')" "$work/out" || fail "CLICOLOR_FORCE shows no colours"

call 0 help --json
json '{c["name"] for c in d["commands"]} >= {"run", "tokenize", "show", "logits", "version", "help"}'
json 'all(set(f) == {"name", "letter", "value", "words", "default", "environment", "aliases", "config", "range", "repeat", "group", "help"} for c in d["commands"] for f in c["flags"])'
json 'all(len({f["name"] for f in c["flags"]}) == len(c["flags"]) for c in d["commands"])'
json 'all(len([f["letter"] for f in c["flags"] if f["letter"]]) == len({f["letter"] for f in c["flags"] if f["letter"]}) for c in d["commands"])'

# An alias of a flag is the name of no other flag. A key of the config file has one kind of value, whichever
# command reads it; the words of a choice may differ.
json 'all(len(names) == len(set(names)) for c in d["commands"] for names in [[n for f in c["flags"] for n in [f["name"]] + (f["aliases"] or "").split("|") if n]])'
json 'all(len({f["repeat"] for f in fs}) == 1 and len({f["value"] is None for f in fs}) == 1 and len({f["range"] is None for f in fs}) == 1 for k in {f["name"] for c in d["commands"] for f in c["flags"]} for fs in [[f for c in d["commands"] for f in c["flags"] if f["name"] == k and f["config"]]] if fs)'

# Every number has a range in its help, and values outside of it are refused with the value. So are those of
# the environment.
python3 - "$MOTE" "$work/out" <<'PYTHON' || fail "a range is missing or not enforced"
import json, os, re, subprocess, sys
mote, page = sys.argv[1:]
numbers = 0
def refused(args, env, source, value):
    run = subprocess.run([mote] + args, env=dict(os.environ, **env), capture_output=True, text=True)
    if run.returncode != 2 or source + " must be" not in run.stderr or f"got '{value}'" not in run.stderr:
        sys.exit(f"{args} {env}: {run.returncode} {run.stderr}")
for command in json.load(open(page))["commands"]:
    for flag in command["flags"]:
        if not flag["range"]:
            continue
        numbers += 1
        words = {"run": ["m", "a"], "perplexity": ["m", "f"], "compare": ["m", "m", "f"], "eval": ["m", "f"],
                 "quantize": ["m", "o", "q8_0"], "batch": ["i", "o"], "imatrix": ["m", "f"]}.get(command["name"], ["m"])
        bounds = re.fullmatch(r"(\S+) to (\S+)", flag["range"])
        values = ["x", "-9", str(float(bounds[2]) * 2 + 1) if bounds else "99999999999999999999"]
        for value in values:
            source = "--" + flag["name"]
            refused([command["name"]] + words + [source + "=" + value], {}, source, value)
            if flag["environment"]:
                refused([command["name"]] + words, {flag["environment"]: value}, flag["environment"], value)
sys.exit(None if numbers > 25 else f"only {numbers} numbers")
PYTHON
# A usage line has every word once. A command lists MOTE_MODEL if and only if it uses it: the name of a file that does
# not exist appears in its message.
call 0 help --json
python3 -c 'import json, sys
for c in json.load(open(sys.argv[1]))["commands"]:
    model = [f for f in c["flags"] if f["name"] == "model" and f["group"] == "Model"]
    print(c["name"], model[0]["environment"] if model else "-")' "$work/out" >"$work/commands"
while read -r command variable; do
    call 0 help "$command"
    sed -n '1,/^$/p' "$work/out" | tr -s ' \n' '\n\n' | grep '^\[' | sort | uniq -d | grep . &&
        fail "a word is twice in the usage of $command: $(head -n 1 "$work/out")"
    grep -q '^  MOTE_MODEL  ' "$work/out" && listed=MOTE_MODEL || listed=None
    [ "$listed" = "${variable#-}" ] || [ "$listed:$variable" = None:- ] || fail "help of $command: MOTE_MODEL is $listed, --json says $variable"
    # These start, compute, or need files, a terminal or a server first.
    case $command:$variable in batch:* | serve:* | selftest:* | fit:* | chat:* | stop:* | *:-) continue ;; esac
    MOTE_MODEL=$work/none.gguf "$MOTE" "$command" --no-progress >"$work/out" 2>"$work/err" </dev/null
    grep -q none.gguf "$work/err" && used=MOTE_MODEL || used=None
    [ "$used" = "$variable" ] || fail "mote $command uses $used, its help says $variable: $(cat "$work/err")"
done <"$work/commands"
finish
