/* SPDX-License-Identifier: Apache-2.0 */
/* thinking.c - see think.h and mote_think_parse in mote_chat.h. */
#include "chat/turn/thinking.h"

#include <strings.h>

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

chat_think_plan chat_think_plan_of(uint32_t budget, uint32_t max_tokens, uint32_t closing)
{
    /* Of a short answer, half. */
    const uint32_t quarter = max_tokens / 4;
    const uint32_t reserve = smaller(quarter > CHAT_THINK_RESERVE ? quarter : CHAT_THINK_RESERVE,
                                     max_tokens - max_tokens / 2);
    const uint32_t room = max_tokens - reserve - smaller(closing, max_tokens - reserve);
    const uint32_t grace = smaller(CHAT_THINK_GRACE, room / 4);
    chat_think_plan plan = {.budget = smaller(budget, room - grace)};
    plan.soft = plan.budget - plan.budget / 4;
    plan.last = plan.budget + grace;
    return plan;
}

float chat_think_urge(const chat_think_plan *plan, uint32_t used)
{
    /* Large enough at the end to outweigh all but a model that is quite sure to go on. */
    static const float most = 12;
    if (used < plan->soft)
        return 0;
    const uint32_t steps = plan->last > plan->soft ? plan->last - plan->soft : 1;
    return most * (float)(used - plan->soft + 1) / (float)steps;
}

static bool ends_with(str text, const char *end)
{
    const size_t n = strlen(end);
    return text.n >= n && memcmp(text.p + text.n - n, end, n) == 0;
}

bool chat_ends_sentence(str before, str token)
{
    static const char *const ends[] = {"!",           "?", "\n", "\xE3\x80\x82", "\xEF\xBC\x81",
                                       "\xEF\xBC\x9F"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (ends_with(token, ends[i]))
            return true;
    /* The point of "3.14" ends nothing. */
    const bool digit =
        before.n > 0 && before.p[before.n - 1] >= '0' && before.p[before.n - 1] <= '9';
    return ends_with(token, ".") && !(token.n == 1 && digit);
}

/* ---- the words people use ---- */

static const struct {
    const char *word;
    mote_think think;
    uint32_t budget;
} words[] = {
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

/* Digits, perhaps after a minus; what is too large is the largest. */
static bool parse_number(str text, bool *negative, uint32_t *value)
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
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strlen(words[i].word) != bytes || strncasecmp(words[i].word, text, bytes) != 0)
            continue;
        *think = words[i].think;
        *budget = words[i].budget;
        return true;
    }
    bool negative;
    uint32_t value;
    if (!parse_number((str){text, bytes}, &negative, &value))
        return false;
    if (negative && value > 0)
        value = MOTE_THINK_MAX;
    *think = value > 0 ? MOTE_THINK_ON : MOTE_THINK_OFF;
    *budget = value;
    return true;
}
