/* SPDX-License-Identifier: Apache-2.0 */
/*
 * two_images.c - one question about two images, answered in two sessions at the same time:
 *
 *     two_images MODEL.gguf MMPROJ.gguf QUESTION FIRST.png SECOND.png
 *
 * Both sessions belong to one engine. Each step appends tokens to both, so the weights are read once
 * for two answers. An answer does not depend on the other session.
 */
#include <mote.h>
#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_ANSWERS = 2, MAX_PROMPT = 2048, MAX_GENERATED = 200, MAX_TEXT = 8192 };
/* Pixels of an image for the model: one token for 32 x 32 of them, 64 to 1,024 tokens. */
enum { MIN_PIXELS = 256 * 256, MAX_PIXELS = 1024 * 1024 };

/* One conversation: a prompt with an image, then the tokens of its answer. */
struct answer {
    mote_image *image;
    mote_session *session;
    mote_token prompt[MAX_PROMPT];
    size_t n_prompt;
    mote_work work; /* what the next step appends */
    mote_token next;
    mote_text_stream stream;
    char text[MAX_TEXT];
    size_t text_bytes;
    bool done;
};

static mote_status fail(mote_error *err, const char *what, const char *name)
{
    err->status = MOTE_E_IO;
    snprintf(err->text, sizeof err->text, "%s: %s", name, what);
    return err->status;
}

/* A side of the resized image, a multiple of MOTE_IMAGE_SIDE. */
static uint32_t scaled_side(uint32_t side, double scale)
{
    const uint32_t n = (uint32_t)(side * scale / MOTE_IMAGE_SIDE + 0.5);
    return (n > 0 ? n : 1) * MOTE_IMAGE_SIDE;
}

/* One channel of the image at a point between pixels: the mean of four, by distance. */
static uint8_t pixel_at(const uint8_t *rgb, uint32_t width, uint32_t height, double x, double y,
                        int channel)
{
    x = x < 0 ? 0 : x > width - 1 ? width - 1 : x;
    y = y < 0 ? 0 : y > height - 1 ? height - 1 : y;
    const uint32_t x0 = (uint32_t)x, y0 = (uint32_t)y;
    const uint32_t x1 = x0 + 1 < width ? x0 + 1 : x0, y1 = y0 + 1 < height ? y0 + 1 : y0;
#define AT(px, py) rgb[((size_t)(py)*width + (px)) * 3 + (size_t)channel]
    const double top = AT(x0, y0) * (1 - (x - x0)) + AT(x1, y0) * (x - x0);
    const double bottom = AT(x0, y1) * (1 - (x - x0)) + AT(x1, y1) * (x - x0);
#undef AT
    return (uint8_t)(top * (1 - (y - y0)) + bottom * (y - y0) + 0.5);
}

/* Resizes to sides that the vision encoder takes. The caller frees *out. */
static mote_status resize(const uint8_t *rgb, uint32_t width, uint32_t height, uint8_t **out,
                          mote_pixels *pixels, mote_error *err)
{
    double scale = 1;
    while (width * scale * height * scale > MAX_PIXELS)
        scale *= 0.98;
    while (width * scale * height * scale < MIN_PIXELS)
        scale *= 1.02;
    const uint32_t new_width = scaled_side(width, scale), new_height = scaled_side(height, scale);
    uint8_t *to = malloc((size_t)new_width * new_height * 3);
    if (to == NULL)
        return fail(err, "out of memory", "image");
    for (uint32_t y = 0; y < new_height; y++)
        for (uint32_t x = 0; x < new_width; x++)
            for (int channel = 0; channel < 3; channel++)
                to[((size_t)y * new_width + x) * 3 + (size_t)channel] =
                    pixel_at(rgb, width, height, (x + 0.5) * width / new_width - 0.5,
                             (y + 0.5) * height / new_height - 0.5, channel);
    *out = to;
    *pixels = (mote_pixels){.rgb = to, .width = new_width, .height = new_height};
    return MOTE_OK;
}

/* Reads a PNG file and runs the vision encoder. A program that gets files from others should decode
 * them in a process of its own. */
static mote_status load_image(mote_image **out, const mote_model *model, const char *path,
                              mote_error *err)
{
    png_image png = {.version = PNG_IMAGE_VERSION};
    if (!png_image_begin_read_from_file(&png, path))
        return fail(err, png.message, path);
    png.format = PNG_FORMAT_RGB;
    const png_color white = {255, 255, 255};
    uint8_t *rgb = malloc(PNG_IMAGE_SIZE(png)), *resized = NULL;
    mote_pixels pixels;
    mote_status status = MOTE_OK;
    if (rgb == NULL || !png_image_finish_read(&png, &white, rgb, 0, NULL)) {
        status = fail(err, rgb == NULL ? "out of memory" : png.message, path);
        png_image_free(&png);
    }
    if (status == MOTE_OK)
        status = resize(rgb, png.width, png.height, &resized, &pixels, err);
    if (status == MOTE_OK)
        status = mote_image_new(out, model, &pixels, 0, err);
    free(resized);
    free(rgb);
    return status;
}

/* Appends text to the prompt. Control tokens are recognised only in text that this program wrote:
 * a question that spells one stays text. */
static mote_status append_text(struct answer *a, const mote_model *model, const char *text,
                               unsigned flags, mote_error *err)
{
    size_t n = 0;
    const size_t room = MAX_PROMPT - a->n_prompt;
    const mote_status status =
        mote_tokenize(model, text, strlen(text), flags, a->prompt + a->n_prompt, room, &n, err);
    if (status == MOTE_OK && n > room)
        return fail(err, "too long for MAX_PROMPT", "question");
    a->n_prompt += n;
    return status;
}

/* Builds the prompt in the chat format of the family, thinking off, and starts a session. */
static mote_status answer_begin(struct answer *a, mote_engine *engine, const char *question,
                                const char *path, mote_error *err)
{
    const mote_model *model = mote_engine_model(engine);
    mote_status status;
    if ((status = load_image(&a->image, model, path, err)) != MOTE_OK ||
        (status = append_text(a, model, "<|im_start|>user\n<|vision_start|>", MOTE_TEXT_CONTROL,
                              err)) != MOTE_OK)
        return status;
    size_t n = 0;
    const mote_token *ids = mote_image_tokens(a->image, &n);
    if (n > MAX_PROMPT - a->n_prompt)
        return fail(err, "too many tokens for MAX_PROMPT", path);
    memcpy(a->prompt + a->n_prompt, ids, n * sizeof *ids);
    a->n_prompt += n;
    if ((status = append_text(a, model, "<|vision_end|>", MOTE_TEXT_CONTROL, err)) != MOTE_OK ||
        (status = append_text(a, model, question, 0, err)) != MOTE_OK ||
        (status =
             append_text(a, model, "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n",
                         MOTE_TEXT_CONTROL, err)) != MOTE_OK ||
        (status = mote_session_new(&a->session, engine, NULL, err)) != MOTE_OK)
        return status;
    a->work = (mote_work){.session = a->session,
                          .tokens = a->prompt,
                          .n = a->n_prompt,
                          .images = (const mote_image *const *)&a->image,
                          .n_images = 1};
    return MOTE_OK;
}

/* Samples the next token of an answer, greedily, and makes it the work of the next step. */
static mote_status answer_advance(struct answer *a, const mote_model *model, mote_error *err)
{
    mote_choice choice;
    const mote_status status = mote_sample(a->session, 0, NULL, &choice, err);
    if (status != MOTE_OK)
        return status;
    a->done = mote_token_is_end(model, choice.token);
    a->next = choice.token;
    a->work = (mote_work){.session = a->session, .tokens = &a->next, .n = 1};
    a->text_bytes += mote_text_next(model, &a->stream, a->done ? -1 : a->next,
                                    a->text + a->text_bytes, MAX_TEXT - a->text_bytes);
    return MOTE_OK;
}

/* Runs all answers to their end. One step works on all that are not done. */
static mote_status answer_all(mote_engine *engine, struct answer *answers, int *steps,
                              mote_error *err)
{
    for (*steps = 0; *steps < MAX_GENERATED; (*steps)++) {
        mote_work work[N_ANSWERS];
        struct answer *running[N_ANSWERS];
        size_t n = 0;
        for (int i = 0; i < N_ANSWERS; i++)
            if (!answers[i].done) {
                running[n] = &answers[i];
                work[n++] = answers[i].work;
            }
        if (n == 0)
            break;
        mote_status status = mote_step(engine, work, n, err);
        for (size_t i = 0; i < n && status == MOTE_OK; i++)
            status = answer_advance(running[i], mote_engine_model(engine), err);
        if (status != MOTE_OK)
            return status;
    }
    return MOTE_OK;
}

int main(int argc, char **argv)
{
    mote_error err = {MOTE_E_ARG,
                      "usage: two_images MODEL.gguf MMPROJ.gguf QUESTION FIRST.png SECOND.png"};
    mote_model *model = NULL;
    mote_engine *engine = NULL;
    static struct answer answers[N_ANSWERS];
    int steps = 0;
    bool ok = argc == 4 + N_ANSWERS;
    if (ok) {
        const mote_model_options with_vision = {.mmproj = argv[2]};
        const mote_engine_options two_sessions = {.sessions = N_ANSWERS};
        ok = mote_model_open(&model, argv[1], &with_vision, &err) == MOTE_OK &&
             mote_engine_new(&engine, model, &two_sessions, &err) == MOTE_OK;
    }
    for (int i = 0; i < N_ANSWERS && ok; i++)
        ok = answer_begin(&answers[i], engine, argv[3], argv[4 + i], &err) == MOTE_OK;
    ok = ok && answer_all(engine, answers, &steps, &err) == MOTE_OK;
    for (int i = 0; i < N_ANSWERS && ok; i++)
        printf("%s: %.*s\n", argv[4 + i], (int)answers[i].text_bytes, answers[i].text);
    if (ok)
        fprintf(stderr, "%d steps for %d answers\n", steps, N_ANSWERS);
    else
        fprintf(stderr, "%s\n", err.text);
    for (int i = 0; i < N_ANSWERS; i++) {
        mote_session_free(answers[i].session);
        mote_image_free(answers[i].image);
    }
    mote_engine_free(engine);
    mote_model_close(model);
    return ok ? 0 : 1;
}
