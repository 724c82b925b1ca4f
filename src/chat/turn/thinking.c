/* SPDX-License-Identifier: Apache-2.0 */
/* thinking.c - thinking budget and setting. See thinking.h, and mote_think_parse in mote_chat.h. */
#include "chat/turn/thinking.h"

#include "base/err.h"

#include <strings.h>

static uint32_t min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

chat_think_plan chat_think_plan_of(uint32_t budget, uint32_t max_tokens, uint32_t closing)
{
    /* The reserve is a quarter, at least CHAT_THINK_RESERVE, at most half. */
    const uint32_t quarter = max_tokens / 4;
    const uint32_t reserve = min_u32(quarter > CHAT_THINK_RESERVE ? quarter : CHAT_THINK_RESERVE,
                                     max_tokens - max_tokens / 2);
    const uint32_t room = max_tokens - reserve - min_u32(closing, max_tokens - reserve);
    const uint32_t grace = min_u32(CHAT_THINK_GRACE, room / 4);
    chat_think_plan plan = {.budget = min_u32(budget, room - grace)};
    plan.soft = plan.budget - plan.budget / 4;
    plan.last = plan.budget + grace;
    return plan;
}

float chat_think_urge(const chat_think_plan *plan, uint32_t used)
{
    /* At the end </think> wins unless the model is almost certain of another token. */
    static const float most = 12;
    if (used < plan->soft)
        return 0;
    const uint32_t steps = plan->last > plan->soft ? plan->last - plan->soft : 1;
    return most * (float)(used - plan->soft + 1) / (float)steps;
}

static bool text_ends_with(str text, const char *end)
{
    const size_t n = strlen(end);
    return text.n >= n && memcmp(text.p + text.n - n, end, n) == 0;
}

bool chat_ends_sentence(str before, str token)
{
    static const char *const ends[] = {"!",           "?", "\n", "\xE3\x80\x82", "\xEF\xBC\x81",
                                       "\xEF\xBC\x9F"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (text_ends_with(token, ends[i]))
            return true;
    /* The point of "3.14" ends no sentence. */
    const bool digit =
        before.n > 0 && before.p[before.n - 1] >= '0' && before.p[before.n - 1] <= '9';
    return text_ends_with(token, ".") && !(token.n == 1 && digit);
}

/* ---- words for the setting ---- */

static const struct {
    const char *word;
    mote_think think;
    uint32_t budget;
} think_words[] = {
    {"auto", MOTE_THINK_AUTO, 0},
    {"default", MOTE_THINK_AUTO, 0},
    {"off", MOTE_THINK_OFF, 0},
    {"none", MOTE_THINK_OFF, 0},
    {"no", MOTE_THINK_OFF, 0},
    {"false", MOTE_THINK_OFF, 0},
    {"disabled", MOTE_THINK_OFF, 0},
    {"on", MOTE_THINK_ON, 0},
    {"yes", MOTE_THINK_ON, 0},
    {"true", MOTE_THINK_ON, 0},
    {"enabled", MOTE_THINK_ON, 0},
    {"minimal", MOTE_THINK_ON, MOTE_THINK_MINIMAL},
    {"low", MOTE_THINK_ON, MOTE_THINK_LOW},
    {"medium", MOTE_THINK_ON, MOTE_THINK_MEDIUM},
    {"high", MOTE_THINK_ON, MOTE_THINK_HIGH},
    {"xhigh", MOTE_THINK_ON, MOTE_THINK_XHIGH},
    {"max", MOTE_THINK_ON, MOTE_THINK_MAX},
};

/* Digits with an optional minus. Saturates at UINT32_MAX. */
static bool think_parse_number(str text, bool *negative, uint32_t *value)
{
    uint64_t sum = 0;
    *negative = text.n > 0 && text.p[0] == '-';
    if (text.n == (size_t)*negative)
        return false;
    for (size_t i = *negative; i < text.n; i++) {
        if (text.p[i] < '0' || text.p[i] > '9')
            return false;
        sum = sum * 10 + (uint64_t)(text.p[i] - '0');
        if (sum > UINT32_MAX)
            sum = UINT32_MAX;
    }
    *value = (uint32_t)sum;
    return true;
}

bool mote_think_parse(const char *text, size_t bytes, mote_think *think, uint32_t *budget)
{
    for (size_t i = 0; i < sizeof think_words / sizeof *think_words; i++) {
        if (strlen(think_words[i].word) != bytes ||
            strncasecmp(think_words[i].word, text, bytes) != 0)
            continue;
        *think = think_words[i].think;
        *budget = think_words[i].budget;
        return true;
    }
    bool negative;
    uint32_t value;
    if (!think_parse_number((str){text, bytes}, &negative, &value))
        return false;
    if (negative && value > 0)
        value = MOTE_THINK_MAX;
    *think = value > 0 ? MOTE_THINK_ON : MOTE_THINK_OFF;
    *budget = value;
    return true;
}

/* ---- the fields of a request ---- */

/* Value types of a field. */
typedef enum field_kind {
    FIELD_SWITCH, /* true or false */
    FIELD_EFFORT, /* an effort level, or "none" */
    FIELD_EITHER, /* true, false or an effort level */
    FIELD_TOKENS, /* a number of tokens */
    FIELD_TYPE,   /* disabled, adaptive, or enabled with budget_tokens */
    FIELD_LEVEL   /* an effort level that does not switch thinking on */
} field_kind;

enum {
    OPENAI = 1 << CHAT_DIALECT_OPENAI,
    RESPONSES = 1 << CHAT_DIALECT_RESPONSES,
    ANTHROPIC = 1 << CHAT_DIALECT_ANTHROPIC,
    OLLAMA = 1 << CHAT_DIALECT_OLLAMA,
    ALL = OPENAI | RESPONSES | ANTHROPIC | OLLAMA
};

typedef struct field {
    const char *path; /* member names with dots between them */
    field_kind kind;
    unsigned dialects;
} field;

static const field fields[] = {
    {"chat_template_kwargs.enable_thinking", FIELD_SWITCH, ALL},
    {"enable_thinking", FIELD_SWITCH, ALL},
    {"extra_body.chat_template_kwargs.enable_thinking", FIELD_SWITCH, ALL},
    {"extra_body.enable_thinking", FIELD_SWITCH, ALL},
    {"chat_template_kwargs.reasoning_effort", FIELD_LEVEL, ALL},
    {"extra_body.chat_template_kwargs.reasoning_effort", FIELD_LEVEL, ALL},
    {"reasoning_effort", FIELD_EFFORT, OPENAI},
    {"reasoning.enabled", FIELD_SWITCH, OPENAI},
    {"reasoning.max_tokens", FIELD_TOKENS, OPENAI},
    {"reasoning.effort", FIELD_EFFORT, OPENAI | RESPONSES},
    {"thinking.type", FIELD_TYPE, ANTHROPIC | OPENAI},
    {"output_config.effort", FIELD_LEVEL, ANTHROPIC},
    {"think", FIELD_EITHER, OLLAMA | OPENAI},
    {"thinking_budget", FIELD_TOKENS, ALL},
    {"chat_template_kwargs.thinking_budget", FIELD_TOKENS, ALL},
    {"extra_body.thinking_budget", FIELD_TOKENS, ALL},
    {"extra_body.chat_template_kwargs.thinking_budget", FIELD_TOKENS, ALL},
    {"thinking_token_budget", FIELD_TOKENS, ALL},
    {"chat_template_kwargs.thinking_token_budget", FIELD_TOKENS, ALL},
    {"extra_body.thinking_token_budget", FIELD_TOKENS, ALL},
    {"extra_body.chat_template_kwargs.thinking_token_budget", FIELD_TOKENS, ALL},
    {"thinking_budget_tokens", FIELD_TOKENS, ALL},
    {"chat_template_kwargs.thinking_budget_tokens", FIELD_TOKENS, ALL},
    {"extra_body.thinking_budget_tokens", FIELD_TOKENS, ALL},
    {"extra_body.chat_template_kwargs.thinking_budget_tokens", FIELD_TOKENS, ALL},
    {"reasoning_budget", FIELD_TOKENS, ALL},
    {"chat_template_kwargs.reasoning_budget", FIELD_TOKENS, ALL},
    {"extra_body.reasoning_budget", FIELD_TOKENS, ALL},
    {"extra_body.chat_template_kwargs.reasoning_budget", FIELD_TOKENS, ALL},
};

static const struct {
    const char *word;
    mote_think think;
    uint32_t level;
} suffixes[] = {
    {"think", MOTE_THINK_ON, 0},
    {"nothink", MOTE_THINK_OFF, 0},
    {"minimal", MOTE_THINK_ON, MOTE_THINK_MINIMAL},
    {"low", MOTE_THINK_ON, MOTE_THINK_LOW},
    {"medium", MOTE_THINK_ON, MOTE_THINK_MEDIUM},
    {"high", MOTE_THINK_ON, MOTE_THINK_HIGH},
    {"xhigh", MOTE_THINK_ON, MOTE_THINK_XHIGH},
    {"max", MOTE_THINK_ON, MOTE_THINK_MAX},
};

/* ---- the value of one field ---- */

typedef struct field_value {
    mote_think think; /* AUTO: not set */
    uint32_t level;   /* tokens of an effort level; 0: none */
    uint32_t tokens;  /* an explicit number; 0: none */
} field_value;

static mote_status field_error(const field *f, const char *wants, mote_error *err)
{
    return err_set(err, MOTE_E_ARG, "%s must be %s", f->path, wants);
}

static mote_status field_read_switch(const field *f, const json_node *node, field_value *out,
                                     mote_error *err)
{
    if (!json_node_is(node, JSON_IS_BOOL))
        return field_error(f, "true or false", err);
    out->think = json_node_truth(node) ? MOTE_THINK_ON : MOTE_THINK_OFF;
    return MOTE_OK;
}

static mote_status field_read_word(const field *f, const json_node *node, field_value *out,
                                   mote_error *err)
{
    const str word = json_node_text(node);
    if (!json_node_is(node, JSON_IS_STRING) ||
        !mote_think_parse(word.p, word.n, &out->think, &out->level))
        return field_error(f, "one of none, minimal, low, medium, high, xhigh, max", err);
    return MOTE_OK;
}

/* A thinking budget in tokens. Negative: no limit; 0: no thinking. */
static mote_status field_read_tokens(const field *f, const json_node *node, field_value *out,
                                     mote_error *err)
{
    int64_t tokens;
    if (!json_node_int64(node, &tokens))
        return field_error(f, "an integer", err);
    if (tokens < 0 || tokens > UINT32_MAX)
        tokens = MOTE_THINK_MAX;
    out->think = tokens > 0 ? MOTE_THINK_ON : MOTE_THINK_OFF;
    out->tokens = (uint32_t)tokens;
    return MOTE_OK;
}

/* Anthropic requires budget_tokens with "enabled"; other APIs with this field do not. */
static mote_status field_read_type(const field *f, const json_node *body, const json_node *node,
                                   bool number_needed, field_value *out, mote_error *err)
{
    const str type = json_node_text(node);
    const json_node *number = json_node_get(json_node_get(body, "thinking"), "budget_tokens");
    out->think = str_is(type, "disabled") ? MOTE_THINK_OFF : MOTE_THINK_ON;
    if (str_is(type, "disabled") || str_is(type, "adaptive") || str_is(type, "between_tools"))
        return MOTE_OK;
    if (!str_is(type, "enabled"))
        return field_error(f, "one of disabled, enabled, adaptive, between_tools", err);
    const field budget = {"thinking.budget_tokens", FIELD_TOKENS, ANTHROPIC};
    int64_t tokens;
    if (!number_needed && (number == NULL || json_node_is(number, JSON_IS_NULL)))
        return MOTE_OK;
    if (!json_node_int64(number, &tokens) || tokens < 1)
        return field_error(&budget, "an integer of at least 1", err);
    return field_read_tokens(&budget, number, out, err);
}

static mote_status field_read(const field *f, const json_node *body, chat_dialect dialect,
                              const json_node *node, field_value *out, mote_error *err)
{
    switch (f->kind) {
    case FIELD_SWITCH: return field_read_switch(f, node, out, err);
    case FIELD_EFFORT: return field_read_word(f, node, out, err);
    case FIELD_EITHER:
        return json_node_is(node, JSON_IS_BOOL) ? field_read_switch(f, node, out, err)
                                                : field_read_word(f, node, out, err);
    case FIELD_TOKENS: return field_read_tokens(f, node, out, err);
    case FIELD_TYPE:
        return field_read_type(f, body, node, dialect == CHAT_DIALECT_ANTHROPIC, out, err);
    case FIELD_LEVEL:
        TRY(field_read_word(f, node, out, err));
        if (out->think == MOTE_THINK_ON)
            out->think = MOTE_THINK_AUTO;
        return MOTE_OK;
    }
    return MOTE_OK;
}

/* ---- all fields ---- */

typedef struct setting_reader {
    chat_think_setting *out;
    field_value so_far;
} setting_reader;

/* The first field that sets a value wins; a different value in a later field is a conflict. */
static void setting_merge(setting_reader *h, const field_value *s, const char *source)
{
    field_value *first = &h->so_far;
    if (s->think != MOTE_THINK_AUTO && first->think != MOTE_THINK_AUTO)
        h->out->conflict |= s->think != first->think;
    if (first->think == MOTE_THINK_AUTO && s->think != MOTE_THINK_AUTO) {
        first->think = s->think;
        h->out->source = source;
    }
    if (s->level > 0 && first->level > 0)
        h->out->conflict |= s->level != first->level;
    if (s->tokens > 0 && first->tokens > 0)
        h->out->conflict |= s->tokens != first->tokens;
    first->level = first->level > 0 ? first->level : s->level;
    first->tokens = first->tokens > 0 ? first->tokens : s->tokens;
}

/* The value at a dotted path; NULL: absent or null. */
static const json_node *json_at_path(const json_node *node, const char *path)
{
    while (node != NULL && *path != 0) {
        const size_t n = strcspn(path, ".");
        node = json_node_member(node, (str){path, n});
        path += n + (path[n] == '.');
    }
    return json_node_is(node, JSON_IS_NULL) ? NULL : node;
}

/* A field that the chat template reads itself. */
static bool field_is_for_template(const field *f)
{
    return strstr(f->path, "chat_template_kwargs.") != NULL &&
           (f->kind == FIELD_SWITCH || f->kind == FIELD_LEVEL);
}

static mote_status setting_read_fields(setting_reader *h, const json_node *body,
                                       chat_dialect dialect, chat_mode mode, mote_error *err)
{
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        const json_node *node = json_at_path(body, fields[i].path);
        field_value s = {0};
        if (node == NULL || (fields[i].dialects & 1u << dialect) == 0)
            continue;
        const bool template_decides = mode == CHAT_OFFICIAL && field_is_for_template(&fields[i]);
        const mote_status status = field_read(&fields[i], body, dialect, node, &s, err);
        if (status == MOTE_E_ARG && template_decides)
            continue;
        TRY(status);
        if (template_decides && fields[i].kind == FIELD_LEVEL)
            s.think = MOTE_THINK_AUTO;
        setting_merge(h, &s, fields[i].path);
    }
    return MOTE_OK;
}

static void setting_read_suffix(setting_reader *h, str word)
{
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
        if (str_is(word, suffixes[i].word))
            setting_merge(h, &(field_value){.think = suffixes[i].think, .level = suffixes[i].level},
                          "model");
}

bool chat_think_is_suffix(str word)
{
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
        if (str_is(word, suffixes[i].word))
            return true;
    return false;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static str trim_end(str text)
{
    while (text.n > 0 && is_blank(text.p[text.n - 1]))
        text.n--;
    return text;
}

/* The switch that is the last word of the text, *n bytes long; AUTO: none. */
static mote_think last_switch(str text, size_t *n)
{
    static const struct {
        const char *word;
        mote_think think;
    } switches[] = {{"/think", MOTE_THINK_ON}, {"/no_think", MOTE_THINK_OFF}};
    text = trim_end(text);
    for (size_t i = 0; i < sizeof switches / sizeof *switches; i++) {
        *n = strlen(switches[i].word);
        if (text.n >= *n && memcmp(text.p + text.n - *n, switches[i].word, *n) == 0 &&
            (text.n == *n || is_blank(text.p[text.n - *n - 1])))
            return switches[i].think;
    }
    return MOTE_THINK_AUTO;
}

str chat_think_without_switch(str text)
{
    size_t n;
    if (last_switch(text, &n) == MOTE_THINK_AUTO)
        return text;
    text = trim_end(text);
    return trim_end((str){text.p, text.n - n});
}

mote_status chat_think_read(chat_think_setting *out, const json_node *body, chat_dialect dialect,
                            chat_mode mode, str model_suffix, str last_user_text, mote_error *err)
{
    size_t n;
    *out = (chat_think_setting){.source = "default"};
    setting_reader h = {.out = out};
    TRY(setting_read_fields(&h, body, dialect, mode, err));
    setting_read_suffix(&h, model_suffix);
    const mote_think soft = last_switch(last_user_text, &n);
    out->soft_switch = soft != MOTE_THINK_AUTO;
    setting_merge(&h, &(field_value){.think = soft}, "soft_switch");
    out->think = h.so_far.think;
    if (out->think != MOTE_THINK_OFF)
        out->budget = h.so_far.tokens > 0 ? h.so_far.tokens : h.so_far.level;
    return MOTE_OK;
}
