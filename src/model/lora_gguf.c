/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lora_gguf.c - GGUF adapters, as llama.cpp's converter writes them.
 *
 * general.type is "adapter", adapter.type "lora", adapter.lora.alpha the alpha of all matrices. A
 * tensor NAME of the model has the tensors NAME.lora_a [rank][cols] and NAME.lora_b [rows][rank],
 * in the order of the model's file. An alpha of 0 means a scale of 1.
 */
#include "model/lora.h"

#include <stdio.h>

static mote_status check_kind(const gguf *g, const hparams *hp, mote_error *err)
{
    const char *model = hp->n_experts > 0 ? "qwen35moe" : "qwen35";
    str type = {"", 0}, adapter = {"", 0}, architecture = {"", 0};
    bool found;
    TRY(gguf_get_str(g, "general.type", &type, &found, err));
    if (!str_is(type, "adapter"))
        return err_set(err, MOTE_E_UNSUPPORTED,
                       "the file is no adapter: general.type is '%.*s', expected 'adapter'",
                       STR_ARG(type));
    TRY(gguf_get_str(g, "adapter.type", &adapter, &found, err));
    if (!str_is(adapter, "lora"))
        return err_set(err, MOTE_E_UNSUPPORTED, "adapter.type is '%.*s'; supported: lora",
                       STR_ARG(adapter));
    if (gguf_find(g, "adapter.alora.invocation_tokens") != NULL)
        return err_set(err, MOTE_E_UNSUPPORTED,
                       "the adapter is an activated LoRA (adapter.alora.invocation_tokens), which "
                       "mote does not support");
    TRY(gguf_get_str(g, "general.architecture", &architecture, &found, err));
    if (!str_is(architecture, model))
        return err_set(err, MOTE_E_MISMATCH,
                       "the adapter is for the architecture '%.*s'; the model has %s",
                       STR_ARG(architecture), model);
    return MOTE_OK;
}

const lora_rule *lora_rule_of_tensor(str name, const hparams *hp, uint32_t *block)
{
    const int64_t number = gguf_block_of(name);
    *block = number >= 0 ? (uint32_t)number : 0;
    if (number > (int64_t)hp->n_layers)
        return NULL;
    if (number >= 0) {
        size_t dots = 0, at = 0;
        while (at < name.n && dots < 2)
            dots += name.p[at++] == '.';
        name = (str){name.p + at, name.n - at};
    }
    for (size_t i = 0; i < n_lora_rules; i++)
        if ((lora_rules[i].place != LORA_MODEL) == (number >= 0) &&
            str_is(name, lora_rules[i].gguf))
            return &lora_rules[i];
    return NULL;
}

static mote_status unknown_tensor(str name, mote_error *err)
{
    if (str_is(name, "token_embd.weight"))
        return err_set(err, MOTE_E_UNSUPPORTED,
                       "the adapter changes the token embedding, which mote does not support; "
                       "train without embed_tokens");
    return err_set(err, MOTE_E_UNSUPPORTED,
                   "adapter tensor '%.*s' is for no matrix that mote adapts; docs/lora.md lists "
                   "them",
                   STR_ARG(name));
}

static mote_status add_tensor(lora_sources *out, const gguf_tensor *t, const hparams *hp,
                              double alpha, mote_error *err)
{
    str name = t->name;
    const bool is_a = str_take_suffix(&name, ".lora_a"),
               is_b = !is_a && str_take_suffix(&name, ".lora_b");
    const str whole = name;
    if (!is_a && !is_b)
        return err_set(err, MOTE_E_UNSUPPORTED,
                       "tensor '%.*s' of the adapter is neither lora_a nor lora_b; make the "
                       "adapter without modules_to_save",
                       STR_ARG(t->name));
    uint32_t block;
    const lora_rule *rule =
        str_take_suffix(&name, ".weight") ? lora_rule_of_tensor(name, hp, &block) : NULL;
    if (rule == NULL)
        return unknown_tensor(whole, err);
    if (t->dims[2] != 1 || t->dims[3] != 1)
        return err_set(err, MOTE_E_FORMAT, "adapter tensor '%.*s' is no matrix", STR_ARG(t->name));
    char text[LORA_MODULE_BYTES];
    lora_source *s;
    snprintf(text, sizeof text, "%.*s", STR_ARG(whole));
    TRY(lora_sources_entry(out, text, rule, block, &s, err));
    const lora_values values = {
        .data = t->data, .format = t->format, .rows = t->dims[1], .cols = t->dims[0]};
    *(is_a ? &s->a : &s->b) = values;
    *(is_a ? &s->has_a : &s->has_b) = true;
    s->alpha = alpha;
    return MOTE_OK;
}

mote_status lora_read_gguf(lora_sources *out, const gguf *g, const hparams *hp, mote_error *err)
{
    float alpha = 0;
    str name = {"", 0};
    bool found;
    TRY(check_kind(g, hp, err));
    TRY(gguf_get_f32(g, "adapter.lora.alpha", &alpha, NULL, err));
    TRY(gguf_get_str(g, "general.name", &name, &found, err));
    snprintf(out->name, sizeof out->name, "%.*s", (int)(name.n < 90 ? name.n : 90), name.p);
    for (uint64_t i = 0; i < gguf_n_tensors(g); i++)
        TRY(add_tensor(out, gguf_tensor_at(g, i), hp, (double)alpha, err));
    for (uint32_t i = 0; i < out->n && alpha == 0; i++)
        out->at[i].alpha = (double)out->at[i].a.rows; /* so that alpha / rank is 1 */
    return MOTE_OK;
}
