/* SPDX-License-Identifier: Apache-2.0 */
/* chat_input.c - see chat_input.h. */
#include "cli/chat/chat_input.h"

#include <string.h>

static const char quotes[] = "\"\"\"";
enum { N_QUOTES = 3 };

/* Where three quotes begin in p; n: nowhere. */
static size_t find_quotes(const char *p, size_t n)
{
    for (size_t i = 0; i + N_QUOTES <= n; i++)
        if (memcmp(p + i, quotes, N_QUOTES) == 0)
            return i;
    return n;
}

/* What follows the closing quotes on their line still belongs to the message. */
static bool add_quoted(chat_input *in, const char *line, size_t n)
{
    size_t end = find_quotes(line, n);
    in->goes_on = end == n;
    if (!input_add(&in->text, line, end))
        return false;
    if (in->goes_on)
        return input_add(&in->text, "\n", 1);
    const char *rest = line + end + N_QUOTES;
    if (!input_add(&in->text, rest, n - end - N_QUOTES))
        return false;
    /* The quotes may stand on lines of their own. */
    while (in->text.n > 0 && in->text.p[in->text.n - 1] == '\n')
        in->text.n--;
    return true;
}

bool chat_input_add(chat_input *in, const char *line, size_t n)
{
    bool first = !in->goes_on;
    if (first && n >= N_QUOTES && memcmp(line, quotes, N_QUOTES) == 0) {
        in->quoted = true;
        line += N_QUOTES;
        n -= N_QUOTES;
        if (n == 0) {
            in->goes_on = true;
            return true;
        }
    }
    if (in->quoted)
        return add_quoted(in, line, n);
    in->goes_on = n > 0 && line[n - 1] == '\\';
    if (!in->goes_on)
        return input_add(&in->text, line, n);
    return input_add(&in->text, line, n - 1) && input_add(&in->text, "\n", 1);
}

void chat_input_clear(chat_input *in)
{
    in->text.n = 0;
    in->quoted = false;
    in->goes_on = false;
}

void chat_input_free(chat_input *in)
{
    input_text_free(&in->text);
    chat_input_clear(in);
}

line_end chat_input_read(chat_input *in, lineedit *l)
{
    input_text line = {0};
    line_end end;
    chat_input_clear(in);
    do {
        line.n = 0;
        end = lineedit_read(l, in->goes_on ? "... " : ">>> ", &line);
        if (end == LINE_READ && !chat_input_add(in, line.p, line.n))
            end = LINE_FAILED;
        if (end == LINE_INTERRUPTED && in->goes_on)
            end = LINE_CLEARED; /* the lines before it */
    } while (end == LINE_READ && in->goes_on);
    input_text_free(&line);
    return end;
}
