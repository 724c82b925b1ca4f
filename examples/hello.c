/* SPDX-License-Identifier: Apache-2.0 */
/* hello.c - continues a text with a model: hello MODEL.gguf "Once upon a time" */
#include <mote.h>
#include <stdio.h>
#include <string.h>

enum { MAX_PROMPT = 2048, MAX_GENERATED = 100 };

static mote_status generate(const mote_model *model, mote_engine *engine, mote_session *session,
                            const char *text, mote_error *err)
{
    mote_token ids[MAX_PROMPT];
    size_t n = 0; /* tokens of the whole text; at most MAX_PROMPT are written */
    mote_status status = mote_tokenize(model, text, strlen(text), 0, ids, MAX_PROMPT, &n, err);
    mote_work work = {.session = session, .tokens = ids, .n = n < MAX_PROMPT ? n : MAX_PROMPT};
    const mote_sampling how = {
        .temperature = 0.7f, .top_k = 20, .presence = 1.5f, .generated_from = work.n};
    mote_text_stream stream = {0};
    char piece[MOTE_PIECE_BYTES];
    for (int i = 0; i < MAX_GENERATED && status == MOTE_OK; i++) {
        mote_choice next;
        if ((status = mote_step(engine, &work, 1, err)) != MOTE_OK ||
            (status = mote_sample(session, 0, &how, &next, err)) != MOTE_OK ||
            mote_token_is_end(model, next.token))
            break;
        fwrite(piece, 1, mote_text_next(model, &stream, next.token, piece, sizeof piece), stdout);
        ids[0] = next.token;
        work.n = 1;
    }
    fwrite(piece, 1, mote_text_next(model, &stream, -1, piece, sizeof piece), stdout);
    return status;
}

int main(int argc, char **argv)
{
    mote_error err = {MOTE_E_ARG, "usage: hello MODEL.gguf TEXT"};
    mote_model *model = NULL;
    mote_engine *engine = NULL;
    mote_session *session = NULL;
    const bool ok = argc == 3 && mote_model_open(&model, argv[1], NULL, &err) == MOTE_OK &&
                    mote_engine_new(&engine, model, NULL, &err) == MOTE_OK &&
                    mote_session_new(&session, engine, NULL, &err) == MOTE_OK &&
                    generate(model, engine, session, argv[2], &err) == MOTE_OK;
    fprintf(ok ? stdout : stderr, "%s\n", ok ? "" : err.text);
    mote_session_free(session);
    mote_engine_free(engine);
    mote_model_close(model);
    return ok ? 0 : 1;
}
