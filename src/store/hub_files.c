/* SPDX-License-Identifier: Apache-2.0 */
/* hub_files.c - implements hub_files.h. */
#include "store/hub_files.h"

#include "gguf/gguf_files.h"
#include "store/mmproj.h"
#include "store/text_match.h"

#include <ctype.h>
#include <stdio.h>

static const char gguf_suffix[] = ".gguf";
static const char *const preferred_quants[] = {"Q4_K_M", "Q8_0"};

/* ---- names of files ---- */

bool hub_split_name(const char *path, uint32_t *part, uint32_t *parts, size_t *stem)
{
    gguf_part_name name;
    if (!gguf_part_name_parse(&name, str_of(path)))
        return false;
    *part = name.no;
    *parts = name.count;
    *stem = name.stem.n;
    return true;
}

bool hub_is_mtp(const char *path)
{
    const str name = match_base(str_of(path));
    return match_start(name, "mtp-") && match_end(name, gguf_suffix);
}

bool hub_is_weights(const char *path)
{
    static const char *const drafts[] = {"mtp-", "eagle3-", "dflash-", "dspark-"};
    const str name = match_base(str_of(path));
    if (!match_end(name, gguf_suffix) || match_contains(name, "mmproj") ||
        match_contains(name, "imatrix"))
        return false;
    for (size_t i = 0; i < sizeof drafts / sizeof *drafts; i++)
        if (match_start(name, drafts[i]))
            return false;
    return true;
}

bool hub_is_checkpoint(str path)
{
    static const char *const names[] = {"config.json",
                                        "model.safetensors.index.json",
                                        "tokenizer.json",
                                        "tokenizer_config.json",
                                        "vocab.json",
                                        "merges.txt",
                                        "chat_template.jinja",
                                        "chat_template.json",
                                        "generation_config.json",
                                        "preprocessor_config.json",
                                        "README.md"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (str_is(path, names[i]))
            return true;
    return memchr(path.p, '/', path.n) == NULL && match_start(path, "model") &&
           match_end(path, ".safetensors");
}

bool hub_is_model(const char *path)
{
    uint32_t part, parts;
    size_t stem;
    return hub_is_weights(path) && (!hub_split_name(path, &part, &parts, &stem) || part == 1);
}

/* "Q4_K_M", "IQ4_NL", "F16", "BF16", "NVFP4": letters, then a digit. */
static bool is_quant_word(str word)
{
    static const char *const starts[] = {"Q", "IQ", "TQ", "F", "BF", "MXFP", "NVFP"};
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        const size_t n = strlen(starts[i]);
        if (match_start(word, starts[i]) && word.n > n && isdigit((unsigned char)word.p[n]))
            return true;
    }
    return false;
}

void hub_quant_of(const char *path, char out[KNOWN_QUANT_BYTES])
{
    uint32_t part, parts;
    size_t stem;
    str name = str_of(path);
    if (hub_split_name(path, &part, &parts, &stem))
        name.n = stem;
    else if (match_end(name, gguf_suffix))
        name.n -= strlen(gguf_suffix);
    name = match_base(name);
    out[0] = '\0';
    for (size_t end = name.n; end > 0;) {
        size_t from = end;
        while (from > 0 && name.p[from - 1] != '-' && name.p[from - 1] != '.')
            from--;
        str word = {name.p + from, end - from};
        if (is_quant_word(word)) {
            if (from >= 3 && match_equal((str){name.p + from - 3, 3}, "UD-"))
                word = (str){word.p - 3, word.n + 3};
            if (word.n < KNOWN_QUANT_BYTES)
                snprintf(out, KNOWN_QUANT_BYTES, "%.*s", (int)word.n, word.p);
            return;
        }
        end = from > 0 ? from - 1 : 0;
    }
}

/* ---- weights ---- */

/* How well a path fits a selector, more is better; 0: not at all. */
static int selector_rank(const char *path, const char *selector)
{
    const str whole = str_of(path), name = match_base(whole), directory = match_directory(whole);
    uint32_t part, parts;
    size_t stem;
    if (strcmp(path, selector) == 0)
        return 6;
    if (str_is(name, selector))
        return 5;
    if (match_equal(name, selector))
        return 4;
    /* The name of split weights without their part numbers. */
    const str plain = str_of(selector);
    if (match_end(plain, gguf_suffix) && hub_split_name(path, &part, &parts, &stem) &&
        stem + 5 == plain.n && strncasecmp(path, selector, stem) == 0)
        return 3;
    if (match_word((str){name.p, name.n - strlen(gguf_suffix)}, selector))
        return 2;
    return match_word(directory, selector) ? 1 : 0;
}

/* Shorter paths first, then byte order. */
static bool path_before(const char *a, const char *b)
{
    const size_t m = strlen(a), n = strlen(b);
    return m != n ? m < n : strcmp(a, b) < 0;
}

/* The best weights for a selector; HUB_NO_FILE: none. */
static int32_t weights_for(const hub_file *files, size_t n, const char *selector)
{
    int32_t best = HUB_NO_FILE;
    int best_rank = 0;
    for (size_t i = 0; i < n; i++) {
        if (!hub_is_model(files[i].path))
            continue;
        const int rank = selector_rank(files[i].path, selector);
        if (rank > best_rank ||
            (rank > 0 && rank == best_rank && path_before(files[i].path, files[best].path))) {
            best = (int32_t)i;
            best_rank = rank;
        }
    }
    return best;
}

/* Without a selector. */
static int32_t weights_by_default(const hub_file *files, size_t n)
{
    int32_t best = HUB_NO_FILE;
    for (size_t q = 0; q < sizeof preferred_quants / sizeof *preferred_quants; q++) {
        best = weights_for(files, n, preferred_quants[q]);
        if (best != HUB_NO_FILE)
            return best;
    }
    for (size_t i = 0; i < n; i++)
        if (hub_is_model(files[i].path) &&
            (best == HUB_NO_FILE || strcmp(files[i].path, files[best].path) < 0))
            best = (int32_t)i;
    return best;
}

/* "no Q5_K_M; there are: Q4_K_M, Q8_0" */
static mote_status weights_missing(const hub_file *files, size_t n, const char *selector,
                                   mote_error *err)
{
    char list[300] = "";
    size_t used = 0, more = 0;
    for (size_t i = 0; i < n; i++) {
        char quant[KNOWN_QUANT_BYTES];
        if (!hub_is_model(files[i].path))
            continue;
        hub_quant_of(files[i].path, quant);
        const char *word = quant[0] != '\0' ? quant : files[i].path;
        const size_t bytes = strlen(word) + 2;
        if (match_word(str_of(list), word))
            continue;
        if (used + bytes >= sizeof list)
            more++;
        else
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", used > 0 ? " - " : "",
                                     word);
    }
    if (used == 0)
        return err_set(err, MOTE_E_ARG, "no GGUF model among %zu files", n);
    if (more > 0)
        return err_set(err, MOTE_E_ARG, "no file matches %.100s; there are: %s and %zu more",
                       selector, list, more);
    return err_set(err, MOTE_E_ARG, "no file matches %.100s; there are: %s", selector, list);
}

/* Collects all parts of split weights. */
static mote_status weights_parts(hub_choice *out, const hub_file *files, size_t n, int32_t first,
                                 mote_error *err)
{
    uint32_t part, parts, other, of;
    size_t stem, other_stem;
    out->weights[0] = first;
    out->n_weights = 1;
    if (!hub_split_name(files[first].path, &part, &parts, &stem))
        return MOTE_OK;
    if (parts > HUB_MAX_PARTS)
        return err_set(err, MOTE_E_FORMAT, "%.200s: more than %d parts", files[first].path,
                       HUB_MAX_PARTS);
    for (uint32_t i = 0; i < parts; i++)
        out->weights[i] = HUB_NO_FILE;
    out->n_weights = parts;
    for (size_t i = 0; i < n; i++)
        if (hub_split_name(files[i].path, &other, &of, &other_stem) && of == parts &&
            other_stem == stem && memcmp(files[i].path, files[first].path, stem) == 0)
            out->weights[other - 1] = (int32_t)i;
    for (uint32_t i = 0; i < parts; i++)
        if (out->weights[i] == HUB_NO_FILE)
            return err_set(err, MOTE_E_FORMAT, "%.200s: part %u of %u is missing",
                           files[first].path, i + 1, parts);
    return MOTE_OK;
}

/* ---- mmproj and MTP ---- */

/* Length of the directory of `path` if it is that of `weights` or above it; -1: elsewhere. */
static int directory_above(const char *path, const char *weights)
{
    const str directory = match_directory(str_of(path)), below = match_directory(str_of(weights));
    const bool above = directory.n <= below.n && memcmp(directory.p, below.p, directory.n) == 0;
    return above ? (int)directory.n : -1;
}

static int32_t choose_mmproj(const hub_file *files, size_t n, const char *weights)
{
    enum { MAX = 64 };
    const char *names[MAX];
    int32_t at[MAX];
    size_t count = 0, rival;
    int nearest = -1;
    for (size_t i = 0; i < n; i++)
        if (mmproj_is(match_base(str_of(files[i].path)).p) &&
            directory_above(files[i].path, weights) > nearest)
            nearest = directory_above(files[i].path, weights);
    for (size_t i = 0; i < n && nearest >= 0; i++) {
        const char *name = match_base(str_of(files[i].path)).p;
        if (!mmproj_is(name) || directory_above(files[i].path, weights) != nearest)
            continue;
        size_t k =
            count < MAX ? count++ : MAX - 1; /* insertion in byte order: ties go to the first */
        for (; k > 0 && strcmp(names[k - 1], name) > 0; k--) {
            names[k] = names[k - 1];
            at[k] = at[k - 1];
        }
        names[k] = name;
        at[k] = (int32_t)i;
    }
    if (count == 0)
        return HUB_NO_FILE;
    return at[mmproj_choose(match_base(str_of(weights)).p, names, count, &rival)];
}

int32_t hub_choose_mtp(const hub_file *files, size_t n, const char *weights)
{
    char quant[KNOWN_QUANT_BYTES];
    int32_t best = HUB_NO_FILE;
    int best_directory = -1;
    bool best_same = false;
    hub_quant_of(weights, quant);
    for (size_t i = 0; i < n; i++) {
        const char *path = files[i].path;
        const int directory = directory_above(path, weights);
        if (!hub_is_mtp(path) || directory < 0 || directory < best_directory)
            continue;
        const bool same = quant[0] != '\0' && match_word(match_base(str_of(path)), quant);
        if (directory > best_directory || same > best_same ||
            (same == best_same && path_before(path, files[best].path))) {
            best = (int32_t)i;
            best_directory = directory;
            best_same = same;
        }
    }
    return best;
}

/* ---- the choice ---- */

static mote_status choose_with(hub_choice *out, const hub_file *files, size_t n, int32_t first,
                               mote_error *err)
{
    TRY(weights_parts(out, files, n, first, err));
    if (out->mmproj == HUB_NO_FILE)
        out->mmproj = choose_mmproj(files, n, files[first].path);
    if (out->mtp == HUB_NO_FILE)
        out->mtp = hub_choose_mtp(files, n, files[first].path);
    out->bytes = 0;
    for (uint32_t i = 0; i < out->n_weights; i++)
        out->bytes += files[out->weights[i]].bytes;
    out->bytes += out->mmproj != HUB_NO_FILE ? files[out->mmproj].bytes : 0;
    out->bytes += out->mtp != HUB_NO_FILE ? files[out->mtp].bytes : 0;
    return MOTE_OK;
}

mote_status hub_choose_files(hub_choice *out, const hub_file *files, size_t n, const char *selector,
                             mote_error *err)
{
    *out = (hub_choice){.mmproj = HUB_NO_FILE, .mtp = HUB_NO_FILE};
    const int32_t first =
        selector[0] != '\0' ? weights_for(files, n, selector) : weights_by_default(files, n);
    if (first == HUB_NO_FILE)
        return weights_missing(files, n, selector, err);
    return choose_with(out, files, n, first, err);
}

static int32_t file_at(const hub_file *files, size_t n, const char *path)
{
    for (size_t i = 0; i < n && path[0] != '\0'; i++)
        if (strcmp(files[i].path, path) == 0)
            return (int32_t)i;
    return HUB_NO_FILE;
}

mote_status hub_choose_known(hub_choice *out, const hub_file *files, size_t n,
                             const known_model *row, const char *quant, mote_error *err)
{
    char path[KNOWN_PATH_BYTES];
    *out =
        (hub_choice){.mmproj = file_at(files, n, row->mmproj), .mtp = file_at(files, n, row->mtp)};
    int32_t first = known_file(row, quant, path) ? weights_for(files, n, path) : HUB_NO_FILE;
    if (first == HUB_NO_FILE)
        first = weights_for(files, n, quant);
    if (first == HUB_NO_FILE)
        return weights_missing(files, n, quant, err);
    return choose_with(out, files, n, first, err);
}
