/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parse_source.c - which tokens lead to content, for those who want their probabilities.
 *
 * A token may lead to content much later than it came, in part or not at all: blanks before a tag
 * are dropped, half a character waits for the other half, and what looked like a call may be
 * given back. So tokens wait here until their bytes are delivered or gone.
 */
#include "base/mem.h"
#include "chat/parse/parse_int.h"

enum { FIRST_ROOM = 64 };

static bool make_room(chat_parser *p)
{
    if (p->n_sources < p->sources_room)
        return true;
    const size_t left = p->n_sources - p->first_source;
    if (p->first_source > p->sources_room / 2) {
        memmove(p->sources, p->sources + p->first_source, left * sizeof *p->sources);
        p->first_source = 0;
        p->n_sources = left;
        return true;
    }
    const size_t room = p->sources_room * 2 + FIRST_ROOM;
    parse_source *grown = mem_resize(p->sources, p->sources_room, room, sizeof *grown);
    if (grown == NULL)
        return false;
    p->sources = grown;
    p->sources_room = room;
    return true;
}

void source_add(chat_parser *p, size_t begin, mote_token id)
{
    if (!p->options.tokens)
        return;
    p->sources_failed |= !make_room(p);
    if (p->sources_failed)
        return;
    const bool half = p->stream.n_held > 0;
    p->sources[p->n_sources++] = (parse_source){.begin = p->moved + begin,
                                                .end = p->moved + p->held.n + half,
                                                .token = p->n_tokens - 1,
                                                .id = id};
}

void source_forget(chat_parser *p, size_t at)
{
    while (p->first_source < p->n_sources && p->sources[p->first_source].end <= p->moved + at)
        p->first_source++;
}

static void tell_first(chat_parser *p)
{
    const parse_source *s = &p->sources[p->first_source++];
    chat_event event = {.kind = CHAT_EVENT_TOKEN, .token = s->token};
    event.text.p = mote_token_bytes(p->options.model, s->id, &event.text.n);
    parse_emit(p, event);
}

size_t source_tell(chat_parser *p, size_t begin, size_t end)
{
    source_forget(p, begin);
    while (p->first_source < p->n_sources) {
        const size_t next = p->sources[p->first_source].begin;
        if (next > p->moved + begin)
            return next < p->moved + end ? next - p->moved : end;
        tell_first(p);
    }
    return end;
}

void source_tell_taken(chat_parser *p)
{
    while (p->first_source < p->n_sources &&
           p->sources[p->first_source].begin < p->moved + p->taken)
        tell_first(p);
}

size_t chat_parser_settled(const chat_parser *p)
{
    return p->first_source < p->n_sources ? p->sources[p->first_source].token : p->n_tokens;
}
