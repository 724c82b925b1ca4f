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
wrong 2 "mote chat needs a terminal (try: mote run MODEL \"Hello\") [bad_argument]" chat "$model"
wrong 2 "missing argument: mote run MODEL [PROMPT...] (try: mote help run) [bad_argument]" run
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
wrong 2 "--kv must be f16|f32|q8_0|q4_0, got 'q8' [bad_argument]" run m --kv q8
# one row of --context: the same names everywhere
for name in context num-ctx ctx-size n-ctx max-model-len; do
    for command in run bench serve; do
        wrong 2 "--context must be auto or a whole number from 1 to 4194304, got '0' [bad_argument]" $command m --$name 0
    done
    for command in show fit "cp m"; do
        wrong 2 "--context must be a whole number from 1 to 4194304, got '0' [bad_argument]" $command m --$name 0
    done
done
levels() { "$MOTE" version | sed -n "s/^  instruction sets  \(.*\);.*/\1/p" | sed "s/ /, /g"; }
case $(uname -m) in
x86_64) wrong 2 "neon is an instruction set level of 64-bit ARM CPUs; levels of this CPU: ref, avx2, avxvnni, avx512, amx [bad_argument]" run "$model" a --isa neon ;;
*) wrong 2 "avx2 is an instruction set level of x86-64 CPUs; levels of this CPU: $(levels) [bad_argument]" run "$model" a --isa avx2 ;;
esac
wrong 2 "-n needs a value: -n N [bad_argument]" run m -n
wrong 2 "--raw must be true or false, got 'maybe' [bad_argument]" run m --raw=maybe
wrong 2 "no prompt (try: mote run m \"Why is the sky blue?\") [bad_argument]" run m
wrong 2 "--think must be on, off, auto, minimal, low, medium, high, max or a number of tokens, got 'hard' [bad_argument]" run m a --think hard
wrong 2 "--json-schema, --format, --grammar, --regex and --choice exclude each other [bad_argument]" run m a --regex x --choice a,b
wrong 2 "--json-schema, --format, --grammar, --regex and --choice exclude each other [bad_argument]" run m a --regex x --grammar 'root ::= "a"'
wrong 1 "cannot open $work/none.gbnf: No such file or directory [io_error]" run m a --grammar "$work/none.gbnf"
wrong 2 "--choice must be words separated by commas, such as yes,no [bad_argument]" run m a --choice yes,
wrong 2 "--special needs --raw: in a chat, text never becomes a control token [bad_argument]" run m a --special
wrong 2 "--raw and --system exclude each other [bad_argument]" run m a --raw --system s
wrong 2 "--raw and --template exclude each other [bad_argument]" run m a --raw --template official
wrong 1 "cannot open $work/none.json: No such file or directory [io_error]" run m a --tools "$work/none.json"
wrong 2 "no prompt (try: mote run $model --raw \"Once upon a time\") [bad_argument]" run "$model" --raw
wrong 2 "two prompts: 'a' and --prompt; give one [bad_argument]" run "$model" --raw a -p b
wrong 2 "--stop must have 1 to 1024 bytes [bad_argument]" run "$model" --raw a --stop ""
wrong 2 "--ids, --count, --pieces and --text exclude each other [bad_argument]" tokenize "$model" --count --ids a
wrong 2 "--decode, --messages and TEXT exclude each other [bad_argument]" tokenize "$model" --messages - a
wrong 2 "--tools, --think, --text and --no-generation-prompt need --messages [bad_argument]" tokenize "$model" --text a
wrong 2 "--messages and --tools cannot both be stdin [bad_argument]" tokenize "$model" --messages - --tools -
wrong 2 "--chat-template must be auto, qwen3.5-small, qwen3.5, qwen3.5-unsloth, qwen3.6, qwen3.6-unsloth, qwen3.8, qwen3.8-unsloth, got 'chatml' [bad_argument]" run "$model" --chat-template chatml a
wrong 2 "--decode must be token ids such as 1,2,3; got 'x,3' [bad_argument]" tokenize "$model" --decode 1,x,3
wrong 2 "token id 8192 is outside the vocabulary; the last id is 8191 [bad_argument]" tokenize "$model" --decode 8192
wrong 2 "no text (try: mote tokenize $model \"some text\") [bad_argument]" tokenize "$model"
wrong 2 "give either --ids 1,2,3 or --text TEXT [bad_argument]" logits "$model"
wrong 2 "context of 1048576 tokens exceeds the 262144 that the model is trained for; lower it, or extend the model with YaRN (yarn, --yarn) of at most 4 [bad_argument]" logits "$model" --ids 1 -c 1048576
wrong 2 "--context 1048576 exceeds the 262144 tokens that the model is trained for; lower it, or extend the model with --yarn of at most 4 [bad_argument]" serve "$model" -c 1048576 --listen 127.0.0.1:0
wrong 2 "--json and --out - exclude each other: both write to stdout [bad_argument]" logits "$model" --ids 1 --out - --json

wrong 3 "no such file: $work/none.gguf; give the path of a .gguf file [not_found]" run "$work/none.gguf" --raw a
wrong 3 "qwen3.5:4b is not installed; try: mote pull qwen3.5:4b [not_found]" show qwen3.5:4b
wrong 3 "there is no qwen3.5:3b; the sizes of qwen3.5 are: qwen3.5:0.8b, qwen3.5:2b, qwen3.5:4b, qwen3.5:9b, qwen3.5:27b, qwen3.5:35b-a3b [not_found]" run qwen3.5:3b a
wrong 3 "qwen3.5:4b has no quantisation q3_k_m; there are: q4_k_m, q4_k_s, q5_k_m, q6_k, q8_0, ud-q4_k_xl, ud-q8_k_xl, bf16 [not_found]" run qwen3.5:4b-q3_k_m a
wrong 3 "$work has no .gguf file of a model [not_found]" tokenize "$work" a

# Control characters of an argument are escaped in the message.
wrong 3 'no model a\x1b[2Jb; give a name such as qwen3.5:4b, or the path of a .gguf file [not_found]' show "$(printf 'a\033[2Jb')"
wrong 3 'no model a\nmote: b; give a name such as qwen3.5:4b, or the path of a .gguf file [not_found]' show "$(printf 'a\nmote: b')"

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
call 2 run m --raw a
grep -Eq "^mote: MOTE_THREADS must be a whole number from 1 to [0-9]+ \(4 per CPU; this process may use [0-9]+\), got 'many' \[bad_argument\]$" \
    "$work/err" || fail "$(cat "$work/err")"
wrong 3 "no model m; give a name such as qwen3.5:4b, or the path of a .gguf file [not_found]" run m --raw a -t 1
call 0 run --help
unset MOTE_THREADS
MOTE_THINK=hard
export MOTE_THINK
wrong 2 "MOTE_THINK must be on, off, auto, minimal, low, medium, high, max or a number of tokens, got 'hard' [bad_argument]" run m a
unset MOTE_THINK
for how in 0 9 on 12; do
    wrong 2 "--spec must be auto, off, or 1 to 8, got '$how' [bad_argument]" run m a --spec $how
done
MOTE_SPEC=fast
export MOTE_SPEC
wrong 2 "MOTE_SPEC must be auto, off, or 1 to 8, got 'fast' [bad_argument]" run m a
unset MOTE_SPEC
if command -v taskset >/dev/null; then
    cpu=$(taskset -cp $$ | sed 's/.*: *//; s/[,-].*//') # one that this process may use
    taskset -c "$cpu" "$MOTE" run m --raw a -t 999 2>"$work/err"
    stderr_is "mote: -t must be a whole number from 1 to 4 (4 per CPU; this process may use 1), got '999' [bad_argument]"
fi

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
