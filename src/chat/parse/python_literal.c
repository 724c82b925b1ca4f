/* SPDX-License-Identifier: Apache-2.0 */
/*
 * python_literal.c - Python literals to JSON.
 *
 * Models that saw much Python write ['a', True] where JSON is due. The text is
 * rewritten piece by piece; whether the pieces fit together is for the JSON reader to say.
 */
#include "chat/parse/tool_arguments.h"

typedef struct literal {
    str text;
    size_t at;
    strbuf *out;
} literal;

static int hex_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

static void put_utf8(strbuf *out, uint32_t code)
{
    if (code >= 0x80 && code < 0x800) {
        strbuf_byte(out, (char)(0xC0 | code >> 6));
    } else if (code >= 0x800) {
        strbuf_byte(out, (char)(0xE0 | code >> 12));
        strbuf_byte(out, (char)(0x80 | (code >> 6 & 63)));
    }
    strbuf_byte(out, (char)(code < 0x80 ? code : 0x80 | (code & 63)));
}

/* \xHH or \uHHHH, at the letter. Halves of surrogate pairs are not put together. */
static bool take_code(literal *l, strbuf *to)
{
    const int digits = l->text.p[l->at++] == 'x' ? 2 : 4;
    uint32_t code = 0;
    for (int i = 0; i < digits; i++, l->at++) {
        const int digit = l->at < l->text.n ? hex_of(l->text.p[l->at]) : -1;
        if (digit < 0)
            return false;
        code = code << 4 | (uint32_t)digit;
    }
    put_utf8(to, code >= 0xD800 && code <= 0xDFFF ? 0xFFFD : code);
    return true;
}

/* After a backslash. What Python does not know stays as it is, backslash included. */
static bool take_escape(literal *l, strbuf *to)
{
    static const char from[] = "'\"\\nrtbf", into[] = "'\"\\\n\r\t\b\f";
    if (l->at == l->text.n)
        return false;
    const char c = l->text.p[l->at];
    if (c == 'x' || c == 'u')
        return take_code(l, to);
    const char *known = c != 0 ? strchr(from, c) : NULL;
    if (known == NULL)
        strbuf_byte(to, '\\');
    strbuf_byte(to, known != NULL ? into[known - from] : c);
    l->at++;
    return true;
}

static bool take_string(literal *l)
{
    const char quote = l->text.p[l->at++];
    strbuf decoded = {0};
    bool whole = false;
    while (l->at < l->text.n) {
        const char c = l->text.p[l->at++];
        whole = c == quote;
        if (whole || (c == '\\' && !take_escape(l, &decoded)))
            break;
        if (c != '\\')
            strbuf_byte(&decoded, c);
    }
    json_put_string(l->out, strbuf_view(&decoded));
    l->out->failed |= decoded.failed;
    strbuf_fini(&decoded);
    return whole;
}

static bool take_word(literal *l)
{
    static const char *const words[][2] = {{"True", "true"}, {"False", "false"}, {"None", "null"},
                                           {"true", "true"}, {"false", "false"}, {"null", "null"},
                                           {"e", "e"},       {"E", "e"}};
    const size_t start = l->at;
    while (l->at < l->text.n && ((l->text.p[l->at] | 32) >= 'a' && (l->text.p[l->at] | 32) <= 'z'))
        l->at++;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (str_is((str){l->text.p + start, l->at - start}, words[i][0])) {
            strbuf_text(l->out, words[i][1]);
            return true;
        }
    }
    return false;
}

/* A comma, unless only blanks and a closing bracket follow. */
static void take_comma(literal *l)
{
    size_t next = ++l->at;
    while (next < l->text.n && strchr(" \t\r\n", l->text.p[next]) != NULL && l->text.p[next] != 0)
        next++;
    if (next == l->text.n || strchr("])}", l->text.p[next]) == NULL || l->text.p[next] == 0)
        strbuf_byte(l->out, ',');
}

bool chat_python_to_json(strbuf *out, str text)
{
    literal l = {.text = text, .out = out};
    while (l.at < text.n) {
        const char c = text.p[l.at];
        bool sound = true;
        if (c == '\'' || c == '"')
            sound = take_string(&l);
        else if ((c | 32) >= 'a' && (c | 32) <= 'z')
            sound = take_word(&l);
        else if (c == ',')
            take_comma(&l);
        else {
            strbuf_byte(out, c == '(' ? '[' : c == ')' ? ']' : c);
            l.at++;
        }
        if (!sound)
            return false;
    }
    return !out->failed;
}
