/* SPDX-License-Identifier: Apache-2.0 */
/*
 * generation_load.c - a generation that waits until its model is loaded.
 *
 * A stream gets its head and progress lines if the load takes longer than QUIET_SECONDS. Before,
 * nothing is sent, so a load that fails soon is replied with its HTTP status.
 */
#include "base/os.h"
#include "server/generation/generation_int.h"

#include <stdio.h>

static const double QUIET_SECONDS = 0.9;

/* ---- errors ---- */

void generation_load_error(const model_wait *w, http_error *error)
{
    const char *name = model_entry_name(w->entry);
    if (w->too_large) { /* final: clients must not try again */
        http_error_set(error, HTTP_E_INVALID, "model_too_large", "model '%s' does not fit: %s",
                       name, w->error.text);
        return;
    }
    switch (w->error.status) {
    case MOTE_E_MEMORY:
        http_error_set(error, HTTP_E_UNAVAILABLE, "out_of_memory",
                       "out of memory while loading model '%s': %s", name, w->error.text);
        error->retry_ms = 1000;
        break;
    case MOTE_E_IO:
    case MOTE_E_FORMAT:
    case MOTE_E_MISMATCH:
    case MOTE_E_UNSUPPORTED:
        http_error_set(error, HTTP_E_UNAVAILABLE, "model_file_damaged",
                       "model '%s' cannot be loaded: %s", name, w->error.text);
        break;
    default: http_error_from(error, &w->error); break;
    }
}

void generation_load_queue_full(http_error *error)
{
    http_error_set(error, HTTP_E_QUEUE, "queue_full",
                   "too many requests wait for models to be loaded; try again later");
    error->retry_ms = 1000;
}

/* ---- progress ---- */

/* The parameters are not read yet, because they depend on the model. */
static bool load_wants_stream(const generation *w)
{
    const json_node *stream = json_node_get(w->request.root, "stream");
    if (w->printer->event == NULL)
        return false;
    if (json_node_is(stream, JSON_IS_BOOL))
        return json_node_truth(stream);
    return w->streams_by_default;
}

static void load_print_progress(const model_wait_status *s, char *out, size_t room)
{
    if (s->total > 0)
        snprintf(out, room, "loading %u %%", (unsigned)(100 * s->done / s->total));
    else if (s->busy > 0)
        snprintf(out, room, "loading: waits for running requests of %u other model%s",
                 (unsigned)s->busy, s->busy > 1 ? "s" : "");
    else if (s->ahead > 0)
        snprintf(out, room, "loading: %u other model%s first", (unsigned)s->ahead,
                 s->ahead > 1 ? "s" : "");
    else
        snprintf(out, room, "loading 0 %%");
}

void generation_print_loading(generation *w, double now)
{
    model_wait_status status;
    char progress[96];
    if (now - w->wait_began < QUIET_SECONDS || w->x == NULL || w->over || !load_wants_stream(w))
        return;
    model_wait_get_status(&w->wait, &status);
    load_print_progress(&status, progress, sizeof progress);
    if (!w->head_sent)
        exchange_add_header(w->x, "mote-model", model_entry_name(w->request.entry));
    generation_send_head(w);
    if (w->printer->loading != NULL)
        w->printer->loading(w, progress);
    else
        generation_send_comment(w, progress);
    generation_check_sent(w);
}

/* ---- wait ---- */

/* Workers own the generation from here on, so it leaves the list, which status and tick read. It
 * returns to it with its jobs. */
static void load_continue(generation *w)
{
    w->waiting = false;
    generation_unlist(w);
    w->load_seconds = os_now() - w->wait_began;
    w->loaded(w->loaded_with);
}

/* The `done` function of the wait. */
static void load_done(void *with)
{
    generation *w = with;
    if (w->wait.served != NULL)
        request_use_model(&w->request, w->wait.served);
    else
        generation_load_error(&w->wait, &w->error);
    load_continue(w);
}

void generation_stop_waiting(generation *w)
{
    model_wait_cancel(&w->wait);
    load_continue(w);
}

void generation_wait_for_model(generation *w, void (*then)(void *with), void *with)
{
    w->loaded = then;
    w->loaded_with = with;
    w->wait_began = os_now();
    w->wait = (model_wait){.entry = w->request.entry, .done = load_done, .with = w};
    w->waiting = model_wait_begin(&w->wait);
    if (w->waiting) {
        generation_enlist(w);
        return;
    }
    generation_load_queue_full(&w->error);
    load_continue(w);
}
