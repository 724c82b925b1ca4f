/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vision_prompts.c - questions about images and a video: logits and greedy answers compared with
 * the reference, and the laws for sessions with images.
 *
 * The reference has a pad token at each image position; here the image's own tokens are used.
 */
#include "golden/compare.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_TOKENS = 256, MAX_IMAGES = 8, CONTEXT = 512 };
enum { IMAGE_PAD = 7948, VIDEO_PAD = 7949 }; /* in mote-tiny's vocabulary */
static const double bound = 1e-4;

typedef struct question {
    const char *name;
    const char *media[MAX_IMAGES];
    bool video; /* two files are one frame pair */
    mote_token greedy[20];
} question;

static const question questions[] = {
    {"see", {"see0"}, false, {40, 1436, 264, 3565, 6561, 506, 279, 5445, 13, 7938}},
    {"count", {"count0"}, false, {3733, 513, 220, 17, 352, 1506, 13, 7938}},
    {"two",
     {"two0", "two1"},
     false,
     {760, 1118, 6588, 4774, 264, 6105, 4086, 273, 11, 279, 2018, 264, 2438, 6561, 13, 7938}},
    {"video",
     {"video0", "video1", "video2", "video3", "video4", "video5", "video6", "video7"},
     true,
     {760, 6105, 4776, 1907, 287, 310, 279, 2047, 13, 7938}},
    {"colour", {"colour0"}, false, {760, 2327, 3908, 369, 280, 741, 13, 7938}},
};
enum { N_QUESTIONS = sizeof questions / sizeof *questions };

/* A model with its vision encoder, the images of one question and its prompt. */
typedef struct scene {
    mote_model *model;
    mote_engine *engine;
    bool drafts; /* the engine has them */
    mote_image *images[MAX_IMAGES];
    size_t n_images;
    mote_token tokens[MAX_TOKENS];
    size_t n;
} scene;

static void open_model(scene *s, mote_isa isa, uint32_t threads)
{
    char model[1024], vision[1024];
    mote_error err;
    snprintf(model, sizeof model, "%s", rig_data("mote-tiny-BF16.gguf"));
    snprintf(vision, sizeof vision, "%s", rig_data("mmproj-mote-tiny-BF16.gguf"));
    MUST(mote_model_open(&s->model, model, &(mote_model_options){.isa = isa, .mmproj = vision},
                         &err),
         &err);
    const mote_engine_options options = {.threads = threads,
                                         .sessions = 3,
                                         .positions = (uint64_t)3 * CONTEXT,
                                         .kept_states = 4,
                                         .kv = MOTE_KV_F32,
                                         .drafts = threads > 1};
    s->drafts = options.drafts;
    MUST(mote_engine_new(&s->engine, s->model, &options, &err), &err);
}

static test_npy pixels_of(const char *name)
{
    char path[64];
    snprintf(path, sizeof path, "pixels/%s", name);
    return golden_needs("vision", path);
}

static void see(scene *s, const question *q, uint32_t threads)
{
    mote_error err;
    s->n_images = 0;
    for (size_t i = 0; i < MAX_IMAGES && q->media[i] != NULL; i += q->video ? 2 : 1) {
        test_npy first = pixels_of(q->media[i]), second = {0};
        if (q->video)
            second = pixels_of(q->media[i + 1]);
        const mote_pixels pixels = {.rgb = first.u8,
                                    .second_frame = second.u8,
                                    .width = (uint32_t)first.dims[1],
                                    .height = (uint32_t)first.dims[0]};
        MUST(mote_image_new(&s->images[s->n_images++], s->model, &pixels, threads, &err), &err);
        test_npy_free(&first);
        if (q->video)
            test_npy_free(&second);
    }
}

/* The ids of the reference, with image tokens instead of pads. */
static void lay_prompt(scene *s, const question *q)
{
    char name[64];
    snprintf(name, sizeof name, "prompt_%s.ids", q->name);
    test_npy ids = golden_needs("vision", name);
    size_t image = 0, place = 0;
    for (s->n = 0; s->n < ids.count; s->n++) {
        const mote_token id = ids.i32[s->n];
        s->tokens[s->n] = id;
        if (id != IMAGE_PAD && id != VIDEO_PAD)
            continue;
        size_t n;
        const mote_token *own = mote_image_tokens(s->images[image], &n);
        s->tokens[s->n] = own[place++];
        if (place == n) {
            image++;
            place = 0;
        }
    }
    if (image != s->n_images)
        rig_fail("%s has pads for %zu images, not %zu", q->name, image, s->n_images);
    test_npy_free(&ids);
}

static void set_scene(scene *s, const question *q, mote_isa isa, uint32_t threads)
{
    open_model(s, isa, threads);
    see(s, q, threads);
    lay_prompt(s, q);
}

static void strike(scene *s)
{
    for (size_t i = 0; i < s->n_images; i++)
        mote_image_free(s->images[i]);
    mote_engine_free(s->engine);
    mote_model_close(s->model);
}

/* Appends tokens of the prompt from where the session stands up to `end`, so many at once. */
static void append(const scene *s, mote_session *session, size_t end, size_t at_once)
{
    mote_error err;
    while (mote_session_length(session) < end) {
        const size_t from = (size_t)mote_session_length(session), left = end - from;
        const mote_work work = {.session = session,
                                .tokens = s->tokens + from,
                                .n = left < at_once ? left : at_once,
                                .images = (const mote_image *const *)s->images,
                                .n_images = s->n_images};
        MUST(mote_step(s->engine, &work, 1, &err), &err);
    }
}

static mote_session *begin(const scene *s)
{
    mote_session *session;
    mote_error err;
    MUST(mote_session_new(&session, s->engine, &(mote_session_options){.context = CONTEXT}, &err),
         &err);
    return session;
}

/* ---- the reference ---- */

static void against_reference(const question *q)
{
    scene s;
    char name[64];
    mote_error err;
    mote_model_info info;
    set_scene(&s, q, MOTE_ISA_BEST, 2);
    mote_model_describe(s.model, &info);
    mote_session *session = begin(&s);
    append(&s, session, s.n, s.n);
    snprintf(name, sizeof name, "prompt_%s.logits_last", q->name);
    test_npy want = golden_needs("vision", name);
    const double far = row_error(mote_session_logits(session, 0), want.f32, info.vocabulary);
    printf("%-7s %.1e of the largest logit\n", q->name, far);
    if (!(far <= bound))
        rig_fail("%s: logits are %g of the largest from the reference, not %g", q->name, far,
                 bound);
    for (size_t i = 0; q->greedy[i] != 0; i++) {
        mote_choice choice;
        MUST(mote_sample(session, 0, NULL, &choice, &err), &err);
        if (choice.token != q->greedy[i])
            rig_fail("%s: token %zu is %d, the reference says %d", q->name, i, choice.token,
                     q->greedy[i]);
        const mote_work work = {.session = session, .tokens = &choice.token, .n = 1};
        MUST(mote_step(s.engine, &work, 1, &err), &err);
    }
    test_npy_free(&want);
    mote_session_free(session);
    strike(&s);
}

/* ---- the laws ---- */

static float *wanted; /* logits at the end of the prompt, from an engine without drafts */
static size_t n_wanted;

/* Drafts after the prompt depend on every pair of the MTP block, images included. */
static void expect_same_drafts(const scene *s, mote_session *session, const char *what)
{
    static mote_draft_item first;
    mote_draft_item item = {.session = session, .next = 5, .n = 3};
    mote_error err;
    MUST(mote_draft(s->engine, &item, 1, &err), &err);
    if (first.n_drafts == 0)
        first = item;
    if (item.n_drafts != 3 || memcmp(item.tokens, first.tokens, sizeof item.tokens) != 0 ||
        memcmp(item.probability, first.probability, sizeof item.probability) != 0)
        rig_fail("with images, %s gives other drafts", what);
}

static void expect_same(const scene *s, mote_session *session, const char *what)
{
    const float *got = mote_session_logits(session, 0);
    if (got == NULL || memcmp(got, wanted, n_wanted * sizeof *got) != 0)
        rig_fail("with images, %s gives other bits", what);
    if (s->drafts)
        expect_same_drafts(s, session, what);
}

/* Any split, also inside an image; rewind into an image; fork; snapshot. */
static void one_sequence(const scene *s)
{
    static const size_t cuts[] = {1, 7, 32, 50, 64, 1000};
    char path[1024];
    mote_error err;
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        mote_session *session = begin(s);
        append(s, session, s->n, cuts[i]);
        expect_same(s, session, "another cut of the prompt");
        mote_session_free(session);
    }
    for (size_t back = 1; back < s->n; back += 11) {
        mote_session *session = begin(s), *other;
        append(s, session, s->n - 3, 40);
        mote_session_rewind(session, s->n - back);
        MUST(mote_session_fork(&other, session, &err), &err);
        append(s, session, s->n, 1000);
        expect_same(s, session, "going back and on");
        append(s, other, s->n, 9);
        expect_same(s, other, "a fork");
        mote_session_free(session);
        mote_session_free(other);
    }
    rig_temp_path(path, sizeof path, "images.snapshot");
    for (size_t at = 5; at < s->n; at += 37) {
        mote_session *session = begin(s), *again;
        append(s, session, at, 1000);
        MUST(mote_session_save(session, path, &err), &err);
        MUST(mote_session_load(&again, s->engine, path, &(mote_session_options){.context = CONTEXT},
                               &err),
             &err);
        append(s, again, s->n, 1000);
        expect_same(s, again, "a snapshot");
        mote_session_free(session);
        mote_session_free(again);
    }
}

/* In a batch with a session that has other images at the same positions. */
static void in_batch(const scene *s, const scene *other)
{
    mote_error err;
    mote_session *a = begin(s), *b = begin(s);
    const mote_work work[] = {{.session = a,
                               .tokens = other->tokens,
                               .n = other->n,
                               .images = (const mote_image *const *)other->images,
                               .n_images = other->n_images},
                              {.session = b,
                               .tokens = s->tokens,
                               .n = s->n,
                               .images = (const mote_image *const *)s->images,
                               .n_images = s->n_images}};
    MUST(mote_step(s->engine, work, 2, &err), &err);
    expect_same(s, b, "a batch");
    mote_session_free(a);
    mote_session_free(b);
}

static void expect_refused(const scene *s, mote_work work, const char *what)
{
    work.session = begin(s);
    if (mote_step(s->engine, &work, 1, NULL) != MOTE_E_ARG ||
        mote_session_length(work.session) != 0)
        rig_fail("%s is not refused", what);
    mote_session_free(work.session);
}

static void wrong_work(const scene *s)
{
    size_t first = 0;
    while (s->tokens[first] >= 0)
        first++;
    mote_work work = {.tokens = s->tokens, .n = s->n};
    expect_refused(s, work, "an image that is not listed");
    work.images = (const mote_image *const *)s->images;
    work.n_images = s->n_images;
    work.tokens = s->tokens + first + 1;
    work.n = s->n - first - 1;
    expect_refused(s, work, "an image without its first token");
    mote_token broken[MAX_TOKENS];
    memcpy(broken, s->tokens, sizeof broken);
    broken[first + 3] = 5;
    work.tokens = broken;
    work.n = s->n;
    expect_refused(s, work, "text inside an image");
}

static void laws(void)
{
    mote_isa levels[RIG_MAX_LEVELS];
    const size_t n_levels = rig_levels(levels);
    mote_model_info info;
    for (size_t i = 0; i < n_levels; i++)
        for (uint32_t threads = 1; threads <= 2; threads++) {
            scene s, other;
            set_scene(&s, &questions[2], levels[i], threads);
            mote_session *session = begin(&s);
            append(&s, session, s.n, 1000);
            if (wanted == NULL) {
                mote_model_describe(s.model, &info);
                n_wanted = info.vocabulary;
                wanted = malloc(n_wanted * sizeof *wanted);
                memcpy(wanted, mote_session_logits(session, 0), n_wanted * sizeof *wanted);
            }
            expect_same(&s, session, "another level or number of threads");
            mote_session_free(session);
            if (i + 1 == n_levels && threads == 2) {
                one_sequence(&s);
                other = s;
                see(&other, &questions[0], 1);
                lay_prompt(&other, &questions[0]);
                in_batch(&s, &other);
                wrong_work(&s);
                mote_image_free(other.images[0]);
            }
            strike(&s);
        }
    free(wanted);
}

int main(void)
{
    if (rig_data("mmproj-mote-tiny-BF16.gguf") == NULL) {
        printf("no mmproj file in the test data\n");
        return 77;
    }
    for (size_t i = 0; i < N_QUESTIONS; i++)
        against_reference(&questions[i]);
    laws();
    return 0;
}
