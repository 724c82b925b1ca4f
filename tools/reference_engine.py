# SPDX-License-Identifier: Apache-2.0
"""Reference implementation of Qwen 3.5: one token at a time in float64. Needs NumPy.

Reads GGUF with f32 and bf16 weights. In GGUF the norm weights include the added 1, ssm_a is
-exp(A_log), and value head n uses key head n % key heads.
"""
import numpy as np

from gguf_file import TYPES, Reader

EPS = 1e-6


def silu(x):
    return x * sigmoid(x)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def rms(x, w):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS) * w


def unit(x):
    return x / np.sqrt((x * x).sum(-1, keepdims=True) + EPS)


def decode(dims, kind, data):
    """float64 array in C order: the shape is the reversed dims."""
    if kind == TYPES["bf16"][0]:
        values = (np.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4")
    else:
        assert kind == TYPES["f32"][0], kind
        values = np.frombuffer(data, "<f4")
    return values.astype(np.float64).reshape(dims[::-1])


class Model:
    def __init__(self, path):
        file = Reader(open(path, "rb").read())

        def value(key, default=None):
            return file.metadata.get("qwen35." + key, (None, default))[1]

        self.weights = {name: decode(*tensor) for name, tensor in file.tensors.items()}
        self.layers = value("block_count") - value("nextn_predict_layers", 0)
        self.heads, self.kv_heads = value("attention.head_count"), value("attention.head_count_kv")
        self.key_heads, self.value_heads = value("ssm.group_count"), value("ssm.time_step_rank")
        self.inv_freq = value("rope.freq_base") ** (-np.arange(32) / 32)

    def run(self, ids):
        """Logits of every position."""
        self.memory = [{} for _ in range(self.layers)]
        return np.stack([self.step(p, i) for p, i in enumerate(ids)])

    def step(self, position, token):
        x = self.weights["token_embd.weight"][token]
        for i in range(self.layers):
            def w(name):
                return self.weights[f"blk.{i}.{name}"]

            h = rms(x, w("attn_norm.weight"))
            x = x + (self.attention(w, h, position, self.memory[i]) if (i + 1) % 4 == 0 else
                     self.delta_net(w, h, self.memory[i]))
            h = rms(x, w("post_attention_norm.weight"))
            x = x + w("ffn_down.weight") @ (silu(w("ffn_gate.weight") @ h) * (w("ffn_up.weight") @ h))
        head = self.weights.get("output.weight", self.weights["token_embd.weight"])
        return head @ rms(x, self.weights["output_norm.weight"])

    def delta_net(self, w, h, memory):
        keys, values = self.key_heads, self.value_heads
        u = w("attn_qkv.weight") @ h
        window = np.vstack([memory.get("conv", np.zeros((3, len(u)))), u])
        memory["conv"] = window[1:]
        c = silu((window * w("ssm_conv1d.weight").T).sum(0))
        q, k, v = np.split(c, [keys * 128, 2 * keys * 128])
        q, k, v = unit(q.reshape(keys, 128)) / np.sqrt(128), unit(k.reshape(keys, 128)), v.reshape(values, 128)
        beta = sigmoid(w("ssm_beta.weight") @ h)
        g = w("ssm_a") * np.log1p(np.exp(w("ssm_alpha.weight") @ h + w("ssm_dt.bias")))
        s = memory.setdefault("state", np.zeros((values, 128, 128)))  # [key dim][value dim]
        o = np.empty((values, 128))
        for n in range(values):
            kn = k[n % keys]
            s[n] *= np.exp(g[n])
            s[n] += np.outer(kn, beta[n] * (v[n] - kn @ s[n]))
            o[n] = q[n % keys] @ s[n]
        z = (w("attn_gate.weight") @ h).reshape(values, 128)
        return w("ssm_out.weight") @ (rms(o, w("ssm_norm.weight")) * silu(z)).ravel()

    def attention(self, w, h, position, memory):
        query_gate = (w("attn_q.weight") @ h).reshape(self.heads, 512)
        gate = query_gate[:, 256:]
        q = self.rotate(rms(query_gate[:, :256], w("attn_q_norm.weight")), position)
        k = self.rotate(rms((w("attn_k.weight") @ h).reshape(self.kv_heads, 256), w("attn_k_norm.weight")), position)
        memory.setdefault("k", []).append(k)
        memory.setdefault("v", []).append((w("attn_v.weight") @ h).reshape(self.kv_heads, 256))
        keys, values = np.stack(memory["k"], 1), np.stack(memory["v"], 1)
        o = np.empty((self.heads, 256))
        for a in range(self.heads):
            b = a // (self.heads // self.kv_heads)
            score = keys[b] @ q[a] / 16
            e = np.exp(score - score.max())
            o[a] = (e / e.sum()) @ values[b]
        return w("attn_output.weight") @ (o * sigmoid(gate)).ravel()

    def rotate(self, x, position):
        c, s = np.cos(position * self.inv_freq), np.sin(position * self.inv_freq)
        a, b = x[:, :32], x[:, 32:64]
        return np.concatenate([a * c - b * s, b * c + a * s, x[:, 64:]], 1)
