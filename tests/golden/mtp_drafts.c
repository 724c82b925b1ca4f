/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mtp_drafts.c - the MTP head of mote-tiny against the reference: hidden rows, outputs and logits
 * of single rows and of chains of three drafts; and greedy speculation with three drafts, which
 * must give the reference's continuations and accept as many drafts as the reference does.
 *
 * The bound is 1e-4 of the largest value of a row, with keys and values in f32.
 */
#include "golden/compare.h"

#include "engine/engine_int.h"
#include "support/json.h"

#include <stdlib.h>
#include <string.h>

static const double bound = 1e-4;
enum { DEPTH = 3 };

/* Rows that the engine shows a test; see forward_tap_fn. */
typedef struct seen_rows {
    const char *what;
    float *rows; /* of the last pass */
    size_t n;
} seen_rows;

static void see_rows(void *ctx, const char *what, int layer, const float *rows, size_t n_rows,
                     size_t n_cols)
{
    (void)layer;
    seen_rows *seen = ctx;
    if (strcmp(what, seen->what) != 0)
        return;
    seen->n = n_rows;
    seen->rows = realloc(seen->rows, n_rows * n_cols * sizeof *rows);
    if (seen->rows == NULL)
        rig_fail("no memory");
    memcpy(seen->rows, rows, n_rows * n_cols * sizeof *rows);
}

typedef struct golden_prompt {
    const test_json *index;
    int number;
    test_npy ids;
} golden_prompt;

/* An array of the prompt; false: not in the data of the tree. */
static bool prompt_array(const golden_prompt *p, const char *what, test_npy *out)
{
    char name[32];
    snprintf(name, sizeof name, "p%d.%s", p->number, what);
    return golden_array(out, "mtp", name);
}

static mote_session *prompt_session(const golden_prompt *p, mote_engine *engine, size_t n)
{
    mote_session *s = rig_session(engine);
    rig_feed(engine, s, p->ids.i32, n, MOTE_LOGITS_NONE);
    return s;
}

static double check_hidden(const golden_prompt *p, mote_engine *engine)
{
    test_npy want;
    if (!prompt_array(p, "hidden", &want))
        return 0;
    seen_rows seen = {.what = "hidden"};
    engine_set_tap(engine, see_rows, &seen);
    mote_session_free(prompt_session(p, engine, p->ids.count));
    engine_set_tap(engine, NULL, NULL);
    if (seen.n != want.dims[0])
        rig_fail("%zu hidden rows, not %zu", seen.n, want.dims[0]);
    const double error = row_error(seen.rows, want.f32, want.count);
    free(seen.rows);
    test_npy_free(&want);
    return error;
}

/* Row r of the head: the session ends at position r, and token r+1 is next. */
static double check_rows(const golden_prompt *p, mote_engine *engine, size_t vocabulary)
{
    const test_json *rows = test_json_get(p->index, "rows");
    test_npy outputs, logits;
    bool has_outputs = prompt_array(p, "row_output", &outputs);
    bool has_logits = prompt_array(p, "row_logits", &logits);
    float *got = calloc(vocabulary, sizeof *got);
    double worst = 0;
    for (uint32_t i = 0; i < rows->n; i++) {
        const size_t row = (size_t)test_json_at(rows, i)->number;
        mote_session *s = prompt_session(p, engine, row + 1);
        mote_draft_item item = {.session = s, .next = p->ids.i32[row + 1], .n = 1, .logits = got};
        mote_error err = {0};
        seen_rows seen = {.what = "draft"};
        engine_set_tap(engine, see_rows, &seen);
        MUST(mote_draft(engine, &item, 1, &err), &err);
        engine_set_tap(engine, NULL, NULL);
        if (has_outputs)
            worst = fmax(worst,
                         row_error(seen.rows, outputs.f32 + i * outputs.dims[1], outputs.dims[1]));
        if (has_logits)
            worst = fmax(worst, row_error(got, logits.f32 + i * vocabulary, vocabulary));
        if (item.n_drafts != 1 || item.tokens[0] != (mote_token)rig_argmax(got, vocabulary))
            rig_fail("the draft is not the most likely token");
        free(seen.rows);
        mote_session_free(s);
    }
    if (has_outputs)
        test_npy_free(&outputs);
    if (has_logits)
        test_npy_free(&logits);
    free(got);
    return worst;
}

/* `given`: so many of the drafts are passed as given tokens. */
static double check_chain(const golden_prompt *p, mote_engine *engine, size_t vocabulary,
                          size_t given)
{
    const test_json *want = test_json_get(p->index, "chain_drafts");
    test_npy logits;
    if (!prompt_array(p, "chain_logits", &logits))
        rig_fail("golden/mtp/p%d.chain_logits.npy is missing", p->number);
    float *got = calloc(DEPTH * vocabulary, sizeof *got);
    mote_token tokens[DEPTH];
    for (uint32_t i = 0; i < DEPTH; i++)
        tokens[i] = (mote_token)test_json_at(want, i)->number;
    mote_session *s = prompt_session(p, engine, p->ids.count);
    mote_draft_item item = {.session = s,
                            .next = (mote_token)test_json_get(p->index, "next_token")->number,
                            .given = tokens,
                            .n_given = given,
                            .n = DEPTH - given,
                            .logits = got};
    mote_error err = {0};
    MUST(mote_draft(engine, &item, 1, &err), &err);
    if (item.n_drafts != item.n ||
        memcmp(item.tokens, tokens + given, item.n * sizeof *tokens) != 0)
        rig_fail("prompt %d: the drafts are not those of the reference", p->number);
    double worst = 0;
    for (size_t i = 0; i < item.n; i++)
        worst = fmax(worst, row_error(got + i * vocabulary, logits.f32 + (given + i) * vocabulary,
                                      vocabulary));
    mote_session_free(s);
    test_npy_free(&logits);
    free(got);
    return worst;
}

static void check_prompts(const mote_model *model, const test_json *index, mote_kv kv)
{
    mote_model_info info;
    mote_model_describe(model, &info);
    mote_engine *engine =
        rig_engine(model, &(mote_engine_options){.kv = kv, .positions = 512, .drafts = true});
    const test_json *list = test_json_get(index, "prompts");
    double hidden = 0, rows = 0, chain = 0;
    for (uint32_t i = 0; i < list->n; i++) {
        golden_prompt p = {.index = test_json_at(list, i), .number = (int)i};
        if (!prompt_array(&p, "ids", &p.ids))
            rig_fail("golden/mtp/p%u.ids.npy is missing", i);
        hidden = fmax(hidden, check_hidden(&p, engine));
        rows = fmax(rows, check_rows(&p, engine, info.vocabulary));
        for (size_t given = 0; given < DEPTH; given++)
            chain = fmax(chain, check_chain(&p, engine, info.vocabulary, given));
        test_npy_free(&p.ids);
    }
    printf("kv %s: hidden rows %.1e, rows of the head %.1e, chains %.1e; bound %.0e\n",
           rig_kv_name(kv), hidden, rows, chain, bound);
    const double allowed = kv == MOTE_KV_F32 ? bound : 2e-3;
    if (!(hidden <= allowed) || !(rows <= allowed) || !(chain <= allowed) || list->n == 0)
        rig_fail("the MTP head differs from the reference");
    mote_engine_free(engine);
}

/* ---- acceptance ---- */

typedef struct acceptance {
    uint32_t reached[DEPTH], accepted[DEPTH], steps, tokens;
} acceptance;

/* Drafts after `next`. No rewind returns behind a multiple of 32, so they end before the next one,
 * unless `next` reaches it. */
static size_t draft_after(mote_engine *engine, mote_session *s, mote_token next,
                          mote_token drafts[DEPTH])
{
    const size_t place = mote_session_length(s) % 32, room = place == 31 ? 31 : 30 - place;
    mote_draft_item item = {.session = s, .next = next, .n = room < DEPTH ? room : DEPTH};
    mote_error err = {0};
    MUST(mote_draft(engine, &item, 1, &err), &err);
    memcpy(drafts, item.tokens, sizeof *drafts * DEPTH);
    return item.n_drafts;
}

/* One step of greedy speculation: appends `next` and the drafts that are right, which `ids` gets
 * too. Returns the next token. */
static mote_token speculate(mote_engine *engine, mote_session *s, mote_token next, acceptance *a)
{
    mote_token step[1 + DEPTH] = {next};
    const size_t n = draft_after(engine, s, next, step + 1);
    const uint64_t start = mote_session_length(s);
    rig_feed(engine, s, step, 1 + n, MOTE_LOGITS_ALL);
    size_t right = 0;
    mote_choice choice = {0};
    for (;;) {
        mote_error err = {0};
        MUST(mote_sample(s, right, NULL, &choice, &err), &err);
        if (right < n)
            a->reached[right]++;
        if (right == n || choice.token != step[1 + right])
            break;
        a->accepted[right++]++;
    }
    if (mote_session_rewind(s, start + 1 + right) != start + 1 + right)
        rig_fail("the rewind after a step with drafts is not exact");
    a->steps++;
    a->tokens += (uint32_t)(1 + right);
    return choice.token;
}

static void check_acceptance(const mote_model *model, const test_json *index)
{
    const test_json *list = test_json_get(index, "greedy");
    acceptance a = {{0}, {0}, 0, 0};
    for (uint32_t i = 0; i < list->n; i++) {
        const test_json *prompt = test_json_get(test_json_at(list, i), "prompt_ids");
        const test_json *want = test_json_get(test_json_at(list, i), "ids");
        mote_engine *engine = rig_engine(model, &(mote_engine_options){.kv = MOTE_KV_F32,
                                                                       .positions = 1024,
                                                                       .logits_rows = 1 + DEPTH,
                                                                       .drafts = true});
        mote_session *s = rig_session(engine);
        for (uint32_t j = 0; j < prompt->n; j++) {
            mote_token id = (mote_token)test_json_at(prompt, j)->number;
            rig_feed(engine, s, &id, 1, MOTE_LOGITS_LAST);
        }
        mote_choice first;
        mote_error err = {0};
        MUST(mote_sample(s, 0, NULL, &first, &err), &err);
        mote_token next = first.token;
        while (mote_session_length(s) < prompt->n + want->n)
            next = speculate(engine, s, next, &a);
        for (uint32_t j = 0; j < want->n; j++)
            if (mote_session_tokens(s)[prompt->n + j] != (mote_token)test_json_at(want, j)->number)
                rig_fail("continuation %u differs from the reference at token %u", i, j);
        mote_session_free(s);
        mote_engine_free(engine);
    }
    uint32_t reached = 0, accepted = 0;
    for (int d = 0; d < DEPTH; d++) {
        reached += a.reached[d];
        accepted += a.accepted[d];
        printf("draft %d: %u of %u accepted\n", d + 1, a.accepted[d], a.reached[d]);
    }
    printf("%u continuations: %.1f %% of the drafts accepted, %.2f tokens per step\n", list->n,
           100.0 * accepted / reached, (double)a.tokens / a.steps);
    if (accepted < 0.97 * reached || reached < 300)
        rig_fail("fewer drafts are accepted than in the reference (98 %%)");
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0); /* an interrupted run shows its progress */
    const char *path = rig_model_path("mote-tiny-BF16");
    if (path == NULL)
        rig_fail("mote-tiny-BF16.gguf is missing");
    mote_model *model = rig_open(path, MOTE_ISA_BEST);
    const test_json *index = test_json_data("golden/mtp/index.json");
    check_prompts(model, index, MOTE_KV_F32);
    check_prompts(model, index, MOTE_KV_F16);
    test_json_free(index);
    index = test_json_data("golden/forward/index.json");
    check_acceptance(model, index);
    test_json_free(index);
    mote_model_close(model);
    return 0;
}
