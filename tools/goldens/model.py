# SPDX-License-Identifier: Apache-2.0
"""mote-tiny built from transformers modules: configuration, draft head, loading.

Names and shapes are those of a real checkpoint.
"""
import torch
from torch import nn
from transformers import Qwen3_5Config, Qwen3_5ForConditionalGeneration
from transformers.models.qwen3_5.modeling_qwen3_5 import Qwen3_5DecoderLayer, Qwen3_5RMSNorm

VOCAB = 8192
IDS = dict(endoftext=7936, im_start=7937, im_end=7938, vision_start=7945, vision_end=7946, image_pad=7948, video_pad=7949)
ROPE = {"mrope_interleaved": True, "mrope_section": [11, 11, 10], "rope_type": "default", "rope_theta": 10000000,
        "partial_rotary_factor": 0.25}


def make_config(**text_over):
    text = dict(vocab_size=VOCAB, hidden_size=256, intermediate_size=768, num_hidden_layers=8, num_attention_heads=4,
                num_key_value_heads=1, head_dim=256, linear_num_key_heads=2, linear_num_value_heads=4,
                linear_key_head_dim=128, linear_value_head_dim=128, linear_conv_kernel_dim=4,
                max_position_embeddings=262144, rope_parameters=dict(ROPE), tie_word_embeddings=True,
                attn_output_gate=True, full_attention_interval=4, mtp_num_hidden_layers=1,
                mtp_use_dedicated_embeddings=False, mamba_ssm_dtype="float32", eos_token_id=IDS["endoftext"],
                layer_types=["full_attention" if i % 4 == 3 else "linear_attention" for i in range(8)])
    text.update(text_over)
    vision = dict(depth=4, hidden_size=128, num_heads=4, intermediate_size=256, patch_size=16, temporal_patch_size=2,
                  spatial_merge_size=2, in_channels=3, out_hidden_size=text["hidden_size"],
                  num_position_embeddings=2304, hidden_act="gelu_pytorch_tanh", deepstack_visual_indexes=[])
    return Qwen3_5Config(text_config=text, vision_config=vision, tie_word_embeddings=text["tie_word_embeddings"],
                         image_token_id=IDS["image_pad"], video_token_id=IDS["video_pad"],
                         vision_start_token_id=IDS["vision_start"], vision_end_token_id=IDS["vision_end"])


class MTP(nn.Module):
    """The multi-token-prediction head with the tensor names of the released checkpoints (SPEC.md, section 3)."""

    def __init__(self, text_config):
        super().__init__()
        h, eps = text_config.hidden_size, text_config.rms_norm_eps
        full = text_config.layer_types.index("full_attention")
        self.pre_fc_norm_embedding = Qwen3_5RMSNorm(h, eps)
        self.pre_fc_norm_hidden = Qwen3_5RMSNorm(h, eps)
        self.fc = nn.Linear(2 * h, h, bias=False)
        self.layers = nn.ModuleList([Qwen3_5DecoderLayer(text_config, full)])
        self.norm = Qwen3_5RMSNorm(h, eps)

    def forward(self, embeds, hidden, position_embeddings, attention_mask=None):
        """embeds: E[x_{p+1}], hidden: post-norm h_p; returns the post-norm state that predicts x_{p+2}."""
        u = self.fc(torch.cat([self.pre_fc_norm_embedding(embeds), self.pre_fc_norm_hidden(hidden)], -1))
        u = self.layers[0](u, position_embeddings=position_embeddings, attention_mask=attention_mask)
        return self.norm(u)


class Tiny(nn.Module):
    def __init__(self, config=None):
        super().__init__()
        self.config = config or make_config()
        self.hf = Qwen3_5ForConditionalGeneration(self.config)
        self.mtp = MTP(self.config.text_config)

    @property
    def text(self):
        return self.hf.model.language_model

    def state(self):
        """State dict with checkpoint names, without the tied head."""
        sd = {k: v for k, v in self.hf.state_dict().items() if k != "lm_head.weight"}
        sd.update({"mtp." + k: v for k, v in self.mtp.state_dict().items()})
        return sd

    def load_state(self, sd):
        self.mtp.load_state_dict({k[4:]: v for k, v in sd.items() if k.startswith("mtp.")})
        own = {k: v for k, v in sd.items() if not k.startswith("mtp.")}
        own["lm_head.weight"] = own["model.language_model.embed_tokens.weight"]
        self.hf.load_state_dict(own)
