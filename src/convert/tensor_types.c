/* SPDX-License-Identifier: Apache-2.0 */
/* tensor_types.c - see tensor_types.h. */
#include "convert/tensor_types.h"

#include "base/mem.h"
#include "base/str.h"
#include "convert/encode.h"

#include <regex.h>
#include <stdio.h>
#include <strings.h>

/* Expressions are compiled with the function of the C library, which limits them poorly. */
enum { PATTERN_BYTES = 256 };

typedef struct tensor_type {
    const char *text;
    regex_t pattern;
    bool compiled, used;
    quant_format format;
} tensor_type;

struct tensor_types {
    tensor_type *rows;
    size_t n;
};

static bool format_find(const char *name, quant_format *out)
{
    for (int i = 0; i < QUANT_N_FORMATS; i++) {
        *out = (quant_format)i;
        if (strcasecmp(quant_get(*out)->name, name) == 0)
            return true;
    }
    return false;
}

/* "F32 F16 ...": what mote writes. */
static void formats_list(strbuf *out)
{
    for (int i = 0; i < QUANT_N_FORMATS; i++)
        if (encode_find((quant_format)i, MOTE_ISA_REF) != NULL) {
            strbuf_text(out, out->n > 0 ? " " : "");
            strbuf_text(out, quant_get((quant_format)i)->name);
        }
}

static mote_status format_unknown(const char *name, mote_error *err)
{
    strbuf list = {0};
    formats_list(&list);
    const mote_status status =
        err_set(err, MOTE_E_ARG, "unknown type %.40s of a tensor; one of %.*s", name,
                (int)strbuf_view(&list).n, strbuf_view(&list).p);
    strbuf_fini(&list);
    return status;
}

static mote_status tensor_type_read(tensor_type *t, const char *text, mote_error *err)
{
    char pattern[PATTERN_BYTES], why[80];
    const char *end = strrchr(text, '=');
    if (end == NULL || end == text || end[1] == '\0')
        return err_set(err, MOTE_E_ARG, "%.200s is not REGEX=TYPE, such as attn_v=Q6_K", text);
    if ((size_t)(end - text) >= sizeof pattern)
        return err_set(err, MOTE_E_ARG, "the expression of %.40s... has more than %d bytes", text,
                       PATTERN_BYTES - 1);
    snprintf(pattern, sizeof pattern, "%.*s", (int)(end - text), text);
    t->text = text;
    if (!format_find(end + 1, &t->format) || encode_find(t->format, MOTE_ISA_REF) == NULL)
        return format_unknown(end + 1, err);
    const int code = regcomp(&t->pattern, pattern, REG_EXTENDED | REG_NOSUB | REG_ICASE);
    if (code != 0) {
        regerror(code, NULL, why, sizeof why);
        return err_set(err, MOTE_E_ARG, "%.200s is not a regular expression: %s", pattern, why);
    }
    t->compiled = true;
    return MOTE_OK;
}

mote_status tensor_types_new(tensor_types **out, const char *const *texts, size_t n,
                             mote_error *err)
{
    *out = NULL;
    tensor_types *t = mem_new(1, sizeof *t);
    if (t != NULL)
        t->rows = mem_new(n, sizeof *t->rows);
    if (t == NULL || t->rows == NULL) {
        tensor_types_free(t);
        return err_set(err, MOTE_E_MEMORY, "out of memory: types of tensors");
    }
    mote_status status = MOTE_OK;
    for (; t->n < n && status == MOTE_OK; t->n++)
        status = tensor_type_read(&t->rows[t->n], texts[t->n], err);
    if (status != MOTE_OK) {
        tensor_types_free(t);
        return status;
    }
    *out = t;
    return MOTE_OK;
}

void tensor_types_free(tensor_types *t)
{
    if (t == NULL)
        return;
    for (size_t i = 0; i < t->n; i++)
        if (t->rows[i].compiled)
            regfree(&t->rows[i].pattern);
    mem_free(t->rows);
    mem_free(t);
}

bool tensor_types_find(tensor_types *t, const char *tensor, quant_format *format)
{
    for (size_t i = 0; t != NULL && i < t->n; i++)
        if (regexec(&t->rows[i].pattern, tensor, 0, NULL, 0) == 0) {
            t->rows[i].used = true;
            *format = t->rows[i].format;
            return true;
        }
    return false;
}

const char *tensor_types_unused(const tensor_types *t)
{
    for (size_t i = 0; t != NULL && i < t->n; i++)
        if (!t->rows[i].used)
            return t->rows[i].text;
    return NULL;
}

const char *tensor_types_text(const tensor_types *t, size_t i)
{
    return t != NULL && i < t->n ? t->rows[i].text : NULL;
}
