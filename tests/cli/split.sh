#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A model in three files: the same logits as the whole one, listed by mote show, refused if a part is missing.
# An MTP head in a file next to the model: the same logits of the head.
. "$(dirname "$0")/lib.sh"
need_model

"$SPLIT" "$model" "$work/tiny" 3 || fail "split_gguf"
"$SPLIT" "$model" "$work/empty" 3 --no-tensor-first-split || fail "split_gguf"

ids=39,4638,11,1814,13,3648,6353,6683,5384,264,288,2109,304,266
call 0 logits "$model" --ids "$ids" --all --out "$work/whole"
for path in "$work/tiny-00001-of-00003.gguf" "$work/tiny-00003-of-00003.gguf" "$work/empty-00001-of-00003.gguf"; do
    call 0 logits "$path" --ids "$ids" --all --out "$work/split"
    cmp "$work/whole" "$work/split" || fail "the logits of $path are not those of the whole model"
done

call 0 show "$work/tiny-00002-of-00003.gguf"
grep -q '^  Parts        tiny-00001-of-00003.gguf, .* MB, 41 tensors$' "$work/out" || fail "first part"
grep -q '^               tiny-00003-of-00003.gguf, .* MB, 41 tensors$' "$work/out" || fail "last part"
call 0 show "$work/empty-00001-of-00003.gguf" --json
json '[p["tensors"] for p in d["parts"]] == [0, 61, 62]'
json 'sum(p["bytes"] for p in d["parts"]) == d["file_bytes"] == d["memory"]["weights"]'

mv "$work/tiny-00002-of-00003.gguf" "$work/away"
call 1 run "$work/tiny-00001-of-00003.gguf" Hello
stderr_is "mote: part 2 of 3 of the model: cannot open $work/tiny-00002-of-00003.gguf: No such file or directory; all parts must be in one directory [io_error]"
call 6 show "$work/away"
grep -q 'away is part 2 of 3 of a split model, so its name must end in -00002-of-00003.gguf' "$work/err" || fail "renamed part"

"$SPLIT" --head "$model" "$work/body.gguf" "$work/mtp-body.gguf" || fail "split_gguf --head"
call 0 logits "$model" --ids "$ids" --mtp --all --out "$work/whole"
[ "$(wc -c <"$work/whole")" -eq $((13 * 8192 * 4)) ] || fail "--mtp --all of 14 tokens does not write 13 rows"
call 0 logits "$work/body.gguf" --ids "$ids" --mtp --all --out "$work/split"
cmp "$work/whole" "$work/split" || fail "the logits of a head next to the model are others"
call 0 logits "$work/body.gguf" --ids "$ids" --mtp --out "$work/last"
tail -c $((8192 * 4)) "$work/whole" | cmp - "$work/last" || fail "--mtp without --all is not the last row"
call 0 show "$work/body.gguf" --json
json 'd["model"]["draft_head"] and d["memory"]["drafts"] > 0'
json 'd["mtp"].endswith("/mtp-body.gguf")'

# Of an installed model the store chooses it: in the directory of the weights or above it.
commit=0123456789abcdef0123456789abcdef01234567
repo=$HOME/.cache/huggingface/hub/models--someone--Tiny-GGUF
mkdir -p "$repo/refs" "$repo/snapshots/$commit/Q4_K_M"
printf %s "$commit" >"$repo/refs/main"
cp "$work/body.gguf" "$repo/snapshots/$commit/Q4_K_M/Tiny-Q4_K_M.gguf"
cp "$work/mtp-body.gguf" "$repo/snapshots/$commit/mtp-Tiny.gguf"
call 0 show hf:someone/Tiny-GGUF --json
json "d['mtp'].endswith('/$commit/mtp-Tiny.gguf') and d['model']['draft_head']"
call 0 logits hf:someone/Tiny-GGUF --ids "$ids" --mtp --all --out "$work/split"
cmp "$work/whole" "$work/split" || fail "the logits of a head above the weights are others"
call 0 show "$model" --json
json 'd["mtp"] is None and d["model"]["draft_head"]'

call 2 logits "$model" --ids 39 --mtp
stderr_is "mote: --mtp needs at least 2 input tokens [bad_argument]"

# Another file with such a name is not used, and a model without a head has no such logits.
cp "$work/body.gguf" "$work/mtp-body.gguf"
call 0 logits "$work/body.gguf" --ids "$ids" --out "$work/last"
grep -q 'mtp-body.gguf is not used: .* is not an MTP head' "$work/err" || fail "note: $(cat "$work/err")"
call 1 logits "$work/body.gguf" --ids "$ids" --mtp -q
grep -q 'the model has no MTP head' "$work/err" || fail "no head: $(cat "$work/err")"

finish
