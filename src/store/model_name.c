/* SPDX-License-Identifier: Apache-2.0 */
/* model_name.c - implements model_name.h. */
#include "store/model_name.h"

#include "store/hub_files.h"
#include "store/text_match.h"

#include <ctype.h>
#include <stdio.h>
#include <sys/stat.h>

/* ---- suffix ---- */

static const struct {
    const char *suffix, *think;
} think_suffixes[] = {
    {":think", "on"},      {":nothink", "off"}, {":minimal", "minimal"}, {":low", "low"},
    {":medium", "medium"}, {":high", "high"},   {":max", "max"},
};

/* Removes the suffix for thinking from `text`. */
static const char *take_think(char *text)
{
    for (size_t i = 0; i < sizeof think_suffixes / sizeof *think_suffixes; i++) {
        const size_t n = strlen(text), m = strlen(think_suffixes[i].suffix);
        if (n > m && match_end(str_of(text), think_suffixes[i].suffix)) {
            text[n - m] = '\0';
            return think_suffixes[i].think;
        }
    }
    return NULL;
}

/* ---- known names ---- */

/* "qwen3.5" of "qwen3.5:4b". */
static str family_of(const char *name)
{
    return (str){name, strcspn(name, ":")};
}

const known_model *model_family_next(const known_models *known, const char *family,
                                     const known_model *last)
{
    for (uint32_t i = last != NULL ? (uint32_t)(last - known->rows) + 1 : 0; i < known->n; i++)
        if (match_equal(family_of(known->rows[i].name), family) &&
            known->rows[i].name[strlen(family)] == ':')
            return &known->rows[i];
    return NULL;
}

/* ROW, ROW-QUANT, and ROW:QUANT for a row without a size. The longest row that matches counts. */
static const known_model *row_for(const known_models *known, const char *text, str *quant)
{
    const known_model *best = NULL;
    for (uint32_t i = 0; i < known->n; i++) {
        const known_model *row = &known->rows[i];
        const size_t n = strlen(row->name);
        if (!match_start(str_of(text), row->name) || (best != NULL && strlen(best->name) >= n))
            continue;
        const bool more = text[n] == '-' || (text[n] == ':' && strchr(row->name, ':') == NULL);
        if (text[n] != '\0' && !more)
            continue;
        best = row;
        *quant = str_of(more ? text + n + 1 : "");
    }
    return best;
}

static void list_sizes(const known_models *known, const char *family, char *out, size_t room)
{
    size_t used = 0;
    out[0] = '\0';
    for (const known_model *row = model_family_next(known, family, NULL); row != NULL;
         row = model_family_next(known, family, row))
        if (used + strlen(row->name) + 3 < room)
            used +=
                (size_t)snprintf(out + used, room - used, "%s%s", used > 0 ? ", " : "", row->name);
}

static mote_status unknown_quant(const known_model *row, str quant, mote_error *err)
{
    char list[300] = "";
    size_t used = 0;
    for (size_t i = 0; i < row->n_quants && used + KNOWN_QUANT_BYTES + 3 < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i > 0 ? ", " : "",
                                 row->quants[i]);
    for (char *p = list; *p != '\0'; p++)
        *p = (char)tolower((unsigned char)*p);
    return err_set(err, MOTE_E_ARG, "%s has no quantisation %.*s; there are: %s", row->name,
                   STR_ARG(quant), list);
}

/* Sets `kind` if the text is a known name, a family, or an unknown size of one. */
static mote_status parse_known(model_name *m, const known_models *known, bool *found,
                               mote_error *err)
{
    char family[KNOWN_NAME_BYTES], sizes[300];
    str quant = {"", 0};
    *found = true;
    m->known = row_for(known, m->text, &quant);
    if (m->known != NULL) {
        m->kind = MODEL_NAME_KNOWN;
        m->quant = quant.n > 0 ? known_quant(m->known, quant) : m->known->standard;
        return m->quant != NULL ? MOTE_OK : unknown_quant(m->known, quant, err);
    }
    if (match_end(str_of(m->text), ":latest")) /* Ollama's word for no tag */
        m->text[strlen(m->text) - strlen(":latest")] = '\0';
    const str start = family_of(m->text);
    snprintf(family, sizeof family, "%.*s", (int)(start.n < sizeof family ? start.n : 0), start.p);
    *found = family[0] != '\0' && model_family_next(known, family, NULL) != NULL;
    if (!*found)
        return MOTE_OK;
    m->kind = MODEL_NAME_FAMILY;
    if (start.n == strlen(m->text))
        return MOTE_OK;
    list_sizes(known, family, sizes, sizeof sizes);
    return err_set(err, MOTE_E_ARG, "there is no %.100s; the sizes of %s are: %s", m->text, family,
                   sizes);
}

/* ---- hub names ---- */

static const char *const hub_prefixes[] = {"hf:", "hf.co/", "huggingface.co/"};

/* The text after a prefix of the hub; NULL: none. */
static const char *after_hub_prefix(const char *text)
{
    for (size_t i = 0; i < sizeof hub_prefixes / sizeof *hub_prefixes; i++)
        if (match_start(str_of(text), hub_prefixes[i]))
            return text + strlen(hub_prefixes[i]);
    return NULL;
}

/* owner/name[@revision][:selector] */
static mote_status parse_hub(model_name *m, const char *rest, mote_error *err)
{
    const size_t n = strcspn(rest, ":@");
    const str repo = {rest, n};
    str revision = {"", 0}, selector = {"", 0};
    const char *p = rest + n;
    if (*p == '@') {
        revision = (str){p + 1, strcspn(p + 1, ":")};
        p += 1 + revision.n;
    }
    if (*p == ':')
        selector = str_of(p + 1);
    if (!hub_repo_valid(repo))
        return err_set(err, MOTE_E_ARG,
                       "%.200s is not a repository of the hub; write hf:OWNER/NAME or "
                       "hf:OWNER/NAME:QUANT",
                       m->text);
    if (rest[n] == '@' && !hub_revision_valid(revision))
        return err_set(err, MOTE_E_ARG, "%.200s: not a branch, tag or commit after @", m->text);
    if (*p == ':' && (!hub_path_valid(selector) || selector.n >= sizeof m->selector))
        return err_set(err, MOTE_E_ARG, "%.200s: not a quantisation or a file after the colon",
                       m->text);
    m->kind = MODEL_NAME_HUB;
    snprintf(m->repo, sizeof m->repo, "%.*s", (int)repo.n, repo.p);
    snprintf(m->revision, sizeof m->revision, "%.*s", (int)revision.n, revision.p);
    snprintf(m->selector, sizeof m->selector, "%.*s", (int)selector.n, selector.p);
    return MOTE_OK;
}

/* ---- arguments ---- */

static bool path_exists(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0;
}

static mote_status parse_text(model_name *m, const known_models *known, mote_error *err)
{
    bool found;
    const char *rest = after_hub_prefix(m->text);
    m->kind = MODEL_NAME_PATH;
    if (rest != NULL && (m->text[2] == ':' || !path_exists(m->text)))
        return parse_hub(m, rest, err);
    if (strchr(m->text, '/') != NULL || match_end(str_of(m->text), ".gguf"))
        return MOTE_OK;
    TRY(parse_known(m, known, &found, err));
    if (!found && !path_exists(m->text))
        m->kind = MODEL_NAME_OTHER;
    return MOTE_OK;
}

mote_status model_name_parse(model_name *out, const known_models *known, const char *argument,
                             mote_error *err)
{
    memset(out, 0, sizeof *out);
    if (argument[0] == '\0')
        return err_set(err, MOTE_E_ARG, "the name of the model is empty");
    if (strlen(argument) >= sizeof out->text)
        return err_set(err, MOTE_E_ARG, "the name of the model has %zu bytes; at most %zu",
                       strlen(argument), sizeof out->text - 1);
    snprintf(out->text, sizeof out->text, "%s", argument);
    if (!path_exists(argument)) /* a file may be named like a suffix */
        out->think = take_think(out->text);
    return parse_text(out, known, err);
}

/* ---- names of files ---- */

void model_name_of_file(char out[MODEL_NAME_BYTES], const char *path)
{
    uint32_t part, parts;
    size_t stem;
    str name = str_of(path);
    if (hub_split_name(path, &part, &parts, &stem))
        name.n = stem;
    else if (name.n > 5 && str_is((str){name.p + name.n - 5, 5}, ".gguf"))
        name.n -= 5;
    name = match_base(name);
    snprintf(out, MODEL_NAME_BYTES, "%.*s", (int)(name.n < MODEL_NAME_BYTES ? name.n : 127),
             name.p);
    for (char *p = out; *p != '\0'; p++) {
        const bool plain = isalnum((unsigned char)*p) || strchr("._-:", *p) != NULL;
        *p = plain ? (char)tolower((unsigned char)*p) : '-';
    }
}
