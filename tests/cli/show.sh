#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# mote show: facts about a file and its memory; the numbers add up.
. "$(dirname "$0")/lib.sh"
need_model

call 0 show "$model"
grep -q '^  Model        mote-tiny: qwen35, 11.8 M parameters$' "$work/out" || fail "Model"
grep -q '^  Layers       8: 6 DeltaNet, 2 attention; tied embeddings$' "$work/out" || fail "Layers"
grep -q '^  File         Q4_K_M, 8.9 MB, 123 tensors, 36 metadata entries, draft head$' "$work/out" || fail "File"
grep -q '^  Chat         template qwen3.5-small, thinking off by default$' "$work/out" || fail "Chat"
grep -q '^    small/direct/general      temperature 1.0  top_p 1.00  top_k 20  presence 2.0  default$' "$work/out" || fail "preset"
grep -q '^  Memory       context 4 096, 1 session, f16$' "$work/out" || fail "Memory"
grep -q '^  Q6_K           11          3 801 088          3 118 080   35.9 %$' "$work/out" || fail "Q6_K"
stderr_is ""

call 0 show "$model" --json
json 'd["mmproj"].endswith("mmproj-mote-tiny-BF16.gguf")'
json 'list(d) == ["file", "installed_as", "sha256", "mmproj", "mtp", "file_bytes", "file_type", "name", "architecture", "n_tensors", "n_metadata", "model", "chat", "memory", "formats"]'
json 'd["file_bytes"] == 8945472 and d["file_type"] == "Q4_K_M" and d["name"] == "mote-tiny" and d["architecture"] == "qwen35"'
json 'set(d["model"]) == {"parameters", "experts", "experts_used", "layers", "attention_layers", "context", "vocabulary", "tokens", "tied", "draft_head", "isa", "private_bytes"}'
json 'd["model"]["context"] == 262144 and d["model"]["vocabulary"] == 8192 and d["model"]["tokens"] == 7969 and d["model"]["tied"]'
json 'd["chat"]["template"] == "qwen3.5-small" and d["chat"]["template_origin"] == "known" and d["chat"]["template_note"] == "" and not d["chat"]["thinks"] and len(d["chat"]["presets"]) == 5'
json '[p["name"] for p in d["chat"]["presets"] if p["default"]] == ["small/direct/general"]'
json 'set(d["memory"]) == {"context", "sessions", "kv", "weights", "experts", "model", "kv_cache", "recurrent_state", "scratch", "total", "drafts", "bytes_per_token", "bytes_per_session"}'
json 'd["memory"]["total"] == sum(d["memory"][k] for k in ("weights", "model", "kv_cache", "recurrent_state", "scratch"))'
json 'd["n_tensors"] == sum(f["tensors"] for f in d["formats"]) == 123'

# Weights that every token reads, and experts.
call 0 show "$DATA/golden/moe/moe-bf16.gguf"
grep -q '^  Experts      16 per layer, 4 per token$' "$work/out" || fail "Experts"
grep -q '^      every token      4.7 MB          4 686 816  of these, used by every token$' "$work/out" || fail "every token"
grep -q '^      experts          1.8 MB          1 769 472  of these, 442 kB per token$' "$work/out" || fail "experts"

# The memory plan follows the flags.
call 0 show "$model" --json -c 8192 --sessions 3 --kv f32
json 'd["memory"]["context"] == 8192 and d["memory"]["sessions"] == 3 and d["memory"]["kv"] == "f32"'
cp "$work/out" "$work/large"
call 0 show "$model" --json -c 8192
if command -v python3 >/dev/null; then
    python3 - "$work/out" "$work/large" <<'EOF' || fail "the KV cache does not grow with sessions and type"
import json, sys
small, large = (json.load(open(name))["memory"] for name in sys.argv[1:])
assert 5.9 < large["kv_cache"] / small["kv_cache"] < 6.1, (small, large)
assert 1.9 < large["bytes_per_token"] / small["bytes_per_token"] < 2.1
assert large["recurrent_state"] > small["recurrent_state"]
EOF
fi

call 0 show "$model" --tensors
grep -q '^  token_embd.weight  *Q6_K  *256 x 8192  *1 720 320  *[0-9 ]*$' "$work/out" || fail "--tensors"
call 0 show "$model" --tensors --metadata --json
json 'len(d["tensors"]) == 123 and len(d["metadata"]) == 36'
json '[t for t in d["tensors"] if t["name"] == "token_embd.weight"][0]["shape"] == [256, 8192]'
json 'all(set(t) == {"name", "format", "shape", "bytes", "offset"} for t in d["tensors"])'
json 'sum(t["bytes"] for t in d["tensors"]) == sum(f["bytes"] for f in d["formats"])'
json 'all(set(m) == {"key", "type", "array", "count", "value"} for m in d["metadata"])'
json '[m["value"] for m in d["metadata"] if m["key"] == "qwen35.rope.dimension_sections"] == [[11, 11, 10, 0]]'
json '[m["value"] for m in d["metadata"] if m["key"] == "qwen35.attention.layer_norm_rms_epsilon"] == [1e-06]'
json '[(m["count"], len(m["value"])) for m in d["metadata"] if m["key"] == "tokenizer.ggml.tokens"] == [(8192, 16)]'
json 'any(m["key"] == "tokenizer.chat_template" and len(m["value"]) > 5000 for m in d["metadata"])'

# Every entry of --metadata is one line that fits the terminal.
COLUMNS=100
export COLUMNS
call 0 show "$model" --metadata
[ "$(sed -n '/^  KEY/,$p' "$work/out" | wc -l)" -eq 37 ] || fail "--metadata does not have 36 entries"
[ "$(wc -L <"$work/out")" -le 100 ] || fail "a line of --metadata is too long"
finish
