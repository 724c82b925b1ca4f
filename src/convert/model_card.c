/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_card.c - see model_card.h. Keys and order are those of gguf-py.
 *
 * The front matter of README.md is YAML. What model cards use of it is read: "key: value", lists as
 * [a, b] or as lines "- a", quotes and comments. Nested maps and blocks of text are skipped.
 */
#include "convert/model_card.h"

#include "base/mem.h"
#include "convert/model_id.h"

#include <stdio.h>
#include <stdlib.h>

enum { MAX_ITEMS = 256 };

/* ---- front matter ---- */

typedef struct card_item {
    str key, value;
} card_item;

typedef struct card {
    char *text;
    card_item items[MAX_ITEMS]; /* of a list one for each element */
    size_t n;
} card;

static str trim(str s)
{
    while (s.n > 0 && strchr(" \t\r", s.p[0]) != NULL)
        s = (str){s.p + 1, s.n - 1};
    while (s.n > 0 && strchr(" \t\r", s.p[s.n - 1]) != NULL)
        s.n--;
    return s;
}

/* A scalar without its quotes or its comment. */
static str scalar_of(str s)
{
    s = trim(s);
    if (s.n >= 2 && (s.p[0] == '"' || s.p[0] == '\'')) {
        const char *end = memchr(s.p + 1, s.p[0], s.n - 1);
        return end != NULL ? (str){s.p + 1, (size_t)(end - s.p - 1)} : s;
    }
    for (size_t i = 1; i < s.n; i++)
        if (s.p[i] == '#' && s.p[i - 1] == ' ')
            return trim((str){s.p, i});
    return s;
}

static void card_add(card *c, str key, str value)
{
    value = scalar_of(value);
    if (c->n < MAX_ITEMS && value.n > 0)
        c->items[c->n++] = (card_item){key, value};
}

static void card_add_value(card *c, str key, str value)
{
    if (value.n >= 2 && value.p[0] == '[' && value.p[value.n - 1] == ']') {
        str rest = {value.p + 1, value.n - 2};
        for (str item = str_next_word(&rest, ","); item.n > 0; item = str_next_word(&rest, ","))
            card_add(c, key, item);
    } else if (value.n > 0 && strchr("|>{", value.p[0]) == NULL) {
        card_add(c, key, value);
    }
}

static str take_line(str *text)
{
    const char *end = memchr(text->p, '\n', text->n);
    const size_t n = end != NULL ? (size_t)(end - text->p) : text->n;
    const str line = {text->p, n};
    *text = (str){text->p + n + (end != NULL), text->n - n - (end != NULL)};
    return line;
}

static void card_parse(card *c, str text)
{
    str key = {NULL, 0};
    if (!str_is(trim(take_line(&text)), "---"))
        return;
    while (text.n > 0) {
        const str whole = take_line(&text), line = trim(whole);
        const char *colon = memchr(line.p, ':', line.n);
        if (str_is(line, "---"))
            return;
        if (line.n == 0 || line.p[0] == '#')
            continue;
        if (line.n >= 2 && memcmp(line.p, "- ", 2) == 0) {
            if (key.p != NULL)
                card_add(c, key, (str){line.p + 2, line.n - 2});
        } else if (colon != NULL && whole.p[0] != ' ' && whole.p[0] != '\t') {
            key = trim((str){line.p, (size_t)(colon - line.p)});
            card_add_value(c, key, trim((str){colon + 1, (size_t)(line.p + line.n - colon - 1)}));
        }
    }
}

/* Value number i, from 0, of one of the keys; false: there are fewer. */
static bool card_find(const card *c, const char *key, size_t i, str *out)
{
    for (size_t k = 0; k < c->n; k++)
        if (str_is(c->items[k].key, key) && i-- == 0) {
            *out = c->items[k].value;
            return true;
        }
    return false;
}

/* ---- sampling ---- */

static mote_status put_sampling(const checkpoint *c, gguf_writer *w, mote_error *err)
{
    static const struct {
        const char *name, *key;
        bool integer;
    } rows[] = {
        {"top_k", "general.sampling.top_k", true},
        {"top_p", "general.sampling.top_p", false},
        {"min_p", "general.sampling.min_p", false},
        {"xtc_probability", "general.sampling.xtc_probability", false},
        {"xtc_threshold", "general.sampling.xtc_threshold", false},
        {"temperature", "general.sampling.temp", false},
        {"penalty_last_n", "general.sampling.penalty_last_n", true},
        {"penalty_repeat", "general.sampling.penalty_repeat", false},
        {"mirostat", "general.sampling.mirostat", true},
        {"mirostat_tau", "general.sampling.mirostat_tau", false},
        {"mirostat_eta", "general.sampling.mirostat_eta", false},
    };
    json_doc *doc;
    TRY(checkpoint_json(c, "generation_config.json", &doc, err));
    if (doc == NULL)
        return MOTE_OK;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const json_node *value = json_node_get(json_doc_root(doc), rows[i].name);
        int64_t n;
        if (rows[i].integer && json_node_int64(value, &n) && n >= INT32_MIN && n <= INT32_MAX)
            gguf_writer_i32(w, rows[i].key, (int32_t)n);
        else if (!rows[i].integer && json_node_is(value, JSON_IS_NUMBER))
            gguf_writer_f32(w, rows[i].key, (float)json_node_double(value));
    }
    json_doc_free(doc);
    return MOTE_OK;
}

/* ---- names ---- */

static void keep_first(char *out, const char *value)
{
    if (out[0] == '\0')
        snprintf(out, MODEL_ID_BYTES, "%s", value);
}

/* Completes the parts of `out` that are empty. */
static void merge_id(model_id *out, str text, uint64_t values)
{
    model_id id;
    char title[MODEL_ID_BYTES];
    model_id_parse(&id, text, values);
    model_id_title(title, id.name);
    keep_first(out->name, title);
    model_id_title(title, id.organization);
    keep_first(out->organization, title);
    keep_first(out->basename, id.basename);
    keep_first(out->finetune, id.finetune);
    keep_first(out->version, id.version);
    keep_first(out->size_label, id.size_label);
}

static void find_id(model_id *out, const checkpoint *c, uint64_t values)
{
    char real[CHECKPOINT_PATH_BYTES];
    const str origin = json_node_text(json_node_get(checkpoint_config(c), "_name_or_path"));
    *out = (model_id){.name = ""};
    const char *slash = origin.n > 0 ? memchr(origin.p, '/', origin.n) : NULL;
    if (origin.n > 0 && (slash == NULL ||
                         memchr(slash + 1, '/', origin.n - (size_t)(slash + 1 - origin.p)) == NULL))
        merge_id(out, origin, values);
    checkpoint_real_name(c, real);
    merge_id(out, str_of(real), values);
}

static void put_text(gguf_writer *w, const char *key, str text)
{
    if (text.n > 0)
        gguf_writer_str(w, key, text);
}

static void put_numbered(gguf_writer *w, const char *relation, size_t i, const char *part, str text)
{
    char key[96];
    snprintf(key, sizeof key, "general.%s.%zu.%s", relation, i, part);
    put_text(w, key, text);
}

/* general.base_model.* or general.dataset.* from names on the hub. */
static void put_relations(gguf_writer *w, const char *relation, const card *c, const char *card_key,
                          uint64_t values)
{
    char key[64], title[MODEL_ID_BYTES], url[2 * MODEL_ID_BYTES + 32];
    static const char hub[] = "https://huggingface.co/";
    size_t n = 0;
    str text;
    while (card_find(c, card_key, n, &text))
        n++;
    if (n == 0)
        return;
    snprintf(key, sizeof key, "general.%s.count", relation);
    gguf_writer_u32(w, key, (uint32_t)n);
    for (size_t i = 0; i < n; i++) {
        model_id id;
        card_find(c, card_key, i, &text);
        if (text.n > sizeof hub - 1 && memcmp(text.p, hub, sizeof hub - 1) == 0)
            text = (str){text.p + sizeof hub - 1, text.n - (sizeof hub - 1)};
        model_id_parse(&id, text, values);
        model_id_title(title, id.name);
        put_numbered(w, relation, i, "name", str_of(title));
        put_numbered(w, relation, i, "version", str_of(id.version));
        model_id_title(title, id.organization);
        put_numbered(w, relation, i, "organization", str_of(title));
        snprintf(url, sizeof url, "%s%s/%s", hub, id.organization, id.name);
        if (id.organization[0] != '\0' && id.name[0] != '\0')
            put_numbered(w, relation, i, "repo_url", str_of(url));
    }
}

/* All values of two keys of the card as one array. */
static void put_list(gguf_writer *w, const char *key, const card *c, const char *first,
                     const char *second)
{
    size_t a = 0, b = 0;
    str text;
    while (card_find(c, first, a, &text))
        a++;
    while (card_find(c, second, b, &text))
        b++;
    if (a + b == 0)
        return;
    gguf_writer_strs(w, key, a + b);
    for (size_t i = 0; i < a + b; i++) {
        card_find(c, i < a ? first : second, i < a ? i : i - a, &text);
        gguf_writer_item(w, text);
    }
}

static void put_card(const checkpoint *source, const card *c, const char *name, uint64_t values,
                     gguf_writer *w)
{
    model_id id;
    str text;
    find_id(&id, source, values);
    if (id.size_label[0] == '\0' && values > 0)
        model_id_size(id.size_label, values);
    put_text(w, "general.name", str_of(name != NULL ? name : id.name));
    put_text(w, "general.version", str_of(id.version));
    put_text(w, "general.organization", str_of(id.organization));
    put_text(w, "general.finetune", str_of(id.finetune));
    put_text(w, "general.basename", str_of(id.basename));
    put_text(w, "general.size_label", str_of(id.size_label));
    static const char *const licences[][2] = {{"license", "general.license"},
                                              {"license_name", "general.license.name"},
                                              {"license_link", "general.license.link"}};
    for (size_t i = 0; i < 3; i++)
        if (card_find(c, licences[i][0], 0, &text))
            put_text(w, licences[i][1], text);
    put_relations(w, "base_model", c, "base_model", values);
    put_relations(w, "dataset", c, "datasets", values);
    put_list(w, "general.tags", c, "tags", "pipeline_tag");
    put_list(w, "general.languages", c, "languages", "language");
}

mote_status model_card_put(const checkpoint *c, const char *name, uint64_t values, gguf_writer *w,
                           mote_error *err)
{
    size_t n;
    card *front = mem_new(1, sizeof *front);
    if (front == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: model card");
    mote_status status = put_sampling(c, w, err);
    if (status == MOTE_OK)
        status = checkpoint_file(c, "README.md", &front->text, &n, err);
    if (status == MOTE_OK) {
        if (front->text != NULL)
            card_parse(front, (str){front->text, n});
        put_card(c, front, name, values, w);
    }
    mem_free(front->text);
    mem_free(front);
    return status;
}
