/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image_spans.c - pictures in a timeline.
 *
 * A picture of R rows and C columns takes R * C places among the tokens, but as far as rotary
 * positions go only max(R, C): its tokens stand in a plane, all at one moment, and text goes on
 * behind the longer side. So behind a picture the two ways of counting differ, and the spans
 * say by how much.
 *
 * A picture is appended from its beginning; it may be cut by the end of an item or of a pass,
 * and then goes on where it stopped.
 */
#include "engine/engine_int.h"

#include <string.h>

/* The picture that is not complete yet; NULL: there is none. */
static const image_span *open_span(const mote_session *s)
{
    if (s->n_spans == 0)
        return NULL;
    const image_span *last = &s->spans[s->n_spans - 1];
    return last->start + span_tokens(last) > s->length ? last : NULL;
}

/* How far the rotary position stands off the position, behind the first n spans. */
static int64_t shift_behind(const mote_session *s, uint32_t n)
{
    int64_t shift = 0;
    for (uint32_t i = 0; i < n; i++) {
        const image_span *span = &s->spans[i];
        const uint32_t side = span->rows > span->cols ? span->rows : span->cols;
        shift += (int64_t)side - (int64_t)span_tokens(span);
    }
    return shift;
}

/* The picture of the item whose token number `place` this is; NULL: none. */
static const mote_image *image_with(const mote_work *w, mote_token token, uint64_t place)
{
    for (size_t i = 0; i < w->n_images; i++) {
        const mote_image *p = w->images[i];
        if (p != NULL && place < p->n && p->ids[place] == token)
            return p;
    }
    return NULL;
}

/* ---- checking ---- */

static mote_status not_whole(mote_error *err)
{
    return err_set(err, MOTE_E_ARG,
                   "tokens of a picture must be appended in a row, from its first on");
}

/* The run that begins with token i of the item, token `place` of its picture; *end: behind it. */
static mote_status check_run(const mote_work *w, size_t i, uint64_t place, size_t *end,
                             mote_error *err)
{
    const mote_image *p = image_with(w, w->tokens[i], place);
    if (p == NULL)
        return err_set(err, MOTE_E_ARG, "token %d begins no picture that the work item names",
                       w->tokens[i]);
    const size_t rest = p->n - (size_t)place, left = w->n - i, n = rest < left ? rest : left;
    if (memcmp(w->tokens + i, p->ids + place, n * sizeof *p->ids) != 0)
        return not_whole(err);
    *end = i + n;
    return MOTE_OK;
}

mote_status spans_check(const mote_session *s, const mote_work *w, mote_error *err)
{
    const image_span *open = open_span(s);
    uint32_t n_spans = s->n_spans;
    size_t i = 0;
    if (open != NULL) {
        if (w->tokens[0] >= 0)
            return not_whole(err);
        TRY(check_run(w, 0, s->length - open->start, &i, err));
    }
    while (i < w->n) {
        if (w->tokens[i] >= 0) {
            i++;
            continue;
        }
        TRY(check_run(w, i, 0, &i, err));
        if (n_spans++ == SESSION_SPANS)
            return err_set(err, MOTE_E_FULL, "a session holds at most %d pictures", SESSION_SPANS);
    }
    return MOTE_OK;
}

/* ---- appending ---- */

/* The picture that goes on or begins with token `at` of the segment; a span is made if it begins.
 */
static pass_run lay_run(mote_session *s, const mote_work *w, size_t from, size_t at, size_t n,
                        const image_span *open)
{
    const uint64_t place = open != NULL ? s->length - open->start : 0;
    const mote_image *p = image_with(w, w->tokens[from + at], place);
    const size_t rest = p->n - (size_t)place, left = n - at;
    if (open == NULL)
        s->spans[s->n_spans++] = (image_span){s->length + at, p->rows, p->cols};
    const image_span *span = &s->spans[s->n_spans - 1];
    return (pass_run){.at = at,
                      .n = rest < left ? rest : left,
                      .rows = p->features + (size_t)place * s->engine->model->hp.n_embd,
                      .base = (uint64_t)((int64_t)span->start + shift_behind(s, s->n_spans - 1)),
                      .first = (uint32_t)place,
                      .cols = p->cols,
                      .shift = shift_behind(s, s->n_spans)};
}

size_t spans_lay(mote_session *s, const mote_work *w, size_t from, size_t n, pass_run *runs,
                 int64_t *shift)
{
    const image_span *open = open_span(s);
    size_t n_runs = 0;
    *shift = shift_behind(s, s->n_spans);
    for (size_t at = 0; at < n;) {
        if (w->tokens[from + at] >= 0) {
            at++;
            continue;
        }
        runs[n_runs] = lay_run(s, w, from, at, n, open);
        at += runs[n_runs++].n;
        open = NULL;
    }
    return n_runs;
}

void spans_trim(mote_session *s)
{
    while (s->n_spans > 0 && s->spans[s->n_spans - 1].start >= s->length)
        s->n_spans--;
}
