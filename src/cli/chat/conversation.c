/* SPDX-License-Identifier: Apache-2.0 */
/* conversation.c - see talk.h. */
#include "cli/chat/conversation.h"

#include "base/os.h"
#include "cli/term/interrupt.h"
#include "cli/term/output_messages.h"
#include "cli/term/text.h"
#include "cli/load/mmproj.h"

#include <string.h>

enum {
    USUAL_CONTEXT = 32768, /* the system provides what is used of it */
    USUAL_ANSWER = 8192,
    SCAFFOLD = 512, /* tokens around the texts */
    KEPT_STATES = 4
};

/* Tokens of a text, or 0 if that cannot be known; then the answer says so in its own words. */
static uint64_t tokens_of(const talk *t, const input_text *text)
{
    size_t n = 0;
    mote_error err;
    if (text->n > 0 &&
        mote_tokenize(t->on.model, text->p, text->n, 0, NULL, 0, &n, &err) != MOTE_OK)
        return 0;
    return n;
}

static uint64_t shown_tokens(const talk *t)
{
    uint64_t n = 0;
    for (size_t i = 0; i < t->shows.n; i++)
        n += t->shows.list[i].tokens + SCAFFOLD;
    return n;
}

static uint64_t context_for(const talk *t, const input_text *prompt)
{
    if (t->options->load.context != 0)
        return t->options->load.context;
    const run_settings *s = &t->settings;
    mote_model_info info;
    mote_model_describe(t->on.model, &info);
    double stretch = t->options->load.yarn > 1 ? t->options->load.yarn : 1;
    uint64_t most = (uint64_t)(info.context * stretch);
    uint64_t needed = tokens_of(t, &s->system) + tokens_of(t, &s->tools) +
                      tokens_of(t, &s->messages) + tokens_of(t, prompt) + shown_tokens(t) +
                      SCAFFOLD + (s->answer.max_tokens != 0 ? s->answer.max_tokens : USUAL_ANSWER);
    uint64_t context = needed > USUAL_CONTEXT ? needed : USUAL_CONTEXT;
    return context < most ? context : most;
}

static int open_engine(talk *t, uint64_t context, bool twice)
{
    const load_options *load = &t->options->load;
    uint32_t sessions = twice ? 2 : 1;
    mote_engine_options wanted = {
        .threads = (uint32_t)load->threads,
        .sessions = sessions,
        .positions = context * sessions,
        .kept_states = KEPT_STATES,
        .logits_rows = 1,
        .kv = (mote_kv)load->kv,
        .yarn = (float)load->yarn,
        .pin = (mote_pin)load->pin,
    };
    mote_error err;
    return mote_engine_new(&t->on.engine, t->on.model, &wanted, &err) == MOTE_OK ? CLI_DONE
                                                                                 : msg_error(&err);
}

/* A file that is wrong is named. */
static int bad_file(const char *path, mote_error *err)
{
    err_prefix(err, path);
    return msg_error(err);
}

static int open_chat(talk *t, uint64_t context)
{
    const run_settings *s = &t->settings;
    mote_chat_options options = {
        .system = s->system.p, .system_bytes = s->system.n, .context = context};
    mote_error err;
    if (mote_chat_new(&t->chat, t->on.engine, &options, &err) != MOTE_OK)
        return msg_error(&err);
    if (s->tools.n > 0 && mote_chat_set_tools(t->chat, s->tools.p, s->tools.n, &err) != MOTE_OK)
        return bad_file(t->options->tools, &err);
    if (s->messages.n > 0 &&
        mote_chat_add_json(t->chat, s->messages.p, s->messages.n, &err) != MOTE_OK)
        return bad_file(t->options->messages, &err);
    return CLI_DONE;
}

static void describe(const talk *t, uint64_t context)
{
    mote_model_info info;
    mote_memory memory;
    mote_model_describe(t->on.model, &info);
    mote_engine_memory(t->on.engine, &memory);
    char a[TEXT_NUMBER_BYTES], b[TEXT_NUMBER_BYTES], c[TEXT_NUMBER_BYTES], d[TEXT_NUMBER_BYTES];
    msg_detail("%s   %s, %s   context %s   memory %s, %s mapped",
               info.name[0] != '\0' ? info.name : "model", mote_isa_name(info.isa),
               text_counted(d, mote_engine_threads(t->on.engine), "thread"), text_count(a, context),
               text_bytes(b, memory.total - memory.weights), text_bytes(c, memory.weights));
}

/* A tower that happens to lie beside the model of a chat is an offer: if it does not fit, the chat
 * does without. */
static int open_model(talk *t, const char *path, const char *mmproj, bool needed)
{
    const mote_isa isa = (mote_isa)t->options->load.isa;
    mote_error err;
    if (mmproj[0] == '\0' || needed)
        return load_model(&t->on, path, mmproj[0] != '\0' ? mmproj : NULL, isa);
    const mote_model_options options = {.isa = isa, .mmproj = mmproj};
    if (mote_model_open(&t->on.model, path, &options, &err) == MOTE_OK)
        return CLI_DONE;
    const int code = load_model(&t->on, path, NULL, isa);
    if (code == CLI_DONE)
        msg_note("it cannot see: %s", err.text);
    return code;
}

/* Everything that must be there before threads are, then the model. */
static int open_senses(talk *t, const char *path, bool goes_on)
{
    char mmproj[MMPROJ_PATH_BYTES] = "", why[MMPROJ_WHY_BYTES] = "";
    const bool shows = images_wanted(t->options), needed = shows || t->options->mmproj != NULL;
    if ((needed || goes_on) && !mmproj_find(mmproj, why, path, t->options->mmproj) && needed)
        return msg_usage("%s", why);
    if (why[0] != '\0')
        msg_note(mmproj[0] != '\0' ? "%s" : "it cannot see: %s", why);
    int code = shows || mmproj[0] != '\0' ? images_start(&t->shows) : CLI_DONE;
    if (code == CLI_DONE)
        code = open_model(t, path, mmproj, needed);
    return code == CLI_DONE && shows ? images_see(&t->shows, t->on.model, t->options) : code;
}

int talk_open(talk *t, const cli_call *call, const input_text *prompt, bool goes_on)
{
    t->call = call;
    t->options = call->options;
    t->started = os_now();
    t->screen.out = call->common.json ? NULL : call->out;
    t->screen.fold = t->options->hide_thinking;
    int code = run_settings_read(&t->settings, t->options);
    if (code == CLI_DONE)
        code = open_senses(t, call->words[0], goes_on);
    if (code == CLI_DONE)
        code = load_warm(&t->on);
    if (code != CLI_DONE)
        return code;
    uint64_t context = context_for(t, prompt);
    code = open_engine(t, context, goes_on);
    if (code == CLI_DONE)
        code = open_chat(t, context);
    if (code == CLI_DONE)
        describe(t, context);
    t->load_ended = os_now();
    return code;
}

void talk_close(talk *t)
{
    interrupt_call(NULL, NULL);
    mote_chat_free(t->chat);
    load_close(&t->on);
    images_free(&t->shows);
    screen_free(&t->screen);
    run_settings_free(&t->settings);
}

static void on_event(void *with, const mote_chat_event *event)
{
    talk *t = with;
    if (event->kind != MOTE_CHAT_PREFILL && t->first_token == 0)
        t->first_token = os_now();
    screen_event(&t->screen, event);
    bool unread = t->screen.out != NULL && t->screen.out->error != 0;
    /* A signal may have come when there was no answer to cancel yet. */
    if (interrupt_came() || unread || t->screen.out_of_memory)
        mote_chat_cancel(t->chat);
}

static void cancel_chat(void *chat)
{
    mote_chat_cancel(chat);
}

mote_status talk_add(talk *t, const char *text, size_t n, mote_error *err)
{
    mote_media shows[IMAGES_ATTACHED];
    const size_t attached = images_attached(&t->shows, shows), message = mote_chat_count(t->chat);
    TRY(attached > 0 ? mote_chat_add_media(t->chat, shows, attached, text, n, err)
                     : mote_chat_add(t->chat, MOTE_ROLE_USER, text, n, err));
    images_send(&t->shows, message);
    return MOTE_OK;
}

mote_status talk_answer(talk *t, mote_error *err)
{
    mote_answer_options *options = &t->settings.answer;
    options->task = (mote_task)t->options->task;
    if (options->task == MOTE_TASK_GENERAL && t->shows.sent > 0)
        options->task = MOTE_TASK_VISION;
    options->event = on_event;
    options->with = t;
    /* Without a draw there is nothing to seed. */
    bool draws = (options->set & MOTE_SET_TEMPERATURE) == 0 || options->sampling.temperature > 0;
    if (!t->settings.seed_given)
        options->sampling.seed = draws ? run_new_seed() : 0;
    screen_begin(&t->screen);
    t->first_token = 0;
    t->asked = os_now();
    interrupt_call(cancel_chat, t->chat);
    mote_status status = mote_chat_answer(t->chat, options, &t->answer, err);
    interrupt_call(NULL, NULL);
    t->ended = os_now();
    screen_end(&t->screen);
    if (status == MOTE_OK && t->screen.out_of_memory)
        return err_set(err, MOTE_E_MEMORY, "no memory for the answer");
    return status;
}

const char *talk_ending(const talk *t)
{
    switch (t->answer.finish) {
    case MOTE_FINISH_LENGTH:
        return t->settings.answer.max_tokens != 0 &&
                       t->answer.answer_tokens >= t->settings.answer.max_tokens
                   ? "cut by --max-tokens"
                   : "cut: no more room";
    case MOTE_FINISH_CANCELED: return "interrupted";
    case MOTE_FINISH_LOOP: return "ended: it repeated itself";
    case MOTE_FINISH_STOP:
    case MOTE_FINISH_STOP_TEXT:
    case MOTE_FINISH_TOOL_CALLS: break;
    }
    return NULL;
}
