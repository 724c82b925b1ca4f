/* SPDX-License-Identifier: Apache-2.0 */
/* conversation.c - opens a model and a chat, adds messages, generates answers. */
#include "cli/chat/conversation.h"

#include "base/mem.h"
#include "base/os.h"
#include "cli/load/media_files.h"
#include "cli/load/typed_paths.h"
#include "cli/term/output.h"
#include "cli/term/terminal.h"
#include "cli/term/text.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    DEFAULT_CONTEXT = 32768, /* memory is allocated lazily, so unused context is free */
    DEFAULT_ANSWER = 8192,
    TEMPLATE_TOKENS = 512, /* allowance for the tokens of the chat template */
    KEPT_STATES = 4,
    DIRECTORY_BYTES = 1024,
    SAVE_SECONDS = 60,      /* for the end of a save before the program ends */
    SAVE_PROMPT_SECONDS = 5 /* the same for a single prompt */
};

static const double save_poll_seconds = 0.2;

/* Tokens of a text; 0 if it cannot be tokenized: generating the answer reports that error. */
static uint64_t conversation_count_tokens(const conversation *t, const strbuf *text)
{
    size_t n = 0;
    mote_error err;
    if (text->n > 0 &&
        mote_tokenize(t->on.model, text->p, text->n, 0, NULL, 0, &n, &err) != MOTE_OK)
        return 0;
    return n;
}

static uint64_t conversation_media_tokens(const conversation *t)
{
    uint64_t n = 0;
    for (size_t i = t->media.sent; i < t->media.n; i++) /* the others are in session_tokens */
        n += t->media.list[i].tokens + TEMPLATE_TOKENS;
    return n;
}

/* *prompt_tokens: tokens of the prompt, which the context must hold in any case. */
static uint64_t conversation_context(const conversation *t, const strbuf *prompt,
                                     uint64_t *prompt_tokens)
{
    const answer_options *s = &t->options;
    const uint64_t limit = load_context_max(&t->on, &t->flags->load);
    *prompt_tokens =
        conversation_count_tokens(t, &s->system) + conversation_count_tokens(t, &s->tools) +
        conversation_count_tokens(t, &s->messages) + conversation_count_tokens(t, prompt) +
        conversation_media_tokens(t) + t->session_tokens + TEMPLATE_TOKENS;
    if (t->flags->load.context != 0)
        return t->flags->load.context;
    uint64_t needed =
        *prompt_tokens + (s->answer.max_tokens != 0 ? s->answer.max_tokens : DEFAULT_ANSWER);
    uint64_t context = needed > DEFAULT_CONTEXT ? needed : DEFAULT_CONTEXT;
    return context < limit ? context : limit;
}

static int conversation_open_engine(conversation *t, uint64_t *context, uint64_t needed,
                                    bool interactive)
{
    load_options load = t->flags->load;
    const int spec = t->options.answer.spec;
    uint32_t sessions = interactive ? 2 : 1;
    mote_engine_options engine = {
        .threads = (uint32_t)load.threads,
        .sessions = sessions,
        .positions = *context * sessions,
        .kept_states = KEPT_STATES,
        .drafts = spec != MOTE_SPEC_OFF,
        .logits_rows = spec != MOTE_SPEC_OFF ? MOTE_SPEC_ROWS : 1,
        .kv = (mote_kv)load.kv,
        .yarn = (float)load.yarn,
        .pin = (mote_pin)load.pin,
        .lora_rank = load_lora_rank(&t->on),
    };
    mote_error err;
    load.keep_drafts = spec > 0;
    const int code = load_fit_memory(t->on.model, &load, &engine, needed);
    if (code != CLI_DONE)
        return code;
    *context = engine.positions / sessions;
    return mote_engine_new(&t->on.engine, t->on.model, &engine, &err) == MOTE_OK ? CLI_DONE
                                                                                 : msg_error(&err);
}

/* `path` NULL: the texts come from the conversation itself. */
static int conversation_bad_file(const char *path, mote_error *err)
{
    if (path != NULL)
        err_prefix(err, path);
    return msg_error(err);
}

static mote_status conversation_make_chat(conversation *t, const mote_chat_options *options,
                                          mote_error *err)
{
    if (t->carried.n > 0)
        return chat_load_text(&t->chat, t->on.engine, strbuf_view(&t->carried), options, err);
    if (!t->resumes)
        return mote_chat_new(&t->chat, t->on.engine, options, err);
    TRY(conversation_read_session(&t->chat, t->on.engine, t->session, options, err));
    TRY(conversation_attach_media(t->chat, &t->media, err));
    return options->system_bytes > 0
               ? mote_chat_set_system(t->chat, options->system, options->system_bytes, err)
               : MOTE_OK;
}

static int conversation_open_chat(conversation *t, uint64_t context)
{
    const answer_options *s = &t->options;
    mote_chat_options options = {.system = s->system.p,
                                 .system_bytes = s->system.n,
                                 .context = context,
                                 .official = t->flags->template.official == 1,
                                 .chat_template = t->flags->template.name,
                                 .loras = t->on.loras,
                                 .n_loras = t->on.n_loras};
    mote_error err;
    if (conversation_make_chat(t, &options, &err) != MOTE_OK)
        return msg_error(&err);
    chat_set_disk(t->chat, t->disk, t->extent);
    if (t->carried.n > 0) /* it has system text, tools and messages */
        return CLI_DONE;
    if (s->tools.n > 0 && mote_chat_set_tools(t->chat, s->tools.p, s->tools.n, &err) != MOTE_OK)
        return conversation_bad_file(t->flags->tools, &err);
    if (s->messages.n > 0 &&
        mote_chat_add_json(t->chat, s->messages.p, s->messages.n, &err) != MOTE_OK)
        return conversation_bad_file(t->flags->messages, &err);
    return CLI_DONE;
}

/* ---- the prefix cache on disk ---- */

/* Without it everything is computed. */
static void conversation_open_disk(conversation *t)
{
    char directory[DIRECTORY_BYTES];
    mote_error err;
    if (t->flags->cache_disk == 0 || !load_disk_directory(directory, sizeof directory))
        return;
    if (chat_disk_open(&t->disk, directory, t->flags->cache_disk, session_cipher(), &err) !=
        MOTE_OK)
        msg_note("disk cache off: %s", err.text);
}

static void conversation_report_disk(conversation *t)
{
    const char *problem = chat_disk_problem(t->disk);
    if (problem != NULL)
        msg_note("%s", problem);
}

/* Waits for the last save; a signal ends it. Of a single prompt less is lost without it. */
static void conversation_flush_disk(conversation *t)
{
    const double end = os_now() + (t->extent == CHAT_DISK_ALL ? SAVE_SECONDS : SAVE_PROMPT_SECONDS);
    while (t->disk != NULL && os_now() < end && !interrupt_pending() &&
           !chat_disk_flush(t->disk, save_poll_seconds)) {
    }
    conversation_report_disk(t);
}

/* ---- model and engine ---- */

/* If the vision encoder was found but not requested and cannot be used, the chat is text only. */
static int conversation_open_model(conversation *t, const char *mmproj, bool needed)
{
    const mote_isa isa = (mote_isa)t->flags->load.isa;
    mote_error err;
    if (mmproj[0] == '\0' || needed)
        return load_model(&t->on, &t->model, mmproj[0] != '\0' ? mmproj : NULL, isa);
    if (load_open(&t->on, &t->model, mmproj, isa, &err) == MOTE_OK)
        return CLI_DONE;
    const int code = load_model(&t->on, &t->model, NULL, isa);
    if (code == CLI_DONE)
        msg_note("no vision encoder: %s", err.text);
    return code;
}

/* Starts the decoder process, which must be forked before threads exist, then opens the model.
 * `may_see`: images may follow, so a vision encoder is opened if there is one. */
static int conversation_open_files(conversation *t, bool may_see)
{
    char mmproj[MMPROJ_PATH_BYTES] = "", why[MMPROJ_WHY_BYTES] = "";
    const media_options *media = &t->flags->media;
    const bool wanted = media_files_wanted(media) || t->resumed.n_media > 0;
    const bool needed = wanted || media->mmproj != NULL;
    if ((needed || may_see) && !find_mmproj(mmproj, why, &t->model, media->mmproj) && needed)
        return msg_usage("%s", why);
    if (why[0] != '\0')
        msg_note(mmproj[0] != '\0' ? "%s" : "no vision encoder: %s", why);
    int code = wanted || mmproj[0] != '\0' ? media_files_start(&t->media) : CLI_DONE;
    if (code == CLI_DONE)
        code = conversation_open_model(t, mmproj, needed);
    if (code != CLI_DONE || !wanted)
        return code;
    code = session_load_media(&t->media, &t->resumed, t);
    return code == CLI_DONE
               ? media_files_load(&t->media, t->on.model, media, (uint32_t)t->flags->load.threads)
               : code;
}

static bool prompt_names_image(const strbuf *prompt, size_t typed)
{
    typed_image found;
    if (!typed_image_find(&found, prompt->p, typed, 0))
        return false;
    mem_free(found.path);
    return true;
}

int conversation_open(conversation *t, const cli_call *call, strbuf *prompt, size_t typed,
                      bool interactive)
{
    const bool names_image = prompt_names_image(prompt, typed);
    t->call = call;
    t->flags = call->options;
    t->started = os_now();
    t->view.out = call->common.json ? NULL : call->out;
    t->view.fold = t->flags->hide_thinking;
    int code = answer_options_read(&t->options, t->flags);
    if (code == CLI_DONE)
        code = conversation_begin_session(t);
    if (code == CLI_DONE)
        code = find_or_pull_model(&t->model, call->words[0], t->flags->pull, t->flags->load.memory);
    if (code == CLI_DONE && t->flags->think == NULL && !t->flags->no_think)
        think_flag_read(t->model.think, &t->options.answer.think, &t->options.answer.think_budget);
    if (code == CLI_DONE)
        code = conversation_open_files(t, interactive || names_image);
    if (code == CLI_DONE)
        code = load_loras(&t->on, &t->flags->lora);
    if (code == CLI_DONE)
        code = load_prefault(&t->on, t->flags->load.memory);
    if (code != CLI_DONE)
        return code;
    conversation_attach_typed(t, prompt, typed);
    uint64_t prompt_tokens;
    uint64_t context = conversation_context(t, prompt, &prompt_tokens);
    code = conversation_open_engine(t, &context, prompt_tokens, interactive);
    t->extent = interactive || t->session[0] != '\0' ? CHAT_DISK_ALL : CHAT_DISK_PROMPT;
    if (code == CLI_DONE) {
        conversation_open_disk(t);
        code = conversation_open_chat(t, context);
    }
    if (code == CLI_DONE) {
        template_flag_note(&t->flags->template, t->on.model);
        load_describe(&t->on, context);
    }
    t->load_ended = os_now();
    return code;
}

void conversation_close(conversation *t)
{
    interrupt_set_handler(NULL, NULL);
    conversation_flush_disk(t);
    mote_chat_free(t->chat);
    chat_disk_close(t->disk);
    load_close(&t->on);
    media_files_free(&t->media);
    session_info_free(&t->resumed);
    answer_view_free(&t->view);
    answer_options_free(&t->options);
    strbuf_fini(&t->question);
}

/* ---- another model ---- */

/* Opens next->model for the conversation in next->carried. */
static int conversation_open_next(conversation *next, bool can_see)
{
    char mmproj[MMPROJ_PATH_BYTES] = "", why[MMPROJ_WHY_BYTES] = "";
    const char *given = next->flags->media.mmproj;
    uint64_t needed, context;
    if (can_see && (given == NULL || strcmp(given, "none") != 0))
        find_mmproj(mmproj, why, &next->model, NULL);
    int code = conversation_open_model(next, mmproj, false);
    if (code == CLI_DONE)
        code = load_prefault(&next->on, next->flags->load.memory);
    if (code != CLI_DONE)
        return code;
    context = conversation_context(next, &(strbuf){0}, &needed);
    code = conversation_open_engine(next, &context, needed, true);
    return code == CLI_DONE ? conversation_open_chat(next, context) : code;
}

int conversation_change_model(conversation *t, const char *model)
{
    conversation next = {.call = t->call, .flags = t->flags, .disk = t->disk, .extent = t->extent};
    const char *aliased = config_alias(t->call->config, model);
    mote_error err;
    next.options = t->options;
    next.options.messages = (strbuf){0};
    next.session_tokens = mote_session_length(mote_chat_session(t->chat));
    if (next.session_tokens < t->session_tokens)
        next.session_tokens = t->session_tokens;
    int code = t->media.sent > 0
                   ? msg_usage("the conversation has images, which another model cannot use; "
                               "/clear starts a new one")
                   : CLI_DONE;
    if (code == CLI_DONE)
        code = find_model(&next.model, aliased != NULL ? aliased : model);
    if (code == CLI_DONE && chat_put_text(&next.carried, t->chat, (str){0}, &err) != MOTE_OK)
        code = msg_error(&err);
    if (code == CLI_DONE)
        code = conversation_open_next(&next, t->media.fork_server != NULL);
    strbuf_fini(&next.carried);
    if (code != CLI_DONE) {
        mote_chat_free(next.chat);
        load_close(&next.on);
        return code;
    }
    mote_chat_free(t->chat);
    load_close(&t->on);
    media_files_truncate(&t->media, 0); /* attached images are encoded for the old model */
    t->on = next.on;
    t->chat = next.chat;
    t->model = next.model;
    t->answered = false;
    return CLI_DONE;
}

/* ---- images named in a message ---- */

/* Removes bytes [from, to) and a blank next to them. Returns how many. */
static size_t text_cut(strbuf *text, size_t from, size_t to)
{
    if (to < text->n && text->p[to] == ' ')
        to++;
    else if (from > 0 && text->p[from - 1] == ' ')
        from--;
    memmove(text->p + from, text->p + to, text->n - to);
    text->n -= to - from;
    return to - from;
}

void conversation_attach_typed(conversation *t, strbuf *text, size_t typed)
{
    mote_model_info info;
    typed_image found;
    size_t at = 0;
    mote_model_describe(t->on.model, &info);
    while (typed_image_find(&found, text->p, typed, at)) {
        at = found.end;
        if (!info.vision) {
            msg_note("%s is not attached: %s", found.path, media_files_no_encoder);
        } else if (media_files_add(&t->media, found.path, false, t->on.model, &t->flags->media,
                                   (uint32_t)t->flags->load.threads) == CLI_DONE) {
            msg_note("attached %s", found.path);
            at = found.begin;
            typed -= text_cut(text, found.begin, found.end);
        }
        mem_free(found.path);
    }
}

static void conversation_on_event(void *with, const mote_chat_event *event)
{
    conversation *t = with;
    if (event->kind != MOTE_CHAT_PREFILL && t->first_token == 0)
        t->first_token = os_now();
    answer_view_event(&t->view, event);
    bool unread = t->view.out != NULL && t->view.out->error != 0;
    /* A signal may have come before there was an answer to cancel. */
    if (interrupt_pending() || unread || t->view.out_of_memory)
        mote_chat_cancel(t->chat);
}

static void conversation_cancel(void *chat)
{
    mote_chat_cancel(chat);
}

mote_status conversation_add(conversation *t, const char *text, size_t n, mote_error *err)
{
    mote_media media[MEDIA_FILES_ATTACHED];
    const size_t attached = media_files_attached(&t->media, media),
                 message = mote_chat_count(t->chat);
    TRY(attached > 0 ? mote_chat_add_media(t->chat, media, attached, text, n, err)
                     : mote_chat_add(t->chat, MOTE_ROLE_USER, text, n, err));
    media_files_mark_sent(&t->media, message);
    return MOTE_OK;
}

mote_status conversation_answer(conversation *t, mote_error *err)
{
    mote_answer_options *options = &t->options.answer;
    options->task = (mote_task)t->flags->task;
    if (options->task == MOTE_TASK_GENERAL && t->media.sent > 0)
        options->task = MOTE_TASK_VISION;
    options->event = conversation_on_event;
    options->with = t;
    /* Greedy decoding needs no seed. */
    bool draws = (options->set & MOTE_SET_TEMPERATURE) == 0 || options->sampling.temperature > 0;
    if (!t->options.seed_given)
        options->sampling.seed = draws ? answer_new_seed() : 0;
    answer_view_begin(&t->view);
    t->first_token = 0;
    t->sent = os_now();
    interrupt_set_handler(conversation_cancel, t->chat);
    const size_t before = mote_chat_count(t->chat);
    mote_status status = mote_chat_answer(t->chat, options, &t->answer, err);
    interrupt_set_handler(NULL, NULL);
    t->ended = os_now();
    answer_view_end(&t->view);
    conversation_report_disk(t);
    const bool answered = mote_chat_count(t->chat) > before || t->answer.answer_tokens > 0;
    if (status == MOTE_OK && answered) /* else the question is withdrawn */
        conversation_save_session(t);  /* reports its errors */
    if (status == MOTE_OK && t->view.out_of_memory)
        return err_set(err, MOTE_E_MEMORY, "out of memory: the text of an answer");
    return status;
}

bool conversation_prefilled(const conversation *t)
{
    return t->answer.reused_tokens + t->answer.prefilled_tokens >= t->answer.prompt_tokens;
}

const char *conversation_ending(const conversation *t)
{
    switch (t->answer.finish) {
    case MOTE_FINISH_LENGTH:
        return t->options.answer.max_tokens != 0 &&
                       t->answer.answer_tokens >= t->options.answer.max_tokens
                   ? "cut by --max-tokens"
                   : "cut: context full";
    case MOTE_FINISH_CANCELED:
        return conversation_prefilled(t) ? "interrupted" : "interrupted during prefill";
    case MOTE_FINISH_LOOP: return "ended: repetition loop";
    case MOTE_FINISH_STOP:
    case MOTE_FINISH_STOP_TEXT:
    case MOTE_FINISH_TOOL_CALLS: break;
    }
    return NULL;
}

/* ---- the interactive chat ---- */

/* "210 tokens   8.0 t/s   drafts 90/120   3.4 %" at the right edge; the percentage is the used
 * context. */
static void conversation_show_stats(const conversation *t)
{
    const mote_answer *a = &t->answer;
    const mote_session *session = mote_chat_session(t->chat);
    char x[TEXT_NUMBER_BYTES], y[TEXT_NUMBER_BYTES], drafts[ANSWER_DRAFTS_BYTES], line[256];
    double share =
        100 * (double)mote_session_length(session) / (double)mote_session_context(session);
    const char *ending = conversation_ending(t);
    snprintf(line, sizeof line, "%s%s%s   %s t/s%s   %.1f %%", ending != NULL ? ending : "",
             ending != NULL ? "   " : "", text_counted(x, a->answer_tokens, "token"),
             text_rate(y, answer_per_second(a->answer_tokens, a->seconds_decode)),
             answer_drafts_text(drafts, a), share);
    unsigned columns = term_columns(STDERR_FILENO);
    msg_note("%*s", columns > 1 ? (int)columns - 1 : 0, line);
}

/* Removes a question without an answer; its images are attached to the next message. */
static void conversation_withdraw(conversation *t, size_t messages)
{
    if (messages == 0 || mote_chat_count(t->chat) != messages)
        return;
    mote_chat_cut(t->chat, messages - 1);
    media_files_reattach(&t->media, messages - 1);
    t->withdrawn = true;
}

void conversation_answer_last(conversation *t)
{
    size_t messages = mote_chat_count(t->chat);
    mote_error err;
    /* Typed characters are kept for the next prompt, but must not be echoed into the answer. */
    term_echo(false);
    mote_status status = conversation_answer(t, &err);
    term_echo(true);
    t->answered = t->answered || status == MOTE_OK;
    if (status == MOTE_E_FULL) {
        msg_note("%s (/undo or /clear frees context; --context N sets a larger one)", err.text);
        conversation_withdraw(t, messages);
    } else if (status != MOTE_OK) {
        msg_error(&err);
        conversation_withdraw(t, messages);
    } else if (mote_chat_count(t->chat) == messages) {
        msg_note("stopped before the answer began; /retry asks again");
        conversation_withdraw(t, messages);
    } else {
        conversation_show_stats(t);
    }
    interrupt_clear();
}

void conversation_send(conversation *t, const char *text, size_t n)
{
    mote_error err;
    if (t->question.p != text) {
        t->question.n = 0;
        if (!text_add(&t->question, text, n))
            msg_note("out of memory: the question is not kept for /retry");
    }
    t->withdrawn = false;
    if (conversation_add(t, text, n, &err) != MOTE_OK)
        msg_error(&err);
    else
        conversation_answer_last(t);
}
