/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_imatrix.c - `mote imatrix`: an importance matrix from texts and conversations.
 *
 * A text is cut into chunks; each starts with an empty session. A conversation is rendered with the
 * model's chat template and prefilled, like one that waits for an answer.
 */
#include "cli/args/command.h"
#include "cli/convert/conversation_file.h"
#include "cli/load/find_model.h"
#include "cli/load/load.h"
#include "cli/load/media_files.h"
#include "cli/term/output.h"
#include "cli/term/terminal.h"
#include "cli/term/text.h"
#include "convert/imatrix_collect.h"
#include "json/json_writer.h"

#include <stdio.h>
#include <sys/stat.h>

enum {
    TEXT_CHUNK = 512,          /* as llama-imatrix */
    CONVERSATION_TOKENS = 8192 /* at most, by default */
};

typedef struct cmd_imatrix_options {
    const char *out;
    uint64_t context; /* 0: TEXT_CHUNK, CONVERSATION_TOKENS */
    uint64_t limit;   /* chunks or conversations of each file; 0: all */
    const char *mmproj;
    bool yes;
    load_options load;
} cmd_imatrix_options;

#define AT(field) offsetof(cmd_imatrix_options, field)

static const cli_flag flags[] = {
    {.name = "out",
     .letter = 'o',
     .kind = FLAG_TEXT,
     .value = "FILE",
     .initial = "imatrix.gguf",
     .once = true,
     .at = AT(out),
     .help = "output file"},
    {.name = "context",
     .letter = 'c',
     .kind = FLAG_COUNT,
     .value = "N",
     .min = 32,
     .max = 4194304,
     .aliases = "num-ctx|ctx-size|n-ctx|max-model-len",
     .shown = "512; 8192 for conversations",
     .once = true,
     .at = AT(context),
     .help = "tokens of a chunk of text, or of the longest conversation"},
    {.name = "limit",
     .kind = FLAG_COUNT,
     .value = "N",
     .min = 1,
     .max = 1e9,
     .shown = "all",
     .once = true,
     .at = AT(limit),
     .help = "read only the first N chunks or conversations of each file"},
    {MMPROJ_FLAG, .once = true, .at = AT(mmproj),
     .help = "vision encoder (mmproj) for images of conversations"},
    {.name = "yes",
     .letter = 'y',
     .kind = FLAG_SWITCH,
     .once = true,
     .at = AT(yes),
     .help = "replace the output file if it exists"},
};
static const flag_group groups[] = {
    FLAG_GROUP("Flags", flags, 0),
    {"Machine", load_flags + 1, LOAD_N_FLAGS - 1, AT(load)},
};

typedef struct imatrix_state {
    const cli_call *call;
    const cmd_imatrix_options *options;
    found_model found;
    loaded on;
    media_files media;
    bool drafts; /* the model has an MTP head */
    imatrix_collector *collector;
    progress line;
    uint64_t chunks;        /* of texts */
    uint64_t conversations; /* prefilled */
} imatrix_state;

static bool is_conversations(const char *path)
{
    const size_t n = strlen(path);
    return n > 6 && strcmp(path + n - 6, ".jsonl") == 0;
}

/* ---- steps ---- */

/* Runs the MTP block too: for the token after the session, and tokens that follow it. */
static mote_status draft_rows(const imatrix_state *s, mote_session *session,
                              const mote_token *tokens, size_t n, mote_error *err)
{
    mote_draft_item item = {.session = session, .next = tokens[0], .n = 1};
    item.given = tokens + 1;
    item.n_given = n - 1 < MOTE_MAX_DRAFTS - 1 ? n - 1 : MOTE_MAX_DRAFTS - 1;
    return mote_draft(s->on.engine, &item, 1, err);
}

/* Appends n tokens. With an MTP head after every 128 tokens a draft: the block's products that a step
 * does not compute have a row for one token of 16. */
static mote_status chunk_run(const imatrix_state *s, mote_session *session,
                             const mote_token *tokens, size_t n, mote_error *err)
{
    const size_t at_once = s->drafts ? 128 : n;
    mote_session_rewind(session, 0);
    for (size_t at = 0; at < n; at += at_once) {
        const size_t left = n - at, now = left < at_once ? left : at_once;
        const mote_work work = {
            .session = session, .tokens = tokens + at, .n = now, .want = MOTE_LOGITS_NONE};
        if (interrupt_pending())
            return err_set(err, MOTE_E_CANCELED, "interrupted");
        TRY(mote_step(s->on.engine, &work, 1, err));
        if (s->drafts && left > now)
            TRY(draft_rows(s, session, tokens + at + now, left - now, err));
    }
    return MOTE_OK;
}

/* Shows the collector all matrices. */
static mote_status collector_prepare(imatrix_state *s, mote_error *err)
{
    const mote_token tokens[] = {0, 0};
    const mote_work work = {
        .session = s->on.session, .tokens = tokens, .n = 2, .want = MOTE_LOGITS_NONE};
    TRY(imatrix_collector_new(&s->collector, err));
    mote_engine_observe(s->on.engine, imatrix_observe, s->collector);
    TRY(mote_step(s->on.engine, &work, 1, err));
    if (s->drafts)
        TRY(draft_rows(s, s->on.session, tokens, 1, err));
    mote_session_free(s->on.session);
    s->on.session = NULL;
    return imatrix_collector_start(s->collector, err);
}

/* ---- texts ---- */

static int text_collect(imatrix_state *s, const char *path)
{
    const size_t size = s->options->context != 0 ? (size_t)s->options->context : TEXT_CHUNK;
    char count[TEXT_NUMBER_BYTES];
    strbuf text = {0};
    input_ids ids = {0};
    mote_session *session = NULL;
    mote_error err;
    int code = input_read(&text, path);
    if (code == CLI_DONE)
        code = input_tokenize(&ids, s->on.model, text.p != NULL ? text.p : "", text.n, 0);
    strbuf_fini(&text);
    if (code != CLI_DONE)
        return code;
    size_t n = ids.n / size;
    n = s->options->limit != 0 && s->options->limit < n ? (size_t)s->options->limit : n;
    if (n == 0)
        code = msg_usage("%.800s has %s and a chunk %zu; give a longer text or lower --context",
                         path, text_counted(count, ids.n, "token"), size);
    mote_status status =
        n > 0 ? mote_session_new(&session, s->on.engine, NULL, &err) : MOTE_E_CANCELED;
    progress_begin(&s->line, "text", PROGRESS_TOKENS, 0, n * size);
    for (size_t i = 0; i < n && status == MOTE_OK; i++) {
        status = chunk_run(s, session, ids.ids + i * size, size, &err);
        progress_at(&s->line, (i + 1) * size);
        s->chunks++;
    }
    progress_end(&s->line);
    if (session != NULL)
        mote_session_free(session);
    input_ids_free(&ids);
    if (status == MOTE_OK || n == 0)
        return code;
    return status == MOTE_E_CANCELED ? interrupt_exit_code() : msg_error(&err);
}

/* ---- conversations ---- */

/* The MTP block for the last tokens, as far back as a rewind is exact. */
static mote_status conversation_draft(const imatrix_state *s, mote_session *session,
                                      mote_error *err)
{
    enum { REWIND_BOUNDARY = 32 };
    mote_token last[MOTE_MAX_DRAFTS];
    const uint64_t n = mote_session_length(session), state = n / REWIND_BOUNDARY * REWIND_BOUNDARY;
    const uint64_t from = n > state + MOTE_MAX_DRAFTS ? n - MOTE_MAX_DRAFTS : state;
    for (uint64_t i = from; i < n; i++) {
        last[i - from] = mote_session_tokens(session)[i];
        if (last[i - from] < 0) /* of an image */
            return MOTE_OK;
    }
    if (from == 0 || from == n || mote_session_rewind(session, from) != from)
        return MOTE_OK;
    return draft_rows(s, session, last, (size_t)(n - from), err);
}

/* Prefills a conversation: an answer of one token, which is dropped. */
static mote_status conversation_prefill(imatrix_state *s, mote_chat *chat, mote_error *err)
{
    const mote_answer_options o = {.think = MOTE_THINK_OFF,
                                   .max_tokens = 1,
                                   .set = MOTE_SET_TEMPERATURE,
                                   .spec = MOTE_SPEC_OFF};
    TRY(mote_chat_answer(chat, &o, NULL, err));
    if (s->drafts)
        TRY(conversation_draft(s, mote_chat_session(chat), err));
    s->conversations++;
    return interrupt_pending() ? err_set(err, MOTE_E_CANCELED, "interrupted") : MOTE_OK;
}

static int line_collect(imatrix_state *s, const char *path, str line, size_t number)
{
    char where[900];
    mote_error err = {0};
    mote_chat *chat = NULL;
    mote_status status = mote_chat_new(&chat, s->on.engine, NULL, &err);
    int code = CLI_DONE;
    if (status == MOTE_OK)
        status = conversation_read(chat, line, path, &s->media, s->on.model,
                                   (uint32_t)s->options->load.threads, &code, &err);
    if (status == MOTE_OK && code == CLI_DONE)
        status = conversation_prefill(s, chat, &err);
    mote_chat_free(chat);
    media_files_truncate(&s->media, 0);
    if (status == MOTE_OK)
        return code;
    if (status == MOTE_E_CANCELED || interrupt_pending())
        return interrupt_exit_code();
    snprintf(where, sizeof where, "%.800s, line %zu", path, number);
    err_prefix(&err, where);
    return msg_error(&err);
}

static int conversations_collect(imatrix_state *s, const char *path)
{
    const uint64_t before = s->conversations;
    strbuf text = {0};
    int code = input_read(&text, path);
    str left = strbuf_view(&text);
    const uint64_t all = left.n;
    if (code == CLI_DONE)
        progress_begin(&s->line, "conversations", PROGRESS_BYTES, 0, all);
    for (size_t number = 1; left.n > 0 && code == CLI_DONE; number++) {
        const char *end = memchr(left.p, '\n', left.n);
        const str line = {left.p, end != NULL ? (size_t)(end - left.p) : left.n};
        const size_t used = line.n + (end != NULL);
        left = (str){left.p + used, left.n - used};
        if (s->options->limit != 0 && s->conversations - before == s->options->limit)
            break;
        if (line.n > 0 && !str_is(line, "\r"))
            code = line_collect(s, path, line, number);
        progress_at(&s->line, all - left.n);
    }
    progress_end(&s->line);
    strbuf_fini(&text);
    if (code == CLI_DONE && s->conversations == before)
        return msg_usage("%.800s has no conversations", path);
    return code;
}

/* ---- the command ---- */

static int imatrix_open_files(imatrix_state *s, bool conversations)
{
    char mmproj[MMPROJ_PATH_BYTES] = "", why[MMPROJ_WHY_BYTES] = "";
    const char *given = s->options->mmproj;
    mote_model_info info;
    int code = find_model(&s->found, s->call->words[0]);
    if (code != CLI_DONE)
        return code;
    if (conversations && !find_mmproj(mmproj, why, &s->found, given) && given != NULL)
        return msg_usage("%s", why);
    if (mmproj[0] != '\0')
        code = media_files_start(&s->media);
    if (code == CLI_DONE)
        code = load_model(&s->on, &s->found, mmproj[0] != '\0' ? mmproj : NULL,
                          (mote_isa)s->options->load.isa);
    if (code != CLI_DONE)
        return code;
    mote_model_describe(s->on.model, &info);
    s->drafts = info.draft_head;
    return CLI_DONE;
}

static int imatrix_engine(imatrix_state *s, bool conversations)
{
    load_options load = s->options->load;
    uint64_t context = s->options->context;
    mote_error err;
    if (context == 0)
        context = conversations ? CONVERSATION_TOKENS : TEXT_CHUNK;
    const uint64_t most = load_context_max(&s->on, &load);
    context = context < most ? context : most;
    load.drafts = load.keep_drafts = s->drafts;
    const int code = load_engine(&s->on, &load, &context, context, 1);
    if (code != CLI_DONE)
        return code;
    return collector_prepare(s, &err) == MOTE_OK ? CLI_DONE : msg_error(&err);
}

static int imatrix_write(const imatrix_state *s)
{
    const cmd_imatrix_options *o = s->options;
    char a[TEXT_NUMBER_BYTES];
    const imatrix_source source = {.datasets = s->call->words + 1,
                                   .n = s->call->n_words - 1,
                                   .chunk_size =
                                       o->context != 0 ? (uint32_t)o->context : TEXT_CHUNK};
    const uint64_t tokens = imatrix_collector_tokens(s->collector);
    const uint32_t matrices = imatrix_collector_n(s->collector);
    uint64_t experts;
    const uint64_t unused = imatrix_collector_unused(s->collector, &experts);
    mote_error err;
    if (imatrix_collector_write(s->collector, o->out, &source, &err) != MOTE_OK)
        return msg_error(&err);
    if (unused > 0)
        msg_note("no token used %llu of %llu matrices of experts; their inputs count equally: give "
                 "a longer text",
                 (unsigned long long)unused, (unsigned long long)experts);
    if (!s->call->common.json) {
        if (!s->call->common.quiet)
            out_printf(s->call->out, "%.900s  %u matrices  %s\n", o->out, matrices,
                       text_counted(a, tokens, "token"));
        return CLI_DONE;
    }
    strbuf j = {0};
    jw_open(&j, '{');
    jw_key_text(&j, "file", o->out);
    jw_key_text(&j, "model", s->found.name);
    jw_key_uint(&j, "matrices", matrices);
    jw_key_uint(&j, "expert_matrices", experts);
    jw_key_uint(&j, "unused_expert_matrices", unused);
    jw_key_uint(&j, "tokens", tokens);
    jw_key_uint(&j, "chunks", s->chunks);
    jw_key_uint(&j, "conversations", s->conversations);
    jw_close(&j, '}');
    return out_json(s->call->out, &j);
}

static int imatrix_run(const cli_call *call)
{
    imatrix_state s = {.call = call, .options = call->options};
    struct stat info;
    bool conversations = false;
    for (size_t i = 1; i < call->n_words; i++)
        conversations |= is_conversations(call->words[i]);
    if (!s.options->yes && stat(s.options->out, &info) == 0)
        return msg_fail(CLI_REFUSED, "file_exists", "%.800s exists; replace it with -y",
                        s.options->out);
    int code = imatrix_open_files(&s, conversations);
    if (code == CLI_DONE)
        code = imatrix_engine(&s, conversations);
    for (size_t i = 1; i < call->n_words && code == CLI_DONE; i++)
        code = is_conversations(call->words[i]) ? conversations_collect(&s, call->words[i])
                                                : text_collect(&s, call->words[i]);
    if (code == CLI_DONE)
        code = imatrix_write(&s);
    media_files_free(&s.media);
    load_close(&s.on);
    imatrix_collector_free(s.collector);
    return code;
}

const cli_command cmd_imatrix = {
    .name = "imatrix",
    .section = "Models",
    .summary = "how much each input of a matrix matters, for mote quantize",
    .usage = "MODEL FILE...",
    .arguments = "MODEL FILE...",
    .min_words = 2,
    .max_words = 64,
    .groups = groups,
    .n_groups = sizeof groups / sizeof *groups,
    .options_bytes = sizeof(cmd_imatrix_options),
    .about =
        "Runs texts and conversations through the model and adds up, for each matrix, the squares "
        "of its inputs. mote quantize --imatrix and llama-quantize --imatrix use the file to give "
        "errors in columns with large inputs more weight. MODEL is the BF16, F16 or F32 file that "
        "will be quantised; Q8_0 gives nearly the same.\n"
        "A text is cut into chunks of 512 tokens. The rest at the end is dropped. FILE - is stdin. "
        "A file named *.jsonl has one conversation per line: an object with messages and tools in "
        "OpenAI's format. Images are parts of type image_url with the path of a file, relative to "
        "the directory of the .jsonl file. Several files add up.\n"
        "The file does not depend on the number of threads. With an MTP head its block is "
        "included.",
    .examples = "mote imatrix qwen3.5-4b-bf16.gguf calibration.txt -o imatrix.gguf\n"
                "mote imatrix model-bf16.gguf wiki.txt chats.jsonl --limit 200 -o imatrix.gguf\n"
                "mote quantize model-bf16.gguf model-IQ4_XS.gguf IQ4_XS --imatrix imatrix.gguf",
    .run = imatrix_run,
};
