/* SPDX-License-Identifier: Apache-2.0 */
/* bench_replay.c - see bench_replay.h. */
#include "cli/inspect/bench_replay.h"

#include "base/mem.h"
#include "base/os.h"
#include "base/str.h"
#include "cli/inspect/bench_rig.h"
#include "spec/spec.h"

#include <stdio.h>
#include <string.h>

/* ---- the text ---- */

static mote_status text_load(strbuf *out, const char *path, mote_error *err)
{
    char block[4096];
    size_t n;
    FILE *f = fopen(path, "rb");
    if (f == NULL)
        return err_set(err, MOTE_E_IO, "cannot open %s", path);
    while ((n = fread(block, 1, sizeof block, f)) > 0)
        strbuf_put(out, (str){block, n});
    const bool failed = ferror(f) != 0;
    fclose(f);
    strbuf_byte(out, '\0');
    if (failed)
        return err_set(err, MOTE_E_IO, "cannot read %s", path);
    return strbuf_check(out, err);
}

static mote_status text_tokenize(bench_text *out, const mote_model *model, str prompt, str answer,
                                 mote_error *err)
{
    size_t first, second;
    TRY(mote_tokenize(model, prompt.p, prompt.n, 0, NULL, 0, &first, err));
    TRY(mote_tokenize(model, answer.p, answer.n, 0, NULL, 0, &second, err));
    out->n_prompt = first;
    out->n = first + second;
    out->tokens = mem_new(out->n, sizeof *out->tokens);
    if (out->tokens == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: %zu tokens", out->n);
    TRY(mote_tokenize(model, prompt.p, prompt.n, 0, out->tokens, first, &first, err));
    return mote_tokenize(model, answer.p, answer.n, 0, out->tokens + first, second, &second, err);
}

mote_status bench_text_read(bench_text *out, const mote_model *model, const char *path,
                            mote_error *err)
{
    static const char mark[] = "\n%%\n";
    strbuf file = {0};
    *out = (bench_text){0};
    mote_status status = text_load(&file, path, err);
    const char *at = status == MOTE_OK ? strstr(file.p, mark) : NULL;
    if (status == MOTE_OK && (at == NULL || at == file.p || at[sizeof mark - 1] == '\0'))
        status = err_set(err, MOTE_E_ARG, "%s: a prompt, a line \"%%%%\" and an answer are needed",
                         path);
    if (status == MOTE_OK) {
        const char *answer = at + sizeof mark - 1;
        status = text_tokenize(out, model, (str){file.p, (size_t)(at + 1 - file.p)}, str_of(answer),
                               err);
    }
    strbuf_fini(&file);
    if (status != MOTE_OK)
        bench_text_free(out);
    return status;
}

void bench_text_free(bench_text *text)
{
    mem_free(text->tokens);
    *text = (bench_text){0};
}

/* ---- a run ---- */

typedef struct replay {
    const bench *b;
    const bench_text *text;
    rig r; /* session 0 holds the prompt */
    spec *spec;
    bench_replay_time *out;
} replay;

/* Samples the rows of a step. The text says which tokens follow. Returns the new length. */
static mote_status replay_walk(const replay *p, mote_session *session, spec_item *item, size_t *n,
                               mote_error *err)
{
    static const mote_sampling how = {.temperature = 1, .top_k = 20, .top_p = 0.95f, .seed = 1};
    mote_choice choice;
    spec_walk walk;
    size_t row = spec_walk_begin(&walk, session, *n, spec_item_rows(item));
    do {
        TRY(mote_sample(session, row, &how, &choice, err));
        ++*n;
    } while (*n <= p->text->n && spec_walk_next(&walk, session, p->text->tokens, *n, *n - 1, &row));
    if (*n > p->text->n)
        spec_walk_end(&walk, session, p->text->tokens, p->text->n, p->text->n);
    spec_walk_result(&walk, item);
    return MOTE_OK;
}

static mote_status replay_answer(replay *p, mote_session *session, spec_seq *seq, mote_error *err)
{
    size_t n = p->text->n_prompt + 1;
    p->out->steps = p->out->drafted = p->out->accepted = 0;
    while (n <= p->text->n) {
        spec_item item = {.seq = seq,
                          .session = session,
                          .tokens = p->text->tokens,
                          .n = n,
                          .held = (size_t)mote_session_length(session),
                          .mode = seq != NULL ? SPEC_AUTO : SPEC_OFF,
                          .limit = p->text->n - n};
        const double began = os_now();
        TRY(spec_plan(p->spec, &item, 1, SPEC_MAX_ROWS, err));
        const double planned = os_now();
        const mote_work work = spec_item_work(&item);
        TRY(mote_step(p->r.engine, &work, 1, err));
        const double stepped = os_now();
        TRY(replay_walk(p, session, &item, &n, err));
        if (seq != NULL)
            spec_observe(p->spec, &item, 1, planned - began, stepped - planned);
        p->out->steps++;
        p->out->drafted += item.n_draft;
        p->out->accepted += item.accepted;
    }
    return MOTE_OK;
}

/* One run of the answer after the prompt. */
static mote_status replay_once(replay *p, bool drafts, bench_sample *sample, mote_error *err)
{
    mote_session *session = NULL;
    spec_seq *seq = NULL;
    mote_status status = mote_session_fork(&session, p->r.sessions[0], err);
    if (status == MOTE_OK && drafts)
        status = spec_seq_new(&seq, p->text->n, err);
    if (status == MOTE_OK) {
        const bench_sample start = sample_begin();
        status = replay_answer(p, session, seq, err);
        *sample = sample_end(start);
    }
    spec_seq_free(seq);
    mote_session_free(session);
    return status;
}

static mote_status replay_prefill(const replay *p, mote_error *err)
{
    for (size_t done = 0; done < p->text->n_prompt;) {
        const size_t left = p->text->n_prompt - done, n = left < RIG_CHUNK ? left : RIG_CHUNK;
        const mote_work work = {.session = p->r.sessions[0],
                                .tokens = p->text->tokens + done,
                                .n = n,
                                .want = MOTE_LOGITS_NONE};
        TRY(mote_step(p->r.engine, &work, 1, err));
        done += n;
    }
    return MOTE_OK;
}

static mote_status replay_all(replay *p, mote_error *err)
{
    bench_sample samples[2][BENCH_MAX_REPEATS];
    const uint64_t answer = p->text->n - p->text->n_prompt;
    TRY(replay_prefill(p, err));
    mote_session_free(p->r.sessions[1]); /* leaves its place to the forks */
    p->r.sessions[1] = NULL;
    for (uint32_t i = 0; i < p->b->repeats; i++)
        for (int drafts = 0; drafts < 2; drafts++)
            TRY(replay_once(p, drafts == 1, &samples[drafts][i], err));
    bench_summarize(&p->out->plain, samples[0], p->b, answer);
    bench_summarize(&p->out->drafts, samples[1], p->b, answer);
    return MOTE_OK;
}

mote_status bench_replay(const bench *b, const bench_text *text, bench_replay_time *out,
                         mote_error *err)
{
    replay p = {.b = b, .text = text, .out = out};
    *out = (bench_replay_time){0};
    TRY(rig_open(&p.r, b, 2, text->n + SPEC_MAX_ROWS, SPEC_MAX_ROWS, err));
    mote_status status = spec_new(&p.spec, &(spec_options){.max_items = 1}, err);
    if (status == MOTE_OK)
        status = replay_all(&p, err);
    spec_free(p.spec);
    rig_close(&p.r);
    return status;
}
