/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tokenizer_files.c - see tokenizer_files.h.
 *
 * The token of an id comes from the vocabulary, from added_tokens of tokenizer.json, or from
 * added_tokens_decoder of tokenizer_config.json, which has tokens that tokenizer.json lacks. An
 * added token is a control token if it is special or looks like <|...|>, else a user-defined one.
 */
#include "convert/tokenizer_files.h"

#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>

/* Values of tokenizer.ggml.token_type. */
enum { TOKEN_NORMAL = 1, TOKEN_CONTROL = 3, TOKEN_USER_DEFINED = 4, TOKEN_UNUSED = 5 };

typedef struct token {
    str text; /* p is NULL: no token has the id */
    bool added, special;
} token;

typedef struct vocabulary {
    const checkpoint *checkpoint;
    json_doc *tokenizer; /* tokenizer.json, or vocab.json */
    json_doc *config;    /* tokenizer_config.json; NULL: absent */
    bool plain;          /* vocab.json and merges.txt */
    token *tokens;
    uint32_t n;
} vocabulary;

static const json_node *root_of(const json_doc *doc)
{
    return doc != NULL ? json_doc_root(doc) : NULL;
}

/* ---- tokens ---- */

static mote_status token_set(vocabulary *v, int64_t id, str text, mote_error *err)
{
    if (id < 0 || id >= v->n)
        return err_set(err, MOTE_E_FORMAT,
                       "token '%.*s' has id %lld, but vocab_size of config.json is %u",
                       STR_ARG(text), (long long)id, v->n);
    token *t = &v->tokens[id];
    if (t->text.p != NULL && !str_eq(t->text, text))
        return err_set(err, MOTE_E_FORMAT, "id %lld has two tokens, '%.*s' and '%.*s'",
                       (long long)id, STR_ARG(t->text), STR_ARG(text));
    t->text = text;
    return MOTE_OK;
}

static mote_status read_base_tokens(vocabulary *v, const json_node *vocab, mote_error *err)
{
    if (!json_node_is(vocab, JSON_IS_OBJECT))
        return err_set(err, MOTE_E_FORMAT, "%s has no vocabulary",
                       v->plain ? "vocab.json" : "tokenizer.json");
    for (const json_node *t = json_node_first(vocab); t != NULL; t = json_node_next(t)) {
        int64_t id = -1;
        json_node_int64(t, &id);
        TRY(token_set(v, id, json_node_name(t), err));
    }
    return MOTE_OK;
}

static mote_status read_added(vocabulary *v, int64_t id, const json_node *entry, mote_error *err)
{
    const json_node *content = json_node_get(entry, "content");
    if (!json_node_is(content, JSON_IS_STRING))
        return err_set(err, MOTE_E_FORMAT, "an added token has no content");
    TRY(token_set(v, id, json_node_text(content), err));
    v->tokens[id].added = true;
    v->tokens[id].special = json_node_truth(json_node_get(entry, "special"));
    return MOTE_OK;
}

static mote_status read_added_tokens(vocabulary *v, mote_error *err)
{
    const json_node *list = json_node_get(root_of(v->tokenizer), "added_tokens");
    for (const json_node *t = v->plain ? NULL : json_node_first(list); t != NULL;
         t = json_node_next(t)) {
        int64_t id = -1;
        json_node_int64(json_node_get(t, "id"), &id);
        TRY(read_added(v, id, t, err));
    }
    const json_node *map = json_node_get(root_of(v->config), "added_tokens_decoder");
    for (const json_node *t = json_node_first(map); t != NULL; t = json_node_next(t)) {
        const str name = json_node_name(t);
        char *end;
        const long long id = strtoll(name.p, &end, 10);
        if (name.n == 0 || end != name.p + name.n)
            return err_set(err, MOTE_E_FORMAT,
                           "tokenizer_config.json: added_tokens_decoder has '%.*s', expected an id",
                           STR_ARG(name));
        TRY(read_added(v, id, t, err));
    }
    return MOTE_OK;
}

static bool token_looks_special(str text)
{
    return text.n >= 4 && memcmp(text.p, "<|", 2) == 0 && memcmp(text.p + text.n - 2, "|>", 2) == 0;
}

static int32_t token_type(const token *t)
{
    if (t->text.p == NULL)
        return TOKEN_UNUSED;
    if (!t->added)
        return TOKEN_NORMAL;
    return t->special || token_looks_special(t->text) ? TOKEN_CONTROL : TOKEN_USER_DEFINED;
}

static mote_status put_tokens(const vocabulary *v, gguf_writer *w, mote_error *err)
{
    int32_t *types = mem_new(v->n, sizeof *types);
    if (types == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: types of %u tokens", v->n);
    gguf_writer_strs(w, "tokenizer.ggml.tokens", v->n);
    for (uint32_t i = 0; i < v->n; i++) {
        char pad[32];
        snprintf(pad, sizeof pad, "[PAD%u]", i);
        types[i] = token_type(&v->tokens[i]);
        gguf_writer_item(w, types[i] == TOKEN_UNUSED ? str_of(pad) : v->tokens[i].text);
    }
    gguf_writer_array(w, "tokenizer.ggml.token_type", GGUF_I32, types, v->n);
    mem_free(types);
    return MOTE_OK;
}

/* ---- merges ---- */

/* A merge is "a b", or ["a", "b"] with spaces written as U+0120. */
static bool put_merge(strbuf *out, const json_node *merge)
{
    out->n = 0;
    if (json_node_is(merge, JSON_IS_STRING)) {
        strbuf_put(out, json_node_text(merge));
        return true;
    }
    if (json_node_size(merge) != 2)
        return false;
    for (const json_node *part = json_node_first(merge); part != NULL;
         part = json_node_next(part)) {
        const str text = json_node_text(part);
        if (!json_node_is(part, JSON_IS_STRING))
            return false;
        if (part != json_node_first(merge))
            strbuf_byte(out, ' ');
        for (size_t i = 0; i < text.n; i++)
            if (text.p[i] == ' ')
                strbuf_text(out, "\xC4\xA0");
            else
                strbuf_byte(out, text.p[i]);
    }
    return true;
}

static mote_status put_merges_of_json(const vocabulary *v, gguf_writer *w, mote_error *err)
{
    const json_node *merges =
        json_node_get(json_node_get(root_of(v->tokenizer), "model"), "merges");
    strbuf line = {0};
    bool ok = json_node_is(merges, JSON_IS_ARRAY) && json_node_size(merges) > 0;
    if (ok)
        gguf_writer_strs(w, "tokenizer.ggml.merges", json_node_size(merges));
    for (const json_node *m = json_node_first(merges); ok && m != NULL; m = json_node_next(m)) {
        ok = put_merge(&line, m) && !line.failed;
        gguf_writer_item(w, strbuf_view(&line));
    }
    const bool failed = line.failed;
    strbuf_fini(&line);
    if (failed)
        return err_set(err, MOTE_E_MEMORY, "out of memory: merges");
    return ok ? MOTE_OK
              : err_set(err, MOTE_E_FORMAT,
                        "tokenizer.json: merges must be a list of pairs of texts");
}

/* The next line of merges.txt that has two words; false: end. */
static bool next_merge(str *text, str *line)
{
    while (text->n > 0) {
        const char *end = memchr(text->p, '\n', text->n);
        const size_t n = end != NULL ? (size_t)(end - text->p) : text->n;
        *line = (str){text->p, n > 0 && text->p[n - 1] == '\r' ? n - 1 : n};
        *text = (str){text->p + n + (end != NULL), text->n - n - (end != NULL)};
        const char *space = memchr(line->p, ' ', line->n);
        if (space != NULL && strncmp(line->p, "#version", 8) != 0)
            return true;
    }
    return false;
}

static mote_status put_merges_of_text(const vocabulary *v, gguf_writer *w, mote_error *err)
{
    char *bytes;
    size_t n_bytes;
    TRY(checkpoint_file(v->checkpoint, "merges.txt", &bytes, &n_bytes, err));
    if (bytes == NULL)
        return err_set(err, MOTE_E_FORMAT, "%.800s has neither tokenizer.json nor merges.txt",
                       checkpoint_directory(v->checkpoint));
    str text = {bytes, n_bytes}, line;
    uint64_t n = 0;
    while (next_merge(&text, &line))
        n++;
    gguf_writer_strs(w, "tokenizer.ggml.merges", n);
    text = (str){bytes, n_bytes};
    while (next_merge(&text, &line))
        gguf_writer_item(w, line);
    mem_free(bytes);
    return MOTE_OK;
}

/* ---- how text is split ---- */

static const char split_regex[] =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| "
    "?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

/* The regular expression of the pre-tokenizer; empty: none is named. */
static str find_regex(const vocabulary *v)
{
    const json_node *pre = json_node_get(root_of(v->tokenizer), "pre_tokenizer");
    const json_node *parts = json_node_get(pre, "pretokenizers");
    for (const json_node *p = parts != NULL ? json_node_first(parts) : pre; p != NULL;
         p = parts != NULL ? json_node_next(p) : NULL) {
        const json_node *regex = json_node_get(json_node_get(p, "pattern"), "Regex");
        if (regex != NULL)
            return json_node_text(regex);
    }
    return json_node_text(json_node_get(root_of(v->config), "pretokenize_regex"));
}

static mote_status check_regex(const vocabulary *v, mote_error *err)
{
    const str regex = find_regex(v);
    if (str_is(regex, split_regex))
        return MOTE_OK;
    return err_set(err, MOTE_E_UNSUPPORTED,
                   "the tokenizer splits text by '%.*s', not by the expression of Qwen 3.5; its "
                   "files belong to another model",
                   STR_ARG(regex));
}

/* ---- special tokens ---- */

static const struct {
    const char *name, *key;
} special_kinds[] = {
    {"bos", "tokenizer.ggml.bos_token_id"},     {"eos", "tokenizer.ggml.eos_token_id"},
    {"unk", "tokenizer.ggml.unknown_token_id"}, {"sep", "tokenizer.ggml.seperator_token_id"},
    {"pad", "tokenizer.ggml.padding_token_id"}, {"cls", "tokenizer.ggml.cls_token_id"},
    {"mask", "tokenizer.ggml.mask_token_id"},
};
enum { N_KINDS = sizeof special_kinds / sizeof *special_kinds };

static const json_node *kind_value(const json_node *object, const char *form, size_t kind)
{
    char name[32];
    snprintf(name, sizeof name, form, special_kinds[kind].name);
    return json_node_get(object, name);
}

/* The id of an added token by its text; -1: none. */
static int64_t added_id(const vocabulary *v, str text)
{
    for (uint32_t i = 0; i < v->n; i++)
        if (v->tokens[i].added && str_eq(v->tokens[i].text, text))
            return i;
    return -1;
}

/* tokenizer_config.json names tokens; config.json has ids for what it does not name. The keys
 * appear in this order. */
static void put_special_tokens(const vocabulary *v, gguf_writer *w)
{
    const json_node *config = checkpoint_config(v->checkpoint);
    bool done[N_KINDS] = {false};
    for (size_t i = 0; i < N_KINDS; i++) {
        const json_node *entry = kind_value(root_of(v->config), "%s_token", i);
        if (json_node_is(entry, JSON_IS_OBJECT))
            entry = json_node_get(entry, "content");
        const int64_t id =
            json_node_is(entry, JSON_IS_STRING) ? added_id(v, json_node_text(entry)) : -1;
        done[i] = id >= 0;
        if (done[i])
            gguf_writer_u32(w, special_kinds[i].key, (uint32_t)id);
    }
    for (size_t i = 0; i < N_KINDS; i++) {
        int64_t id = -1;
        const json_node *value = kind_value(config, "%s_token_id", i);
        if (value == NULL || json_node_is(value, JSON_IS_NULL))
            value = kind_value(json_node_get(config, "text_config"), "%s_token_id", i);
        if (!done[i] && json_node_int64(value, &id) && id >= 0 && id < v->n)
            gguf_writer_u32(w, special_kinds[i].key, (uint32_t)id);
    }
    static const struct {
        const char *name, *key;
    } switches[] = {{"add_bos_token", "tokenizer.ggml.add_bos_token"},
                    {"add_eos_token", "tokenizer.ggml.add_eos_token"},
                    {"add_sep_token", "tokenizer.ggml.add_sep_token"}};
    for (size_t i = 0; i < sizeof switches / sizeof *switches; i++) {
        const json_node *value = json_node_get(root_of(v->config), switches[i].name);
        if (json_node_is(value, JSON_IS_BOOL))
            gguf_writer_bool(w, switches[i].key, json_node_truth(value));
    }
}

/* ---- chat template ---- */

/* Python reads text files with \r\n as \n. */
static size_t unify_lines(char *text, size_t n)
{
    size_t out = 0;
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '\r' && i + 1 < n && text[i + 1] == '\n')
            continue;
        text[out++] = text[i] == '\r' ? '\n' : text[i];
    }
    return out;
}

/* The text, or of a list of named templates the one with the name "default". */
static str template_of(const json_node *value)
{
    if (!json_node_is(value, JSON_IS_ARRAY))
        return json_node_text(value);
    for (const json_node *t = json_node_first(value); t != NULL; t = json_node_next(t))
        if (str_is(json_node_text(json_node_get(t, "name")), "default"))
            return json_node_text(json_node_get(t, "template"));
    return (str){"", 0};
}

static mote_status put_template(const vocabulary *v, gguf_writer *w, mote_error *err)
{
    str text = template_of(json_node_get(root_of(v->config), "chat_template"));
    char *file = NULL;
    size_t n;
    json_doc *doc = NULL;
    mote_status status = MOTE_OK;
    if (text.n == 0)
        status = checkpoint_file(v->checkpoint, "chat_template.jinja", &file, &n, err);
    if (file != NULL)
        text = (str){file, unify_lines(file, n)};
    else if (text.n == 0 && status == MOTE_OK)
        status = checkpoint_json(v->checkpoint, "chat_template.json", &doc, err);
    if (doc != NULL)
        text = template_of(json_node_get(root_of(doc), "chat_template"));
    if (status == MOTE_OK && text.n > 0)
        gguf_writer_str(w, "tokenizer.chat_template", text);
    mem_free(file);
    json_doc_free(doc);
    return status;
}

/* ---- all of it ---- */

static mote_status vocabulary_open(vocabulary *v, mote_error *err)
{
    TRY(checkpoint_json(v->checkpoint, "tokenizer_config.json", &v->config, err));
    TRY(checkpoint_json(v->checkpoint, "tokenizer.json", &v->tokenizer, err));
    v->plain = v->tokenizer == NULL;
    if (v->plain)
        TRY(checkpoint_json(v->checkpoint, "vocab.json", &v->tokenizer, err));
    if (v->tokenizer == NULL)
        return err_set(err, MOTE_E_FORMAT,
                       "%.800s has neither tokenizer.json nor vocab.json; download all files of "
                       "the model",
                       checkpoint_directory(v->checkpoint));
    v->tokens = mem_new(v->n, sizeof *v->tokens);
    if (v->tokens == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: %u tokens", v->n);
    const json_node *root = root_of(v->tokenizer);
    TRY(check_regex(v, err));
    TRY(read_base_tokens(v, v->plain ? root : json_node_get(json_node_get(root, "model"), "vocab"),
                         err));
    return read_added_tokens(v, err);
}

static mote_status vocabulary_put(vocabulary *v, gguf_writer *w, mote_error *err)
{
    TRY(vocabulary_open(v, err));
    gguf_writer_str(w, "tokenizer.ggml.model", str_of("gpt2"));
    gguf_writer_str(w, "tokenizer.ggml.pre", str_of("qwen35"));
    TRY(put_tokens(v, w, err));
    TRY(v->plain ? put_merges_of_text(v, w, err) : put_merges_of_json(v, w, err));
    put_special_tokens(v, w);
    return put_template(v, w, err);
}

mote_status tokenizer_files_put(const checkpoint *c, uint32_t n_vocab, gguf_writer *w,
                                mote_error *err)
{
    vocabulary v = {.checkpoint = c, .n = n_vocab};
    const mote_status status = vocabulary_put(&v, w, err);
    json_doc_free(v.tokenizer);
    json_doc_free(v.config);
    mem_free(v.tokens);
    return status;
}
