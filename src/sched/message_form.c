/* SPDX-License-Identifier: Apache-2.0 */
/*
 * message_form.c - see message_form.h.
 *
 * A form is a sequence of texts, each with its length before it:
 *   assistant   role, text, number of calls; of each call: name, number of arguments; of each
 *               argument: name, value as JSON
 *   others      role, then texts and images in order
 */
#include "sched/message_form.h"

#include "base/mem.h"
#include "chat/prompt/prompt_builder.h"

#include <stdio.h>
#include <stdlib.h>

static void form_put_size(strbuf *out, size_t n)
{
    strbuf_put(out, (str){(const char *)&n, sizeof n});
}

static void form_put_text(strbuf *out, str text)
{
    form_put_size(out, text.n);
    strbuf_put(out, text);
}

/* ---- texts ---- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* The visible part of an assistant's text: the client may have sent the reasoning with it. */
static str visible_text(str text)
{
    static const char end[] = "</think>";
    const size_t n = sizeof end - 1;
    for (size_t i = 0; i + n <= text.n; i++)
        if (memcmp(text.p + i, end, n) == 0)
            return chat_text_trim((str){text.p + i + n, text.n - i - n});
    return chat_text_trim(text);
}

/* Adds a line: its indentation, then its words with one blank between them. */
static void form_put_line(strbuf *out, str line)
{
    size_t at = 0;
    while (line.n > 0 && is_blank(line.p[line.n - 1]))
        line.n--;
    if (line.n == 0)
        return;
    if (out->n > 0)
        strbuf_byte(out, '\n');
    while (is_blank(line.p[at]))
        strbuf_byte(out, line.p[at++]);
    for (; at < line.n; at++) {
        if (!is_blank(line.p[at]))
            strbuf_byte(out, line.p[at]);
        else if (!is_blank(line.p[at + 1])) /* a line does not end with a blank */
            strbuf_byte(out, ' ');
    }
}

static void form_put_visible(strbuf *out, str text)
{
    strbuf lines = {0};
    for (size_t at = 0; at < text.n;) {
        const char *end = memchr(text.p + at, '\n', text.n - at);
        const size_t n = end != NULL ? (size_t)(end - text.p) - at : text.n - at;
        form_put_line(&lines, (str){text.p + at, n});
        at += n + 1;
    }
    form_put_text(out, strbuf_view(&lines));
    out->failed |= lines.failed;
    strbuf_fini(&lines);
}

/* ---- arguments ---- */

static int compare_names(const void *a, const void *b)
{
    const str x = json_node_name(*(const json_node *const *)a);
    const str y = json_node_name(*(const json_node *const *)b);
    const int order = memcmp(x.p, y.p, x.n < y.n ? x.n : y.n);
    return order != 0 ? order : (x.n > y.n) - (x.n < y.n);
}

/* The members of an object by name; NULL: out of memory, or none. */
static const json_node **sorted_members(strbuf *out, const json_node *object, size_t *n)
{
    const json_node **members = NULL;
    *n = json_node_size(object);
    if (*n == 0)
        return NULL;
    members = mem_new(*n, sizeof(const json_node *));
    if (members == NULL) {
        out->failed = true;
        *n = 0;
        return NULL;
    }
    size_t i = 0;
    for (const json_node *m = json_node_first(object); m != NULL; m = json_node_next(m))
        members[i++] = m;
    qsort(members, *n, sizeof(const json_node *), compare_names);
    return members;
}

/* 1, 1.0 and 1e0 are equal; integers of any size keep their digits. */
static void form_put_number(strbuf *out, str spelling)
{
    static const double EXACT = 9007199254740992.0; /* 2^53 */
    char digits[32];
    const double value = json_number_double(spelling);
    if (json_number_is_integer(spelling) || !(value > -EXACT && value < EXACT) ||
        (double)(int64_t)value != value) {
        json_put_number(out, spelling);
        return;
    }
    snprintf(digits, sizeof digits, "%lld", (long long)value);
    strbuf_text(out, digits);
}

static void form_put_value(strbuf *out, const json_node *value)
{
    size_t n;
    if (json_node_is(value, JSON_IS_OBJECT)) {
        const json_node **members = sorted_members(out, value, &n);
        strbuf_byte(out, '{');
        for (size_t i = 0; i < n; i++) {
            json_put_string(out, json_node_name(members[i]));
            form_put_value(out, members[i]); /* not deeper than JSON_MAX_DEPTH */
        }
        strbuf_byte(out, '}');
        mem_free(members);
    } else if (json_node_is(value, JSON_IS_ARRAY)) {
        strbuf_byte(out, '[');
        for (const json_node *i = json_node_first(value); i != NULL; i = json_node_next(i)) {
            form_put_value(out, i);
            strbuf_byte(out, ',');
        }
        strbuf_byte(out, ']');
    } else if (json_node_is(value, JSON_IS_NUMBER)) {
        form_put_number(out, json_node_text(value));
    } else {
        json_put_node(out, value);
    }
}

static void form_put_call(strbuf *out, const chat_call *call)
{
    size_t n = 0;
    strbuf value = {0};
    form_put_text(out, call->name);
    const json_node **members = json_node_is(call->arguments, JSON_IS_OBJECT)
                                    ? sorted_members(out, call->arguments, &n)
                                    : NULL;
    form_put_size(out, n);
    for (size_t i = 0; i < n; i++) {
        value.n = 0;
        form_put_value(&value, members[i]);
        form_put_text(out, json_node_name(members[i]));
        form_put_text(out, strbuf_view(&value));
    }
    out->failed |= value.failed;
    strbuf_fini(&value);
    mem_free(members);
}

/* ---- messages ---- */

static void form_put_answer(strbuf *out, const chat_message *m)
{
    strbuf joined = {0};
    for (size_t i = 0; i < m->n_parts; i++)
        strbuf_put(&joined, m->parts[i].text);
    const str text = strbuf_view(&joined);
    form_put_visible(out, m->has_reasoning ? chat_text_trim(text) : visible_text(text));
    form_put_size(out, m->n_calls);
    for (size_t i = 0; i < m->n_calls; i++)
        form_put_call(out, &m->calls[i]);
    out->failed |= joined.failed;
    strbuf_fini(&joined);
}

/* Images by their token ids, which are derived from the content. */
static void form_put_images(strbuf *out, const chat_media *media)
{
    for (size_t i = 0; i < media->n; i++) {
        size_t n;
        const mote_token *ids = mote_image_tokens(media->images[i], &n);
        form_put_text(out, (str){(const char *)ids, n * sizeof *ids});
    }
}

/* The texts of a message are rendered without a separator and without outer white space. */
static void form_put_parts(strbuf *out, const chat_message *m)
{
    strbuf text = {0};
    bool media = false;
    for (size_t i = 0; i < m->n_parts; i++) {
        if (m->parts[i].media == NULL) {
            strbuf_put(&text, m->parts[i].text);
            continue;
        }
        media = true;
        form_put_text(out, strbuf_view(&text));
        text.n = 0;
        strbuf_byte(out, (char)m->parts[i].kind);
        form_put_images(out, m->parts[i].media);
    }
    form_put_text(out, media ? strbuf_view(&text) : chat_text_trim(strbuf_view(&text)));
    out->failed |= text.failed;
    strbuf_fini(&text);
}

void message_form_of(strbuf *out, const chat_message *message)
{
    out->n = 0;
    strbuf_byte(out, (char)message->role);
    if (message->role == CHAT_ROLE_ASSISTANT)
        form_put_answer(out, message);
    else
        form_put_parts(out, message);
}

bool message_form_is_empty(str form)
{
    return form.n <= 1 + 2 * sizeof(size_t);
}

/* ---- comparison ---- */

static size_t form_get_size(str *form)
{
    size_t n = 0;
    if (form->n < sizeof n)
        return 0;
    memcpy(&n, form->p, sizeof n);
    form->p += sizeof n;
    form->n -= sizeof n;
    return n;
}

static str form_get_text(str *form)
{
    size_t n = form_get_size(form);
    n = n < form->n ? n : form->n;
    const str text = {form->p, n};
    form->p += n;
    form->n -= n;
    return text;
}

/* Both lists are sorted. */
static bool arguments_are_near(str *stored, str *sent)
{
    size_t n = form_get_size(stored), k = form_get_size(sent);
    str a = {NULL, 0}, b = {NULL, 0}; /* the next names; p NULL: not read yet */
    while (n > 0 || k > 0) {
        if (stored->n + sent->n == 0)
            return false; /* a stored form that is cut */
        if (n > 0 && a.p == NULL)
            a = form_get_text(stored);
        if (k > 0 && b.p == NULL)
            b = form_get_text(sent);
        int order = n == 0 ? 1 : k == 0 ? -1 : memcmp(a.p, b.p, a.n < b.n ? a.n : b.n);
        if (order == 0)
            order = (a.n > b.n) - (a.n < b.n);
        const str x = order <= 0 ? form_get_text(stored) : (str){"", 0};
        const str y = order >= 0 ? form_get_text(sent) : (str){"", 0};
        if (order == 0 && !str_eq(x, y))
            return false;
        if (order <= 0) {
            n--;
            a.p = NULL;
        }
        if (order >= 0) {
            k--;
            b.p = NULL;
        }
    }
    return true;
}

bool message_form_is_near(str stored, str sent)
{
    if (stored.n == 0 || sent.n == 0 || stored.p[0] != sent.p[0])
        return false;
    stored.p++, stored.n--;
    sent.p++, sent.n--;
    const str had = form_get_text(&stored), got = form_get_text(&sent);
    const size_t n = form_get_size(&stored);
    if ((got.n > 0 && !str_eq(had, got)) || form_get_size(&sent) != n)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!str_eq(form_get_text(&stored), form_get_text(&sent)) ||
            !arguments_are_near(&stored, &sent))
            return false;
    return true;
}
