/* SPDX-License-Identifier: Apache-2.0 */
/* model_match.c - see model_match.h. */
#include "server/models/model_match.h"

#include <string.h>
#include <strings.h>

typedef struct name_parts {
    str owner; /* empty: none */
    str rest;  /* with the tag */
} name_parts;

static bool text_is(str text, str other)
{
    return text.n == other.n && strncasecmp(text.p, other.p, text.n) == 0;
}

static str name_cut_prefix(str name)
{
    static const char *const prefixes[] = {"hf:", "hf.co/", "huggingface.co/"};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        const size_t n = strlen(prefixes[i]);
        if (name.n > n && strncasecmp(name.p, prefixes[i], n) == 0)
            return (str){name.p + n, name.n - n};
    }
    return name;
}

static str name_cut_latest(str name)
{
    static const char latest[] = ":latest";
    const size_t n = sizeof latest - 1;
    if (name.n > n && strncasecmp(name.p + name.n - n, latest, n) == 0)
        name.n -= n;
    return name;
}

/* The part before the tag, which may be the path of a file. */
static size_t name_untagged(str name)
{
    const char *colon = memchr(name.p, ':', name.n);
    return colon != NULL ? (size_t)(colon - name.p) : name.n;
}

static name_parts name_split(str name)
{
    name = name_cut_latest(name_cut_prefix(name));
    size_t from = name_untagged(name);
    while (from > 0 && name.p[from - 1] != '/')
        from--;
    return (name_parts){.owner = {name.p, from > 0 ? from - 1 : 0},
                        .rest = {name.p + from, name.n - from}};
}

static char name_fold(char c)
{
    return c == ':' || c == '_' ? '-' : c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

static bool name_begins(str name, str with)
{
    if (with.n == 0 || with.n > name.n)
        return false;
    for (size_t i = 0; i < with.n; i++)
        if (name_fold(name.p[i]) != name_fold(with.p[i]))
            return false;
    return with.n == name.n || name_fold(name.p[with.n]) == '-';
}

/* "owner/name", "owner/name:Q4_K_M", as users of Ollama and llama.cpp write it. */
static bool repo_is(const model_names *model, str wanted)
{
    if (model->repo == NULL || wanted.n == 0)
        return false;
    wanted = name_cut_latest(name_cut_prefix(wanted));
    const size_t n = name_untagged(wanted);
    return text_is((str){wanted.p, n}, str_of(model->repo)) &&
           (n == wanted.n || text_is((str){wanted.p + n + 1, wanted.n - n - 1},
                                     str_of(model->quant != NULL ? model->quant : "")));
}

model_match model_match_of(const model_names *model, str wanted)
{
    if (wanted.n == 0)
        return MATCH_NONE;
    const name_parts a = name_split(str_of(model->name)), b = name_split(wanted);
    const bool same_owner = text_is(a.owner, b.owner);
    const bool any_owner = a.owner.n == 0 || b.owner.n == 0;
    const bool begins = (same_owner || any_owner) && name_begins(a.rest, b.rest);
    if (begins && same_owner)
        return a.rest.n == b.rest.n ? MATCH_WHOLE : MATCH_START;
    if (repo_is(model, wanted))
        return MATCH_REPO;
    if (begins)
        return a.rest.n == b.rest.n ? MATCH_WHOLE_ANY_OWNER : MATCH_START_ANY_OWNER;
    return MATCH_NONE;
}

bool model_names_clash(const char *a, const char *b)
{
    return model_match_of(&(model_names){.name = a}, str_of(b)) == MATCH_WHOLE;
}
