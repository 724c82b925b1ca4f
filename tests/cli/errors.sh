#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Error messages and exit codes. Nothing is written to stdout.
. "$(dirname "$0")/lib.sh"
need_model

# wrong CODE SENTENCE ARGUMENTS...
wrong() {
    wanted_code=$1
    sentence=$2
    shift 2
    call "$wanted_code" "$@"
    stderr_is "mote: $sentence"
    stdout_is ""
}

wrong 2 "unknown command rnu; did you mean run? [bad_argument]" rnu
wrong 2 "unknown command xyzzy (try: mote help) [bad_argument]" xyzzy
wrong 2 "unknown command tokens; did you mean tokenize? [bad_argument]" help tokens
wrong 2 "missing argument: mote run FILE [PROMPT...] (try: mote help run) [bad_argument]" run
wrong 2 "unexpected argument 'now' of mote version (try: mote help version) [bad_argument]" version now
wrong 2 "unknown flag --max-token of mote run; did you mean --max-tokens? [bad_argument]" run m --max-token 5
wrong 2 "unknown flag --tpo-k of mote run; did you mean --top-k? [bad_argument]" run m --tpo-k=5
wrong 2 "unknown flag --zzz of mote run (try: mote help run) [bad_argument]" run m --zzz
wrong 2 "unknown flag -Z of mote run (try: mote help run) [bad_argument]" run m -qZ
wrong 2 "--temp must be a number from 0 to 2, got 'warm' [bad_argument]" run m --temp warm
wrong 2 "--temp must be a number from 0 to 2, got '2.5' [bad_argument]" run m --temp=2.5
wrong 2 "--temp must be a number from 0 to 2, got 'nan' [bad_argument]" run m --temp nan
wrong 2 "-n must be a whole number from 1 to 4194304, got '1.5' [bad_argument]" run m -n1.5
wrong 2 "--seed must be a whole number of at least 0, got '-1' [bad_argument]" run m --seed -1
wrong 2 "--kv must be f16|f32|q8_0, got 'q8' [bad_argument]" run m --kv q8
wrong 2 "-n needs a value: -n N [bad_argument]" run m -n
wrong 2 "--raw takes no value [bad_argument]" run m --raw=yes
wrong 2 "no prompt (try: mote run m \"Why is the sky blue?\") [bad_argument]" run m
wrong 2 "--think must be on, off, auto, minimal, low, medium, high, max or a number of tokens, got 'hard' [bad_argument]" run m a --think hard
wrong 2 "--json-schema, --format, --grammar, --regex and --choice exclude each other [bad_argument]" run m a --regex x --choice a,b
wrong 2 "--json-schema, --format, --grammar, --regex and --choice exclude each other [bad_argument]" run m a --regex x --grammar 'root ::= "a"'
wrong 1 "cannot open $work/none.gbnf: No such file or directory [io_error]" run m a --grammar "$work/none.gbnf"
wrong 2 "--choice must be words separated by commas, such as yes,no [bad_argument]" run m a --choice yes,
wrong 2 "--special needs --raw: in a chat, text never becomes a control token [bad_argument]" run m a --special
wrong 2 "--raw and --system exclude each other [bad_argument]" run m a --raw --system s
wrong 1 "cannot open $work/none.json: No such file or directory [io_error]" run m a --tools "$work/none.json"
wrong 2 "no prompt (try: mote run $model --raw \"Once upon a time\") [bad_argument]" run "$model" --raw
wrong 2 "two prompts: 'a' and --prompt; give one [bad_argument]" run "$model" --raw a -p b
wrong 2 "--stop must have 1 to 1024 bytes [bad_argument]" run "$model" --raw a --stop ""
wrong 2 "--ids, --count and --pieces exclude each other [bad_argument]" tokenize "$model" --count --ids a
wrong 2 "--decode must be token ids such as 1,2,3; got 'x,3' [bad_argument]" tokenize "$model" --decode 1,x,3
wrong 2 "token id 8192 is outside the vocabulary; the last id is 8191 [bad_argument]" tokenize "$model" --decode 8192
wrong 2 "no text (try: mote tokenize $model \"some text\") [bad_argument]" tokenize "$model"
wrong 2 "give either --ids 1,2,3 or --text TEXT [bad_argument]" logits "$model"
wrong 2 "--json and --out - exclude each other: both write to stdout [bad_argument]" logits "$model" --ids 1 --out - --json

wrong 3 "no such file: $work/none.gguf; give the path of a .gguf file [not_found]" run "$work/none.gguf" --raw a
wrong 3 "no such file: qwen3.5:4b; give the path of a .gguf file [not_found]" show qwen3.5:4b
wrong 3 "$work is a directory; give the path of a .gguf file in it [not_found]" tokenize "$work" a

# Control characters of an argument are escaped in the message.
wrong 3 'no such file: a\x1b[2Jb; give the path of a .gguf file [not_found]' show "$(printf 'a\033[2Jb')"
wrong 3 'no such file: a\nmote: b; give the path of a .gguf file [not_found]' show "$(printf 'a\nmote: b')"

# Damaged files: empty, truncated metadata, truncated weights, not GGUF.
: >"$work/empty.gguf"
wrong 6 "$work/empty.gguf is empty [damaged_file]" run "$work/empty.gguf" --raw a
head -c 3000 "$model" >"$work/cut.gguf"
for command in show tokenize; do
    call 6 $command "$work/cut.gguf" $([ $command = tokenize ] && echo a)
    grep -q "^mote: $work/cut.gguf: .* \[damaged_file\]\$" "$work/err" || fail "$(cat "$work/err")"
done
head -c 5000000 "$model" >"$work/half.gguf"
call 6 run "$work/half.gguf" --raw a
echo "This is a text." >"$work/text.gguf"
call 6 show "$work/text.gguf"

wrong 8 "prompt of 7 tokens does not fit into a context of 4 (try: --context 1031) [context_full]" run "$model" --raw -c 4 "one two three four five six seven"
call 8 logits "$model" -c 2 --ids 1,2,3
grep -q '\[context_full\]$' "$work/err" || fail "$(cat "$work/err")"

call 12 logits "$model" --ids 1 --out "$work/none/x"
if [ -c /dev/full ]; then
    "$MOTE" tokenize "$model" a >/dev/full 2>"$work/err"
    [ $? -eq 12 ] || fail "exit code of a full disk is not 12"
    stderr_is "mote: cannot write to stdout: No space left on device [io_error]"
    call 12 logits "$model" --ids 1 --out /dev/full
fi

# The environment comes after the flags and before the defaults.
MOTE_THREADS=many
export MOTE_THREADS
wrong 2 "MOTE_THREADS must be a whole number from 1 to 1024, got 'many' [bad_argument]" run m --raw a
unset MOTE_THREADS

# -q keeps errors; --color=always colors them.
call 2 run m -q
[ -s "$work/err" ] || fail "-q hides an error"
call 3 show "$work/none.gguf" --color=always
grep -q "$(printf '^\033\\[31mmote:')" "$work/err" || fail "--color=always shows no red"

if [ "$(id -u)" != 0 ]; then
    cp "$model" "$work/secret.gguf"
    chmod 0 "$work/secret.gguf"
    call 11 show "$work/secret.gguf"
fi

mmproj=$DATA/mmproj-mote-tiny-BF16.gguf
[ ! -f "$mmproj" ] ||
    wrong 1 "$mmproj: this file is a vision encoder (mmproj); open the model file and pass this one as its mmproj [unsupported]" run "$mmproj" Hello
finish
