/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lora_logits.c - mote-tiny with a trained adapter against PEFT: logits, greedy answers, and the
 * same adapter as a GGUF file.
 */
#include "golden/compare.h"
#include "support/json.h"

#include <stdlib.h>
#include <string.h>

static const double bound = 1e-4;

enum { ROOM = 512 };

typedef struct golden_lora {
    mote_model *model;
    test_npy ids, logits;
    const test_json *index;
} golden_lora;

static char *data_copy(const char *name)
{
    static char copies[4][512];
    static size_t next;
    const char *path = rig_data(name);
    if (path == NULL)
        rig_fail("%s is missing", name);
    char *copy = copies[next++ % 4];
    snprintf(copy, sizeof copies[0], "%s", path);
    return copy;
}

static mote_lora *open_lora(const golden_lora *g, const char *name)
{
    mote_lora *lora;
    mote_error err = {0};
    MUST(mote_lora_open(&lora, g->model, data_copy(name), &err), &err);
    return lora;
}

/* Logits of all positions, [ids][vocabulary]; lora NULL: without an adapter. */
static float *logits_of(const golden_lora *g, const mote_lora *lora)
{
    const uint32_t n = (uint32_t)g->ids.count;
    const size_t bytes = n * g->logits.dims[1] * sizeof(float);
    const mote_lora_use use = {lora, 1};
    mote_engine *engine = rig_engine(
        g->model, &(mote_engine_options){.kv = MOTE_KV_F32, .logits_rows = n, .lora_rank = 8});
    mote_session *s;
    mote_error err = {0};
    MUST(mote_session_new(&s, engine,
                          &(mote_session_options){.loras = &use, .n_loras = lora != NULL}, &err),
         &err);
    rig_feed(engine, s, g->ids.i32, n, MOTE_LOGITS_ALL);
    float *copy = malloc(bytes);
    if (copy == NULL)
        rig_fail("no memory");
    memcpy(copy, mote_session_logits(s, 0), bytes);
    mote_session_free(s);
    mote_engine_free(engine);
    return copy;
}

/* The largest error over the golden positions. */
static double worst_error(const golden_lora *g, const float *got)
{
    const test_json *positions = test_json_get(g->index, "positions");
    const size_t width = g->logits.dims[1];
    double worst = 0;
    for (uint32_t i = 0; i < positions->n; i++) {
        const size_t pos = (size_t)test_json_at(positions, i)->number;
        const double error = row_error(got + pos * width, g->logits.f32 + i * width, width);
        worst = error > worst ? error : worst;
    }
    return worst;
}

static void compare_logits(const golden_lora *g, const mote_lora *peft, const mote_lora *gguf)
{
    float *with = logits_of(g, peft), *same = logits_of(g, gguf), *without = logits_of(g, NULL);
    const double error = worst_error(g, with), plain = worst_error(g, without);
    printf("logits with the adapter: %.1e of the largest, bound %.0e; without it %.1e\n", error,
           bound, plain);
    if (!(error <= bound))
        rig_fail("the logits differ from those of PEFT");
    if (!(plain > 100 * bound))
        rig_fail("the adapter changes too little for a test");
    if (memcmp(with, same, g->ids.count * g->logits.dims[1] * sizeof(float)) != 0)
        rig_fail("the GGUF adapter gives other bits than the directory of PEFT");
    free(with);
    free(same);
    free(without);
}

static void compare_answer(const golden_lora *g, const mote_lora *lora, const test_json *item)
{
    char prompt[ROOM], text[ROOM] = "";
    mote_token ids[ROOM];
    size_t n = 0, at = 0;
    mote_error err = {0};
    const mote_lora_use use = {lora, 1};
    const str want = test_json_get(item, "answer")->text;
    snprintf(prompt, sizeof prompt,
             "<|im_start|>user\n%.*s<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n",
             STR_ARG(test_json_get(item, "question")->text));
    MUST(mote_tokenize(g->model, prompt, strlen(prompt), MOTE_TEXT_CONTROL, ids, ROOM, &n, &err),
         &err);
    mote_engine *engine = rig_engine(g->model, &(mote_engine_options){.lora_rank = 8});
    mote_session *s;
    MUST(mote_session_new(&s, engine, &(mote_session_options){.loras = &use, .n_loras = 1}, &err),
         &err);
    rig_feed(engine, s, ids, n, MOTE_LOGITS_LAST);
    mote_text_stream stream = {0};
    for (int i = 0; i < 64; i++) {
        mote_choice choice;
        MUST(mote_sample(s, 0, NULL, &choice, &err), &err);
        if (mote_token_is_end(g->model, choice.token))
            break;
        at += mote_text_next(g->model, &stream, choice.token, text + at, sizeof text - 1 - at);
        rig_feed(engine, s, &choice.token, 1, MOTE_LOGITS_LAST);
    }
    if (!str_eq((str){text, at}, want))
        rig_fail("the answer is '%s', that of PEFT is '%.*s'", text, STR_ARG(want));
    printf("%s\n", text);
    mote_session_free(s);
    mote_engine_free(engine);
}

int main(void)
{
    golden_lora g = {.ids = golden_needs("lora", "ids"), .logits = golden_needs("lora", "logits")};
    g.index = test_json_data("golden/lora/index.json");
    g.model = rig_open(rig_model_path("mote-tiny-BF16"), MOTE_ISA_BEST);
    mote_lora *peft = open_lora(&g, "golden/lora/nib");
    mote_lora *gguf = open_lora(&g, "golden/lora/nib.gguf");
    compare_logits(&g, peft, gguf);
    const test_json *answers = test_json_get(g.index, "answers");
    for (uint32_t i = 0; i < answers->n; i++)
        compare_answer(&g, peft, test_json_at(answers, i));
    mote_lora_close(peft);
    mote_lora_close(gguf);
    mote_model_close(g.model);
    test_npy_free(&g.ids);
    test_npy_free(&g.logits);
    test_json_free(g.index);
    return 0;
}
