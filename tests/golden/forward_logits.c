/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forward_logits.c - mote-tiny against the reference implementation's logits and
 * its greedy continuations.
 *
 * The bound is 1e-4 of the largest |logit| of a row, with keys and values in f32;
 * the same with f16, the default, is printed too. With q8_0 and q4_0 the
 * difference is that of the format; its bound is twice what numerics 2 has.
 */
#include "golden/compare.h"
#include "support/json.h"

#include <stdlib.h>
#include <string.h>

static const double bound = 1e-4, q8_0_bound = 5e-3, q4_0_bound = 4.4e-2;

typedef struct outcome {
    double worst;
    uint32_t rows, argmax_equal;
} outcome;

/* Runs a prompt in one step and compares the stored positions. */
static void compare_prompt(const mote_model *model, mote_kv kv, const test_json *prompt,
                           const test_npy *ids, const test_npy *logits, outcome *out)
{
    const test_json *positions = test_json_get(prompt, "positions");
    const test_json *argmax = test_json_get(prompt, "argmax");
    uint32_t n = (uint32_t)ids->count;
    mote_engine *engine = rig_engine(model, &(mote_engine_options){.kv = kv, .logits_rows = n});
    mote_session *session = rig_session(engine);
    rig_feed(engine, session, ids->i32, n, MOTE_LOGITS_ALL);
    size_t width = logits->dims[1];
    for (uint32_t i = 0; i < positions->n; i++) {
        size_t pos = (size_t)test_json_at(positions, i)->number;
        const float *got = mote_session_logits(session, pos);
        out->worst = fmax(out->worst, row_error(got, logits->f32 + i * width, width));
        out->argmax_equal += rig_argmax(got, width) == (uint32_t)test_json_at(argmax, i)->number;
        out->rows++;
    }
    mote_session_free(session);
    mote_engine_free(engine);
}

static void prompts(const mote_model *model, const test_json *index)
{
    const test_json *list = test_json_get(index, "prompts");
    outcome f32 = {0}, f16 = {0}, q8_0 = {0}, q4_0 = {0};
    uint32_t absent = 0;
    for (uint32_t i = 0; i < list->n; i++) {
        const test_json *prompt = test_json_at(list, i);
        char name[32];
        int length = (int)test_json_get(prompt, "length")->number;
        test_npy ids, logits;
        snprintf(name, sizeof name, "len%d.ids", length);
        bool there = golden_array(&ids, "forward", name);
        snprintf(name, sizeof name, "len%d.logits", length);
        if (!there || !golden_array(&logits, "forward", name)) {
            absent++;
            continue;
        }
        compare_prompt(model, MOTE_KV_F32, prompt, &ids, &logits, &f32);
        compare_prompt(model, MOTE_KV_F16, prompt, &ids, &logits, &f16);
        compare_prompt(model, MOTE_KV_Q8_0, prompt, &ids, &logits, &q8_0);
        compare_prompt(model, MOTE_KV_Q4_0, prompt, &ids, &logits, &q4_0);
        printf("%4d tokens, %2zu rows: so far f32 %.1e, f16 %.1e, q8_0 %.2e, q4_0 %.2e\n", length,
               logits.dims[0], f32.worst, f16.worst, q8_0.worst, q4_0.worst);
        test_npy_free(&ids);
        test_npy_free(&logits);
    }
    printf("logits: %u rows of %u prompts (%u more in the full set): f32 %.1e, bound %.0e; f16 "
           "%.1e; q8_0 %.2e, bound %.1e; q4_0 %.2e, bound %.1e; argmax equal %u (f32), %u (f16), "
           "%u (q8_0), %u (q4_0)\n",
           f32.rows, list->n - absent, absent, f32.worst, bound, f16.worst, q8_0.worst, q8_0_bound,
           q4_0.worst, q4_0_bound, f32.argmax_equal, f16.argmax_equal, q8_0.argmax_equal,
           q4_0.argmax_equal);
    if (!(q8_0.worst <= q8_0_bound) || !(q4_0.worst <= q4_0_bound))
        rig_fail(
            "the logits with KV in q8_0 or q4_0 are further from the reference than they were");
    if (!(f32.worst <= bound) || f32.argmax_equal != f32.rows || f32.rows == 0)
        rig_fail("the logits differ from the reference");
}

/* Tokens that agree before the first other one; `n` means all. */
static uint32_t continue_greedily(const mote_model *model, mote_kv kv, const test_json *item)
{
    const test_json *prompt = test_json_get(item, "prompt_ids"), *want = test_json_get(item, "ids");
    mote_token *ids = calloc(prompt->n, sizeof *ids);
    if (ids == NULL)
        rig_fail("no memory");
    for (uint32_t i = 0; i < prompt->n; i++)
        ids[i] = (mote_token)test_json_at(prompt, i)->number;
    mote_engine *engine = rig_engine(model, &(mote_engine_options){.kv = kv});
    mote_session *session = rig_session(engine);
    rig_feed(engine, session, ids, prompt->n, MOTE_LOGITS_LAST);
    uint32_t equal = 0;
    while (equal < want->n) {
        mote_error err = {0};
        mote_choice choice;
        MUST(mote_sample(session, 0, NULL, &choice, &err), &err);
        if (choice.token != (mote_token)test_json_at(want, equal)->number)
            break;
        equal++;
        rig_feed(engine, session, &choice.token, 1, MOTE_LOGITS_LAST);
    }
    mote_session_free(session);
    mote_engine_free(engine);
    free(ids);
    return equal;
}

static void greedy(const mote_model *model, const test_json *index)
{
    const test_json *list = test_json_get(index, "greedy");
    uint32_t f32 = 0, f16 = 0, q8_0 = 0, q4_0 = 0, tokens = 0;
    for (uint32_t i = 0; i < list->n; i++) {
        const test_json *item = test_json_at(list, i), *want = test_json_get(item, "ids");
        uint32_t equal = continue_greedily(model, MOTE_KV_F32, item);
        if (equal < want->n)
            printf("continuation %u leaves the reference after %u of %u tokens (its smallest gap "
                   "is %g)\n",
                   i, equal, want->n, test_json_get(item, "smallest_gap")->number);
        f32 += equal == want->n;
        f16 += continue_greedily(model, MOTE_KV_F16, item) == want->n;
        q8_0 += continue_greedily(model, MOTE_KV_Q8_0, item) == want->n;
        q4_0 += continue_greedily(model, MOTE_KV_Q4_0, item) == want->n;
        tokens += want->n;
    }
    printf("greedy: %u of %u continuations equal, %u tokens in all (with f16: %u, q8_0: %u, q4_0: "
           "%u)\n",
           f32, list->n, tokens, f16, q8_0, q4_0);
    if (f32 != list->n || list->n == 0)
        rig_fail("a greedy continuation differs from the reference");
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0); /* an interrupted run shows its progress */
    const char *path = rig_model_path("mote-tiny-BF16");
    if (path == NULL)
        rig_fail("mote-tiny-BF16.gguf is missing");
    mote_model *model = rig_open(path, MOTE_ISA_BEST);
    const test_json *index = test_json_data("golden/forward/index.json");
    prompts(model, index);
    greedy(model, index);
    test_json_free(index);
    mote_model_close(model);
    return 0;
}
