/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_logits.c - `mote logits`: the logits of the next token.
 *
 * The output file is raw little-endian float32, one row of the vocabulary per position. cmp(1) on
 * two such files checks that threads, chunk size and instruction set do not change the result.
 *
 * With --mtp the rows are those of the MTP head. It reads a position and the token after it, so n
 * input tokens have n - 1 rows.
 */
#include "base/mem.h"
#include "base/os.h"
#include "cli/args/command.h"
#include "cli/load/find_model.h"
#include "cli/load/load.h"
#include "cli/term/output.h"
#include "cli/term/terminal.h"
#include "cli/term/text.h"
#include "json/json_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct logits_options {
    const char *ids;
    const char *text;
    bool special;
    bool all;
    bool mtp;
    const char *out;
    uint64_t cut;
    uint64_t top;
    lora_options lora;
    load_options load;
} logits_options;

#define AT(member) offsetof(logits_options, member)

static const cli_flag flags[] = {
    {.name = "ids",
     .kind = FLAG_TEXT,
     .value = "1,2,3",
     .once = true,
     .at = AT(ids),
     .help = "input tokens"},
    {.name = "text",
     .kind = FLAG_TEXT,
     .value = "TEXT",
     .once = true,
     .at = AT(text),
     .help = "input text"},
    {.name = "special",
     .kind = FLAG_SWITCH,
     .once = true,
     .at = AT(special),
     .help = "parse control tokens in the text"},
    {.name = "all",
     .kind = FLAG_SWITCH,
     .once = true,
     .at = AT(all),
     .help = "logits of every position, not only of the last one"},
    {.name = "mtp",
     .kind = FLAG_SWITCH,
     .once = true,
     .at = AT(mtp),
     .help = "logits of the MTP head, which predicts the token after the next one: the last input "
             "token is the next one"},
    {.name = "out",
     .kind = FLAG_TEXT,
     .value = "FILE",
     .once = true,
     .at = AT(out),
     .help = "write raw float32 to FILE; - is stdout"},
    {.name = "cut",
     .kind = FLAG_COUNT,
     .value = "N",
     .min = 1,
     .max = 4096,
     .shown = "automatic",
     .once = true,
     .at = AT(cut),
     .help = "prefill chunk size in tokens; affects speed, never the result"},
    {.name = "top",
     .kind = FLAG_COUNT,
     .value = "K",
     .min = 1,
     .max = 100,
     .initial = "10",
     .once = true,
     .at = AT(top),
     .help = "how many of the most likely tokens to print"},
};

static const flag_group groups[] = {
    FLAG_GROUP("Flags", flags, 0),
    LORA_FLAG_GROUP(AT(lora)),
    LOAD_FLAG_GROUP(offsetof(logits_options, load)),
};

/* Rows per step with --all: at most 64 MiB of logits and at most ROWS_MAX rows. */
enum { ROWS_BYTES = 64 << 20, ROWS_MAX = 512, TOP_MAX = 100 };

typedef struct logits_state {
    const cli_call *call;
    const logits_options *options;
    loaded on;
    input_ids ids;
    uint32_t vocabulary;
    os_file file;   /* regular file of --out; fd < 0: none */
    cli_out *pipe;  /* stdout or a device of --out; NULL: none */
    mote_error err; /* of the file */
    size_t rows;    /* so far */
    size_t n_top;
    mote_token top[TOP_MAX]; /* of the last row, most likely first */
    float top_logits[TOP_MAX];
} logits_state;

static bool logits_to_stdout(const logits_state *l)
{
    return l->options->out != NULL && strcmp(l->options->out, "-") == 0;
}

/* Insertion into a sorted list. Ties go to the lower id. */
static void logits_find_top(logits_state *l, const float *row)
{
    l->n_top = 0;
    for (uint32_t id = 0; id < l->vocabulary; id++) {
        size_t at = l->n_top;
        while (at > 0 && row[id] > l->top_logits[at - 1])
            at--;
        if (at >= l->options->top)
            continue;
        size_t keep = l->n_top < l->options->top ? l->n_top : l->options->top - 1;
        memmove(l->top + at + 1, l->top + at, (keep - at) * sizeof *l->top);
        memmove(l->top_logits + at + 1, l->top_logits + at, (keep - at) * sizeof *l->top_logits);
        l->top[at] = (mote_token)id;
        l->top_logits[at] = row[id];
        l->n_top = keep + 1;
    }
}

static int logits_write_failed(const mote_error *err)
{
    return msg_fail(CLI_NOT_WRITABLE, mote_status_name(err->status), "%s", err->text);
}

/* false: the row could not be written. */
static bool logits_take_row(logits_state *l, const float *row)
{
    const size_t bytes = l->vocabulary * sizeof(float);
    if (l->file.fd >= 0 && os_file_write(&l->file, row, bytes, &l->err) != MOTE_OK)
        return false;
    if (l->pipe != NULL)
        out_write(l->pipe, row, bytes);
    l->rows++;
    return l->pipe == NULL || l->pipe->error == 0;
}

static bool logits_take_rows(void *ctx, const mote_session *session, size_t rows)
{
    logits_state *l = ctx;
    for (size_t i = 0; i < rows; i++)
        if (!logits_take_row(l, mote_session_logits(session, i)))
            return false;
    if (rows > 0)
        logits_find_top(l, mote_session_logits(session, rows - 1));
    return true;
}

static int logits_read_ids(logits_state *l)
{
    const logits_options *o = l->options;
    if ((o->ids != NULL) == (o->text != NULL))
        return msg_usage("give either --ids 1,2,3 or --text TEXT");
    int code = o->ids != NULL ? input_parse_ids(&l->ids, o->ids, "--ids")
                              : input_tokenize(&l->ids, l->on.model, o->text, strlen(o->text),
                                               o->special ? MOTE_TEXT_CONTROL : 0);
    if (code == CLI_DONE && l->ids.n == 0)
        return msg_usage("no input tokens");
    return code;
}

static size_t logits_rows_per_step(const logits_state *l)
{
    if (!l->options->all)
        return 1;
    if (l->options->cut != 0)
        return (size_t)l->options->cut;
    size_t rows = ROWS_BYTES / (l->vocabulary * sizeof(float));
    return rows < 1 ? 1 : rows > ROWS_MAX ? ROWS_MAX : rows;
}

/* Reports how the computation ended. */
static int logits_end(const logits_state *l, mote_status status, const mote_error *err)
{
    if (status == MOTE_OK || (l->pipe != NULL && l->pipe->error != 0))
        return CLI_DONE; /* main reports a failed write to stdout; a closed pipe is no error */
    if (status == MOTE_E_CANCELED)
        return interrupt_exit_code();
    return status == MOTE_E_IO ? logits_write_failed(&l->err) : msg_error(err);
}

/* Row i of the MTP head: the session ends at position i, and token i + 1 is the next one. */
static mote_status logits_head_rows(logits_state *l, float *row, mote_error *err)
{
    const size_t n = l->ids.n - 1;
    for (size_t i = 0; i < n;) {
        const size_t step = l->options->all ? 1 : n;
        const mote_work work = {.session = l->on.session,
                                .tokens = l->ids.ids + i,
                                .n = step,
                                .want = MOTE_LOGITS_NONE};
        TRY(mote_step(l->on.engine, &work, 1, err));
        i += step;
        mote_draft_item item = {
            .session = l->on.session, .next = l->ids.ids[i], .n = 1, .logits = row};
        TRY(mote_draft(l->on.engine, &item, 1, err));
        if (!logits_take_row(l, row))
            return MOTE_E_IO;
    }
    logits_find_top(l, row);
    return MOTE_OK;
}

static int logits_head(logits_state *l)
{
    load_options load = l->options->load;
    load.drafts = load.keep_drafts = true;
    if (l->ids.n < 2)
        return msg_usage("--mtp needs at least 2 input tokens");
    uint64_t context = load_context(&l->on, &load, l->ids.n + 1, 0); /* and the drafted token */
    int code = load_engine(&l->on, &load, &context, l->ids.n + 1, 1);
    if (code != CLI_DONE)
        return code;
    mote_error err;
    float *row = mem_new(l->vocabulary, sizeof *row);
    if (row == NULL)
        return msg_no_memory("a row of logits");
    const mote_status status = logits_head_rows(l, row, &err);
    mem_free(row);
    return logits_end(l, status, &err);
}

static int logits_prefill(logits_state *l)
{
    if (l->options->mtp)
        return logits_head(l);
    size_t rows = logits_rows_per_step(l);
    uint64_t context = load_context(&l->on, &l->options->load, l->ids.n, 0);
    int code = load_engine(&l->on, &l->options->load, &context, l->ids.n, (uint32_t)rows);
    if (code != CLI_DONE)
        return code;
    prefill_job job = {
        .engine = l->on.engine,
        .session = l->on.session,
        .tokens = l->ids.ids,
        .n = l->ids.n,
        .chunk = (size_t)l->options->cut,
        .chunk_max = l->options->all ? rows : 0,
        .want = l->options->all ? MOTE_LOGITS_ALL : MOTE_LOGITS_LAST,
        .rows = logits_take_rows,
        .ctx = l,
    };
    mote_error err;
    mote_status status = prefill_prompt(&job, &err);
    return logits_end(l, status, &err);
}

static void logits_print_table(const logits_state *l)
{
    cli_out *o = l->call->out;
    out_printf(o, "%4s  %12s  %7s  %s\n", "RANK", "LOGIT", "TOKEN", "TEXT");
    for (size_t i = 0; i < l->n_top; i++) {
        size_t n;
        const char *bytes = mote_token_bytes(l->on.model, l->top[i], &n);
        out_printf(o, "%4zu  %12.6f  %7d  ", i + 1, (double)l->top_logits[i], (int)l->top[i]);
        out_quoted(o, bytes, n);
        out_text(o, "\n");
    }
}

static int logits_print_json(const logits_state *l)
{
    strbuf j = {0};
    jw_open(&j, '{');
    jw_key_uint(&j, "tokens", l->ids.n);
    jw_key_uint(&j, "rows", l->rows);
    jw_key_uint(&j, "vocabulary", l->vocabulary);
    jw_key_text(&j, "out", l->options->out);
    jw_key(&j, "top");
    jw_open(&j, '[');
    for (size_t i = 0; i < l->n_top; i++) {
        size_t n;
        const char *bytes = mote_token_bytes(l->on.model, l->top[i], &n);
        jw_open(&j, '{');
        jw_key_int(&j, "id", l->top[i]);
        jw_key_float(&j, "logit", l->top_logits[i]);
        jw_key_str(&j, "text", (str){bytes, n});
        jw_close(&j, '}');
    }
    jw_close(&j, ']');
    jw_close(&j, '}');
    return out_json(l->call->out, &j);
}

/* A regular file is written under a temporary name and renamed when complete. A device or named
 * pipe is written in place: a rename would replace /dev/null. */
static int logits_open_out(logits_state *l)
{
    static cli_out device;
    const char *path = l->options->out;
    struct stat info;
    if (path == NULL)
        return CLI_DONE;
    if (logits_to_stdout(l)) {
        l->pipe = l->call->out;
        return CLI_DONE;
    }
    if (stat(path, &info) != 0 || S_ISREG(info.st_mode))
        return os_file_create(&l->file, path, &l->err) == MOTE_OK ? CLI_DONE
                                                                  : logits_write_failed(&l->err);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return msg_fail(CLI_NOT_WRITABLE, mote_status_name(MOTE_E_IO), "cannot write %s: %s", path,
                        strerror(errno));
    out_open(&device, fd);
    l->pipe = &device;
    return CLI_DONE;
}

/* main closes stdout. */
static int logits_close_out(logits_state *l)
{
    if (l->file.fd >= 0)
        return os_file_commit(&l->file, &l->err) == MOTE_OK ? CLI_DONE
                                                            : logits_write_failed(&l->err);
    if (l->pipe == NULL || l->pipe == l->call->out || out_flush(l->pipe) || l->pipe->error == EPIPE)
        return CLI_DONE;
    return msg_fail(CLI_NOT_WRITABLE, mote_status_name(MOTE_E_IO), "cannot write %s: %s",
                    l->options->out, strerror(l->pipe->error));
}

static int logits_compute(logits_state *l)
{
    char a[TEXT_NUMBER_BYTES];
    int code = logits_open_out(l);
    if (code == CLI_DONE)
        code = logits_prefill(l);
    if (code == CLI_DONE)
        code = logits_close_out(l);
    if (code != CLI_DONE || logits_to_stdout(l))
        return code;
    if (l->call->common.json)
        return logits_print_json(l);
    if (l->options->out != NULL)
        msg_note("%s of %u float32 in %s", text_counted(a, l->rows, "row"), l->vocabulary,
                 l->options->out);
    else
        logits_print_table(l);
    return CLI_DONE;
}

static int logits_run(const cli_call *call)
{
    logits_state l = {.call = call, .options = call->options, .file = {.fd = -1}};
    if (logits_to_stdout(&l) && (call->common.json || call->out->terminal))
        return msg_usage(call->common.json
                             ? "--json and --out - exclude each other: both write to stdout"
                             : "--out - needs a pipe or a file, not a terminal");
    found_model found;
    int code = find_model(&found, call->words[0]);
    if (code == CLI_DONE)
        code = load_model(&l.on, &found, NULL, (mote_isa)l.options->load.isa);
    if (code == CLI_DONE)
        code = load_loras(&l.on, &l.options->lora);
    if (code == CLI_DONE) {
        mote_model_info info;
        mote_model_describe(l.on.model, &info);
        l.vocabulary = info.vocabulary;
        code = logits_read_ids(&l);
    }
    if (code == CLI_DONE)
        code = logits_compute(&l);
    os_file_abandon(&l.file);
    if (l.pipe != NULL && l.pipe != call->out)
        close(l.pipe->fd);
    input_ids_free(&l.ids);
    load_close(&l.on);
    return code;
}

const cli_command cmd_logits = {
    .name = "logits",
    .section = "Understand",
    .summary = "logits of the next token",
    .usage = "MODEL --ids 1,2,3 | --text TEXT",
    .arguments = "MODEL",
    .min_words = 1,
    .max_words = 1,
    .groups = groups,
    .n_groups = sizeof groups / sizeof *groups,
    .options_bytes = sizeof(logits_options),
    .about = "Runs the model on tokens and prints the most likely next tokens with their logits, "
             "or writes "
             "all logits to a file of float32, one row of the vocabulary per position.",
    .examples = "mote logits model.gguf --text \"The capital of France is\"\n"
                "mote logits model.gguf --ids 9707,11 --all --out logits.f32",
    .run = logits_run,
};
