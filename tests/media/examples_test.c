/* SPDX-License-Identifier: Apache-2.0 */
/*
 * examples_test.c - the twelve examples of mote-tiny-vision through the C API: a decoded image is
 * added to a conversation of mote_chat.h, and the answer is exact.
 */
#include "base/mem.h"
#include "media/sandbox/decoder.h"
#include "mote_chat.h"
#include "support/data.h"
#include "support/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIRECTORY "mote-tiny-vision/"

typedef struct viewer {
    mote_model *model;
    mote_engine *engine;
    char content[256]; /* of the answer */
} viewer;

static void must(mote_status status, const char *what, const mote_error *err)
{
    if (status == MOTE_OK)
        return;
    printf("FAILED: %s: %s\n", what, err->text);
    exit(1);
}

static unsigned char *read_data(const char *name, size_t *bytes)
{
    char path[TEST_PATH];
    unsigned char *data = test_data_path(path, name) ? test_file_read(path, bytes) : NULL;
    if (data == NULL) {
        printf("FAILED: cannot read %s\n", name);
        exit(1);
    }
    return data;
}

static void viewer_open(viewer *v)
{
    char model[TEST_PATH], mmproj[TEST_PATH];
    mote_error err = {0};
    if (!test_data_path(model, DIRECTORY "mote-tiny-vision-Q4_K_M.gguf") ||
        !test_data_path(mmproj, DIRECTORY "mmproj-mote-tiny-vision-BF16.gguf"))
        exit(1);
    must(mote_model_open(&v->model, model, &(mote_model_options){.mmproj = mmproj}, &err),
         "the model", &err);
    must(mote_engine_new(&v->engine, v->model, &(mote_engine_options){.positions = 1024}, &err),
         "the engine", &err);
}

/* Decodes and encodes a file of the examples. */
static mote_image *viewer_image(const viewer *v, const char *name)
{
    size_t bytes = 0;
    mote_error err = {0};
    media_frames frames;
    mote_image *image = NULL;
    double seconds;
    unsigned char *file = read_data(name, &bytes);
    const media_request request = {.file = {(const char *)file, bytes}};
    must(media_load_here(&request, &frames, &err), name, &err);
    must(media_pair(&frames, false, 0, v->model, 2, &image, &seconds, &err), name, &err);
    media_frames_fini(&frames);
    free(file);
    return image;
}

static void on_event(void *with, const mote_chat_event *event)
{
    viewer *v = with;
    if (event->kind == MOTE_CHAT_CONTENT)
        snprintf(v->content + strlen(v->content), sizeof v->content - strlen(v->content), "%.*s",
                 (int)event->text_bytes, event->text);
}

/* Asks one question about one image in a new conversation. */
static void viewer_answer(viewer *v, const char *image_name, str question)
{
    mote_error err = {0};
    mote_chat *chat = NULL;
    mote_image *image = viewer_image(v, image_name);
    const mote_image *images[] = {image};
    const mote_media media = {.images = images, .n = 1};
    const mote_answer_options options = {.set = MOTE_SET_TEMPERATURE, /* 0: greedy */
                                         .max_tokens = 64,
                                         .event = on_event,
                                         .with = v};
    v->content[0] = '\0';
    must(mote_chat_new(&chat, v->engine, NULL, &err), "a conversation", &err);
    must(mote_chat_add_media(chat, &media, 1, question.p, question.n, &err), "a message", &err);
    must(mote_chat_answer(chat, &options, NULL, &err), "an answer", &err);
    mote_chat_free(chat);
    mote_image_free(image);
}

/* One line of examples.jsonl. */
static bool example_is_right(viewer *v, const char *line, size_t bytes)
{
    char name[TEST_PATH];
    const test_json *example = test_json_parse(line, bytes);
    const str image = test_json_get(example, "image")->text;
    const str question = test_json_get(example, "question")->text;
    const str answer = test_json_get(example, "answer")->text;
    snprintf(name, sizeof name, DIRECTORY "%.*s", (int)image.n, image.p);
    viewer_answer(v, name, question);
    const bool right =
        strlen(v->content) == answer.n && memcmp(v->content, answer.p, answer.n) == 0;
    if (!right)
        printf("FAILED: %s: %.*s %s, not %.*s\n", name, (int)question.n, question.p, v->content,
               (int)answer.n, answer.p);
    test_json_free(example);
    return right;
}

int main(void)
{
    enum { EXAMPLES = 12 };
    viewer v = {0};
    size_t bytes = 0;
    int right = 0;
    viewer_open(&v);
    char *list = (char *)read_data(DIRECTORY "examples.jsonl", &bytes);
    for (char *line = list, *end; (end = strchr(line, '\n')) != NULL; line = end + 1)
        right += example_is_right(&v, line, (size_t)(end - line));
    printf("%d of %d answers\n", right, EXAMPLES);
    free(list);
    mote_engine_free(v.engine);
    mote_model_close(v.model);
    return right != EXAMPLES;
}
