#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A model in three files: the same logits as the whole one, listed by mote show, refused if a part is missing.
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

finish
