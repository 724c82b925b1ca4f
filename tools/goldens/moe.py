#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""golden/moe: small random mixture-of-experts models (`qwen35moe`): GGUF files, logits, router choices, MTP rows.

usage: moe.py [LLAMA_BIN_DIR]   with it, llama-quantize of that directory remakes the Q4_K_M file; without, the stored one is kept
       moe.py check             a token-by-token NumPy engine on the GGUF files against the stored numbers
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from gguf import GGMLQuantizationType as T, GGUFReader, GGUFWriter, LlamaFileType
from gguf.quants import dequantize, quantize
from torch import nn
from transformers import Qwen3_5MoeForCausalLM, Qwen3_5MoeTextConfig
from transformers.models.qwen3_5_moe.modeling_qwen3_5_moe import Qwen3_5MoeDecoderLayer, Qwen3_5MoeRMSNorm

from common import GOLDEN, SHARED, save, write_json
from model import ROPE

OUT = GOLDEN / "moe"
VOCAB, BYTES_AND_MERGES = 512, 479
A = dict(hidden_size=64, num_hidden_layers=8, num_attention_heads=8, num_key_value_heads=1, linear_num_key_heads=2, linear_num_value_heads=4,
         num_experts=16, num_experts_per_tok=4, moe_intermediate_size=32, shared_expert_intermediate_size=64, interval=4)
C = dict(hidden_size=256, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=1, linear_num_key_heads=2, linear_num_value_heads=4,
         num_experts=4, num_experts_per_tok=2, moe_intermediate_size=256, shared_expert_intermediate_size=256, interval=2)


def config(interval, **kw):
    n = kw["num_hidden_layers"]
    cfg = Qwen3_5MoeTextConfig(vocab_size=VOCAB, head_dim=256, max_position_embeddings=262144, rope_parameters=dict(ROPE), tie_word_embeddings=False,
                               layer_types=["linear_attention" if (i + 1) % interval else "full_attention" for i in range(n)], **kw)
    cfg._attn_implementation = cfg._experts_implementation = "eager"
    cfg.interval = interval
    return cfg


class MTP(nn.Module):
    """SPEC.md section 3 with the mixture as its feed-forward."""

    def __init__(self, cfg):
        super().__init__()
        h, eps = cfg.hidden_size, cfg.rms_norm_eps
        self.pre_fc_norm_embedding, self.pre_fc_norm_hidden = Qwen3_5MoeRMSNorm(h, eps), Qwen3_5MoeRMSNorm(h, eps)
        self.fc = nn.Linear(2 * h, h, bias=False)
        self.layers = nn.ModuleList([Qwen3_5MoeDecoderLayer(cfg, cfg.layer_types.index("full_attention"))])
        self.norm = Qwen3_5MoeRMSNorm(h, eps)

    def forward(self, embeds, hidden, cos_sin, mask):
        u = self.fc(torch.cat([self.pre_fc_norm_embedding(embeds), self.pre_fc_norm_hidden(hidden)], -1))
        return self.norm(self.layers[0](u, position_embeddings=cos_sin, attention_mask=mask))


class Model(nn.Module):
    def __init__(self, cfg, mtp):
        super().__init__()
        self.cfg, self.hf = cfg, Qwen3_5MoeForCausalLM(cfg)
        self.mtp = MTP(cfg) if mtp else None

    def state(self):
        """Checkpoint names (the text-only form without `language_model.`)."""
        sd = {k: v.detach().float().numpy() for k, v in self.hf.state_dict().items()}
        if self.mtp:
            sd.update({"mtp." + k: v.detach().float().numpy() for k, v in self.mtp.state_dict().items()})
        return sd

    def load(self, sd):
        sd = {k: torch.tensor(v) for k, v in sd.items()}
        self.hf.load_state_dict({k: v for k, v in sd.items() if not k.startswith("mtp.")})
        if self.mtp:
            self.mtp.load_state_dict({k[4:]: v for k, v in sd.items() if k.startswith("mtp.")})
        return self.eval()


def build(shape, seed, mtp):
    cfg = config(**shape)
    torch.manual_seed(seed)
    m = Model(cfg, mtp).eval()
    hv = cfg.linear_num_value_heads
    with torch.no_grad():
        for n, p in m.named_parameters():
            if n.endswith("norm.weight") or ".pre_fc_norm" in n:
                p.copy_((1.0 if "linear_attn.norm" in n else 0.0) + 0.2 * torch.randn_like(p))
            elif "A_log" in n:
                p.copy_(torch.linspace(-5.0, 1.5, hv)[torch.randperm(hv)])
            elif "dt_bias" in n:
                p.copy_(torch.linspace(-4.0, 0.5, hv)[torch.randperm(hv)])
            elif "conv1d" in n:
                p.copy_(torch.randn_like(p) * 0.5)
            elif "embed_tokens" in n:
                p.copy_(torch.randn_like(p) * 0.1)
            elif "lm_head" in n:
                p.copy_(torch.randn_like(p) / p.shape[-1] ** 0.5)
            elif n.endswith("mlp.gate.weight"):               # router logits with a standard deviation near 2
                p.copy_(torch.randn_like(p) * 2.0 / p.shape[-1] ** 0.5)
            else:
                p.copy_(torch.randn_like(p) * 1.2 / p.shape[-1] ** 0.5)
            p.copy_(p.to(torch.bfloat16).float())
    return m


# ------------------------------------------------------------------------------------------------------ checkpoint <-> GGUF

def tile(x, axis, hk, r, d, back=False):
    """Value heads from grouped (kh*r + j) to tiled (j*hk + kh) order along `axis`, or back."""
    s = list(x.shape)
    a, b = (r, hk) if back else (hk, r)
    y = x.reshape(s[:axis] + [a, b, d] + s[axis + 1:])
    return np.ascontiguousarray(np.swapaxes(y, axis, axis + 1)).reshape(s)


LAYER = {"input_layernorm.weight": "attn_norm.weight", "post_attention_layernorm.weight": "post_attention_norm.weight",
         "self_attn.q_proj.weight": "attn_q.weight", "self_attn.k_proj.weight": "attn_k.weight", "self_attn.v_proj.weight": "attn_v.weight",
         "self_attn.o_proj.weight": "attn_output.weight", "self_attn.q_norm.weight": "attn_q_norm.weight", "self_attn.k_norm.weight": "attn_k_norm.weight",
         "linear_attn.in_proj_qkv.weight": "attn_qkv.weight", "linear_attn.in_proj_z.weight": "attn_gate.weight",
         "linear_attn.in_proj_b.weight": "ssm_beta.weight", "linear_attn.in_proj_a.weight": "ssm_alpha.weight",
         "linear_attn.conv1d.weight": "ssm_conv1d.weight", "linear_attn.A_log": "ssm_a", "linear_attn.dt_bias": "ssm_dt.bias",
         "linear_attn.norm.weight": "ssm_norm.weight", "linear_attn.out_proj.weight": "ssm_out.weight",
         "mlp.gate.weight": "ffn_gate_inp.weight", "mlp.experts.gate_up_proj": "ffn_gate_up_exps.weight", "mlp.experts.down_proj": "ffn_down_exps.weight",
         "mlp.shared_expert_gate.weight": "ffn_gate_inp_shexp.weight", "mlp.shared_expert.gate_proj.weight": "ffn_gate_shexp.weight",
         "mlp.shared_expert.up_proj.weight": "ffn_up_shexp.weight", "mlp.shared_expert.down_proj.weight": "ffn_down_shexp.weight"}
OTHER = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight", "lm_head.weight": "output.weight",
         "mtp.fc.weight": "blk.{L}.nextn.eh_proj.weight", "mtp.pre_fc_norm_embedding.weight": "blk.{L}.nextn.enorm.weight",
         "mtp.pre_fc_norm_hidden.weight": "blk.{L}.nextn.hnorm.weight", "mtp.norm.weight": "blk.{L}.nextn.shared_head_norm.weight"}


def gguf_name(name, layers):
    if name in OTHER:
        return OTHER[name].format(L=layers)
    i, rest = name.replace("mtp.layers.0.", f"model.layers.{layers}.").removeprefix("model.layers.").split(".", 1)
    return f"blk.{i}.{LAYER[rest]}"


def convert(name, x, cfg, back=False):
    """One checkpoint tensor to GGUF values, or back; the gate/up split is done by the callers."""
    hk, r, key = cfg.linear_num_key_heads, cfg.linear_num_value_heads // cfg.linear_num_key_heads, 2 * cfg.linear_num_key_heads * 128
    t = lambda v, axis, d: tile(v, axis, hk, r, d, back)
    if name.endswith("norm.weight") or ".pre_fc_norm" in name:
        return x if name.endswith("linear_attn.norm.weight") else x + (-1 if back else 1)
    if name.endswith("conv1d.weight"):
        x = x if back else x[:, 0]
        x = np.concatenate([x[:key], t(x[key:], 0, 128)])
        return x[:, None] if back else x
    if name.endswith("in_proj_qkv.weight"):
        return np.concatenate([x[:key], t(x[key:], 0, 128)])
    if name.endswith("in_proj_z.weight"):
        return t(x, 0, 128)
    if name.endswith(("in_proj_a.weight", "in_proj_b.weight", "dt_bias")):
        return t(x, 0, 1)
    if name.endswith("A_log"):
        return np.log(-t(x, 0, 1)) if back else -np.exp(t(x, 0, 1))
    if name.endswith("out_proj.weight"):
        return t(x, 1, 128)
    return x


def write_gguf(path, name, m, qtype, merged, sd=None):
    cfg, sd = m.cfg, sd or m.state()
    n = cfg.num_hidden_layers
    w = GGUFWriter(path, "qwen35moe")
    w.add_type("model")
    w.add_name(name)
    w.add_block_count(n + (m.mtp is not None))
    w.add_context_length(cfg.max_position_embeddings)
    w.add_embedding_length(cfg.hidden_size)
    w.add_head_count(cfg.num_attention_heads)
    w.add_head_count_kv(cfg.num_key_value_heads)
    w.add_rope_dimension_sections([11, 11, 10, 0])
    w.add_rope_freq_base(1e7)
    w.add_layer_norm_rms_eps(cfg.rms_norm_eps)
    w.add_expert_count(cfg.num_experts)
    w.add_expert_used_count(cfg.num_experts_per_tok)
    w.add_key_length(256)
    w.add_value_length(256)
    w.add_file_type({T.BF16: LlamaFileType.MOSTLY_BF16, T.Q8_0: LlamaFileType.MOSTLY_Q8_0}[qtype])
    w.add_expert_feed_forward_length(cfg.moe_intermediate_size)
    w.add_expert_shared_feed_forward_length(cfg.shared_expert_intermediate_size)
    w.add_ssm_conv_kernel(4)
    w.add_ssm_state_size(128)
    w.add_ssm_group_count(cfg.linear_num_key_heads)
    w.add_ssm_time_step_rank(cfg.linear_num_value_heads)
    w.add_ssm_inner_size(128 * cfg.linear_num_value_heads)
    w.add_uint32("qwen35moe.full_attention_interval", cfg.interval)
    w.add_rope_dimension_count(64)
    if m.mtp:
        w.add_uint32("qwen35moe.nextn_predict_layers", 1)
    w.add_quantization_version(2)
    f = GGUFReader(GOLDEN / "shapes/r2-gqa4-kv2-tied.gguf").fields          # the 512-token vocabulary of golden/shapes
    get = lambda k: f["tokenizer." + k].contents()
    w.add_tokenizer_model(get("ggml.model"))
    w.add_tokenizer_pre(get("ggml.pre"))
    w.add_token_list(get("ggml.tokens"))
    w.add_token_types(get("ggml.token_type"))
    w.add_token_merges(get("ggml.merges"))
    w.add_eos_token_id(get("ggml.eos_token_id"))
    w.add_pad_token_id(get("ggml.padding_token_id"))
    w.add_add_bos_token(False)
    w.add_chat_template((SHARED / "model/templates/Qwen3.5-4B.llama.cpp.jinja").read_text())

    def add(gname, x):
        f32 = x.ndim < 2 or gname.endswith(("_norm.weight", "ffn_gate_inp.weight", "ffn_gate_inp_shexp.weight", "ssm_conv1d.weight"))
        q = T.F32 if f32 else qtype
        w.add_tensor(gname, quantize(np.ascontiguousarray(x, dtype=np.float32), q), raw_dtype=q)

    for k, x in sd.items():
        x, gname = convert(k, x, cfg), gguf_name(k, n)
        if k.endswith("experts.gate_up_proj") and not merged:
            for part, half in zip(("gate", "up"), np.split(x, 2, axis=1)):
                add(gname.replace("gate_up", part), half)
        else:
            add(gname, x)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def read_gguf(path):
    r = GGUFReader(path)
    return r, {t.name: dequantize(t.data, t.tensor_type).reshape([int(x) for x in t.shape[::-1]]) for t in r.tensors}


def state_from_gguf(path, m):
    """The values of a GGUF file under the checkpoint's names: what a quantised file really says."""
    _, W = read_gguf(path)
    sd = {}
    for k, own in m.state().items():
        g = gguf_name(k, m.cfg.num_hidden_layers)
        x = W[g] if g in W else np.concatenate([W[g.replace("gate_up", "gate")], W[g.replace("gate_up", "up")]], 1)
        sd[k] = convert(k, x.astype(np.float32), m.cfg, back=True).reshape(own.shape).astype(np.float32)
    return sd


# ---------------------------------------------------------------------------------------------------------------- reference

@torch.no_grad()
def run(m, ids):
    """Logits of all positions, post-norm hidden states, per layer: chosen experts, their weights, gap of the router logits at the cut."""
    rec, hooks = {"idx": [], "w": [], "gap": [], "x": [], "routed": [], "shared": []}, []
    for l in list(m.hf.model.layers):
        def router(mod, args, out):
            logits, w, idx = out
            top = logits.sort(-1, descending=True).values
            rec["idx"].append(idx), rec["w"].append(w), rec["gap"].append(top[:, mod.top_k - 1] - top[:, mod.top_k])
        hooks += [l.mlp.gate.register_forward_hook(router), l.mlp.register_forward_pre_hook(lambda mod, a: rec["x"].append(a[0][0])),
                  l.mlp.experts.register_forward_hook(lambda mod, a, o: rec["routed"].append(o)),
                  l.mlp.register_forward_hook(lambda mod, a, o: rec["shared"].append(o[0] - rec["routed"][-1]))]
    h = m.hf.model(input_ids=torch.tensor([ids]), use_cache=False).last_hidden_state
    logits = m.hf.lm_head(h)[0]
    for k in hooks:
        k.remove()
    return logits, h[0], {k: torch.stack(v) for k, v in rec.items()}


@torch.no_grad()
def run_mtp(m, ids, hidden):
    """Row p takes E[x_p+1] and h_p at RoPE position p, causal over rows 0..p (as golden/mtp)."""
    n, picks = len(ids) - 1, []
    hook = m.mtp.layers[0].mlp.gate.register_forward_hook(lambda mod, a, o: picks.append(o[1:]))
    e = m.hf.model.embed_tokens(torch.tensor([ids[1:]]))
    cs = m.hf.model.rotary_emb(e, torch.arange(n).view(1, 1, -1).expand(3, 1, -1))
    y = m.mtp(e, hidden[None, :-1], cs, torch.full((n, n), float("-inf")).triu(1)[None, None])
    hook.remove()
    return y[0], m.hf.lm_head(y)[0], picks[0][1], picks[0][0]


@torch.no_grad()
def prompt(m, n, seed, gap):
    """Random ids, each drawn until every router decision at its position has a gap of at least `gap` between the last expert chosen
    and the first one left out: rounding then does not change the choice."""
    g, ids, tries = torch.Generator().manual_seed(seed), [], 32
    while len(ids) < n:
        cand = torch.randint(0, BYTES_AND_MERGES, (tries, 1), generator=g)
        batch, worst, hooks = torch.cat([torch.tensor(ids, dtype=torch.long).expand(tries, -1), cand], 1), torch.full((tries,), 99.0), []
        def router(mod, args, out):
            top = out[0].view(tries, -1, mod.num_experts)[:, -1].sort(-1, descending=True).values
            torch.minimum(worst, top[:, mod.top_k - 1] - top[:, mod.top_k], out=worst)
        for l in m.hf.model.layers:
            hooks.append(l.mlp.gate.register_forward_hook(router))
        m.hf.model(input_ids=batch, use_cache=False)
        for k in hooks:
            k.remove()
        ok = (worst >= gap).nonzero()
        if len(ok):
            ids.append(int(cand[ok[0, 0], 0]))
    return ids


def record(m, name, ids, detail=None):
    logits, hidden, rec = run(m, ids)
    e = {"tokens": len(ids), "ids": save(OUT, f"{name}.ids", ids), "logits": save(OUT, f"{name}.logits", logits),
         "experts": save(OUT, f"{name}.experts", rec["idx"].numpy().astype(np.uint8)), "weights": save(OUT, f"{name}.weights", rec["w"]),
         "gap": save(OUT, f"{name}.gap", rec["gap"]), "smallest_gap": float(rec["gap"].min()), "argmax_last": int(logits[-1].argmax()),
         "logit_std": float(logits.std())}
    if detail:
        e["moe_layers"] = detail
        for k in ("x", "routed", "shared"):
            e["moe_" + k] = save(OUT, f"{name}.moe_{k}", rec[k][detail, :16])
    if m.mtp and detail:
        y, lg, idx, w = run_mtp(m, ids, hidden)
        e["mtp"] = {"hidden": save(OUT, f"{name}.mtp.hidden", hidden), "output": save(OUT, f"{name}.mtp.output", y),
                    "logits": save(OUT, f"{name}.mtp.logits", lg), "experts": save(OUT, f"{name}.mtp.experts", idx.numpy().astype(np.uint8)),
                    "weights": save(OUT, f"{name}.mtp.weights", w)}
    print(name, "gap", e["smallest_gap"], "logit std", e["logit_std"], "experts used", len(np.unique(rec["idx"].numpy())), flush=True)
    return e


def entry(path, m, merged, types):
    c = m.cfg
    return {"gguf": path, "layers": c.num_hidden_layers, "mtp": m.mtp is not None, "full_attention_interval": c.interval, "hidden": c.hidden_size,
            "heads": c.num_attention_heads, "kv_heads": c.num_key_value_heads, "linear_key_heads": c.linear_num_key_heads,
            "linear_value_heads": c.linear_num_value_heads, "experts": c.num_experts, "experts_used": c.num_experts_per_tok,
            "expert_ffn": c.moe_intermediate_size, "shared_ffn": c.shared_expert_intermediate_size, "gate_up_merged": merged, "types": types}


def types_of(path):
    out = {}
    for t in GGUFReader(path).tensors:
        k = t.tensor_type.name
        out[k] = out.get(k, 0) + 1
    return out


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    index = {}
    # bf16, 8 layers + MTP block
    m = build(A, 300, True)
    write_gguf(OUT / "moe-bf16.gguf", "moe-bf16", m, T.BF16, False)
    back = state_from_gguf(OUT / "moe-bf16.gguf", m)
    print("bf16 round trip", max(float(np.abs(back[k] - v).max()) for k, v in m.state().items()))
    e = entry("moe-bf16.gguf", m, False, types_of(OUT / "moe-bf16.gguf"))
    for i, (n, gap) in enumerate(((40, 0.15), (97, 0.1), (130, 0.1))):
        e[f"p{i}"] = record(m, f"bf16.p{i}", prompt(m, n, i, gap), [0, 3, 7] if i == 0 else None)
    index["bf16"] = e
    # q8_0: the first four layers of the same model and its head, no MTP block; gate and up merged
    small = Model(config(**{**A, "num_hidden_layers": 4}), False)
    sd = {k: v for k, v in m.state().items() if k in small.state()}
    write_gguf(OUT / "moe-q8_0.gguf", "moe-q8_0", small, T.Q8_0, True, sd)
    small.load(state_from_gguf(OUT / "moe-q8_0.gguf", small))
    e = entry("moe-q8_0.gguf", small, True, types_of(OUT / "moe-q8_0.gguf"))
    e["p0"] = record(small, "q8_0.p0", prompt(small, 48, 3, 0.2), [0, 3])
    index["q8_0"] = e
    # q4_k_m: rows of 256 so that K-quants fit
    k = build(C, 301, False)
    path = OUT / "moe-q4_k_m.gguf"
    if len(sys.argv) > 1:
        with tempfile.TemporaryDirectory() as tmp:
            write_gguf(Path(tmp) / "k.gguf", "moe-q4_k_m", k, T.BF16, False)
            subprocess.run([Path(sys.argv[1]) / "llama-quantize", Path(tmp) / "k.gguf", path, "Q4_K_M"], check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    k.load(state_from_gguf(path, k))
    e = entry("moe-q4_k_m.gguf", k, False, types_of(path))
    e["p0"] = record(k, "q4_k_m.p0", prompt(k, 48, 4, 0.2), [0, 1])
    index["q4_k_m"] = e
    write_json(OUT / "index.json", index)


# ------------------------------------------------------------------------------------------------------------- NumPy engine

silu = lambda x: x / (1 + np.exp(-x))
sig = lambda x: 1 / (1 + np.exp(-x))
rms = lambda x, w: x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * w


def moe(w, h, used, picks):
    """SPEC_MOE.md section 2 on GGUF tensors, one token."""
    p = w("ffn_gate_inp.weight") @ h
    p = np.exp(p - p.max())
    p /= p.sum()
    idx = np.argsort(-p, kind="stable")[:used]
    wt = p[idx] / p[idx].sum()
    picks.append((idx, wt))
    y = np.zeros_like(h)
    gate_up, down = w("ffn_gate_up_exps.weight"), w("ffn_down_exps.weight")
    for e, a in zip(idx, wt):
        g, u = np.split(gate_up[e] @ h, 2) if gate_up is not None else (w("ffn_gate_exps.weight")[e] @ h, w("ffn_up_exps.weight")[e] @ h)
        y += a * (down[e] @ (silu(g) * u))
    s = w("ffn_down_shexp.weight") @ (silu(w("ffn_gate_shexp.weight") @ h) * (w("ffn_up_shexp.weight") @ h))
    return y + sig(float(w("ffn_gate_inp_shexp.weight").ravel() @ h)) * s


def attention(w, h, p, K, V, nh, nkv):
    qg = (w("attn_q.weight") @ h).reshape(nh, 512)
    q, gate = rms(qg[:, :256], w("attn_q_norm.weight")), qg[:, 256:]
    k = rms((w("attn_k.weight") @ h).reshape(nkv, 256), w("attn_k_norm.weight"))
    t = p * 1e7 ** (-np.arange(32) / 32)
    c, s = np.cos(t), np.sin(t)
    rot = lambda y: np.concatenate([y[:, :32] * c - y[:, 32:64] * s, y[:, 32:64] * c + y[:, :32] * s, y[:, 64:]], 1)
    K.append(rot(k)), V.append((w("attn_v.weight") @ h).reshape(nkv, 256))
    q, ks, vs, o = rot(q), np.stack(K, 1), np.stack(V, 1), np.zeros((nh, 256))
    for a in range(nh):
        b = a // (nh // nkv)
        e = np.exp(ks[b] @ q[a] / 16 - (ks[b] @ q[a] / 16).max())
        o[a] = (e / e.sum()) @ vs[b]
    return w("attn_output.weight") @ (o * sig(gate)).ravel()


def engine(path, ids):
    r, W = read_gguf(path)
    W = {k: v.astype(np.float64) for k, v in W.items()}
    get = lambda k, d=None: r.fields[f"qwen35moe.{k}"].contents() if f"qwen35moe.{k}" in r.fields else d
    hk, hv, nh, nkv = get("ssm.group_count"), get("ssm.time_step_rank"), get("attention.head_count"), get("attention.head_count_kv")
    mtp, used, interval = get("nextn_predict_layers", 0), get("expert_used_count"), get("full_attention_interval")
    L = get("block_count") - mtp
    S, C4 = [np.zeros((hv, 128, 128)) for _ in range(L)], [np.zeros((3, (2 * hk + hv) * 128)) for _ in range(L)]
    K, V = [[] for _ in range(L + 1)], [[] for _ in range(L + 1)]
    out, drafts, picks, mtp_picks, y_old = [], [], [[] for _ in range(L)], [], None
    head = lambda y: W["output.weight"] @ y
    for p, tok in enumerate(ids):
        x = W["token_embd.weight"][tok]
        if mtp and y_old is not None:                          # MTP row p-1: this token with the hidden state before it
            w = lambda n: W.get(f"blk.{L}.{n}")
            u = w("nextn.eh_proj.weight") @ np.concatenate([rms(x, w("nextn.enorm.weight")), rms(y_old, w("nextn.hnorm.weight"))])
            u = u + attention(w, rms(u, w("attn_norm.weight")), p - 1, K[L], V[L], nh, nkv)
            u = u + moe(w, rms(u, w("post_attention_norm.weight")), used, mtp_picks)
            drafts.append(head(rms(u, w("nextn.shared_head_norm.weight"))))
        for i in range(L):
            w = lambda n: W.get(f"blk.{i}.{n}")
            h = rms(x, w("attn_norm.weight"))
            if (i + 1) % interval:
                win = np.vstack([C4[i], w("attn_qkv.weight") @ h])
                C4[i] = win[1:]
                q, k, v = np.split(silu((win * w("ssm_conv1d.weight").T).sum(0)), [hk * 128, 2 * hk * 128])
                l2 = lambda y: y / np.sqrt((y * y).sum(-1, keepdims=True) + 1e-6)
                q, k, v = l2(q.reshape(hk, 128)) / np.sqrt(128), l2(k.reshape(hk, 128)), v.reshape(hv, 128)
                beta, g = sig(w("ssm_beta.weight") @ h), w("ssm_a") * np.log1p(np.exp(w("ssm_alpha.weight") @ h + w("ssm_dt.bias")))
                o = np.zeros((hv, 128))
                for n in range(hv):
                    kn, qn = k[n % hk], q[n % hk]
                    S[i][n] *= np.exp(g[n])
                    S[i][n] += np.outer(kn, beta[n] * (v[n] - kn @ S[i][n]))
                    o[n] = qn @ S[i][n]
                z = (w("attn_gate.weight") @ h).reshape(hv, 128)
                x = x + w("ssm_out.weight") @ (rms(o, w("ssm_norm.weight")) * silu(z)).ravel()
            else:
                x = x + attention(w, h, p, K[i], V[i], nh, nkv)
            x = x + moe(w, rms(x, w("post_attention_norm.weight")), used, picks[i])
        y_old = rms(x, W["output_norm.weight"])
        out.append(head(y_old))
    return np.stack(out), np.stack(drafts) if drafts else None, picks, mtp_picks


def check():
    for name, e in json.load(open(OUT / "index.json")).items():
        for p in [k for k in e if k[0] == "p" and k[1:].isdigit()]:
            load = lambda f: np.load(OUT / f["file"])
            got, drafts, picks, mp = engine(OUT / e["gguf"], load(e[p]["ids"]))
            want = load(e[p]["logits"])
            idx, wt = np.array([[i for i, _ in l] for l in picks]), np.array([[w for _, w in l] for l in picks])
            line = (f"{name}.{p}: logits {np.abs(got - want).max():.1e}, argmax {int((got.argmax(1) == want.argmax(1)).sum())}/{len(want)}, "
                    f"experts {int((idx == load(e[p]['experts'])).sum())}/{idx.size}, weights {np.abs(wt - load(e[p]['weights'])).max():.1e}")
            if "mtp" in e[p]:
                line += f"; MTP logits {np.abs(drafts - load(e[p]['mtp']['logits'])).max():.1e}, experts " \
                        f"{int((np.array([i for i, _ in mp]) == load(e[p]['mtp']['experts'])).sum())}/{4 * len(mp)}"
            print(line, flush=True)


if __name__ == "__main__":
    check() if sys.argv[1:] == ["check"] else main()
