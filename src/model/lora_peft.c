/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lora_peft.c - adapters of PEFT: adapter_config.json and adapter_model.safetensors.
 *
 * A module NAME has the tensors base_model.model.NAME.lora_A.weight [rank][inputs] and
 * NAME.lora_B.weight [outputs][rank]. Names and the order of value heads are those of the
 * checkpoint that was trained. The configuration says how A and B are scaled. What would change the
 * result and is not implemented is refused: DoRA, biases, full copies of modules.
 */
#include "json/json.h"
#include "model/lora.h"

#include <stdio.h>
#include <strings.h>

/* ---- configuration ---- */

typedef struct peft_config {
    double alpha;
    bool root; /* use_rslora: alpha / sqrt(rank) */
    const json_node *alpha_pattern;
} peft_config;

static bool is_set(const json_node *node)
{
    const json_kind kind = json_node_kind(node);
    if (kind == JSON_IS_ARRAY || kind == JSON_IS_OBJECT)
        return json_node_size(node) > 0;
    return kind != JSON_IS_ABSENT && kind != JSON_IS_NULL &&
           !(kind == JSON_IS_BOOL && !json_node_truth(node));
}

/* These ways to initialise A and B subtract B A from the weights of the model, so the adapter does
 * not fit the published ones. PEFT can convert it, and then writes true here. */
static mote_status config_check_init(const json_node *init, mote_error *err)
{
    static const char *const changed[] = {"pissa", "olora", "corda", "loftq", "lora_ga"};
    const str text = json_node_text(init);
    for (size_t i = 0; i < sizeof changed / sizeof *changed; i++) {
        const size_t n = strlen(changed[i]); /* a prefix: there is pissa_niter_16 */
        if (text.n >= n && strncasecmp(text.p, changed[i], n) == 0)
            return err_set(err, MOTE_E_UNSUPPORTED,
                           "adapter_config.json has init_lora_weights '%.*s', which changes the "
                           "weights of the model; save the adapter with "
                           "path_initial_model_for_weight_conversion",
                           STR_ARG(text));
    }
    return MOTE_OK;
}

/* Options that change the result and that mote does not have. */
static mote_status config_check_options(const json_node *root, mote_error *err)
{
    static const struct {
        const char *key, *advice;
    } refused[] = {
        {"use_dora", "train with use_dora=False, or merge the adapter with PEFT"},
        {"modules_to_save", "train without it, or merge the adapter with PEFT"},
        {"target_parameters", "name modules in target_modules instead"},
        {"trainable_token_indices", "train without it, or merge the adapter with PEFT"},
        {"alora_invocation_tokens", "train a plain LoRA"},
        {"fan_in_fan_out", "set it to false; linear layers of this family are not transposed"},
        {"lora_bias", "set it to false"},
        {"layer_replication", "train without it"},
        {"use_qalora", "train a plain LoRA"},
        {"use_bdlora", "train a plain LoRA"},
        {"kasa_config", "train a plain LoRA"},
        {"monteclora_config", "train a plain LoRA"},
        {"arrow_config", "train a plain LoRA"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (is_set(json_node_get(root, refused[i].key)))
            return err_set(err, MOTE_E_UNSUPPORTED,
                           "adapter_config.json sets %s, which mote does not support; %s",
                           refused[i].key, refused[i].advice);
    const json_node *bias = json_node_get(root, "bias");
    if (is_set(bias) && !str_is(json_node_text(bias), "none"))
        return err_set(err, MOTE_E_UNSUPPORTED,
                       "adapter_config.json has bias '%.*s'; train with bias=\"none\"",
                       STR_ARG(json_node_text(bias)));
    return config_check_init(json_node_get(root, "init_lora_weights"), err);
}

static mote_status config_read(peft_config *c, const json_node *root, mote_error *err)
{
    const json_node *type = json_node_get(root, "peft_type");
    if (!json_node_is(root, JSON_IS_OBJECT) || !str_is(json_node_text(type), "LORA"))
        return err_set(err, MOTE_E_UNSUPPORTED,
                       "adapter_config.json has peft_type '%.*s'; supported: LORA",
                       STR_ARG(json_node_text(type)));
    TRY(config_check_options(root, err));
    const json_node *alpha = json_node_get(root, "lora_alpha");
    if (!json_node_is(alpha, JSON_IS_NUMBER))
        return err_set(err, MOTE_E_FORMAT, "adapter_config.json has no number lora_alpha");
    *c = (peft_config){.alpha = json_node_double(alpha),
                       .root = json_node_truth(json_node_get(root, "use_rslora")),
                       .alpha_pattern = json_node_get(root, "alpha_pattern")};
    return MOTE_OK;
}

/* True if `name` is `pattern` or ends in "." and it. */
static bool name_matches(str name, str pattern)
{
    return name.n >= pattern.n && pattern.n > 0 &&
           memcmp(name.p + name.n - pattern.n, pattern.p, pattern.n) == 0 &&
           (name.n == pattern.n || name.p[name.n - pattern.n - 1] == '.');
}

/* alpha_pattern maps names of modules to their alpha; the first that matches counts. */
static mote_status config_alpha(const peft_config *c, str module, double *alpha, mote_error *err)
{
    *alpha = c->alpha;
    for (const json_node *p = json_node_first(c->alpha_pattern); p != NULL; p = json_node_next(p)) {
        if (!str_has_only(json_node_name(p), "._") || !json_node_is(p, JSON_IS_NUMBER))
            return err_set(err, MOTE_E_UNSUPPORTED,
                           "alpha_pattern of adapter_config.json has '%.*s'; supported: names of "
                           "modules with numbers",
                           STR_ARG(json_node_name(p)));
        if (name_matches(module, json_node_name(p))) {
            *alpha = json_node_double(p);
            return MOTE_OK;
        }
    }
    return MOTE_OK;
}

/* ---- names ---- */

/* The rule of a module such as "model.language_model.layers.3.self_attn.q_proj". */
static const lora_rule *rule_of(str name, const hparams *hp, uint32_t *block)
{
    bool once = false, mtp = false;
    *block = 0;
    while (str_take_prefix(&name, "model.") || str_take_prefix(&name, "language_model.")) {
    }
    if (str_take_prefix(&name, "mtp.")) {
        mtp = true;
        *block = hp->n_layers;
        uint32_t index = 0;
        if (str_take_prefix(&name, "layers.") && (!str_take_index(&name, &index) || index != 0))
            return NULL;
    } else if (str_take_prefix(&name, "layers.")) {
        if (!str_take_index(&name, block) || *block >= hp->n_layers)
            return NULL;
    } else {
        once = true;
    }
    for (size_t i = 0; i < n_lora_rules; i++) {
        const lora_place place = lora_rules[i].place;
        if ((place == LORA_MODEL) == once && (place != LORA_MTP || mtp) &&
            str_is(name, lora_rules[i].peft))
            return &lora_rules[i];
    }
    return NULL;
}

static bool name_has(str name, const char *part)
{
    const size_t n = strlen(part);
    for (size_t i = 0; i + n <= name.n; i++)
        if (memcmp(name.p + i, part, n) == 0)
            return true;
    return false;
}

static mote_status unknown_module(str module, mote_error *err)
{
    const char *advice = "docs/lora.md lists the modules that mote adapts";
    if (name_has(module, "visual."))
        advice = "the vision encoder has no adapters: exclude it from target_modules";
    else if (name_has(module, "embed_tokens"))
        advice = "the token embedding has no adapters: train without embed_tokens";
    else if (name_has(module, "expert"))
        advice = "experts have no adapters: exclude them from target_modules";
    return err_set(err, MOTE_E_UNSUPPORTED, "the adapter changes '%.*s'; %s", STR_ARG(module),
                   advice);
}

/* Splits NAME.lora_A.weight; false: another kind of tensor. */
static bool name_split(str name, str *module, bool *is_a)
{
    static const char *const suffixes[] = {".lora_A.weight", ".lora_B.weight",
                                           ".lora_A.default.weight", ".lora_B.default.weight"};
    str_take_prefix(&name, "base_model.model.");
    for (size_t i = 0; i < 4; i++) {
        *module = name;
        *is_a = i % 2 == 0;
        if (str_take_suffix(module, suffixes[i]))
            return module->n > 0;
    }
    return false;
}

/* ---- tensors ---- */

static mote_status add_tensor(lora_sources *out, const safetensor *t, const unsigned char *file,
                              const peft_config *c, const hparams *hp, mote_error *err)
{
    static const quant_format formats[] = {[SAFETENSORS_F32] = QUANT_F32,
                                           [SAFETENSORS_F16] = QUANT_F16,
                                           [SAFETENSORS_BF16] = QUANT_BF16};
    str module;
    bool is_a;
    uint32_t block;
    char text[LORA_MODULE_BYTES];
    lora_source *s;
    const bool known = name_split(t->name, &module, &is_a);
    const lora_rule *rule = known ? rule_of(module, hp, &block) : NULL;
    if (rule == NULL)
        return unknown_module(module, err);
    if (t->type == SAFETENSORS_OTHER || t->n_dims != 2)
        return err_set(err, MOTE_E_UNSUPPORTED,
                       "adapter tensor '%.*s' has type %.*s and %u dimensions; supported: "
                       "matrices of F32, F16 and BF16",
                       STR_ARG(t->name), STR_ARG(t->type_name), t->n_dims);
    if (t->type != SAFETENSORS_F32 && t->offset % 2 != 0)
        return err_set(err, MOTE_E_FORMAT, "adapter tensor '%.*s' is not aligned to its type",
                       STR_ARG(t->name));
    snprintf(text, sizeof text, "%.*s", (int)module.n, module.p);
    TRY(lora_sources_entry(out, text, rule, block, &s, err));
    if (is_a ? s->has_a : s->has_b)
        return err_set(err, MOTE_E_FORMAT, "adapter tensor '%.*s' is there twice: also as '%s'",
                       STR_ARG(t->name), s->name);
    *(is_a ? &s->a : &s->b) = (lora_values){.data = file + t->offset,
                                            .format = quant_get(formats[t->type]),
                                            .rows = t->dims[0],
                                            .cols = t->dims[1]};
    *(is_a ? &s->has_a : &s->has_b) = true;
    s->reorder = true;
    s->root = c->root;
    return config_alpha(c, module, &s->alpha, err);
}

static mote_status read_tensors(lora_sources *out, const peft_config *c, const safetensors *all,
                                const unsigned char *file, const hparams *hp, mote_error *err)
{
    for (uint32_t i = 0; i < safetensors_count(all); i++)
        TRY(add_tensor(out, safetensors_at(all, i), file, c, hp, err));
    return MOTE_OK;
}

mote_status lora_read_peft(lora_sources *out, str config, const unsigned char *tensors,
                           uint64_t n_tensors, const hparams *hp, mote_error *err)
{
    json_doc *doc = NULL;
    safetensors *all = NULL;
    peft_config c = {0};
    mote_status status = json_doc_read(&doc, config, err);
    if (status != MOTE_OK)
        err_prefix(err, "adapter_config.json");
    if (status == MOTE_OK)
        status = config_read(&c, json_doc_root(doc), err);
    if (status == MOTE_OK)
        status = safetensors_read(&all, tensors, n_tensors, n_tensors, err);
    if (status == MOTE_OK)
        status = read_tensors(out, &c, all, tensors, hp, err);
    safetensors_free(all);
    json_doc_free(doc);
    return status;
}
