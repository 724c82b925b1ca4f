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

# make NAME KEY=VALUE...: from $model and $mmproj
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

# The server with the name in Ollama's store.
"$MOTE" help serve | grep -q -- --listen || { echo "built without the server"; exit 77; }
XDG_RUNTIME_DIR=$work "$MOTE" serve tiny --threads 1 --listen "unix:$work/socket" 2>"$work/log" &
server=$!
trap 'kill $server 2>/dev/null; rm -rf "$work"' EXIT
python3 - "$work" "$image" "$seen" <<'PYTHON' || fail "the server: $(cat "$work/log")"
import base64, http.client, json, os, socket, sys, time
work, image, seen = sys.argv[1:]
end = time.monotonic() + 300
while "listening on" not in open(work + "/log").read():
    time.sleep(0.05)
    assert time.monotonic() < end, "it does not listen"
data = base64.b64encode(open(image, "rb").read()).decode()
text = "Describe the picture."
parts = [{"type": "image_url", "image_url": {"url": "data:image/png;base64," + data}}, {"type": "text", "text": text}]
for path, message in (("/v1/chat/completions", {"content": parts}), ("/api/chat", {"content": text, "images": [data]})):
    body = {"model": "tiny", "messages": [{"role": "user", **message}], "temperature": 0, "options": {"temperature": 0},
            "stream": False, "think": False}
    if path.startswith("/v1"):
        del body["options"], body["think"]
    connection = http.client.HTTPConnection("localhost", timeout=300)
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(work + "/socket")
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    reply = json.loads(connection.getresponse().read())
    message = reply["choices"][0]["message"] if path.startswith("/v1") else reply.get("message")
    assert message and message["content"].strip() == seen, (path, reply)
PYTHON
kill $server
wait $server || fail "the server ended with $?"

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

# A model with experts. Its weights are random, so only the answers of both forms are compared.
model=$DATA/golden/moe/moe-q4_k_m.gguf
make "$work/experts.gguf"
call 0 run "$work/experts.gguf" --temp 0 --max-tokens 12 --image "$image" "Describe the picture."
cp "$work/out" "$work/inside"
call 0 run "$model" --mmproj "$mmproj" --temp 0 --max-tokens 12 --image "$image" "Describe the picture."
cmp "$work/inside" "$work/out" || fail "the answers differ with experts"
call 3 run "$model" --temp 0 --max-tokens 12 --image "$image" "Describe the picture."
call 0 convert "$work/experts.gguf" "$work/experts-text.gguf"
call 0 show "$work/experts-text.gguf" --json
json '"vision" not in str(d.get("metadata", "")) and not d.get("vision")'
grep -q qwen35moe.vision "$work/experts-text.gguf" && fail "a text model has keys of a vision encoder"
refused qwen35moe.vision.num_channels=1 "qwen35moe.vision.num_channels is 1; supported: 3" 1
refused qwen35moe.ssm.v_head_reordered=false "qwen35moe.ssm.v_head_reordered is false" 1
finish
