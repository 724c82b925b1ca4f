#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The config file: where it is found, which value counts, its errors. Other names of flags.
. "$(dirname "$0")/lib.sh"
need_model
config=$work/config
MOTE_CONFIG=$config
export MOTE_CONFIG

# says CODE SENTENCE ARGUMENTS...: the only message of mote.
says() {
    wanted_code=$1
    sentence=$2
    shift 2
    call "$wanted_code" "$@"
    stderr_is "$sentence"
}
answer() { call 0 run "$model" Hi -n 1 --json "$@"; }

# flag > environment > config file > default
echo 'context = 1000' >"$config"
answer
json 'd["mote"]["context"] == 1000'
MOTE_CONTEXT=1100
export MOTE_CONTEXT
answer
json 'd["mote"]["context"] == 1100'
answer --context 1200
json 'd["mote"]["context"] == 1200'
unset MOTE_CONTEXT
echo >"$config"
answer
json 'd["mote"]["context"] not in (1000, 1100, 1200)'

# Sections: [model NAME] counts more than the keys before the first section, and an alias has the settings of
# its model.
cat >"$config" <<END
seed = 1
top-k = 3          # a comment
temperature = 0.5  # the name that other programs use
no-progress = true
stop = never
stop = "# at all"
[serve]
seed = 2           # not a flag of serve, and of no interest to run
[model $model]
seed = 3
[model gpt-4o-mini]
top-k = 4
[alias]
gpt-4o-mini = $model:nothink
END
answer
json 'd["mote"]["sampling"]["seed"] == 3 and d["mote"]["sampling"]["top_k"] == 3'
json 'd["mote"]["sampling"]["temperature"] == 0.5'
stderr_is "warning: $config:8: unknown key seed; did you mean spec?"
answer -q
stderr_is ""
answer --seed 9 --top-k 5
json 'd["mote"]["sampling"]["seed"] == 9 and d["mote"]["sampling"]["top_k"] == 5'

call 0 run gpt-4o-mini Hi -n 1 --json -q
json 'd["mote"]["sampling"]["seed"] == 3 and d["mote"]["sampling"]["top_k"] == 4'
call 0 tokenize gpt-4o-mini Hi -q
stdout_is "$("$MOTE" tokenize "$model" Hi -q)"

# A text of the file has the checks of a flag, with the place.
one_line() { printf '%s\n' "$2" >"$config"; says 2 "mote: $config:1: $1 [bad_argument]" run "$model" Hi; }
one_line "temp must be a number from 0 to 2, got 'hot'" 'temp = hot'
one_line "context must be auto or a whole number from 1 to 4194304, got '0'" 'context = 0'
one_line "kv must be f16|f32|q8_0|q4_0, got 'q4'" 'kv = q4'
one_line "think must be on, off, auto, minimal, low, medium, high, max or a number of tokens, got 'hard'" 'think = hard'
one_line "hide-thinking must be true or false, got 'maybe'" 'hide-thinking = maybe'
one_line "a line must be key = value or [section], got 'memory 6GB'" 'memory 6GB'
one_line "a section must end with ], got '[serve'" '[serve'
# A value that a flag replaces is not read, as with a variable.
echo 'temp = hot' >"$config"
call 0 run "$model" Hi -n 1 --temp 0
# A mistake in the file does not keep help from working.
call 0 help run
call 0 run --help
call 0 version

# Unknown keys and sections are warnings with the nearest name; errors with --strict.
printf 'memroy = 6GB\nxyzzy = 1\nprompt = hello\n[server]\nlisten = x\n[serve]\nlistne = y\n[model]\nseed = 1\n' >"$config"
call 0 tokenize "$model" Hi
stdout_is "$("$MOTE" tokenize "$model" Hi 2>/dev/null)"
stderr_is "warning: $config:1: unknown key memroy; did you mean memory?
warning: $config:2: unknown key xyzzy
warning: $config:3: --prompt is for one command line, not for the config file
warning: $config:4: unknown section [server]; sections are [serve], [model NAME] and [alias]
warning: $config:7: unknown key listne; did you mean listen?
warning: $config:8: unknown section [model]; sections are [serve], [model NAME] and [alias]"
says 2 "mote: $config:1: unknown key memroy; did you mean memory? [bad_argument]" tokenize "$model" Hi --strict
stdout_is ""
printf 'strict = true\nxyzzy = 1\n' >"$config"
says 2 "mote: $config:2: unknown key xyzzy [bad_argument]" tokenize "$model" Hi
call 0 tokenize "$model" Hi --strict=false

# [serve] counts for serve only.
printf 'sandbox = sometimes\n[serve]\nsandbox = never\n' >"$config"
says 2 "mote: $config:3: sandbox must be on|require|off, got 'never' [bad_argument]" serve "$model"
call 0 tokenize "$model" Hi
# [model NAME] counts for a server with one model.
printf '[model %s]\nparallel = 0\n[serve]\nparallel = 5\n' "$model" >"$config"
says 2 "mote: $config:2: parallel must be a whole number from 1 to 256, got '0' [bad_argument]" serve "$model"

# Where the file is found.
rm -f "$config"
says 2 "mote: MOTE_CONFIG: no such file: $config [bad_argument]" tokenize "$model" Hi
unset MOTE_CONFIG
mkdir -p "$work/home/.config/mote" "$work/xdg/mote"
echo 'context = 900' >"$work/home/.config/mote/config"
echo 'context = 800' >"$work/xdg/mote/config"
found() {
    HOME=$work/home XDG_CONFIG_HOME=$1 "$MOTE" run "$model" Hi -n 1 --json >"$work/out" || fail "no answer"
    json "d['mote']['context'] == $2"
}
found "$work/xdg" 800
found "" 900
found relative 900
MOTE_CONFIG=/dev/null
export MOTE_CONFIG

# The model: an argument, -m, --model, MOTE_MODEL or a key. The flag leaves all arguments to the prompt.
for m in "-m $model" "--model=$model" "-m$model"; do
    call 0 run $m Hi -n 1 --seed 1 --temp 0
    stdout_is "$("$MOTE" run "$model" Hi -n 1 --seed 1 --temp 0 2>/dev/null)"
    call 0 tokenize $m Hi
    stdout_is "$("$MOTE" tokenize "$model" Hi)"
    call 0 show $m
    call 0 logits $m --ids 1
done
says 3 "mote: no such file: x.gguf; give the path of a .gguf file [not_found]" serve -m x.gguf
MOTE_MODEL=$model
export MOTE_MODEL
call 0 show --json
json 'd["name"] == "mote-tiny"'
says 3 "mote: no such file: x.gguf; give the path of a .gguf file [not_found]" show x.gguf
unset MOTE_MODEL
echo "model = $model" >"$config"
MOTE_CONFIG=$config "$MOTE" show --json >"$work/out"
json 'd["name"] == "mote-tiny"'

# Names that other programs have for a flag.
for name in num-ctx ctx-size n-ctx; do
    answer --$name 1300
    json 'd["mote"]["context"] == 1300'
    call 0 show "$model" --$name=1300
done
answer --temperature 0.25 --presence-penalty 0.5 --frequency-penalty 0.5 --num-predict 1
json '[d["mote"]["sampling"][k] for k in ("temperature", "presence_penalty", "frequency_penalty")] == [0.25, 0.5, 0.5]'
says 2 "mote: --context must be auto or a whole number from 1 to 4194304, got '0' [bad_argument]" run "$model" Hi --num-ctx 0
finish
