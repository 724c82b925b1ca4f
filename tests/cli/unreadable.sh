#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Directories of models that cannot be read: every command says which one and why. They do not count as empty.
. "$(dirname "$0")/lib.sh"
tiny=$DATA/shapes/r1-gqa4-tied.gguf
[ -f "$tiny" ] || { echo "no $tiny"; exit 77; }

# The administrator reads everything, so mote runs without this right.
program=$MOTE
if [ "$(id -u)" = 0 ]; then
    command -v setpriv >/dev/null || { echo "no setpriv"; exit 77; }
    printf '#!/bin/sh\nexec setpriv --bounding-set -dac_override,-dac_read_search -- "%s" "$@"\n' "$program" >"$work/mote"
    chmod +x "$work/mote"
    MOTE=$work/mote
fi
mkdir "$work/closed"
chmod 0 "$work/closed"
"$MOTE" run "$work/closed" x >"$work/out" 2>&1
grep -q 'Permission denied' "$work/out" || { echo "this user reads everything: $(cat "$work/out")"; exit 77; }
trap 'chmod -R u+rwx "$work"; rm -rf "$work"' EXIT

# says PATH [REASON]: the last call names the directory and the reason.
says() {
    grep -qF "cannot read the directory $1: ${2:-Permission denied}" "$work/err" || fail "no word about $1: $(cat "$work/err")"
}

MOTE_MODELS=$HOME/models
export MOTE_MODELS
mkdir "$MOTE_MODELS"
cp "$tiny" "$MOTE_MODELS/tiny.gguf"
hub=$HOME/.cache/huggingface/hub
snapshot=$hub/models--unsloth--Qwen3.5-4B-GGUF/snapshots/0123456789abcdef0123456789abcdef01234567
mkdir -p "$snapshot" "$HOME/.ollama/models/manifests/registry.ollama.ai" "$HOME/.lmstudio/models/pub"
cp "$tiny" "$snapshot/Qwen3.5-4B-Q4_K_M.gguf"
call 0 list
stderr_is ""

# Each part of each store; a directory that can be listed and not entered; one inside of a closed one.
for closed in 0:"$hub" 0:"$hub/models--unsloth--Qwen3.5-4B-GGUF/snapshots" 0:"$snapshot" 400:"$snapshot" \
    0:"$HOME/.ollama/models/manifests" 0:"$HOME/.ollama/models/manifests/registry.ollama.ai" 0:"$HOME/.lmstudio/models" \
    0:"$HOME/.lmstudio/models/pub" 0:"$MOTE_MODELS"; do
    path=${closed#*:}
    chmod "${closed%%:*}" "$path"
    call 0 list
    says "$path"
    call 0 list -q
    stderr_is ""
    call 0 list --json
    json "any(i['path'] == '$path' and i['reason'] == 'Permission denied' for i in d['ignored'])"
    call 3 run nosuchmodel x
    says "$path"
    call 3 show qwen3.5:9b
    says "$path"
    call 3 verify nosuchmodel
    says "$path"
    call 3 rm nosuchmodel
    says "$path"
    "$MOTE" doctor --json >"$work/out" 2>"$work/err"
    json "any(f['state'] == 'problem' and f['text'] == 'the directory $path cannot be read: Permission denied' and f['advice'] for f in d['findings'])"
    chmod 755 "$path"
done
chmod 0 "$HOME/.ollama"
call 0 list
says "$HOME/.ollama/models"
chmod 755 "$HOME/.ollama"

# A directory as the argument.
chmod 0 "$MOTE_MODELS"
call 11 show "$MOTE_MODELS"
stderr_is "mote: cannot read $MOTE_MODELS: Permission denied [permission]"
chmod 755 "$MOTE_MODELS"
chmod 0 "$MOTE_MODELS/tiny.gguf"
call 0 list
grep -q 'tiny .*unusable (Permission denied)' "$work/out" || fail "$(cat "$work/out")"

# Directories that MOTE_MODELS names and that are not there.
MOTE_MODELS=$HOME/none:$tiny
call 0 list
says "$HOME/none" "No such file or directory"
says "$tiny" "Not a directory"

# mote rm must know all users of a file.
unset MOTE_MODELS
other=$hub/models--unsloth--Qwen3.5-4B-GGUF/snapshots/fedcba9876543210fedcba9876543210fedcba98
mkdir "$other"
chmod 0 "$other"
call 1 rm qwen3.5:4b
says "$other"
[ -f "$snapshot/Qwen3.5-4B-Q4_K_M.gguf" ] || fail "mote rm removed a file that an unreadable snapshot may use"
chmod 755 "$other"
call 0 rm qwen3.5:4b
finish
