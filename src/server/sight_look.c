/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sight_look.c - one look: the text of a picture or film to rows of the model. See sight.h.
 *
 * Whatever a file does is an error of the request that brought it.
 */
#include "base/base64.h"
#include "base/mem.h"
#include "media/frame_pairs.h"
#include "server/ask.h"
#include "server/sight_int.h"

/* ---- what is wrong ---- */

static bool wrong(sight_request *r, const sight_item *item, const char *code, const char *why)
{
    return ask_refuse(&r->error, item->at, code, why);
}

static bool too_large(sight_request *r, const sight_item *item, const char *why)
{
    return wrong(r, item, "image_too_large", why);
}

/* Not the fault of any file: it may come again. */
static bool no_decoder(sight_request *r, const mote_error *err)
{
    api_error_set(&r->error, API_E_UNAVAILABLE, "vision_unavailable", "%s", err->text);
    return false;
}

static bool not_seen(sight_request *r, const sight_item *item, const mote_error *err)
{
    switch (err->status) {
    case MOTE_E_MEMORY: return ask_no_memory(&r->error);
    case MOTE_E_IO: return no_decoder(r, err);
    case MOTE_E_FULL: return too_large(r, item, err->text);
    default: return wrong(r, item, "image_parse_error", err->text);
    }
}

/* ---- bytes ---- */

/* Everything that a picture depends on, and who may find it again. */
static bool key_of(const sight_request *r, const sight_item *item, strbuf *file, digest *out)
{
    const uint64_t more[3] = {item->tokens, item->film, r->realm};
    const size_t n = file->n;
    strbuf_put(file, (str){(const char *)more, sizeof more});
    const bool fine = !file->failed && digest_of(out, strbuf_view(file));
    file->n = n;
    return fine;
}

static bool read_file(const sight *s, sight_request *r, const sight_item *item, strbuf *file)
{
    if (item->text.n / 4 * 3 > s->options.file_bytes + 3)
        return too_large(r, item, "is a file with more bytes than are taken");
    if (!base64_get(file, item->text))
        return file->failed ? ask_no_memory(&r->error)
                            : wrong(r, item, "image_parse_error", "is not base64");
    if (file->n == 0)
        return wrong(r, item, "image_parse_error", "is empty");
    return file->n <= s->options.file_bytes ||
           too_large(r, item, "is a file with more bytes than are taken");
}

/* ---- pixels ---- */

static bool count_in(sight_request *r, const sight_item *item, size_t pictures, size_t tokens)
{
    r->pictures += pictures;
    r->tokens += tokens;
    if (r->pictures > SIGHT_MOST_PICTURES)
        return too_large(r, item, "has more frames than are taken in one request");
    if (r->room == 0 || r->tokens < r->room)
        return true;
    wrong(r, item, "context_length_exceeded", "does not fit the context");
    return false;
}

static bool has_room(sight *s, sight_request *r, const sight_item *item, sight_entry *e)
{
    const uint64_t bytes = e->seen.tokens * (s->embedding * sizeof(float) + sizeof(mote_token)) +
                           sizeof *e + e->seen.media.n * (sizeof(void *) + sizeof(double) + 256);
    r->bytes += bytes;
    if (sight_make_room(s, e, bytes))
        return true;
    if (r->bytes > s->options.memory)
        return too_large(r, item, "and what comes before it need more memory than pictures have");
    return ask_no_memory(&r->error);
}

static bool look_at(sight *s, sight_request *r, const sight_item *item, const media_seen *seen,
                    sight_entry *e)
{
    mote_error err;
    const size_t n = e->seen.media.n;
    const mote_picture **pictures = mem_new(n, sizeof *pictures);
    double *seconds = mem_new(n, sizeof *seconds);
    e->seen.media.pictures = pictures;
    e->seen.media.seconds = seconds;
    if (pictures == NULL || seconds == NULL)
        return ask_no_memory(&r->error);
    for (size_t i = 0; i < n; i++) {
        mote_picture *picture;
        if (r->dropped)
            return wrong(r, item, "canceled", "is not wanted any more");
        if (media_pair(seen, item->film, i, s->options.model, s->options.threads, &picture,
                       &seconds[i], &err) != MOTE_OK)
            return not_seen(r, item, &err);
        pictures[i] = picture;
    }
    return true;
}

static bool see(sight *s, sight_request *r, const sight_item *item, str file, sight_entry *e)
{
    mote_error err;
    media_seen seen;
    const media_ask wanted = {.file = file,
                              .film = item->film,
                              .limits = {.most = (uint64_t)item->tokens * MEDIA_TOKEN_PIXELS}};
    if (media_see(s->options.nursery, &wanted, &seen, &err) != MOTE_OK)
        return not_seen(r, item, &err);
    e->seen.width = seen.width;
    e->seen.height = seen.height;
    e->seen.media.n = media_pairs(&seen, item->film);
    e->seen.tokens = e->seen.media.n * seen.width * seen.height / MEDIA_TOKEN_PIXELS;
    bool fine = (uint64_t)seen.stored_width * seen.stored_height <= s->options.pixels ||
                too_large(r, item, "has more pixels than are taken");
    fine = fine && count_in(r, item, e->seen.media.n, e->seen.tokens) && has_room(s, r, item, e) &&
           look_at(s, r, item, &seen, e);
    media_seen_fini(&seen);
    return fine;
}

/* ---- both ---- */

static bool find_or_see(sight *s, sight_request *r, sight_item *item, strbuf *file)
{
    digest key;
    bool mine;
    if (!read_file(s, r, item, file))
        return false;
    if (!key_of(r, item, file, &key))
        return ask_no_memory(&r->error);
    sight_entry *e = sight_hold(s, &key, &mine);
    if (e == NULL)
        return ask_no_memory(&r->error);
    if (mine) {
        if (!see(s, r, item, strbuf_view(file), e)) {
            sight_give_up(s, e);
            return false;
        }
        sight_made(s, e);
    }
    item->seen = &e->seen;
    if (mine)
        return true;
    r->bytes += e->bytes;
    return count_in(r, item, e->seen.media.n, e->seen.tokens);
}

void sight_look(sight *s, sight_request *r)
{
    strbuf file = {0};
    find_or_see(s, r, &r->items[r->next_item++], &file);
    strbuf_fini(&file);
}
