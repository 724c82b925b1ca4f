/* SPDX-License-Identifier: Apache-2.0 */
/*
 * request.c - memory of a request, field names for errors, choice of the model, prompts without a
 * chat template and fill-in-the-middle prompts.
 *
 * The lowest file of this directory: params.c, request_media.c and request_chat.c call it.
 */
#include "server/request/request.h"

#include "base/str.h"
#include "base/mem.h"

#include <stdio.h>

/* ---- memory ---- */

void request_fini(request *a)
{
    for (size_t i = 0; a->prompt_ids != NULL && i < a->n_prompts; i++)
        mem_free(a->prompt_ids[i]);
    mem_free(a->prompts);
    mem_free(a->prompt_ids);
    mem_free(a->n_prompt_ids);
    mem_free(a->answers.memory);
    for (size_t i = 0; i < a->n_media; i++)
        if (a->media[i].result != NULL)
            image_cache_release(a->vision, a->media[i].result);
    chat_parsed_fini(&a->parsed);
    for (size_t i = 0; i < a->n_kept; i++)
        mem_free(a->kept[i]);
    for (size_t i = 0; i < a->n_made; i++)
        json_doc_free(a->made[i]);
    json_doc_free(a->body);
    mem_free(a->own);
    if (a->served != NULL)
        model_lease_end(a->entry); /* last: results of images belong to the model */
    *a = (request){0};
}

void request_warn(request *a, const char *code, const char *at)
{
    request_warn_choice(a, 0, code, at);
}

void request_warn_choice(request *a, uint32_t choice, const char *code, const char *at)
{
    size_t i = a->n_warnings;
    while (i > 0 && a->warnings[i - 1].choice > choice)
        i--;
    if (i == REQUEST_MAX_WARNINGS)
        return;
    if (a->n_warnings < REQUEST_MAX_WARNINGS)
        a->n_warnings++;
    memmove(a->warnings + i + 1, a->warnings + i, (a->n_warnings - 1 - i) * sizeof *a->warnings);
    a->warnings[i] = (warning){.code = code, .choice = choice};
    snprintf(a->warnings[i].at, sizeof a->warnings[i].at, "%s", at);
}

bool request_keep(request *a, void *block, http_error *error)
{
    if (block == NULL)
        return http_error_no_memory(error);
    if (a->n_kept == REQUEST_MAX_KEPT) {
        mem_free(block);
        return http_error_no_memory(error);
    }
    a->kept[a->n_kept++] = block;
    return true;
}

void *request_memory(request *a, size_t n, size_t each, http_error *error)
{
    void *block = mem_new(n, each);
    return request_keep(a, block, error) ? block : NULL;
}

char *request_copy(request *a, str text, http_error *error)
{
    char *copy = request_memory(a, text.n + 1, 1, error);
    if (copy != NULL && text.n > 0)
        memcpy(copy, text.p, text.n);
    return copy;
}

const json_node *request_made(request *a, strbuf *json, http_error *error)
{
    mote_error err;
    json_doc *doc = NULL;
    const bool room = a->n_made < sizeof a->made / sizeof *a->made;
    if (!room || strbuf_check(json, &err) != MOTE_OK) {
        strbuf_fini(json);
        http_error_no_memory(error);
        return NULL;
    }
    const mote_status status = json_doc_read(&doc, strbuf_view(json), &err);
    strbuf_fini(json);
    if (status != MOTE_OK) {
        http_error_from(error, &err);
        return NULL;
    }
    a->made[a->n_made++] = doc;
    return json_doc_root(doc);
}

/* ---- field names ---- */

void request_message_at(const request *a, size_t index, const char *rest, char at[REQUEST_AT])
{
    const json_node *node = json_node_first(a->messages);
    for (size_t i = 0; i < index && node != NULL; i++)
        node = json_node_next(node);
    const json_node *field = a->has_at ? json_node_get(node, "at") : NULL;
    if (field != NULL)
        snprintf(at, REQUEST_AT, "%.*s%s", STR_ARG(json_node_text(field)), rest);
    else
        snprintf(at, REQUEST_AT, "%s[%zu]%s", a->names.messages, index, rest);
}

/* The index counts ignored tools too, because the client's list contains them. */
void request_tool_at(const request *a, size_t tool, const char *field, char at[REQUEST_AT])
{
    const json_node *node = json_node_first(a->tools);
    size_t index = 0;
    for (; node != NULL && node != a->parsed.tools[tool]; node = json_node_next(node))
        index++;
    snprintf(at, REQUEST_AT, "%s[%zu].%s", a->names.tools, index, field);
}

bool request_missing(http_error *error, const char *name)
{
    http_error_refused(error, name, "missing_field", "is required");
    return false;
}

/* ---- model ---- */

/* Cuts a thinking setting behind the last colon, such as ":nothink", off the name. */
static str model_name_take_think_word(str *name)
{
    for (size_t i = name->n; i > 0; i--)
        if (name->p[i - 1] == ':') {
            const str word = {name->p + i, name->n - i};
            if (!chat_think_is_suffix(word))
                break;
            name->n = i - 1;
            return word;
        }
    return (str){"", 0};
}

void request_find_model(request *a, str name)
{
    model_registry *models = a->ctx->models;
    model_entry *found = model_registry_find(models, name);
    a->think_word = model_registry_alias_think(models, name);
    if (found == NULL) {
        a->think_word = model_name_take_think_word(&name);
        found = model_registry_find(models, name);
    }
    if (found == NULL)
        model_registry_find_lora(models, name, &found, &a->name_lora);
    a->known_model = found != NULL || name.n == 0 || str_is(name, "default");
    if (found == NULL && (a->known_model || !model_registry_has_catalog(models)))
        found = model_registry_default(models);
    a->entry = found;
}

void request_use_model(request *a, served_model *leased)
{
    a->served = leased;
    a->vision = served_model_vision(leased);
}

bool request_no_model(const request *a, str name, http_error *error)
{
    char near[256];
    model_registry_nearest(a->ctx->models, name, near, sizeof near);
    if (name.n == 0 && near[0] != '\0')
        http_error_set(error, HTTP_E_INVALID, "missing_field",
                       "model is required, because several models are installed: %s", near);
    else if (near[0] == '\0')
        http_error_set(error, HTTP_E_NOT_FOUND, "model_not_found",
                       "model '%.*s' not found: no model is installed (try: mote pull NAME)",
                       (int)(name.n < 100 ? name.n : 100), name.p);
    else
        http_error_set(error, HTTP_E_NOT_FOUND, "model_not_found",
                       "model '%.*s' not found; similar installed models: %s",
                       (int)(name.n < 100 ? name.n : 100), name.p, near);
    snprintf(error->param, sizeof error->param, "model");
    return false;
}

str request_name_in(const json_node *body, bool also_name)
{
    const json_node *model = json_node_get(body, "model");
    if (also_name && !json_node_is(model, JSON_IS_STRING))
        model = json_node_get(body, "name");
    return json_node_text(model);
}

/* ---- adapters ---- */

static bool loras_add(request *a, str name, const json_node *scale, http_error *error)
{
    const served_lora *found = served_model_lora(a->served, name);
    size_t known;
    served_model_loras(a->served, &known);
    if (found == NULL)
        return http_error_invalid(
            error, "mote.lora", "names the adapter '%.*s'; the model has %s", STR_ARG(name),
            known > 0 ? "others, which GET /v1/models lists" : "none (mote serve --lora FILE)");
    if (a->n_loras == MOTE_MAX_LORAS)
        return http_error_invalid(error, "mote.lora", "must have at most %d adapters",
                                  MOTE_MAX_LORAS);
    double factor = (double)found->scale;
    if (node_given(scale)) {
        factor = json_node_double(scale);
        if (!json_node_is(scale, JSON_IS_NUMBER) || !(factor >= -100 && factor <= 100))
            return http_error_invalid(error, "mote.lora", "scale must be -100 to 100");
    }
    const float used = (float)factor;
    if (used != 0) /* 0 turns it off */
        a->loras[a->n_loras++] = (mote_lora_use){found->lora, used};
    return true;
}

static bool loras_add_node(request *a, const json_node *node, http_error *error)
{
    if (json_node_is(node, JSON_IS_STRING))
        return loras_add(a, json_node_text(node), NULL, error);
    const json_node *name = json_node_get(node, "name");
    if (!json_node_is(name, JSON_IS_STRING))
        return http_error_invalid(error, "mote.lora",
                                  "must be a name, or a list of names and {name, scale}");
    return loras_add(a, json_node_text(name), json_node_get(node, "scale"), error);
}

/* The adapters of `mote.lora`, or else that of the model name. */
static bool request_loras(request *a, http_error *error)
{
    const json_node *given = json_node_get(json_node_get(a->root, "mote"), "lora");
    uint64_t rank = 0;
    if (a->served == NULL) /* a request about the model, not to it */
        return true;
    if (!node_given(given)) {
        if (a->name_lora != NULL && a->name_lora->scale != 0)
            a->loras[a->n_loras++] = (mote_lora_use){a->name_lora->lora, a->name_lora->scale};
    } else if (!json_node_is(given, JSON_IS_ARRAY)) {
        if (!loras_add_node(a, given, error))
            return false;
    } else {
        for (const json_node *e = json_node_first(given); e != NULL; e = json_node_next(e))
            if (!loras_add_node(a, e, error))
                return false;
    }
    for (size_t i = 0; i < a->n_loras; i++) {
        mote_lora_info info;
        mote_lora_describe(a->loras[i].lora, &info);
        rank += info.rank;
    }
    const uint32_t most = sched_settings(served_model_sched(a->served))->lora_rank;
    return rank <= most ||
           http_error_invalid(error, "mote.lora", "has adapters with a rank of %llu; at most %u",
                              (unsigned long long)rank, most);
}

const char *request_model_name(const request *a)
{
    return a->shown_model[0] != '\0' ? a->shown_model : served_model_name(a->served);
}

bool request_model(request *a, str *suffix, http_error *error)
{
    if (!request_loras(a, error))
        return false;
    if (a->name_lora != NULL && a->served != NULL)
        snprintf(a->shown_model, sizeof a->shown_model, "%s:%s", served_model_name(a->served),
                 a->name_lora->name);
    const str name = {a->model.p, a->model.n - (a->think_word.n > 0 ? a->think_word.n + 1 : 0)};
    *suffix = a->think_word;
    if (a->known_model)
        return true;
    if (a->any_model) {
        char at[80];
        snprintf(at, sizeof at, "%.*s", (int)(name.n < 79 ? name.n : 79), name.p);
        request_warn(a, "model_substituted", at);
        return true;
    }
    http_error_set(error, HTTP_E_NOT_FOUND, "model_not_found", "model '%.*s' not found",
                   STR_ARG(a->model));
    snprintf(error->param, sizeof error->param, "model");
    return false;
}

bool request_keep_alive(request *a, http_error *error)
{
    const json_node *node = json_node_get(a->root, "keep_alive");
    if (node == NULL || json_node_is(node, JSON_IS_NULL))
        return true;
    if (json_node_is(node, JSON_IS_NUMBER))
        a->keep_alive = json_node_double(node);
    else if (!json_node_is(node, JSON_IS_STRING) ||
             !str_duration(json_node_text(node).p, &a->keep_alive))
        return http_error_invalid(error, "keep_alive",
                                  "must be seconds or a duration such as \"5m\"");
    a->has_keep_alive = a->admin;
    if (!a->admin)
        request_warn(a, "keep_alive_ignored", "keep_alive"); /* unloading affects other clients */
    return true;
}

/* ---- prompts ---- */

bool request_add_prompt(request *a, str text, http_error *error)
{
    const size_t n = a->n_prompts;
    str *prompts = mem_resize(a->prompts, n, n + 1, sizeof *prompts);
    if (prompts != NULL)
        a->prompts = prompts;
    mote_token **ids = mem_resize(a->prompt_ids, n, n + 1, sizeof *ids);
    if (ids != NULL)
        a->prompt_ids = ids;
    size_t *counts = mem_resize(a->n_prompt_ids, n, n + 1, sizeof *counts);
    if (counts != NULL)
        a->n_prompt_ids = counts;
    if (prompts == NULL || ids == NULL || counts == NULL)
        return http_error_no_memory(error);
    a->prompts[n] = text;
    a->n_prompts = n + 1;
    return true;
}

static bool prompt_add_ids(request *a, const json_node *node, const char *at, http_error *error)
{
    const size_t n = json_node_size(node);
    if (n == 0)
        return http_error_invalid(error, at, "must have at least one token id");
    mote_token *ids = mem_new(n, sizeof *ids);
    if (ids == NULL)
        return http_error_no_memory(error);
    size_t i = 0;
    for (const json_node *e = json_node_first(node); e != NULL; e = json_node_next(e)) {
        int64_t id;
        if (!json_node_int64(e, &id) || id < 0 || id > INT32_MAX) {
            mem_free(ids);
            return http_error_invalid(
                error, at, "must be a string, strings, token ids or arrays of token ids");
        }
        ids[i++] = (mote_token)id;
    }
    if (!request_add_prompt(a, (str){"", 0}, error)) {
        mem_free(ids);
        return false;
    }
    a->prompt_ids[a->n_prompts - 1] = ids;
    a->n_prompt_ids[a->n_prompts - 1] = n;
    return true;
}

bool request_prompts(request *a, const json_node *node, const char *at, size_t max,
                     http_error *error)
{
    if (json_node_is(node, JSON_IS_STRING))
        return request_add_prompt(a, json_node_text(node), error);
    if (!json_node_is(node, JSON_IS_ARRAY))
        return http_error_invalid(error, at,
                                  "must be a string, strings, token ids or arrays of token ids");
    if (json_node_is(json_node_first(node), JSON_IS_NUMBER))
        return prompt_add_ids(a, node, at, error);
    if (json_node_size(node) == 0 || json_node_size(node) > max)
        return http_error_invalid(error, at, "must have 1 to %zu entries, got %zu", max,
                                  (size_t)json_node_size(node));
    for (const json_node *e = json_node_first(node); e != NULL; e = json_node_next(e)) {
        if (json_node_is(e, JSON_IS_STRING) ? !request_add_prompt(a, json_node_text(e), error)
                                            : !prompt_add_ids(a, e, at, error))
            return false;
    }
    return true;
}

/* Most texts have less than one token per three bytes. Others are tokenized twice. */
bool request_tokenize(const request *a, str text, unsigned flags, mote_token **ids, size_t *n,
                      http_error *error)
{
    mote_error err;
    const mote_model *model = served_model_chat_context(a->served)->model;
    *ids = NULL;
    *n = text.n / 3 + 16;
    for (size_t room = 0; room < *n;) {
        room = *n;
        mem_free(*ids);
        *ids = mem_new(room, sizeof **ids);
        if (*ids == NULL)
            return http_error_no_memory(error);
        if (mote_tokenize_with_hook(model, text.p, text.n, flags, *ids, room, n, a->hook,
                                    a->hook_ctx, &err) != MOTE_OK) {
            mem_free(*ids);
            *ids = NULL;
            http_error_from(error, &err);
            return false;
        }
    }
    return true;
}

/* ---- fill in the middle ---- */

typedef struct fim_ids {
    const request *of;
    mote_token *p; /* [room] */
    size_t n, room;
} fim_ids;

/* Tokenizes `text` and appends the ids. */
static bool fim_add_text(fim_ids *b, str text, unsigned flags, http_error *error)
{
    mote_token *ids;
    size_t n;
    if (!request_tokenize(b->of, text, flags, &ids, &n, error))
        return false;
    if (b->room - b->n < n) {
        const size_t room = 2 * b->room + n;
        mote_token *p = mem_resize(b->p, b->room, room, sizeof *p);
        if (p == NULL) {
            mem_free(ids);
            return http_error_no_memory(error);
        }
        b->p = p;
        b->room = room;
    }
    memcpy(b->p + b->n, ids, n * sizeof *ids);
    b->n += n;
    mem_free(ids);
    return true;
}

/* The marker must be a single token; otherwise the model has no fill-in-the-middle support. */
static bool fim_add_mark(fim_ids *b, const char *mark, http_error *error)
{
    const size_t before = b->n;
    if (!fim_add_text(b, str_of(mark), MOTE_TEXT_CONTROL, error))
        return false;
    if (b->n != before + 1)
        return http_error_unsupported(error, "suffix", "fill in the middle with this model");
    return true;
}

static bool fim_add_files(fim_ids *b, const json_node *extra, http_error *error)
{
    for (const json_node *f = json_node_first(extra); f != NULL; f = json_node_next(f)) {
        const str name = json_node_text(json_node_get(f, "filename"));
        const str text = json_node_text(json_node_get(f, "text"));
        if (!fim_add_mark(b, "<|file_sep|>", error) || !fim_add_text(b, name, 0, error) ||
            !fim_add_text(b, str_of("\n"), 0, error) || !fim_add_text(b, text, 0, error) ||
            !fim_add_text(b, str_of("\n"), 0, error))
            return false;
    }
    return json_node_size(extra) == 0 || fim_add_mark(b, "<|file_sep|>", error);
}

static bool fim_add_gap(fim_ids *b, str before, str after, const json_node *extra,
                        http_error *error)
{
    return fim_add_files(b, extra, error) && fim_add_mark(b, "<|fim_prefix|>", error) &&
           fim_add_text(b, before, 0, error) && fim_add_mark(b, "<|fim_suffix|>", error) &&
           fim_add_text(b, after, 0, error) && fim_add_mark(b, "<|fim_middle|>", error);
}

bool request_add_fim_prompt(request *a, str before, str after, const json_node *extra,
                            http_error *error)
{
    fim_ids b = {.of = a};
    if (!fim_add_gap(&b, before, after, extra, error) ||
        !request_add_prompt(a, (str){"", 0}, error)) {
        mem_free(b.p);
        return false;
    }
    a->prompt_ids[a->n_prompts - 1] = b.p;
    a->n_prompt_ids[a->n_prompts - 1] = b.n;
    return true;
}
