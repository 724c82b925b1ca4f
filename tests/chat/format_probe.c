/* SPDX-License-Identifier: Apache-2.0 */
/*
 * format_probe.c - answers with a JSON Schema, validated by format_random.py.
 *
 *     format_probe MODEL
 *
 * Reads requests "SEEDS BYTES\n" followed by a schema of BYTES bytes. Prints "refused TEXT", or for
 * each seed from 1 to SEEDS the finish word, the length and the text of the answer: "stop BYTES\n",
 * the text, a newline.
 */
#include <mote_chat.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SCHEMA_ROOM = 1 << 18, ANSWER_ROOM = 1 << 16, MAX_TOKENS = 400 };

typedef struct answer_text {
    char text[ANSWER_ROOM];
    size_t n;
} answer_text;

static void collect(void *with, const mote_chat_event *event)
{
    answer_text *a = with;
    if (event->kind != MOTE_CHAT_CONTENT || a->n + event->text_bytes > sizeof a->text)
        return;
    memcpy(a->text + a->n, event->text, event->text_bytes);
    a->n += event->text_bytes;
}

/* Prints one answer and clears the conversation. */
static mote_status answer_once(mote_chat *chat, const char *schema, size_t bytes, uint64_t seed,
                               mote_error *err)
{
    static answer_text text;
    static const char question[] = "Write an object for me.";
    const mote_answer_options how = {.max_tokens = MAX_TOKENS,
                                     .sampling = {.seed = seed},
                                     .format = MOTE_FORMAT_JSON_SCHEMA,
                                     .format_text = schema,
                                     .format_bytes = bytes,
                                     .event = collect,
                                     .with = &text};
    mote_answer result;
    text.n = 0;
    mote_status status = mote_chat_add(chat, MOTE_ROLE_USER, question, sizeof question - 1, err);
    if (status == MOTE_OK)
        status = mote_chat_answer(chat, &how, &result, err);
    mote_chat_clear(chat);
    if (status != MOTE_OK)
        return status;
    printf("%s %zu\n", mote_finish_name(result.finish), text.n);
    fwrite(text.text, 1, text.n, stdout);
    putchar('\n');
    return MOTE_OK;
}

static void answer_requests(mote_chat *chat)
{
    static char schema[SCHEMA_ROOM];
    unsigned seeds;
    size_t bytes;
    while (scanf("%u %zu", &seeds, &bytes) == 2 && getchar() == '\n' && bytes <= sizeof schema &&
           fread(schema, 1, bytes, stdin) == bytes) {
        mote_error err;
        for (unsigned seed = 1; seed <= seeds; seed++)
            if (answer_once(chat, schema, bytes, seed, &err) != MOTE_OK) {
                printf("refused %s: %s\n", mote_status_name(err.status), err.text);
                break;
            }
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    mote_error err = {MOTE_E_ARG, "usage: format_probe MODEL"};
    mote_model *model = NULL;
    mote_engine *engine = NULL;
    mote_chat *chat = NULL;
    const mote_engine_options options = {.threads = 1, .positions = 1024};
    const bool ok = argc == 2 && mote_model_open(&model, argv[1], NULL, &err) == MOTE_OK &&
                    mote_engine_new(&engine, model, &options, &err) == MOTE_OK &&
                    mote_chat_new(&chat, engine, NULL, &err) == MOTE_OK;
    if (ok)
        answer_requests(chat);
    else
        fprintf(stderr, "%s\n", err.text);
    mote_chat_free(chat);
    mote_engine_free(engine);
    mote_model_close(model);
    return ok ? 0 : 1;
}
