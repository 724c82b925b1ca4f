#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# mote list, and models by name: a Hugging Face cache and stores of other programs in a new home
# directory.
. "$(dirname "$0")/lib.sh"
need_model

call 0 list
stdout_is ""
stderr_is "no models are installed (try: mote pull qwen3.5:4b)"
call 3 run qwen3.5:4b hello
stderr_is "mote: qwen3.5:4b is not installed; try: mote pull qwen3.5:4b [not_found]"

# A repository as huggingface_hub writes it.
commit=0123456789abcdef0123456789abcdef01234567
sum=$(sha256sum "$model" | cut -d ' ' -f 1)
repo=$HOME/.cache/huggingface/hub/models--unsloth--Qwen3.5-4B-GGUF
mkdir -p "$repo/blobs" "$repo/refs" "$repo/snapshots/$commit"
printf %s "$commit" >"$repo/refs/main"
cp "$model" "$repo/blobs/$sum"
ln -s "../../blobs/$sum" "$repo/snapshots/$commit/Qwen3.5-4B-Q4_K_M.gguf"
ln -s /etc/hosts "$repo/snapshots/$commit/outside.gguf"

# An Ollama model with another name, and one of LM Studio.
ollama=$HOME/.ollama/models
mkdir -p "$ollama/blobs" "$ollama/manifests/registry.ollama.ai/library/tiny"
cp "$model" "$ollama/blobs/sha256-$sum"
printf '{"schemaVersion":2,"layers":[{"mediaType":"application/vnd.ollama.image.model","digest":"sha256:%s","size":%s}]}' \
    "$sum" "$(wc -c <"$model")" >"$ollama/manifests/registry.ollama.ai/library/tiny/latest"
mkdir -p "$HOME/.lmstudio/models/someone/tiny"
cp "$DATA/mote-tiny-Q8_0.gguf" "$HOME/.lmstudio/models/someone/tiny/"
echo "not a model" >"$HOME/.lmstudio/models/someone/tiny/broken.gguf"
find "$HOME" -name "*$sum" -o -name "*.gguf" -type f | xargs touch -d '50 hours ago'

call 0 list
sed -n 's/  */ /gp' "$work/out" >"$work/squeezed"
for row in "NAME ID SIZE MODIFIED STATE" \
    "broken - 12 B 2 days ago unusable (it is not a GGUF file)" \
    "mote-tiny-q8_0 - 15 MB 2 days ago external (LM Studio)" \
    "qwen3.5:4b $(echo "$sum" | cut -c 1-12) 8.9 MB 2 days ago not verified" \
    "tiny $(echo "$sum" | cut -c 1-12) 8.9 MB 2 days ago external (Ollama)"; do
    grep -qFx "$row" "$work/squeezed" || fail "no row '$row' in: $(cat "$work/squeezed")"
done
[ "$(wc -l <"$work/out")" = 5 ] || fail "$(cat "$work/out")"

call 0 ls -q
stdout_is "broken
mote-tiny-q8_0
qwen3.5:4b
tiny"
call 0 list -v
grep -q "^not used: .*/outside.gguf: the link leaves the directory of the models$" "$work/err" ||
    fail "$(cat "$work/err")"
call 0 list --json
json '[m["name"] for m in d["models"]] == ["broken", "mote-tiny-q8_0", "qwen3.5:4b", "tiny"]'
json 'd["models"][2]["repository"] == "unsloth/Qwen3.5-4B-GGUF" and len(d["models"][2]["sha256"]) == 64'
json 'd["ignored"][0]["path"].endswith("/outside.gguf") and d["models"][0]["state"] == "unusable"'

# All names of one model give the same tokens and the same answer.
call 0 tokenize "$model" "one two"
ids=$(cat "$work/out")
mkdir "$work/dir"
ln -s "$model" "$work/dir/"
for name in qwen3.5 qwen3.5:4b QWEN3.5:4B qwen3.5:4b-q4_k_m qwen3.5:4b-balanced hf:unsloth/Qwen3.5-4B-GGUF \
    hf:unsloth/Qwen3.5-4B-GGUF:q4_k_m hf:unsloth/Qwen3.5-4B-GGUF:Qwen3.5-4B-Q4_K_M.gguf tiny tiny:latest "$work/dir"; do
    call 0 tokenize "$name" "one two"
    stdout_is "$ids"
done
call 0 -q run "$model" --no-think --seed 1 -n 8 hello
answer=$(cat "$work/out")
call 0 -q run qwen3.5:4b:nothink --seed 1 -n 8 hello
stdout_is "$answer"
call 0 show tiny
grep -q "^  Name         tiny, Ollama, sha256 $(echo "$sum" | cut -c 1-12)$" "$work/out" || fail "$(cat "$work/out")"
grep -q "^  Path         $ollama/blobs/sha256-$sum$" "$work/out" || fail "$(cat "$work/out")"
call 0 show qwen3.5:4b --json
json 'd["installed_as"] == "qwen3.5:4b" and len(d["sha256"]) == 64 and d["mmproj"] is None'
call 3 show qwen3.5:4b-q8_0
stderr_is "mote: qwen3.5:4b-q8_0 is not installed; try: mote pull qwen3.5:4b-q8_0 [not_found]"
call 6 show broken
call 3 run user/none x
stderr_is "mote: no such file: user/none; give the path of a .gguf file [not_found]"

# A model of another family is neither damaged nor used.
LC_ALL=C sed '1,/qwen35/s/qwen35/llama3/' "$DATA/shapes/r1-gqa4-tied.gguf" >"$work/llama"
other=$(sha256sum "$work/llama" | cut -d ' ' -f 1)
mv "$work/llama" "$ollama/blobs/sha256-$other"
mkdir "$ollama/manifests/registry.ollama.ai/library/llama"
printf '{"schemaVersion":2,"layers":[{"mediaType":"application/vnd.ollama.image.model","digest":"sha256:%s"}]}' \
    "$other" >"$ollama/manifests/registry.ollama.ai/library/llama/latest"
rm "$HOME/.lmstudio/models/someone/tiny/broken.gguf"
call 0 list -q
grep -qx llama "$work/out" && fail "mote list shows a model that mote does not use"
call 0 list --all
grep -q '^llama .*unusable (mote does not run the architecture llama3)$' "$work/out" || fail "$(cat "$work/out")"
call 0 verify
stderr_is "llama: not a Qwen 3.5 model (architecture llama3); mote does not use it"
call 0 verify llama
stderr_is "llama: not a Qwen 3.5 model (architecture llama3); mote does not use it"
call 0 verify llama --json
json 'd == [{"name": "llama", "origin": "Ollama", "files": [], "supported": False}]'
call 1 run llama hello
stderr_is "mote: llama is not a Qwen 3.5 model: mote does not run the architecture llama3 [unsupported]"
"$MOTE" doctor --json >"$work/out" 2>"$work/err"
json 'not any("llama" in f["text"] and f["state"] == "problem" for f in d["findings"])'
json 'any("1 model of other programs, which mote does not use" in f["text"] for f in d["findings"])'

# The user's table of models.
mkdir -p "$HOME/.config/mote"
echo "[tiny:1m]" >"$HOME/.config/mote/models"
call 6 list
stderr_is "mote: $HOME/.config/mote/models: [tiny:1m] has no repo [damaged_file]"
cat >"$HOME/.config/mote/models" <<'END'
[tiny:1m]
repo = unsloth/Qwen3.5-4B-GGUF
file = Qwen3.5-4B-{quant}.gguf
quants = Q4_K_M
END
call 0 list
finish
