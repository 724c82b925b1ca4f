/* SPDX-License-Identifier: Apache-2.0 */
/* known_models.c - implements known_models.h. */
#include "store/known_models.h"

#include "base/conf_file.h"
#include "base/mem.h"
#include "store/text_match.h"

#include <ctype.h>
#include <stdio.h>
#include <strings.h>

extern const char known_models_text[]; /* generated from known_models.conf */

const char *const known_grade_names[N_GRADES] = {"small", "balanced", "best"};
static const char quant_mark[] = "{quant}";

/* ---- what a hub accepts ---- */

/* A segment of a repository name or revision. */
static bool hub_word_valid(str s)
{
    return str_has_only(s, "._-") && s.p[0] != '.' && s.p[0] != '-' && s.p[s.n - 1] != '.' &&
           s.p[s.n - 1] != '-' && !match_contains(s, "..");
}

bool hub_repo_valid(str repo)
{
    const char *slash = memchr(repo.p, '/', repo.n);
    if (slash == NULL || repo.n >= KNOWN_REPO_BYTES)
        return false;
    const str owner = {repo.p, (size_t)(slash - repo.p)};
    const str name = {slash + 1, repo.n - owner.n - 1};
    return hub_word_valid(owner) && hub_word_valid(name) && owner.n <= 96 && name.n <= 96 &&
           !match_contains(repo, "--");
}

bool hub_revision_valid(str revision)
{
    if (revision.n == 0 || revision.n >= KNOWN_REPO_BYTES || revision.p[revision.n - 1] == '/' ||
        revision.p[0] == '/')
        return false;
    for (str rest = revision; rest.n > 0;) {
        const char *slash = memchr(rest.p, '/', rest.n);
        const str word = {rest.p, slash != NULL ? (size_t)(slash - rest.p) : rest.n};
        if (!hub_word_valid(word))
            return false;
        const size_t taken = slash != NULL ? word.n + 1 : word.n;
        rest = (str){rest.p + taken, rest.n - taken};
    }
    return true;
}

static bool hub_segment_valid(str s)
{
    if (s.n == 0 || s.n > 255 || s.p[s.n - 1] == '.' || s.p[s.n - 1] == ' ')
        return false; /* a dot at the end: ".", ".." and names that Windows changes */
    for (size_t i = 0; i < s.n; i++) {
        const unsigned char c = (unsigned char)s.p[i];
        if (c < ' ' || c == 0x7F || c == '\\' || c == ':')
            return false;
    }
    return true;
}

bool hub_path_valid(str path)
{
    if (path.n == 0 || path.n > 500 || path.p[path.n - 1] == '/')
        return false;
    while (path.n > 0) {
        const char *slash = memchr(path.p, '/', path.n);
        const str segment = {path.p, slash != NULL ? (size_t)(slash - path.p) : path.n};
        if (!hub_segment_valid(segment))
            return false;
        const size_t taken = slash != NULL ? segment.n + 1 : segment.n;
        path = (str){path.p + taken, path.n - taken};
    }
    return true;
}

bool hub_hash_valid(str hash, size_t digits)
{
    for (size_t i = 0; i < hash.n; i++)
        if (!isdigit((unsigned char)hash.p[i]) && (hash.p[i] < 'a' || hash.p[i] > 'f'))
            return false;
    return hash.n == digits;
}

/* ---- values of a section ---- */

typedef enum known_kind {
    KNOWN_REPO,
    KNOWN_REVISION,
    KNOWN_FILE,     /* with {quant} */
    KNOWN_OPTIONAL, /* a path, or empty */
    KNOWN_QUANT,
    KNOWN_QUANTS,
    KNOWN_U32,
    KNOWN_U64,
    KNOWN_BOOL
} known_kind;

typedef struct known_key {
    const char *name;
    known_kind kind;
    size_t at;
} known_key;

#define AT(member) offsetof(known_model, member)

static const known_key keys[] = {
    {"repo", KNOWN_REPO, AT(repo)},
    {"revision", KNOWN_REVISION, AT(revision)},
    {"file", KNOWN_FILE, AT(file)},
    {"quants", KNOWN_QUANTS, AT(quants)},
    {"default", KNOWN_QUANT, AT(standard)},
    {"small", KNOWN_QUANT, AT(grades[GRADE_SMALL])},
    {"balanced", KNOWN_QUANT, AT(grades[GRADE_BALANCED])},
    {"best", KNOWN_QUANT, AT(grades[GRADE_BEST])},
    {"mmproj", KNOWN_OPTIONAL, AT(mmproj)},
    {"mtp", KNOWN_OPTIONAL, AT(mtp)},
    {"parameters", KNOWN_U64, AT(parameters)},
    {"vision-parameters", KNOWN_U64, AT(vision_parameters)},
    {"mtp-parameters", KNOWN_U64, AT(mtp_parameters)},
    {"layers", KNOWN_U32, AT(shape.layers)},
    {"attention-layers", KNOWN_U32, AT(attention_layers)},
    {"embedding", KNOWN_U32, AT(shape.embedding)},
    {"feed-forward", KNOWN_U32, AT(shape.feed_forward)},
    {"experts", KNOWN_U32, AT(shape.experts)},
    {"experts-used", KNOWN_U32, AT(shape.experts_used)},
    {"shared-feed-forward", KNOWN_U32, AT(shape.shared_feed_forward)},
    {"heads", KNOWN_U32, AT(shape.heads)},
    {"kv-heads", KNOWN_U32, AT(shape.kv_heads)},
    {"value-heads", KNOWN_U32, AT(shape.value_heads)},
    {"vocabulary", KNOWN_U32, AT(shape.vocabulary)},
    {"context", KNOWN_U32, AT(shape.context)},
    {"tied", KNOWN_BOOL, AT(shape.tied)},
};

static void known_copy(char *out, str text)
{
    memcpy(out, text.p, text.n);
    out[text.n] = '\0';
}

static bool known_quant_valid(str text)
{
    return text.n > 0 && text.n < KNOWN_QUANT_BYTES && str_has_only(text, "_-.");
}

/* Reads `quants`; NULL or what is wrong. */
static const char *known_set_quants(known_model *row, str text)
{
    row->n_quants = 0;
    for (;;) {
        const str word = str_next_word(&text, " \t,");
        if (word.n == 0)
            return row->n_quants > 0 ? NULL : "needs at least one quantisation, such as Q4_K_M";
        if (!known_quant_valid(word))
            return "has a word that is no quantisation, such as Q4_K_M";
        if (row->n_quants == KNOWN_MAX_QUANTS)
            return "has too many words; at most 32";
        known_copy(row->quants[row->n_quants++], word);
    }
}

static const char *known_set_number(void *at, str text, bool wide)
{
    uint64_t n = 0;
    for (size_t i = 0; i < text.n; i++) {
        if (!isdigit((unsigned char)text.p[i]) || n > UINT64_MAX / 100)
            return "must be a number";
        n = n * 10 + (uint64_t)(text.p[i] - '0');
    }
    if (text.n == 0 || (!wide && n > UINT32_MAX))
        return "must be a number";
    if (wide)
        memcpy(at, &n, sizeof n);
    else
        memcpy(at, &(uint32_t){(uint32_t)n}, sizeof(uint32_t));
    return NULL;
}

/* `file` with {quant} must be a path whatever the quantisation is. */
static bool known_file_valid(str text)
{
    char path[KNOWN_PATH_BYTES];
    const size_t before = match_find(text, quant_mark, 0), after = before + strlen(quant_mark);
    if (before == text.n)
        return hub_path_valid(text);
    const int n = snprintf(path, sizeof path, "%.*sQ%.*s", (int)before, text.p,
                           (int)(text.n - after), text.p + after);
    return n > 0 && (size_t)n + KNOWN_QUANT_BYTES < sizeof path &&
           hub_path_valid((str){path, (size_t)n});
}

/* Sets the value of a key; NULL or what is wrong. */
static const char *known_set(known_model *row, const known_key *key, str value)
{
    char *at = (char *)row + key->at;
    switch (key->kind) {
    case KNOWN_REPO:
        if (!hub_repo_valid(value))
            return "must be OWNER/NAME";
        break;
    case KNOWN_REVISION:
        if (!hub_revision_valid(value))
            return "must be a branch, a tag or a commit";
        break;
    case KNOWN_FILE:
        if (!known_file_valid(value))
            return "must be a path in the repository";
        break;
    case KNOWN_OPTIONAL:
        if (value.n > 0 && !hub_path_valid(value))
            return "must be a path in the repository, or empty";
        break;
    case KNOWN_QUANT:
        if (!known_quant_valid(value))
            return "must be a quantisation, such as Q4_K_M";
        break;
    case KNOWN_QUANTS: return known_set_quants(row, value);
    case KNOWN_U32:
    case KNOWN_U64: return known_set_number(at, value, key->kind == KNOWN_U64);
    case KNOWN_BOOL:
        if (!str_is(value, "yes") && !str_is(value, "no"))
            return "must be yes or no";
        row->shape.tied = str_is(value, "yes");
        return NULL;
    }
    known_copy(at, value);
    return NULL;
}

/* ---- sections ---- */

/* A name is FAMILY or FAMILY:SIZE of letters, digits, ".", "_" and "-". */
static bool known_name_valid(str name)
{
    const char *colon = memchr(name.p, ':', name.n);
    const size_t n = colon != NULL ? (size_t)(colon - name.p) : name.n;
    return name.n < KNOWN_NAME_BYTES && str_has_only((str){name.p, n}, "._-") &&
           (colon == NULL || str_has_only((str){colon + 1, name.n - n - 1}, "._-"));
}

static known_model *known_row(known_models *k, str name)
{
    for (uint32_t i = 0; i < k->n; i++)
        if (match_equal(name, k->rows[i].name))
            return &k->rows[i];
    return NULL;
}

/* The row of a section, a new one if needed. */
static mote_status known_begin(known_models *k, const conf_line *l, const char *file,
                               known_model **out, mote_error *err)
{
    if (!known_name_valid(str_of(l->section)))
        return err_set(err, MOTE_E_FORMAT,
                       "%s:%u: [%.100s] is no name of a model; write [FAMILY:SIZE] or [NAME]", file,
                       l->number, l->section);
    *out = known_row(k, str_of(l->section));
    if (*out != NULL)
        return MOTE_OK;
    if (k->n == KNOWN_MAX_ROWS)
        return err_set(err, MOTE_E_FORMAT, "%s:%u: more than %d models", file, l->number,
                       KNOWN_MAX_ROWS);
    if (!mem_grow(&k->rows, k->n, &k->room, sizeof *k->rows))
        return err_set(err, MOTE_E_MEMORY, "out of memory: table of known models");
    *out = &k->rows[k->n++];
    memset(*out, 0, sizeof **out);
    known_copy((*out)->name, str_of(l->section));
    for (char *p = (*out)->name; *p != '\0'; p++)
        *p = (char)tolower((unsigned char)*p);
    snprintf((*out)->revision, sizeof(*out)->revision, "main");
    return MOTE_OK;
}

static mote_status known_entry(known_model *row, const conf_line *l, const char *file,
                               mote_error *err)
{
    if (row == NULL)
        return err_set(err, MOTE_E_FORMAT, "%s:%u: %.100s is before the first section", file,
                       l->number, l->key);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (strcmp(l->key, keys[i].name) != 0)
            continue;
        const char *wrong = known_set(row, &keys[i], str_of(l->value));
        return wrong == NULL ? MOTE_OK
                             : err_set(err, MOTE_E_FORMAT, "%s:%u: %s %s, not \"%.100s\"", file,
                                       l->number, keys[i].name, wrong, l->value);
    }
    return err_set(err, MOTE_E_FORMAT, "%s:%u: unknown key %.100s", file, l->number, l->key);
}

/* Checks what a single entry cannot show. */
static mote_status known_check(known_model *row, const char *file, mote_error *err)
{
    const char *missing = row->repo[0] == '\0' ? "repo" : row->file[0] == '\0' ? "file" : NULL;
    if (missing == NULL && row->n_quants == 0)
        missing = "quants";
    if (missing != NULL)
        return err_set(err, MOTE_E_FORMAT, "%s: [%s] has no %s", file, row->name, missing);
    if (row->standard[0] == '\0')
        snprintf(row->standard, sizeof row->standard, "%s", row->quants[0]);
    const char *named[1 + N_GRADES] = {row->standard};
    for (size_t i = 0; i < N_GRADES; i++)
        named[1 + i] = row->grades[i];
    for (size_t i = 0; i < 1 + N_GRADES; i++) {
        bool listed = named[i][0] == '\0';
        for (size_t q = 0; q < row->n_quants; q++)
            listed = listed || strcasecmp(named[i], row->quants[q]) == 0;
        if (!listed)
            return err_set(err, MOTE_E_FORMAT, "%s: [%s] %s = %s is not in its quants", file,
                           row->name, i == 0 ? "default" : known_grade_names[i - 1], named[i]);
    }
    if (row->n_quants > 1 && strstr(row->file, quant_mark) == NULL)
        return err_set(err, MOTE_E_FORMAT,
                       "%s: [%s] has several quants, but file = %s has no {quant}", file, row->name,
                       row->file);
    return MOTE_OK;
}

static mote_status known_read_all(known_models *k, const conf_file *f, mote_error *err)
{
    known_model *row = NULL;
    for (uint32_t i = 0; i < f->n; i++)
        if (f->lines[i].key == NULL)
            TRY(known_begin(k, &f->lines[i], f->name, &row, err));
        else
            TRY(known_entry(row, &f->lines[i], f->name, err));
    for (uint32_t i = 0; i < k->n; i++)
        TRY(known_check(&k->rows[i], f->name, err));
    return MOTE_OK;
}

mote_status known_models_add(known_models *k, const conf_file *f, mote_error *err)
{
    /* Works on a copy, so that a file with an error changes nothing. */
    known_models copy = {mem_new(k->n + 1, sizeof *k->rows), k->n, k->n + 1};
    if (copy.rows == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: table of known models");
    if (k->n > 0)
        memcpy(copy.rows, k->rows, k->n * sizeof *k->rows);
    const mote_status status = known_read_all(&copy, f, err);
    known_models_fini(status == MOTE_OK ? k : &copy);
    if (status == MOTE_OK)
        *k = copy;
    return status;
}

mote_status known_models_init(known_models *k, mote_error *err)
{
    conf_file f;
    *k = (known_models){0};
    TRY(conf_file_parse(&f, "known_models.conf", str_of(known_models_text), err));
    const mote_status status = known_models_add(k, &f, err);
    conf_file_fini(&f);
    return status;
}

void known_models_fini(known_models *k)
{
    mem_free(k->rows);
    *k = (known_models){0};
}

/* ---- rows ---- */

const known_model *known_models_find(const known_models *k, str name)
{
    for (uint32_t i = 0; i < k->n; i++)
        if (match_equal(name, k->rows[i].name))
            return &k->rows[i];
    return NULL;
}

const char *known_quant(const known_model *row, str quant)
{
    for (size_t i = 0; i < row->n_quants; i++)
        if (match_equal(quant, row->quants[i]))
            return row->quants[i];
    for (size_t i = 0; i < N_GRADES; i++)
        if (row->grades[i][0] != '\0' && match_equal(quant, known_grade_names[i]))
            return row->grades[i];
    return NULL;
}

bool known_file(const known_model *row, const char *quant, char out[KNOWN_PATH_BYTES])
{
    const char *mark = strstr(row->file, quant_mark);
    const size_t before = mark != NULL ? (size_t)(mark - row->file) : strlen(row->file);
    const char *after = mark != NULL ? mark + strlen(quant_mark) : "";
    const int n = snprintf(out, KNOWN_PATH_BYTES, "%.*s%s%s", (int)before, row->file,
                           mark != NULL ? quant : "", after);
    return n > 0 && n < KNOWN_PATH_BYTES;
}

void known_full_name(const known_model *row, const char *quant, char out[KNOWN_FULL_NAME_BYTES])
{
    const bool standard = strcasecmp(quant, row->standard) == 0;
    snprintf(out, KNOWN_FULL_NAME_BYTES, "%s%s%s", row->name, standard ? "" : "-",
             standard ? "" : quant);
    for (char *p = out; *p != '\0'; p++)
        *p = (char)tolower((unsigned char)*p);
}
