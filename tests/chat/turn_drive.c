/* SPDX-License-Identifier: Apache-2.0 */
/* turn_drive.c - see turn_drive.h. */
#include "chat/turn_drive.h"

#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>

enum { MAX_JOBS = 16 };

static void check_ok(mote_status status, const mote_error *err)
{
    if (status == MOTE_OK)
        return;
    fprintf(stderr, "%s: %s\n", mote_status_name(status), err->text);
    abort();
}

void turn_host_open(turn_host *h, mote_engine *engine)
{
    mote_error err;
    *h = (turn_host){.engine = engine};
    check_ok(chat_context_of(&h->chat_ctx, mote_engine_model(engine), &err), &err);
    check_ok(chat_vocab_of(&h->vocab, &h->chat_ctx, &err), &err);
}

void turn_host_close(turn_host *h)
{
    token_trie_free(h->vocab);
    *h = (turn_host){0};
}

static void on_event(void *with, const chat_event *e)
{
    static const char *const names[] = {"reasoning", "content", "start", "arguments", "call",
                                        "cancel",    "warning", "token", "end"};
    turn_job *g = with;
    const str name =
        e->kind == CHAT_EVENT_WARNING ? str_of(chat_warning_name(e->warning)) : e->name;
    strbuf_text(&g->log, names[e->kind]);
    strbuf_byte(&g->log, ' ');
    strbuf_put(&g->log, name);
    strbuf_byte(&g->log, ' ');
    json_put_escaped(&g->log, e->text);
    strbuf_byte(&g->log, '\n');
    if (e->kind == CHAT_EVENT_TOKEN)
        strbuf_put(&g->chosen, (str){(const char *)e->choice, sizeof *e->choice});
}

static mote_status make_prompt(turn_job *g, const turn_host *h, mote_error *err)
{
    if (!g->raw) {
        TRY(json_doc_read(&g->doc, str_of(g->request), err));
        TRY(chat_parsed_read(&g->parsed, json_doc_root(g->doc), CHAT_STABLE, err));
        return chat_render(h->chat_ctx.model, &h->chat_ctx.template, &g->parsed.request, &g->prompt,
                           err);
    }
    const size_t bytes = strlen(g->request);
    g->prompt.ids = mem_new(bytes, sizeof *g->prompt.ids);
    if (g->prompt.ids == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: a prompt");
    return mote_tokenize(h->chat_ctx.model, g->request, bytes, 0, g->prompt.ids, bytes,
                         &g->prompt.n, err);
}

mote_status turn_job_new(turn_job *g, const turn_host *h, mote_error *err)
{
    TRY(make_prompt(g, h, err));
    const chat_turn_options options = {.chat_ctx = &h->chat_ctx,
                                       .prompt = g->prompt.ids,
                                       .n_prompt = g->prompt.n,
                                       .thinking = g->prompt.thinking,
                                       .context = 2048,
                                       .answer = &g->how,
                                       .tools = g->parsed.request.tools,
                                       .n_tools = g->parsed.request.n_tools,
                                       .tool_allowed = g->tool_allowed,
                                       .vocab = h->vocab,
                                       .raw = g->raw,
                                       .logprobs = g->logprobs,
                                       .min_tokens = g->min_tokens,
                                       .ignore_end = g->ignore_end,
                                       .event = on_event,
                                       .with = g};
    return chat_turn_new(&g->turn, &options, err);
}

static void job_start(turn_host *h, turn_job *g)
{
    mote_error err;
    if (g->turn == NULL)
        check_ok(turn_job_new(g, h, &err), &err);
    check_ok(mote_session_new(&g->session, h->engine, NULL, &err), &err);
    check_ok(chat_turn_next(g->turn, NULL, 0, &g->want, &err), &err);
    g->started = true;
}

/* The tokens that the session lacks, or the next chunk of them. */
static mote_work next_work(turn_job *g)
{
    const size_t length = (size_t)mote_session_length(g->session), left = g->want.n - length;
    const size_t now = g->chunk > 0 && g->chunk < left ? g->chunk : left;
    g->rows = now == left;
    return (mote_work){.session = g->session,
                       .tokens = g->want.tokens + length,
                       .n = now,
                       .want = now == left ? MOTE_LOGITS_LAST : MOTE_LOGITS_NONE};
}

/* The item of a job that decodes. */
static spec_item next_item(turn_job *g)
{
    mote_error err;
    if (g->seq == NULL)
        check_ok(spec_seq_new(&g->seq, 2048, &err), &err);
    return (spec_item){.seq = g->seq,
                       .session = g->session,
                       .tokens = g->want.tokens,
                       .n = g->want.n,
                       .held = (size_t)mote_session_length(g->session),
                       .mode = g->mode,
                       .limit = 2048 - g->want.n};
}

/* Samples until the turn needs a step. */
static void after_step(turn_job *g, spec_item *item)
{
    mote_error err;
    spec_walk walk;
    if (!g->started || g->want.over || g->rows == 0)
        return;
    size_t row = spec_walk_begin(&walk, g->session, g->want.n, g->rows);
    do {
        size_t written;
        turn_job_answer(g, &written);
        if (g->end_thinking_at > 0 && written >= g->end_thinking_at)
            chat_turn_end_thinking(g->turn);
        check_ok(chat_turn_next(g->turn, g->session, row, &g->want, &err), &err);
    } while (!g->want.over &&
             spec_walk_next(&walk, g->session, g->want.tokens, g->want.n, g->want.same, &row));
    if (item != NULL) {
        spec_walk_result(&walk, item);
        g->drafted += item->n_draft;
        g->right += item->accepted;
    }
    if (g->want.over) {
        spec_walk_end(&walk, g->session, g->want.tokens, g->want.n, g->want.same);
        mote_session_free(g->session);
        g->session = NULL;
    }
}

/* Invented, so that runs are repeatable: each draft token costs a twentieth of a step. 0: the step
 * did other work too. */
static double step_seconds(const spec_item *items, size_t n_items, size_t n_work)
{
    size_t drafted = 0;
    for (size_t i = 0; i < n_items; i++)
        drafted += items[i].n_draft;
    return n_work > n_items ? 0 : 1 + 0.05 * (double)drafted;
}

static bool job_waits(turn_job *g)
{
    if (g->started || g->start_after == 0)
        return false;
    g->start_after--;
    return true;
}

bool turn_jobs_step(turn_host *h, turn_job *jobs, size_t n)
{
    mote_work work[MAX_JOBS];
    spec_item items[MAX_JOBS], *item_of[MAX_JOBS] = {NULL};
    mote_error err;
    size_t n_work = 0, n_items = 0, waiting = 0;
    for (size_t i = 0; i < n; i++) {
        turn_job *g = &jobs[i];
        if (job_waits(g)) {
            waiting++;
            continue;
        }
        if (!g->started)
            job_start(h, g);
        if (g->want.over)
            continue;
        work[n_work] = next_work(g);
        if (h->spec != NULL && g->rows > 0 && work[n_work].n < SPEC_MAX_ROWS) {
            items[n_items] = next_item(g);
            item_of[i] = &items[n_items++];
        } else {
            n_work++;
        }
    }
    if (n_items > 0)
        check_ok(
            spec_plan(h->spec, items, n_items, mote_engine_logits_rows(h->engine) - n_work, &err),
            &err);
    for (size_t i = 0; i < n; i++)
        if (item_of[i] != NULL) {
            work[n_work++] = spec_item_work(item_of[i]);
            jobs[i].rows = spec_item_rows(item_of[i]);
        }
    if (n_work > 0)
        check_ok(mote_step(h->engine, work, n_work, &err), &err);
    for (size_t i = 0; i < n; i++)
        after_step(&jobs[i], item_of[i]);
    if (n_items > 0)
        spec_observe(h->spec, items, n_items, 0, step_seconds(items, n_items, n_work));
    return n_work + waiting > 0;
}

void turn_jobs_run(turn_host *h, turn_job *jobs, size_t n)
{
    while (turn_jobs_step(h, jobs, n))
        continue;
}

void turn_job_free(turn_job *g)
{
    mote_session_free(g->session);
    spec_seq_free(g->seq);
    chat_turn_free(g->turn);
    chat_prompt_fini(&g->prompt);
    chat_parsed_fini(&g->parsed);
    json_doc_free(g->doc);
    strbuf_fini(&g->log);
    strbuf_fini(&g->chosen);
    g->session = NULL;
    g->seq = NULL;
    g->turn = NULL;
    g->doc = NULL;
    g->started = false;
}

const mote_token *turn_job_answer(const turn_job *g, size_t *n)
{
    bool open;
    const mote_token *tokens = chat_turn_tokens(g->turn, n, &open);
    *n -= g->prompt.n;
    return tokens + g->prompt.n;
}

bool text_has(str text, str part)
{
    for (size_t i = 0; i + part.n <= text.n; i++)
        if (memcmp(text.p + i, part.p, part.n) == 0)
            return true;
    return false;
}

bool turn_job_logged(const turn_job *g, const char *text)
{
    return text_has(strbuf_view(&g->log), str_of(text));
}
