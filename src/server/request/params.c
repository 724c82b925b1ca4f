/* SPDX-License-Identifier: Apache-2.0 */
/* params.c - reads, checks and stores the request fields listed in params_table.c. */
#include "server/request/params.h"

#include "base/mem.h"
#include "base/os.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

enum { MAX_ROWS = 256 };

/* The arguments of one call of params_read. */
typedef struct params_reader {
    request *a;
    unsigned place;
    const char *under;
    const param_limits *limits;
    http_error *error;
} params_reader;

param_limits param_limits_of(const served_model *m)
{
    mote_model_info info;
    mote_model_describe(served_model_weights(m), &info);
    return (param_limits){.vocabulary = info.vocabulary, .context = served_model_context(m)};
}

static double param_limit(double end, const param_limits *limits)
{
    if (end == PARAM_VOCABULARY)
        return limits->vocabulary;
    return end == PARAM_POSITIONS ? (double)limits->context : end;
}

/* ---- errors ---- */

static bool param_invalid(const params_reader *r, const param *p, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Fails with "FIELD TEXT"; always false. Fields of Ollama's `options` get Ollama's form: option
 * "FIELD" TEXT. */
static bool param_invalid(const params_reader *r, const param *p, const char *format, ...)
{
    http_error *e = r->error;
    const char *dot = r->under[0] != 0 ? "." : "";
    char text[200];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (r->place == PARAM_IN_OLLAMA_OPTIONS)
        http_error_set(e, HTTP_E_INVALID, "invalid_value", "option \"%s\" %s", p->name, text);
    else
        http_error_set(e, HTTP_E_INVALID, "invalid_value", "%s%s%s %s", r->under, dot, p->name,
                       text);
    snprintf(e->param, sizeof e->param, "%s%s%s", r->under, dot, p->name);
    return false;
}

/* `type` comes with its article. Ollama's text for options is "must be of type integer". */
static bool param_wrong_type(const params_reader *r, const param *p, const char *type)
{
    if (r->place == PARAM_IN_OLLAMA_OPTIONS)
        return param_invalid(r, p, "must be of type %s", strchr(type, ' ') + 1);
    return param_invalid(r, p, "must be %s", type);
}

static bool param_out_of_range(const params_reader *r, const param *p, double value)
{
    return param_invalid(r, p,
                         p->above ? "must be above %.10g and at most %.10g, got %.15g"
                                  : "must be %.10g to %.10g, got %.15g",
                         p->min, param_limit(p->max, r->limits), value);
}

/* ---- numbers ---- */

static bool param_read_number(const params_reader *r, const param *p, const json_node *node,
                              double *out)
{
    *out = json_node_double(node);
    if (!json_node_is(node, JSON_IS_NUMBER))
        return param_wrong_type(r, p, "a number");
    if (!(*out >= p->min && *out <= param_limit(p->max, r->limits)) || (p->above && *out <= p->min))
        return param_out_of_range(r, p, *out);
    return true;
}

/* Accepts 5.0: some clients print integers this way. */
static bool param_read_integer(const params_reader *r, const param *p, const json_node *node,
                               double *out)
{
    const double x = json_node_double(node);
    if (!json_node_is(node, JSON_IS_NUMBER) || !(fabs(x) < 1e15) || x != (double)(int64_t)x)
        return param_wrong_type(r, p, "an integer");
    return param_read_number(r, p, node, out);
}

static bool param_read_seed(const params_reader *r, const param *p, const json_node *node)
{
    int64_t seed;
    const double x = json_node_is(node, JSON_IS_NUMBER) ? json_node_double(node) : 0.5;
    if (!json_node_int64(node, &seed)) {
        if (!(fabs(x) < 9007199254740992.0) || x != (double)(int64_t)x) /* accepts 7.0 */
            return param_wrong_type(r, p, "an integer");
        seed = (int64_t)x;
    }
    r->a->answer.sampling.seed = (uint64_t)seed;
    r->a->has_seed = seed != -1;
    return true;
}

static bool param_read_max_tokens(const params_reader *r, const param *p, const json_node *node)
{
    double n;
    if (!param_read_integer(r, p, node, &n))
        return false;
    r->a->no_answer = n == 0;
    if (n > (double)r->limits->context) {
        request_warn(r->a, "max_tokens_capped", p->name);
        n = (double)r->limits->context;
    }
    r->a->answer.max_tokens = n > 0 ? (uint32_t)n : 0;
    return true;
}

static bool param_read_context(const params_reader *r, const param *p, const json_node *node)
{
    double n;
    if (!param_read_integer(r, p, node, &n))
        return false;
    if (n > (double)r->limits->context)
        request_warn(r->a, "context_capped", p->name);
    else
        r->a->context_limit = (uint64_t)n;
    return true;
}

/* ---- lists ---- */

static bool param_read_stop_text(const params_reader *r, const param *p, const json_node *node,
                                 const char **out)
{
    const str text = json_node_text(node);
    if (!json_node_is(node, JSON_IS_STRING))
        return param_wrong_type(r, p, "a string or an array of strings");
    if (text.n < 1 || text.n > MOTE_CHAT_STOP_BYTES || memchr(text.p, 0, text.n) != NULL)
        return param_invalid(r, p, "must have strings of 1 to %d bytes without NUL, got %zu bytes",
                             MOTE_CHAT_STOP_BYTES, text.n);
    *out = text.p; /* NUL-terminated; valid as long as the body */
    return true;
}

static bool param_read_stop(const params_reader *r, const param *p, const json_node *node)
{
    mote_answer_options *o = &r->a->answer;
    const bool many = json_node_is(node, JSON_IS_ARRAY);
    const size_t n = many ? json_node_size(node) : 1;
    if (n > MOTE_CHAT_STOPS)
        return param_invalid(r, p, "has %zu strings; at most %d", n, MOTE_CHAT_STOPS);
    const char **stop = request_memory(r->a, n, sizeof *stop, r->error);
    if (stop == NULL)
        return false;
    o->stop = stop;
    o->n_stop = 0;
    if (!many) {
        /* Some clients send an empty string for "none". */
        if (json_node_is(node, JSON_IS_STRING) && json_node_text(node).n == 0)
            return true;
        o->n_stop = 1;
        return param_read_stop_text(r, p, node, &stop[0]);
    }
    for (const json_node *at = json_node_first(node); at != NULL; at = json_node_next(at))
        if (!param_read_stop_text(r, p, at, &stop[o->n_stop++]))
            return false;
    return true;
}

static bool param_read_bias_entry(const params_reader *r, const param *p, str id,
                                  const json_node *add, mote_bias *out)
{
    char digits[16], *end = digits;
    long token = -1;
    if (id.n > 0 && id.n < sizeof digits) {
        memcpy(digits, id.p, id.n);
        digits[id.n] = 0;
        token = strtol(digits, &end, 10);
    }
    if (end == digits || *end != 0 || token < 0 || token >= (long)r->limits->vocabulary)
        return param_invalid(r, p, "must have token ids of 0 to %u, got %.*s",
                             (unsigned)r->limits->vocabulary - 1, (int)(id.n < 40 ? id.n : 40),
                             id.p);
    out->token = (mote_token)token;
    if (json_node_is(add, JSON_IS_BOOL) && !json_node_truth(add)) {
        out->add = -INFINITY;
        return true;
    }
    const double x = json_node_double(add);
    if (!json_node_is(add, JSON_IS_NUMBER) || !(x >= -100 && x <= 100))
        return param_invalid(r, p, "must have values of -100 to 100, or false");
    out->add = (float)x;
    return true;
}

static bool param_read_bias(const params_reader *r, const param *p, const json_node *node)
{
    const bool pairs = json_node_is(node, JSON_IS_ARRAY);
    if (!pairs && !json_node_is(node, JSON_IS_OBJECT))
        return param_wrong_type(r, p, "an object");
    const size_t n = json_node_size(node);
    if (n > REQUEST_MAX_BIAS)
        return param_invalid(r, p, "has %zu entries; at most %d", n, REQUEST_MAX_BIAS);
    mote_bias *bias = request_memory(r->a, n, sizeof *bias, r->error);
    if (bias == NULL)
        return false;
    size_t at = 0;
    for (const json_node *e = json_node_first(node); e != NULL; e = json_node_next(e), at++) {
        const json_node *id = pairs ? json_node_first(e) : NULL;
        if (pairs && (!json_node_is(e, JSON_IS_ARRAY) || json_node_size(e) != 2 ||
                      !json_node_is(id, JSON_IS_NUMBER)))
            return param_invalid(r, p, "must have pairs of a token id and a number");
        if (!param_read_bias_entry(r, p, pairs ? json_node_text(id) : json_node_name(e),
                                   pairs ? json_node_next(id) : e, &bias[at]))
            return false;
    }
    r->a->answer.sampling.bias = bias;
    r->a->answer.sampling.n_bias = n;
    return true;
}

/* ---- one field ---- */

static bool param_read_preset(const params_reader *r, const param *p, const json_node *node)
{
    static const char *const names[] = {"general", "coding", "reasoning", "vision"};
    const str text = json_node_text(node);
    if (!json_node_is(node, JSON_IS_STRING))
        return param_wrong_type(r, p, "a string");
    if (str_is(text, "auto")) {
        r->a->answer.task = MOTE_TASK_GENERAL;
        r->a->has_task = false;
        return true;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (str_is(text, names[i])) {
            r->a->answer.task = (mote_task)i;
            r->a->has_task = true;
            return true;
        }
    return param_invalid(r, p, "must be auto, general, coding, reasoning or vision");
}

static bool param_read_spec(const params_reader *r, const param *p, const json_node *node)
{
    const str text = json_node_text(node);
    double n;
    if (json_node_is(node, JSON_IS_NUMBER)) {
        if (!param_read_integer(r, p, node, &n))
            return false;
        r->a->answer.spec = n > 0 ? (int)n : MOTE_SPEC_OFF;
        return true;
    }
    if (!json_node_is(node, JSON_IS_STRING))
        return param_wrong_type(r, p, "a number or a string");
    r->a->answer.spec = str_is(text, "off") ? MOTE_SPEC_OFF : MOTE_SPEC_AUTO;
    return str_is(text, "off") || str_is(text, "auto") ||
           param_invalid(r, p, "must be auto, off or 0 to %d, got \"%.*s\"", MOTE_SPEC_MAX,
                         (int)(text.n < 40 ? text.n : 40), text.p);
}

static const char *param_type_names(unsigned types)
{
    static const struct {
        unsigned types;
        const char *names;
    } list[] = {
        {PARAM_IS_STRING, "a string"},
        {PARAM_IS_ARRAY, "an array"},
        {PARAM_IS_OBJECT, "an object"},
        {PARAM_IS_BOOL, "a boolean"},
        {PARAM_IS_NUMBER, "a number"},
        {PARAM_IS_STRING | PARAM_IS_ARRAY, "a string or an array"},
        {PARAM_IS_STRING | PARAM_IS_OBJECT, "a string or an object"},
        {PARAM_IS_STRING | PARAM_IS_NUMBER, "a string or a number"},
        {PARAM_IS_BOOL | PARAM_IS_STRING, "a boolean or a string"},
        {PARAM_IS_BOOL | PARAM_IS_OBJECT, "an object or a boolean"},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (list[i].types == types)
            return list[i].names;
    return "of another type";
}

static bool param_read_window(const params_reader *r, const param *p, const json_node *node)
{
    double x;
    if (!param_read_integer(r, p, node, &x))
        return false;
    r->a->no_repetition = x == 0;
    r->a->answer.sampling.repeat_last = x < 0 ? UINT32_MAX : (uint32_t)x;
    r->a->answer.set |= MOTE_SET_REPEAT_LAST;
    return true;
}

static bool param_read_unused(const params_reader *r, const param *p, const json_node *node)
{
    double x;
    if (!param_read_number(r, p, node, &x))
        return false;
    if (x != p->neutral)
        request_warn(r->a, "field_without_effect", p->name);
    return true;
}

static bool param_read_plain(const params_reader *r, const param *p, const json_node *node)
{
    void *to = (char *)r->a + p->at;
    double x;
    switch (p->kind) {
    case PARAM_REAL:
        if (!param_read_number(r, p, node, &x))
            return false;
        *(float *)to = (float)x;
        break;
    case PARAM_DOUBLE:
        if (!param_read_number(r, p, node, &x))
            return false;
        *(double *)to = x;
        break;
    case PARAM_COUNT:
        if (!param_read_integer(r, p, node, &x))
            return false;
        *(uint32_t *)to = (uint32_t)x;
        break;
    case PARAM_MS:
        if (!param_read_integer(r, p, node, &x))
            return false;
        *(double *)to = x / 1000;
        break;
    case PARAM_TEXT:
        if (!json_node_is(node, JSON_IS_STRING))
            return param_wrong_type(r, p, "a string");
        *(str *)to = json_node_text(node);
        break;
    default: /* PARAM_BOOL, PARAM_NOT */
        if (!json_node_is(node, JSON_IS_BOOL))
            return param_wrong_type(r, p, "a boolean");
        *(bool *)to = json_node_truth(node) == (p->kind == PARAM_BOOL);
    }
    r->a->answer.set |= p->set;
    return true;
}

static bool param_read_field(const params_reader *r, const param *p, const json_node *node)
{
    switch (p->kind) {
    case PARAM_SEED: return param_read_seed(r, p, node);
    case PARAM_MAX_TOKENS: return param_read_max_tokens(r, p, node);
    case PARAM_CONTEXT: return param_read_context(r, p, node);
    case PARAM_STOP: return param_read_stop(r, p, node);
    case PARAM_BIAS: return param_read_bias(r, p, node);
    case PARAM_PRESET: return param_read_preset(r, p, node);
    case PARAM_SPEC: return param_read_spec(r, p, node);
    case PARAM_WINDOW: return param_read_window(r, p, node);
    case PARAM_UNUSED: return param_read_unused(r, p, node);
    case PARAM_IGNORED: return true;
    case PARAM_WARNED: request_warn(r->a, "ignored_field", p->name); return true;
    case PARAM_OTHER:
        return (p->types >> json_node_kind(node) & 1) != 0 ||
               param_wrong_type(r, p, param_type_names(p->types));
    case PARAM_REFUSED:
        if (json_node_is(node, JSON_IS_BOOL) && !json_node_truth(node))
            return true;
        return http_error_unsupported(r->error, p->name, p->name);
    default: return param_read_plain(r, p, node);
    }
}

/* ---- an object ---- */

static const param *param_find(unsigned place, str name, size_t *row)
{
    const param *p;
    for (size_t i = 0; (p = param_at(i)) != NULL; i++)
        if ((p->in & place) != 0 && str_is(name, p->name)) {
            *row = i;
            return p;
        }
    return NULL;
}

static bool param_unknown(const params_reader *r, str name)
{
    char text[80];
    snprintf(text, sizeof text, "/%s%s%.*s", r->under, r->under[0] != 0 ? "/" : "",
             (int)(name.n < 60 ? name.n : 60), name.p);
    if (!r->a->strict) {
        request_warn(r->a, "unknown_field", text);
        return true;
    }
    http_error_set(r->error, HTTP_E_INVALID, "unknown_field", "unknown field %s", text + 1);
    snprintf(r->error->param, sizeof r->error->param, "%s", text + 1);
    return false;
}

/* Has an earlier row already set the same member? */
static bool param_set_before(const json_node *const *given, size_t row)
{
    const param *p = param_at(row);
    for (size_t i = 0; i < row; i++)
        if (given[i] != NULL && param_at(i)->kind == p->kind && p->at > 0 &&
            param_at(i)->at == p->at)
            return true;
    return false;
}

bool params_read(request *a, const json_node *object, unsigned place, const char *under,
                 const param_limits *limits, http_error *error)
{
    const params_reader r = {a, place, under, limits, error};
    const json_node *given[MAX_ROWS] = {0};
    size_t row;
    for (const json_node *m = json_node_first(object); m != NULL; m = json_node_next(m)) {
        if (json_node_is(m, JSON_IS_NULL))
            continue;
        if (param_find(place, json_node_name(m), &row) != NULL)
            given[row] = m;
        else if (!param_unknown(&r, json_node_name(m)))
            return false;
    }
    const param *p;
    for (row = 0; (p = param_at(row)) != NULL; row++) {
        if (given[row] == NULL)
            continue;
        const request before = *a;
        if (!param_read_field(&r, p, given[row]))
            return false;
        if (param_set_before(given, row)) { /* an earlier name wins: undo */
            a->answer = before.answer;
            a->no_answer = before.no_answer;
            a->model = before.model;
        }
    }
    return true;
}

bool params_settle(request *a, http_error *error)
{
    const uint32_t most = a->answer.max_tokens;
    if (most > 0 && a->min_tokens > most)
        return http_error_invalid(error, "min_tokens", "must be 0 to %u (max_tokens), got %u",
                                  (unsigned)most, (unsigned)a->min_tokens);
    if (a->no_repetition)
        a->answer.sampling.repetition = 1;
    if (!a->has_seed) {
        uint32_t seed; /* 32 bits: exact in a JSON number of any client, and easy to copy */
        if (!os_random(&seed, sizeof seed)) {
            http_error_set(error, HTTP_E_INTERNAL, "internal_error",
                           "cannot read random bytes from the kernel");
            return false;
        }
        a->answer.sampling.seed = seed;
    }
    return true;
}
