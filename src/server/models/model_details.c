/* SPDX-License-Identifier: Apache-2.0 */
/* model_details.c - see model_details.h. */
#include "server/models/model_details.h"

#include "base/mem.h"
#include "server/models/model_registry_int.h"
#include "store/digest.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

static const char insert_mark[] = "<|fim_prefix|>";

/* ---- from the file ---- */

static uint32_t details_number(const gguf *file, const char *family, const char *key)
{
    char name[GGUF_MAX_KEY];
    uint32_t value = 0;
    bool found = false;
    snprintf(name, sizeof name, "%s.%s", family, key);
    return gguf_get_u32(file, name, &value, &found, NULL) == MOTE_OK ? value : 0;
}

/* Without the draft head: the last layers. */
static uint64_t details_count_parameters(const gguf *file, const char *family)
{
    uint64_t sum = 0;
    const int64_t layers = (int64_t)details_number(file, family, "block_count") -
                           (int64_t)details_number(file, family, "nextn_predict_layers");
    for (uint64_t i = 0; i < gguf_n_tensors(file); i++) {
        const gguf_tensor *t = gguf_tensor_at(file, i);
        uint64_t n = 1;
        if (gguf_block_of(t->name) >= layers)
            continue;
        for (uint32_t d = 0; d < GGUF_MAX_DIMS; d++)
            n *= t->dims[d];
        sum += n;
    }
    return sum;
}

static bool details_has_token(const gguf_kv *tokens, const char *text)
{
    gguf_str_walk walk = {0};
    str token;
    while (gguf_next_str(tokens, &walk, &token))
        if (str_is(token, text))
            return true;
    return false;
}

/* Fills `info` and what follows from the metadata of a file that is not loaded. */
static void details_from_file(model_details *out)
{
    const gguf *file = out->file;
    const gguf_kv *tokens = gguf_find(file, "tokenizer.ggml.tokens");
    mote_model_info *info = &out->info;
    str text;
    bool found = false;
    if (gguf_get_str(file, "general.name", &text, &found, NULL) == MOTE_OK && found)
        snprintf(info->name, sizeof info->name, "%.*s", (int)(text.n < 95 ? text.n : 95), text.p);
    found = false;
    if (gguf_get_str(file, "tokenizer.chat_template", &text, &found, NULL) == MOTE_OK && found) {
        info->chat_template = text.p;
        info->chat_template_bytes = text.n;
    }
    info->parameters = details_count_parameters(file, out->family);
    info->context = details_number(file, out->family, "context_length");
    info->embedding = details_number(file, out->family, "embedding_length");
    info->layers = details_number(file, out->family, "block_count");
    if (tokens != NULL && tokens->is_array && tokens->type == GGUF_STRING) {
        info->vocabulary = info->tokens = (uint32_t)tokens->count;
        out->insert = details_has_token(tokens, insert_mark);
    }
    chat_template template = {0};
    chat_template_recognise(&template, (str){info->chat_template, info->chat_template_bytes},
                            info->parameters);
    out->size = chat_size_of(info->parameters);
    out->thinks = template.thinks;
}

/* What a request can have at most, before the memory plan of the model is known. */
static uint64_t details_context_bound(const model_registry *r, const model_details *d)
{
    const sched_options *o = &r->options.sched;
    const uint64_t kv = o->kv_tokens > 0 ? o->kv_tokens : SCHED_DEFAULT_KV_TOKENS;
    const uint64_t most = o->context > 0 ? o->context : kv;
    return d->info.context > 0 && d->info.context < most ? d->info.context : most;
}

static void details_open_file(model_details *out, const char *path)
{
    str family;
    bool found = false;
    if (path == NULL || gguf_files_open(&out->files, path, NULL) != MOTE_OK)
        return;
    out->file = out->files.gguf;
    if (gguf_get_str(out->file, "general.architecture", &family, &found, NULL) == MOTE_OK && found)
        snprintf(out->family, sizeof out->family, "%.*s", (int)(family.n < 31 ? family.n : 31),
                 family.p);
    const char *format = gguf_file_type(out->file);
    if (format != NULL)
        snprintf(out->format, sizeof out->format, "%s", format);
}

/* ---- from the loaded model ---- */

static void details_from_model(model_details *out, served_model *m)
{
    const chat_context *chat_ctx = served_model_chat_context(m);
    size_t n = 0;
    mote_model_describe(served_model_weights(m), &out->info);
    out->insert = mote_tokenize(served_model_weights(m), insert_mark, sizeof insert_mark - 1,
                                MOTE_TEXT_CONTROL, NULL, 0, &n, NULL) == MOTE_OK &&
                  n == 1;
    out->vision = served_model_vision(m) != NULL;
    out->loaded = served_model_loaded(m);
    out->context = served_model_context(m);
    out->leaves_in = served_model_leaves_in(m);
    out->size = chat_ctx->size;
    out->thinks = chat_ctx->template.thinks;
}

/* ---- both ---- */

static void details_make_digest(model_details *out)
{
    char text[256];
    digest d = {0};
    snprintf(text, sizeof text, "%s %llu %lld", out->name, (unsigned long long)out->info.file_bytes,
             (long long)out->modified);
    digest_of(&d, str_of(text));
    digest_print(&d, out->digest);
}

/* Holds the loaded model of the entry, if there is one; copies the path. */
static char *details_hold(model_details *out, model_entry *e)
{
    pthread_mutex_lock(&e->registry->lock);
    if (e->state == ENTRY_LOADED) {
        e->holds++;
        out->held = (model_set){.models = {e->served}, .entries = {e}, .n = 1};
    }
    char *path = path_copy(e->weights);
    snprintf(out->name, sizeof out->name, "%s", e->name);
    snprintf(out->digest, sizeof out->digest, "%s", e->digest);
    out->modified = e->date;
    out->info.file_bytes = e->bytes;
    out->vision = e->mmproj != NULL && e->registry->options.fork_server != NULL;
    out->context = e->context;
    pthread_mutex_unlock(&e->registry->lock);
    return path;
}

void model_details_read(model_details *out, model_entry *e)
{
    *out = (model_details){.family = "qwen35", .format = "unknown", .leaves_in = (double)INFINITY};
    char *path = details_hold(out, e);
    details_open_file(out, path);
    mem_free(path);
    if (out->held.n > 0)
        details_from_model(out, out->held.models[0]);
    else if (out->file != NULL)
        details_from_file(out);
    if (out->context == 0)
        out->context = details_context_bound(e->registry, out);
    const double size = (double)out->info.parameters;
    snprintf(out->parameters, sizeof out->parameters, size < 1e9 ? "%.1fM" : "%.1fB",
             size / (size < 1e9 ? 1e6 : 1e9));
    if (out->digest[0] == '\0')
        details_make_digest(out);
    const time_t date = (time_t)out->modified;
    struct tm tm = {0};
    gmtime_r(&date, &tm);
    strftime(out->date, sizeof out->date, "%Y-%m-%dT%H:%M:%S.000000000Z", &tm);
}

void model_details_fini(model_details *d)
{
    gguf_files_close(&d->files);
    model_set_release(&d->held);
}
