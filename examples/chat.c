/* SPDX-License-Identifier: Apache-2.0 */
/* chat.c - an interactive conversation, one line per message: chat MODEL.gguf [SYSTEM TEXT] */
#include <mote_chat.h>
#include <stdio.h>
#include <string.h>

/* Called for every piece of an answer while it is generated. */
static void print_event(void *with, const mote_chat_event *event)
{
    (void)with;
    if (event->kind == MOTE_CHAT_REASONING || event->kind == MOTE_CHAT_CONTENT)
        fwrite(event->text, 1, event->text_bytes, stdout);
    else if (event->kind == MOTE_CHAT_CALL_END)
        printf("[%.*s %.*s]", (int)event->name_bytes, event->name, (int)event->text_bytes,
               event->text);
    fflush(stdout);
}

/* Reads user messages from standard input and prints the answers. */
static mote_status chat_loop(mote_chat *chat, mote_error *err)
{
    char line[4096];
    mote_status status = MOTE_OK;
    while (status == MOTE_OK && fgets(line, sizeof line, stdin) != NULL) {
        const mote_answer_options options = {.max_tokens = 512, .event = print_event};
        mote_answer answer;
        if ((status = mote_chat_add(chat, MOTE_ROLE_USER, line, strcspn(line, "\n"), err)) !=
                MOTE_OK ||
            (status = mote_chat_answer(chat, &options, &answer, err)) != MOTE_OK)
            break;
        printf("\n(%s; %llu tokens prefilled, %llu generated)\n", mote_finish_name(answer.finish),
               (unsigned long long)(answer.prompt_tokens - answer.reused_tokens),
               (unsigned long long)answer.answer_tokens);
    }
    return status;
}

int main(int argc, char **argv)
{
    mote_error err = {MOTE_E_ARG, "usage: chat MODEL.gguf [SYSTEM TEXT]"};
    mote_model *model = NULL;
    mote_engine *engine = NULL;
    mote_chat *chat = NULL;
    mote_chat_options options = {0};
    if (argc == 3) {
        options.system = argv[2];
        options.system_bytes = strlen(argv[2]);
    }
    const bool ok =
        (argc == 2 || argc == 3) && mote_model_open(&model, argv[1], NULL, &err) == MOTE_OK &&
        mote_engine_new(&engine, model, NULL, &err) == MOTE_OK &&
        mote_chat_new(&chat, engine, &options, &err) == MOTE_OK && chat_loop(chat, &err) == MOTE_OK;
    if (!ok)
        fprintf(stderr, "%s\n", err.text);
    mote_chat_free(chat);
    mote_engine_free(engine);
    mote_model_close(model);
    return ok ? 0 : 1;
}
