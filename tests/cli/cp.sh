#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# mote cp: a name for a model, with settings; mote rm of the name.
. "$(dirname "$0")/lib.sh"
need_model
unset MOTE_CONFIG
HOME=$work/home XDG_CONFIG_HOME=$work/home/config XDG_CACHE_HOME=$work/home/cache
export HOME XDG_CONFIG_HOME XDG_CACHE_HOME
mkdir -p "$HOME/models"
cp "$model" "$HOME/models/tiny.gguf"
MOTE_MODELS=$HOME/models
export MOTE_MODELS

call 0 cp tiny fast --temp 0 --max-tokens 3 --set seed=7
stderr_is "fast stands for tiny"
call 0 run fast "Say hello." --json
json 'd["mote"]["sampling"]["temperature"] == 0 and d["mote"]["sampling"]["seed"] == 7'
json 'd["usage"]["completion_tokens"] <= 3'
# A flag counts more than a setting of the alias.
call 0 run fast "Say hello." --seed 8 --max-tokens 1 --json
json 'd["mote"]["sampling"]["seed"] == 8 and d["usage"]["completion_tokens"] == 1'
# A second alias keeps the first; the same name again replaces its settings.
call 0 cp "$HOME/models/tiny.gguf" other --system "You count. # not a comment"
call 0 cp tiny fast --temp 1
grep -q '^max-tokens' "$XDG_CONFIG_HOME/mote/aliases" && fail "old settings of fast are left"
grep -q "^other = \"$HOME/models/tiny.gguf\"" "$XDG_CONFIG_HOME/mote/aliases" || fail "no alias other"
call 0 show other
call 0 verify fast

call 3 cp nosuchmodel fast2
call 2 cp tiny qwen3.5:4b
call 2 cp tiny tiny
call 2 cp tiny 'a/b'
call 2 cp fast again
grep -q 'fast is an alias itself' "$work/err" || fail "alias of an alias"
call 2 cp tiny odd --set nosuchkey=1
call 2 cp tiny odd --system 'say "hi"'
# Values are checked as mote run checks them.
call 2 cp tiny odd --preset nonsense
stderr_is "mote: --preset must be general|coding|reasoning|vision, got 'nonsense' [bad_argument]"
call 2 cp tiny odd --set preset=nonsense
stderr_is "mote: --set preset must be general|coding|reasoning|vision, got 'nonsense' [bad_argument]"
call 2 cp tiny odd --set seed=x
call 2 cp tiny odd --set kv=f8
call 2 cp tiny odd --think sometimes
call 0 cp tiny other2 --preset coding --think low --temp 0.5 --context 512 --set kv=f32
call 0 rm other2
grep -q odd "$XDG_CONFIG_HOME/mote/aliases" && fail "an invalid alias was written"

call 0 rm fast
stdout_is "removed the alias fast"
call 3 run fast Hello
call 0 show other
[ -f "$HOME/models/tiny.gguf" ] || fail "mote rm removed the file"
call 11 rm tiny
MOTE_CONFIG=/dev/null
export MOTE_CONFIG
call 2 cp tiny again

finish
