/* SPDX-License-Identifier: Apache-2.0 */
/*
 * law_fpmode.c - the caller's floating-point mode changes no bit, and a call leaves it as it was.
 *
 * Modes: four roundings, with and without flush-to-zero, and exceptions that trap. Calls: open,
 * engine, step, image, sample, answer, and calls that fail. The mode is set before the model is
 * opened and before threads are created, because threads inherit it.
 */
#define _GNU_SOURCE
#include "base/fpmode.h"
#include "law/rig.h"

#include <mote_chat.h>

#include <fenv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 64, PROMPT = 45, TEXT = 512 };

typedef struct results {
    float *logits, *image_logits; /* [vocabulary] */
    mote_choice choice;
    char answer[TEXT];
    size_t bytes;
} results;

/* Fails if a call has changed the mode. */
static void check_mode(const fpmode *before, const char *call)
{
    const fpmode after = fpmode_get();
    if (memcmp(before, &after, sizeof after) != 0)
        rig_fail("%s changed the floating-point mode", call);
}

#define CALL(call, err)                                                                            \
    do {                                                                                           \
        const fpmode before = fpmode_get();                                                        \
        MUST(call, err);                                                                           \
        check_mode(&before, #call);                                                                \
    } while (0)

static float *copy_logits(const mote_session *session, size_t n)
{
    float *copy = malloc(n * sizeof *copy);
    memcpy(copy, mote_session_logits(session, 0), n * sizeof *copy);
    return copy;
}

static void failing_calls(mote_engine *engine, mote_session *session)
{
    mote_error err;
    mote_model *no_model;
    mote_choice choice;
    const fpmode before = fpmode_get();
    const mote_work bad = {.session = session, .tokens = &(mote_token){1 << 30}, .n = 1};
    if (mote_step(engine, &bad, 1, &err) == MOTE_OK ||
        mote_model_open(&no_model, "/no/such/file", NULL, &err) == MOTE_OK ||
        mote_sample(session, 99, NULL, &choice, &err) == MOTE_OK)
        rig_fail("a wrong call succeeded");
    check_mode(&before, "a call that fails");
}

static void on_event(void *ctx, const mote_chat_event *event)
{
    results *r = ctx;
    if (event->text_bytes > 0 && event->text_bytes <= TEXT - r->bytes) {
        memcpy(r->answer + r->bytes, event->text, event->text_bytes);
        r->bytes += event->text_bytes;
    }
}

static void run_image(const mote_model *model, mote_session *session, mote_engine *engine,
                      uint32_t threads, size_t vocabulary, results *r)
{
    static uint8_t rgb[SIDE * SIDE * 3];
    mote_error err;
    mote_image *image;
    size_t n;
    for (size_t i = 0; i < sizeof rgb; i++)
        rgb[i] = (uint8_t)(i * 37 + i / 97);
    const mote_pixels pixels = {.rgb = rgb, .width = SIDE, .height = SIDE};
    CALL(mote_image_new(&image, model, &pixels, threads, &err), &err);
    const mote_token *tokens = mote_image_tokens(image, &n);
    const mote_image *const images[] = {image};
    const mote_work work = {
        .session = session, .tokens = tokens, .n = n, .images = images, .n_images = 1};
    CALL(mote_step(engine, &work, 1, &err), &err);
    r->image_logits = copy_logits(session, vocabulary);
    mote_image_free(image);
}

static void run_answer(mote_engine *engine, results *r)
{
    mote_error err;
    mote_chat *chat;
    mote_answer answer;
    CALL(mote_chat_new(&chat, engine, NULL, &err), &err);
    CALL(mote_chat_add(chat, MOTE_ROLE_USER, "What is 3 + 4?", 14, &err), &err);
    const mote_answer_options options = {.max_tokens = 12,
                                         .think = MOTE_THINK_OFF,
                                         .sampling = {.temperature = 0.7f, .seed = 5},
                                         .event = on_event,
                                         .with = r};
    CALL(mote_chat_answer(chat, &options, &answer, &err), &err);
    mote_chat_free(chat);
}

/* Everything from the open on, in the mode of this thread. */
static void run_all(const char *text, const char *mmproj, uint32_t threads, results *r)
{
    mote_error err;
    mote_model *model;
    mote_engine *engine;
    mote_session *session;
    mote_model_info info;
    mote_token tokens[PROMPT];
    memset(r, 0, sizeof *r);
    for (size_t i = 0; i < PROMPT; i++)
        tokens[i] = (mote_token)(100 + 7 * i);
    CALL(mote_model_open(&model, text, &(mote_model_options){.mmproj = mmproj}, &err), &err);
    mote_model_describe(model, &info);
    const mote_engine_options options = {
        .threads = threads, .positions = 2048, .sessions = 2, .yarn = 2};
    CALL(mote_engine_new(&engine, model, &options, &err), &err);
    CALL(mote_session_new(&session, engine, NULL, &err), &err);
    const mote_work work = {.session = session, .tokens = tokens, .n = PROMPT};
    CALL(mote_step(engine, &work, 1, &err), &err);
    r->logits = copy_logits(session, info.vocabulary);
    const mote_sampling how = {
        .temperature = 0.9f, .top_p = 0.95f, .typical_p = 0.9f, .seed = 3, .top_logprobs = 20};
    CALL(mote_sample(session, 0, &how, &r->choice, &err), &err);
    failing_calls(engine, session);
    run_image(model, session, engine, threads, info.vocabulary, r);
    run_answer(engine, r);
    mote_session_free(session);
    mote_engine_free(engine);
    mote_model_close(model);
    r->bytes = r->bytes < TEXT ? r->bytes : TEXT;
}

static void compare(const results *a, const results *b, size_t vocabulary, const char *mode)
{
    const size_t bytes = vocabulary * sizeof(float);
    if (memcmp(a->logits, b->logits, bytes) != 0)
        rig_fail("%s: the logits differ", mode);
    if (memcmp(&a->choice, &b->choice, sizeof a->choice) != 0)
        rig_fail("%s: the sampled token or its log-probabilities differ", mode);
    if (memcmp(a->image_logits, b->image_logits, bytes) != 0)
        rig_fail("%s: the logits after an image differ", mode);
    if (a->bytes != b->bytes || memcmp(a->answer, b->answer, a->bytes) != 0)
        rig_fail("%s: the answers differ", mode);
}

static void results_free(results *r)
{
    free(r->logits);
    free(r->image_logits);
}

static void set_flush(void)
{
    fpmode mode = fpmode_get();
#if defined(__x86_64__)
    mode.mxcsr |= 0x8040; /* FTZ, DAZ */
#else
    mode.fpcr |= 1 << 24; /* FZ */
#endif
    fpmode_set(&mode);
}

int main(void)
{
    static const int roundings[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
    char text[512], mmproj[512], mode[64];
    mote_error err;
    mote_model *model;
    mote_model_info info;
    results wanted, got;
    const char *path = rig_data("mote-tiny-Q4_K_M.gguf");
    if (path == NULL)
        return 77;
    snprintf(text, sizeof text, "%s", path);
    path = rig_data("mmproj-mote-tiny-BF16.gguf");
    if (path == NULL)
        return 77;
    snprintf(mmproj, sizeof mmproj, "%s", path);
    MUST(mote_model_open(&model, text, NULL, &err), &err);
    mote_model_describe(model, &info);
    mote_model_close(model);
    run_all(text, mmproj, 1, &wanted);
    for (int i = 1; i < 9; i++) { /* the last one: exceptions trap */
        const bool flush = i >= 4 && i < 8, traps = i == 8;
        fesetenv(FE_DFL_ENV);
        fesetround(roundings[i % 4]);
        if (flush)
            set_flush();
        if (traps)
            feenableexcept(FE_INEXACT | FE_UNDERFLOW | FE_DIVBYZERO | FE_INVALID);
        snprintf(mode, sizeof mode, "rounding %d%s%s", i % 4, flush ? ", flush to zero" : "",
                 traps ? ", exceptions trap" : "");
        run_all(text, mmproj, 1 + (uint32_t)i % 2, &got);
        fesetenv(FE_DFL_ENV);
        compare(&wanted, &got, info.vocabulary, mode);
        results_free(&got);
    }
    results_free(&wanted);
    printf("8 floating-point modes: equal bits, and every call leaves the mode as it was\n");
    return 0;
}
