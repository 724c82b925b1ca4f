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
    const size_t same = g->want.same < g->want.n ? g->want.same : g->want.n - 1;
    if (mote_session_length(g->session) > g->want.same)
        mote_session_rewind(g->session,
                            same); /* drops the logits, so one token is appended again */
    const size_t length = (size_t)mote_session_length(g->session), left = g->want.n - length;
    const size_t now = g->chunk > 0 && g->chunk < left ? g->chunk : left;
    return (mote_work){.session = g->session,
                       .tokens = g->want.tokens + length,
                       .n = now,
                       .want = now == left ? MOTE_LOGITS_LAST : MOTE_LOGITS_NONE};
}

static void after_step(turn_job *g)
{
    mote_error err;
    size_t written;
    if (!g->started || g->want.over)
        return;
    if (mote_session_length(g->session) < g->want.n) {
        g->want.same = g->want.n; /* the next chunk continues here */
        return;
    }
    turn_job_answer(g, &written);
    if (g->end_thinking_at > 0 && written >= g->end_thinking_at)
        chat_turn_end_thinking(g->turn);
    check_ok(chat_turn_next(g->turn, g->session, 0, &g->want, &err), &err);
    if (g->want.over) {
        mote_session_free(g->session);
        g->session = NULL;
    }
}

bool turn_jobs_step(turn_host *h, turn_job *jobs, size_t n)
{
    mote_work work[MAX_JOBS];
    mote_error err;
    size_t n_work = 0, busy = 0, waiting = 0;
    for (size_t i = 0; i < n; i++) {
        turn_job *g = &jobs[i];
        if (!g->started && g->start_after > 0) {
            g->start_after--;
            waiting++;
            continue;
        }
        if (!g->started)
            job_start(h, g);
        if (g->want.over)
            continue;
        busy++;
        work[n_work] = next_work(g);
        n_work += work[n_work].n >
                  0; /* otherwise the sequence shrank to what the session has: sample again */
    }
    if (n_work > 0)
        check_ok(mote_step(h->engine, work, n_work, &err), &err);
    for (size_t i = 0; i < n; i++)
        after_step(&jobs[i]);
    return busy + waiting > 0;
}

void turn_jobs_run(turn_host *h, turn_job *jobs, size_t n)
{
    while (turn_jobs_step(h, jobs, n))
        continue;
}

void turn_job_free(turn_job *g)
{
    mote_session_free(g->session);
    chat_turn_free(g->turn);
    chat_prompt_fini(&g->prompt);
    chat_parsed_fini(&g->parsed);
    json_doc_free(g->doc);
    strbuf_fini(&g->log);
    strbuf_fini(&g->chosen);
    g->session = NULL;
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
