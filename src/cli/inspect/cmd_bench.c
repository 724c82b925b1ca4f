/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_bench.c - `mote bench`: how fast this machine reads and writes.
 *
 * Every decoding speed stands beside a bare read of the same weights by the same
 * threads in the same run: a token cannot be had for less, so the percentage
 * says how much is left to gain, whatever else the machine is doing.
 */
#include "cli/inspect/bench_bytes.h"
#include "cli/inspect/bench_measure.h"
#include "cli/args/commands.h"
#include "cli/term/interrupt.h"
#include "cli/term/json_out.h"
#include "cli/load/load.h"
#include "cli/term/output_messages.h"
#include "cli/term/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LIST = 16, MAX_ROWS = 3 * MAX_LIST + 2, LABEL_BYTES = 32 };

typedef struct bench_options {
    const char *prompts;
    const char *depths;
    const char *streams;
    uint64_t tokens;
    uint64_t repeats;
    bool md;
    load_options load;
} bench_options;

#define AT(member) offsetof(bench_options, member)

static const cli_flag flags[] = {
    {.name = "prompt",
     .letter = 'p',
     .kind = FLAG_TEXT,
     .value = "LIST",
     .initial = "128,512,2048",
     .at = AT(prompts),
     .help = "lengths of prompts to read; 0: none"},
    {.name = "depth",
     .letter = 'd',
     .kind = FLAG_TEXT,
     .value = "LIST",
     .initial = "0,4096",
     .at = AT(depths),
     .help = "how many tokens lie before those that are written"},
    {.name = "streams",
     .letter = 'b',
     .kind = FLAG_TEXT,
     .value = "LIST",
     .initial = "2,8",
     .at = AT(streams),
     .help = "sessions that write side by side; 0: none"},
    {.name = "tokens",
     .letter = 'n',
     .kind = FLAG_COUNT,
     .value = "N",
     .min = 1,
     .max = 4096,
     .initial = "32",
     .at = AT(tokens),
     .help = "tokens written in one repeat"},
    {.name = "repeats",
     .letter = 'r',
     .kind = FLAG_COUNT,
     .value = "N",
     .min = 1,
     .max = BENCH_MAX_REPEATS,
     .initial = "3",
     .at = AT(repeats),
     .help = "the fastest one counts, the median is shown beside it"},
    {.name = "md", .kind = FLAG_SWITCH, .at = AT(md), .help = "a Markdown table"},
};

static const flag_group groups[] = {
    FLAG_GROUP("Flags", flags, 0),
    LOAD_FLAG_GROUP(offsetof(bench_options, load)),
};

typedef enum row_kind { ROW_PROMPT, ROW_DECODE, ROW_STREAMS, ROW_FIRST } row_kind;

static const char *const kind_names[] = {"prompt", "decode", "streams", "first_token"};

typedef struct bench_row {
    row_kind kind;
    uint64_t size; /* prompt length, depth, or streams */
    bench_time time;
} bench_row;

typedef struct bench_state {
    const cli_call *call;
    const bench_options *options;
    const char *path;
    loaded on;
    mote_model_info info;
    bench b;
    bench_bytes bytes;
    double bare_seconds; /* to read bytes.per_token once */
    bench_row rows[MAX_ROWS];
    size_t n_rows;
} bench_state;

/* "128,512" into numbers; a lone 0 in a list that cannot have it means none. */
static int parse_list(const char *text, const char *flag, uint64_t *out, size_t *n)
{
    *n = 0;
    for (const char *at = text;; at++) {
        char *end;
        unsigned long long value = strtoull(at, &end, 10);
        if (end == at || *n == MAX_LIST || value > 4194304 || (*end != ',' && *end != '\0'))
            return msg_usage("%s wants up to %d numbers like 128,512, not %.60s", flag, MAX_LIST,
                             text);
        out[(*n)++] = value;
        if (*end == '\0')
            return CLI_DONE;
        at = end;
    }
}

static double rate(const bench_row *row)
{
    return (double)row->time.tokens / row->time.best;
}

/* Of the bare read: weights are read once a step, whatever the number of streams. */
static double bare_share(const bench_state *s, const bench_row *row)
{
    double steps = row->kind == ROW_STREAMS ? (double)row->time.tokens / (double)row->size
                                            : (double)row->time.tokens;
    return s->bare_seconds * steps / row->time.best;
}

static mote_status measure_row(const bench_state *s, bench_row *row, mote_error *err)
{
    switch (row->kind) {
    case ROW_PROMPT: return bench_prompt(&s->b, row->size, &row->time, err);
    case ROW_DECODE: return bench_decode(&s->b, row->size, &row->time, err);
    case ROW_STREAMS: return bench_streams(&s->b, (uint32_t)row->size, &row->time, err);
    case ROW_FIRST:
        return bench_first_token(&s->b, s->path, (mote_isa)s->options->load.isa, &row->time, err);
    }
    return MOTE_OK;
}

/* The yardstick: the best of all reads so far. Taken again before everything that is
 * compared with it, because on a shared machine memory has fast and slow minutes. */
static int bare_read(bench_state *s)
{
    pool *threads;
    mote_error err;
    double seconds = 0;
    if (bench_bytes_of(&s->bytes, s->path, &err) != MOTE_OK ||
        pool_new(&threads, s->b.threads, &err) != MOTE_OK)
        return msg_error(&err);
    mote_status status = bench_bare_read(s->path, threads, s->b.repeats + 2, &seconds, &err);
    pool_free(threads);
    if (status != MOTE_OK)
        return msg_error(&err);
    if (s->bare_seconds == 0 || seconds < s->bare_seconds)
        s->bare_seconds = seconds;
    return CLI_DONE;
}

static int measure(bench_state *s, row_kind kind, uint64_t size)
{
    bench_row *row = &s->rows[s->n_rows];
    *row = (bench_row){.kind = kind, .size = size};
    mote_error err;
    if (kind == ROW_DECODE || kind == ROW_STREAMS) {
        int code = bare_read(s);
        if (code != CLI_DONE)
            return code;
    }
    if (measure_row(s, row, &err) != MOTE_OK)
        return interrupt_came() ? interrupt_exit_code() : msg_error(&err);
    s->n_rows++;
    return CLI_DONE;
}

static int measure_list(bench_state *s, row_kind kind, const char *list, const char *flag)
{
    uint64_t sizes[MAX_LIST];
    size_t n;
    int code = parse_list(list, flag, sizes, &n);
    for (size_t i = 0; code == CLI_DONE && i < n; i++)
        if (sizes[i] > 0 || kind == ROW_DECODE)
            code = measure(s, kind, sizes[i]);
    return code;
}

static void label_of(const bench_row *row, char *label)
{
    char a[TEXT_NUMBER_BYTES];
    switch (row->kind) {
    case ROW_PROMPT: snprintf(label, LABEL_BYTES, "read %s", text_count(a, row->size)); break;
    case ROW_DECODE:
        if (row->size == 0)
            snprintf(label, LABEL_BYTES, "write");
        else
            snprintf(label, LABEL_BYTES, "write after %s", text_count(a, row->size));
        break;
    case ROW_STREAMS:
        snprintf(label, LABEL_BYTES, "write, %s streams", text_count(a, row->size));
        break;
    case ROW_FIRST: snprintf(label, LABEL_BYTES, "open to first token"); break;
    }
}

static void print_row(const bench_state *s, const bench_row *row)
{
    char label[LABEL_BYTES], a[TEXT_NUMBER_BYTES];
    label_of(row, label);
    const char *form =
        s->options->md ? "| %-22s | %10s | %8s | %9s |\n" : "  %-22s %10s  %8s  %9s\n";
    char best[40], median[40] = "", share[16] = "";
    if (row->kind == ROW_FIRST) {
        snprintf(best, sizeof best, "%s", text_seconds(a, row->time.best));
    } else {
        snprintf(best, sizeof best, "%.1f t/s", rate(row));
        snprintf(median, sizeof median, "%.1f", (double)row->time.tokens / row->time.median);
    }
    if (row->kind == ROW_DECODE || row->kind == ROW_STREAMS)
        snprintf(share, sizeof share, "%.0f %%", 100 * bare_share(s, row));
    out_printf(s->call->out, form, label, best, median, share);
}

static void print_table(const bench_state *s)
{
    cli_out *o = s->call->out;
    char a[TEXT_NUMBER_BYTES], b[TEXT_NUMBER_BYTES];
    out_printf(o, "%s   %s   %s, %u threads\n", s->info.name[0] != '\0' ? s->info.name : s->path,
               text_bytes(a, s->bytes.file_bytes), mote_isa_name(s->info.isa), s->b.threads);
    out_printf(o, "bare read %.1f GB/s, %s a token: at most %.1f t/s\n\n",
               (double)s->bytes.per_token / s->bare_seconds * 1e-9,
               text_bytes(b, s->bytes.per_token), 1 / s->bare_seconds);
    if (s->options->md)
        out_text(o, "| test                   |       best |   median | of memory |\n"
                    "| ---------------------- | ---------: | -------: | --------: |\n");
    else
        out_printf(o, "  %-22s %10s  %8s  %9s\n", "", "best", "median", "of memory");
    for (size_t i = 0; i < s->n_rows; i++)
        print_row(s, &s->rows[i]);
}

static void json_row(json *j, const bench_state *s, const bench_row *row)
{
    json_begin_object(j);
    json_key_text(j, "test", kind_names[row->kind]);
    json_key_u64(j, "size", row->size);
    json_key_u64(j, "tokens", row->time.tokens);
    json_key_f64(j, "best_seconds", row->time.best);
    json_key_f64(j, "median_seconds", row->time.median);
    json_key_u64(j, "repeats", row->time.repeats);
    if (row->kind != ROW_FIRST)
        json_key_f64(j, "tokens_per_second", rate(row));
    if (row->kind == ROW_DECODE || row->kind == ROW_STREAMS)
        json_key_f64(j, "of_bare_read", bare_share(s, row));
    json_end_object(j);
}

static void print_json(const bench_state *s)
{
    json j = {.to = s->call->out};
    json_begin_object(&j);
    json_key_text(&j, "model", s->info.name);
    json_key_text(&j, "file", s->path);
    json_key_u64(&j, "file_bytes", s->bytes.file_bytes);
    json_key_u64(&j, "bytes_per_token", s->bytes.per_token);
    json_key_text(&j, "isa", mote_isa_name(s->info.isa));
    json_key_u64(&j, "threads", s->b.threads);
    json_key_f64(&j, "bare_read_seconds", s->bare_seconds);
    json_key_f64(&j, "bare_read_bytes_per_second", (double)s->bytes.per_token / s->bare_seconds);
    json_key(&j, "results");
    json_begin_array(&j);
    for (size_t i = 0; i < s->n_rows; i++)
        json_row(&j, s, &s->rows[i]);
    json_end_array(&j);
    json_end_object(&j);
}

/* Threads as the engine will choose them, so that the bare read uses the same. */
static int settle_threads(bench_state *s)
{
    int code = load_engine(&s->on, &s->options->load, 64, 1);
    if (code == CLI_DONE)
        s->b.threads = mote_engine_threads(s->on.engine);
    interrupt_watch(NULL);
    mote_session_free(s->on.session);
    mote_engine_free(s->on.engine);
    s->on.session = NULL;
    s->on.engine = NULL;
    return code;
}

static int measure_all(bench_state *s)
{
    const bench_options *o = s->options;
    mote_model_describe(s->on.model, &s->info);
    s->b = (bench){.model = s->on.model,
                   .kv = (mote_kv)o->load.kv,
                   .pin = (mote_pin)o->load.pin,
                   .repeats = (uint32_t)o->repeats,
                   .decode_tokens = (uint32_t)o->tokens};
    int code = settle_threads(s);
    if (code == CLI_DONE)
        code = bare_read(s);
    if (code == CLI_DONE)
        code = measure_list(s, ROW_PROMPT, o->prompts, "--prompt");
    if (code == CLI_DONE)
        code = measure_list(s, ROW_DECODE, o->depths, "--depth");
    if (code == CLI_DONE)
        code = measure_list(s, ROW_STREAMS, o->streams, "--streams");
    return code == CLI_DONE ? measure(s, ROW_FIRST, 0) : code;
}

static int run(const cli_call *call)
{
    bench_state s = {.call = call, .options = call->options, .path = call->words[0]};
    int code = load_model(&s.on, s.path, NULL, (mote_isa)s.options->load.isa);
    if (code == CLI_DONE)
        code = load_warm(&s.on);
    if (code == CLI_DONE)
        code = measure_all(&s);
    if (code == CLI_DONE && call->common.json)
        print_json(&s);
    else if (code == CLI_DONE)
        print_table(&s);
    load_close(&s.on);
    return code;
}

const cli_command cmd_bench = {
    .name = "bench",
    .section = "Understand",
    .summary = "how fast this machine reads and writes",
    .usage = "FILE",
    .min_words = 1,
    .max_words = 1,
    .groups = groups,
    .n_groups = sizeof groups / sizeof *groups,
    .options_bytes = sizeof(bench_options),
    .about = "Times reading prompts and writing tokens, alone and side by side. \"Of memory\" is "
             "the speed as a share of a bare read of the same weights by the same threads in the "
             "same run, which no engine can beat without reading less.",
    .examples = "mote bench model.gguf\n"
                "mote bench model.gguf -p 512,8192 -d 0,4096,32768 --json",
    .run = run,
};
