#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Model files with the vision encoder inside, as Ollama's converter wrote them: by path and from Ollama's store, on the
# command line and by the server. The answers are those of the same model with an mmproj file.
. "$(dirname "$0")/lib.sh"
model=$DATA/mote-tiny-BF16.gguf
mmproj=$DATA/mmproj-mote-tiny-BF16.gguf
image=$DATA/golden/vision/media/see0.png
need_model
[ -f "$image" ] || { echo "no $image"; exit 77; }
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
seen="I see a black star at the bottom."

# make NAME KEY=VALUE...
make() {
    out=$1
    shift
    python3 -B "$here/../support/ollama_file.py" "$model" "$mmproj" "$out" "$@" || fail "ollama_file.py"
}
make "$work/inside.gguf" qwen35.ssm.v_head_reordered=true "qwen35.vision.deepstack_visual_indexes=[]"

call 0 run "$work/inside.gguf" --temp 0 --image "$image" "Describe the picture."
stdout_is "$seen"
call 0 logits "$model" --ids 39,4638,11,1814 -q --out "$work/separate"
call 0 logits "$work/inside.gguf" --ids 39,4638,11,1814 -q --out "$work/logits"
cmp "$work/separate" "$work/logits" || fail "the logits of the text model differ"
call 3 run "$work/inside.gguf" --temp 0 --mmproj none --image "$image" "Describe the picture."
call 0 run "$work/inside.gguf" --temp 0 --mmproj "$mmproj" --image "$image" "Describe the picture."
stdout_is "$seen"

# Ollama's store: the manifest names no projector.
sum=$(sha256sum "$work/inside.gguf" | cut -d ' ' -f 1)
ollama=$HOME/.ollama/models
mkdir -p "$ollama/blobs" "$ollama/manifests/registry.ollama.ai/library/tiny"
mv "$work/inside.gguf" "$ollama/blobs/sha256-$sum"
printf '{"schemaVersion":2,"layers":[{"mediaType":"application/vnd.ollama.image.model","digest":"sha256:%s","size":%s}]}' \
    "$sum" "$(wc -c <"$ollama/blobs/sha256-$sum")" >"$ollama/manifests/registry.ollama.ai/library/tiny/latest"
call 0 list --json
json 'd["models"][0]["name"] == "tiny" and d["models"][0]["mmproj"] == d["models"][0]["weights"]'
call 0 run tiny --temp 0 --image "$image" "Describe the picture."
stdout_is "$seen"

# What mote convert makes of it is a text model.
call 0 convert "$ollama/blobs/sha256-$sum" "$work/text.gguf"
grep -q "not used: tensor v.merger.norm.weight (a vision encoder needs an mmproj file of its own)" "$work/err" ||
    fail "convert: $(head -n 3 "$work/err")"
call 0 run "$work/text.gguf" --temp 0 "Who are you?"

# Refused, with the reason.
refused() {
    make "$work/bad.gguf" "$1"
    call "$3" run "$work/bad.gguf" --temp 0 --image "$image" "Describe the picture."
    grep -qF "$2" "$work/err" || fail "$1: $(cat "$work/err")"
}
refused "qwen35.vision.deepstack_visual_indexes=[1,3]" "vision encoders with deepstack layers are not supported" 1
refused qwen35.vision.temporal_patch_size=1 "qwen35.vision.temporal_patch_size is 1; supported: 2" 1
refused qwen35.ssm.v_head_reordered=false "qwen35.ssm.v_head_reordered is false" 1
finish
