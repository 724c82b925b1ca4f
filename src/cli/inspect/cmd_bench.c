/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_bench.c - `mote bench`: prefill and decode speed of this machine.
 *
 * Decode speed is also printed as a share of a bare read of the same weights by the same threads
 * in the same run. Decoding a token reads all of them, so 100 % is the limit of the memory
 * bandwidth.
 */
#include "base/cpu.h"
#include "cli/args/command.h"
#include "cli/inspect/bench_replay.h"
#include "cli/inspect/bench_spec.h"
#include "cli/load/find_model.h"
#include "cli/load/load.h"
#include "cli/term/output.h"
#include "cli/term/terminal.h"
#include "cli/term/text.h"
#include "json/json_writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    MAX_LIST = 16,
    MAX_ROWS = 4 * MAX_LIST + 2,
    MAX_SPEC = MAX_LIST * (MAX_LIST + 1),
    LABEL_BYTES = 32,
    MAX_TOKENS = 4194304
};

typedef struct bench_options {
    const char *prompts;
    const char *depths;
    const char *streams;
    const char *verify;
    const char *drafts;
    const char *accept;
    const char *draft_streams;
    const char *replay;
    uint64_t tokens;
    uint64_t repeats;
    bool md;
    load_options load;
} bench_options;

#define AT(member) offsetof(bench_options, member)

static const char *accept_check(const char *text)
{
    bench_spec_rates rates;
    return bench_spec_parse(text, &rates) ? NULL : "1 to 8 numbers from 0 to 1, such as 0.9,0.8";
}

static const cli_flag flags[] = {
    {.name = "prompt",
     .letter = 'p',
     .kind = FLAG_TEXT,
     .value = "LIST",
     .initial = "128,512,2048",
     .once = true,
     .at = AT(prompts),
     .help = "prompt lengths for prefill; 0: none"},
    {.name = "depth",
     .letter = 'd',
     .kind = FLAG_TEXT,
     .value = "LIST",
     .initial = "0,4096",
     .once = true,
     .at = AT(depths),
     .help = "context lengths before the decoded tokens"},
    {.name = "streams",
     .letter = 'b',
     .kind = FLAG_TEXT,
     .value = "LIST",
     .initial = "2,8",
     .once = true,
     .at = AT(streams),
     .help = "batch sizes for decode; 0: none"},
    {.name = "verify",
     .kind = FLAG_TEXT,
     .value = "LIST",
     .initial = "0",
     .once = true,
     .at = AT(verify),
     .help = "new tokens per step of one session, as in speculative decoding; 0: none"},
    {.name = "spec",
     .kind = FLAG_TEXT,
     .value = "LIST",
     .initial = "0",
     .once = true,
     .at = AT(drafts),
     .help = "speculative decoding with so many draft tokens per step, 1 to 8 each, compared with "
             "plain decoding; 0: none"},
    {.name = "accept",
     .kind = FLAG_TEXT,
     .value = "LIST",
     .initial = "0.88,0.82,0.71,0.64",
     .once = true,
     .check = accept_check,
     .at = AT(accept),
     .help = "with --spec: share of draft tokens to accept, by place in the draft, instead of "
             "those that are right; the last value counts for all later places"},
    {.name = "spec-streams",
     .kind = FLAG_TEXT,
     .value = "LIST",
     .initial = "1,4",
     .once = true,
     .at = AT(draft_streams),
     .help = "with --spec: batch sizes"},
    {.name = "replay",
     .kind = FLAG_TEXT,
     .value = "FILE",
     .once = true,
     .at = AT(replay),
     .help = "decode the answer in FILE without drafts and with drafts of suffix lookup; FILE has "
             "a prompt, a line %% and the answer"},
    {.name = "tokens",
     .letter = 'n',
     .kind = FLAG_COUNT,
     .value = "N",
     .min = 1,
     .max = 4096,
     .initial = "32",
     .once = true,
     .at = AT(tokens),
     .help = "decoded tokens per repeat; with --verify and --spec: steps per repeat"},
    {.name = "repeats",
     .letter = 'r',
     .kind = FLAG_COUNT,
     .value = "N",
     .min = 1,
     .max = BENCH_MAX_REPEATS,
     .initial = "3",
     .once = true,
     .at = AT(repeats),
     .help = "repeats; the fastest and the median are printed"},
    {.name = "md",
     .kind = FLAG_SWITCH,
     .once = true,
     .at = AT(md),
     .help = "print a Markdown table"},
};

static const flag_group groups[] = {
    FLAG_GROUP("Flags", flags, 0),
    LOAD_FLAG_GROUP(offsetof(bench_options, load)),
};

typedef enum row_kind { ROW_PROMPT, ROW_DECODE, ROW_STREAMS, ROW_VERIFY, ROW_FIRST } row_kind;

static const char *const kind_names[] = {"prefill", "decode", "streams", "verify", "first_token"};

typedef struct bench_row {
    row_kind kind;
    uint64_t size; /* prompt length, depth, streams, or new tokens per step */
    bench_time time;
} bench_row;

typedef struct bench_state {
    const cli_call *call;
    const bench_options *options;
    const char *path;
    loaded on;
    mote_model_info info;
    bench b;
    bench_weights weights;
    double bare_seconds; /* to read weights.per_token once, the fastest so far */
    bench_row rows[MAX_ROWS];
    size_t n_rows;
    bench_spec_time spec[MAX_SPEC]; /* for each number of streams: plain decoding, then drafts */
    size_t n_spec;
    bench_replay_time replay; /* steps 0: not measured */
} bench_state;

/* Parses "128,512". */
static int bench_parse_list(const char *text, const char *flag, uint64_t *out, size_t *n)
{
    *n = 0;
    for (const char *at = text;; at++) {
        char *end;
        unsigned long long value = strtoull(at, &end, 10);
        if (end == at || *n == MAX_LIST || value > MAX_TOKENS || (*end != ',' && *end != '\0'))
            return msg_usage("%s must be 1 to %d whole numbers from 0 to %d such as 128,512, got "
                             "'%.60s'",
                             flag, MAX_LIST, MAX_TOKENS, text);
        out[(*n)++] = value;
        if (*end == '\0')
            return CLI_DONE;
        at = end;
    }
}

static double row_rate(const bench_row *row)
{
    return (double)row->time.tokens / row->time.best;
}

/* Is the test compared with the bare read? */
static bool row_has_share(row_kind kind)
{
    return kind == ROW_DECODE || kind == ROW_STREAMS || kind == ROW_VERIFY;
}

/* Share of the bare read: a step reads the weights once, for any number of tokens. */
static double row_bare_share(const bench_state *s, const bench_row *row)
{
    double steps = row->kind == ROW_DECODE ? (double)row->time.tokens
                                           : (double)row->time.tokens / (double)row->size;
    return s->bare_seconds * steps / row->time.best;
}

static mote_status row_measure(const bench_state *s, bench_row *row, mote_error *err)
{
    switch (row->kind) {
    case ROW_PROMPT: return bench_prompt(&s->b, row->size, &row->time, err);
    case ROW_DECODE: return bench_decode(&s->b, row->size, &row->time, err);
    case ROW_STREAMS: return bench_streams(&s->b, (uint32_t)row->size, &row->time, err);
    case ROW_VERIFY: return bench_verify(&s->b, (uint32_t)row->size, &row->time, err);
    case ROW_FIRST:
        return bench_first_token(&s->b, s->path, (mote_isa)s->options->load.isa, &row->time, err);
    }
    return MOTE_OK;
}

/* Times the bare read. Repeated before every test that is compared with it, because the bandwidth
 * of a shared machine varies; the fastest one counts. */
static int bench_time_bare_read(bench_state *s)
{
    pool *threads;
    mote_error err;
    double seconds = 0;
    if (bench_weights_of(&s->weights, s->path, &err) != MOTE_OK ||
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

static int bench_measure_one(bench_state *s, row_kind kind, uint64_t size)
{
    bench_row *row = &s->rows[s->n_rows];
    *row = (bench_row){.kind = kind, .size = size};
    mote_error err;
    if (row_has_share(kind)) {
        int code = bench_time_bare_read(s);
        if (code != CLI_DONE)
            return code;
    }
    if (row_measure(s, row, &err) != MOTE_OK)
        return interrupt_pending() ? interrupt_exit_code() : msg_error(&err);
    s->n_rows++;
    return CLI_DONE;
}

static int bench_measure_list(bench_state *s, row_kind kind, const char *list, const char *flag)
{
    uint64_t sizes[MAX_LIST];
    size_t n;
    int code = bench_parse_list(list, flag, sizes, &n);
    for (size_t i = 0; code == CLI_DONE && i < n; i++)
        if (sizes[i] > 0 || kind == ROW_DECODE)
            code = bench_measure_one(s, kind, sizes[i]);
    return code;
}

/* ---- speculative decoding ---- */

static int bench_measure_spec(bench_state *s)
{
    uint64_t drafts[MAX_LIST], streams[MAX_LIST];
    size_t n_drafts, n_streams;
    bench_spec_rates rates;
    mote_error err;
    int code = bench_parse_list(s->options->drafts, "--spec", drafts, &n_drafts);
    if (code == CLI_DONE)
        code = bench_parse_list(s->options->draft_streams, "--spec-streams", streams, &n_streams);
    if (code != CLI_DONE || (n_drafts == 1 && drafts[0] == 0))
        return code;
    for (size_t i = 0; i < n_drafts; i++)
        if (drafts[i] < 1 || drafts[i] > BENCH_SPEC_MOST)
            return msg_usage("--spec must be 1 to %d draft tokens, got %llu", BENCH_SPEC_MOST,
                             (unsigned long long)drafts[i]);
    bench_spec_parse(s->options->accept, &rates);
    for (size_t i = 0; i < n_streams; i++) {
        if (streams[i] == 0)
            continue;
        if (bench_spec(&s->b, (uint32_t)streams[i], &rates, drafts, n_drafts, s->spec + s->n_spec,
                       &err) != MOTE_OK)
            return interrupt_pending() ? interrupt_exit_code() : msg_error(&err);
        s->n_spec += n_drafts + 1;
    }
    return CLI_DONE;
}

static int bench_measure_replay(bench_state *s)
{
    bench_text text;
    mote_error err;
    if (s->options->replay == NULL)
        return CLI_DONE;
    if (bench_text_read(&text, s->on.model, s->options->replay, &err) != MOTE_OK)
        return msg_error(&err);
    const mote_status status = bench_replay(&s->b, &text, &s->replay, &err);
    bench_text_free(&text);
    if (status != MOTE_OK)
        return interrupt_pending() ? interrupt_exit_code() : msg_error(&err);
    return CLI_DONE;
}

static double replay_rate(const bench_time *t)
{
    return (double)t->tokens / t->median;
}

static void bench_print_replay(const bench_state *s)
{
    const bench_replay_time *t = &s->replay;
    char a[TEXT_NUMBER_BYTES], b[TEXT_NUMBER_BYTES], c[TEXT_NUMBER_BYTES];
    if (t->steps == 0)
        return;
    out_printf(s->call->out,
               "\nanswer of %s, suffix lookup: %.1f t/s plain, %.1f t/s with drafts, %.2f times; "
               "%.2f tokens a step, %s of %s drafts accepted\n",
               text_counted(a, t->drafts.tokens, "token"), replay_rate(&t->plain),
               replay_rate(&t->drafts), replay_rate(&t->drafts) / replay_rate(&t->plain),
               (double)t->drafts.tokens / (double)t->steps, text_count(b, t->accepted),
               text_count(c, t->drafted));
}

static void bench_write_replay(strbuf *j, const bench_state *s)
{
    const bench_replay_time *t = &s->replay;
    jw_key(j, "replay");
    jw_open(j, '{');
    jw_key_uint(j, "tokens", t->drafts.tokens);
    jw_key_uint(j, "steps", t->steps);
    jw_key_uint(j, "drafted", t->drafted);
    jw_key_uint(j, "accepted", t->accepted);
    jw_key_double(j, "plain_seconds", t->plain.median);
    jw_key_double(j, "draft_seconds", t->drafts.median);
    jw_key_double(j, "of_plain", replay_rate(&t->drafts) / replay_rate(&t->plain));
    jw_close(j, '}');
}

static double spec_rate(const bench_spec_time *t)
{
    return (double)t->time.tokens / t->time.median;
}

/* Plain decoding with the same number of streams. */
static const bench_spec_time *spec_plain(const bench_spec_time *t)
{
    while (t->drafts > 0)
        t--;
    return t;
}

static void bench_print_spec(const bench_state *s)
{
    cli_out *o = s->call->out;
    const bool md = s->options->md;
    if (s->n_spec == 0)
        return;
    out_printf(o,
               "\nspeculative decoding, acceptance %s imposed; milliseconds per step by part\n\n",
               s->options->accept);
    if (md)
        out_text(o, "| streams | drafts | t/s | of plain | tokens a step | draft | verify | sample "
                    "| rewind |\n| --: | --: | --: | --: | --: | --: | --: | --: | --: |\n");
    else
        out_printf(o, "  %7s %6s %9s %9s %8s %8s %8s %8s %8s\n", "streams", "drafts", "t/s",
                   "of plain", "a step", "draft", "verify", "sample", "rewind");
    for (size_t i = 0; i < s->n_spec; i++) {
        const bench_spec_time *t = &s->spec[i];
        out_printf(o,
                   md ? "| %u | %u | %.1f | %.2f | %.2f | %.2f | %.2f | %.2f | %.3f |\n"
                      : "  %7u %6u %9.1f %9.2f %8.2f %8.2f %8.2f %8.2f %8.3f\n",
                   t->streams, t->drafts, spec_rate(t), spec_rate(t) / spec_rate(spec_plain(t)),
                   (double)t->time.tokens / (double)(t->steps * t->streams), 1e3 * t->draft,
                   1e3 * t->verify, 1e3 * t->sample, 1e3 * t->rewind);
    }
    out_text(o, "\n");
    for (size_t i = 0; i < s->n_spec; i++)
        if (s->info.draft_head && s->spec[i].drafts == 0)
            out_printf(o, "a draft token of %u streams: %.2f ms MTP block, %.2f ms trimmed head\n",
                       s->spec[i].streams, 1e3 * s->spec[i].block, 1e3 * s->spec[i].head);
}

static void bench_write_spec(strbuf *j, const bench_state *s)
{
    jw_key(j, "speculative");
    jw_open(j, '{');
    jw_key_text(j, "accept", s->options->accept);
    jw_key_bool(j, "draft_head", s->info.draft_head);
    jw_key(j, "results");
    jw_open(j, '[');
    for (size_t i = 0; i < s->n_spec; i++) {
        const bench_spec_time *t = &s->spec[i];
        jw_open(j, '{');
        jw_key_uint(j, "streams", t->streams);
        jw_key_uint(j, "drafts", t->drafts);
        jw_key_uint(j, "steps", t->steps);
        jw_key_uint(j, "tokens", t->time.tokens);
        jw_key_uint(j, "drafted", t->drafted);
        jw_key_uint(j, "accepted", t->accepted);
        jw_key_double(j, "best_seconds", t->time.best);
        jw_key_double(j, "median_seconds", t->time.median);
        jw_key_double(j, "of_plain", spec_rate(t) / spec_rate(spec_plain(t)));
        jw_key_double(j, "draft_seconds", t->draft);
        jw_key_double(j, "verify_seconds", t->verify);
        jw_key_double(j, "sample_seconds", t->sample);
        jw_key_double(j, "rewind_seconds", t->rewind);
        if (s->info.draft_head && t->drafts == 0) {
            jw_key_double(j, "block_seconds", t->block);
            jw_key_double(j, "head_seconds", t->head);
        }
        jw_close(j, '}');
    }
    jw_close(j, ']');
    jw_close(j, '}');
}

/* ---- tables ---- */

static void row_label(const bench_row *row, char *label)
{
    char a[TEXT_NUMBER_BYTES];
    switch (row->kind) {
    case ROW_PROMPT: snprintf(label, LABEL_BYTES, "prefill %s", text_count(a, row->size)); break;
    case ROW_DECODE:
        if (row->size == 0)
            snprintf(label, LABEL_BYTES, "decode");
        else
            snprintf(label, LABEL_BYTES, "decode after %s", text_count(a, row->size));
        break;
    case ROW_STREAMS:
        snprintf(label, LABEL_BYTES, "decode, batch of %s", text_count(a, row->size));
        break;
    case ROW_VERIFY:
        snprintf(label, LABEL_BYTES, "verify, %s a step", text_count(a, row->size));
        break;
    case ROW_FIRST: snprintf(label, LABEL_BYTES, "open to first token"); break;
    }
}

static void bench_print_row(const bench_state *s, const bench_row *row)
{
    char label[LABEL_BYTES], a[TEXT_NUMBER_BYTES];
    row_label(row, label);
    const char *format =
        s->options->md ? "| %-22s | %10s | %8s | %9s |\n" : "  %-22s %10s  %8s  %9s\n";
    char best[40], median[40] = "", share[16] = "";
    if (row->kind == ROW_FIRST) {
        snprintf(best, sizeof best, "%s", text_seconds(a, row->time.best));
    } else {
        snprintf(best, sizeof best, "%.1f t/s", row_rate(row));
        snprintf(median, sizeof median, "%.1f", (double)row->time.tokens / row->time.median);
    }
    if (row_has_share(row->kind))
        snprintf(share, sizeof share, "%.0f %%", 100 * row_bare_share(s, row));
    out_printf(s->call->out, format, label, best, median, share);
}

static void bench_print_table(const bench_state *s)
{
    cli_out *o = s->call->out;
    char a[TEXT_NUMBER_BYTES], b[TEXT_NUMBER_BYTES];
    out_printf(o, "%s   %s   %s, %u threads\n", s->info.name[0] != '\0' ? s->info.name : s->path,
               text_bytes(a, s->weights.file_bytes), mote_isa_name(s->info.isa), s->b.threads);
    out_printf(o, "bare read %.1f GB/s, %s per token: at most %.1f t/s\n\n",
               (double)s->weights.per_token / s->bare_seconds * 1e-9,
               text_bytes(b, s->weights.per_token), 1 / s->bare_seconds);
    if (s->options->md)
        out_text(o, "| test                   |       best |   median | of memory |\n"
                    "| ---------------------- | ---------: | -------: | --------: |\n");
    else
        out_printf(o, "  %-22s %10s  %8s  %9s\n", "", "best", "median", "of memory");
    for (size_t i = 0; i < s->n_rows; i++)
        bench_print_row(s, &s->rows[i]);
    bench_print_spec(s);
    bench_print_replay(s);
}

static void bench_write_row(strbuf *j, const bench_state *s, const bench_row *row)
{
    jw_open(j, '{');
    jw_key_text(j, "test", kind_names[row->kind]);
    jw_key_uint(j, "size", row->size);
    jw_key_uint(j, "tokens", row->time.tokens);
    jw_key_double(j, "best_seconds", row->time.best);
    jw_key_double(j, "median_seconds", row->time.median);
    jw_key_double(j, "best_cpu_seconds", row->time.best_cpu);
    jw_key_uint(j, "repeats", row->time.repeats);
    if (row->kind != ROW_FIRST)
        jw_key_double(j, "tokens_per_second", row_rate(row));
    if (row_has_share(row->kind))
        jw_key_double(j, "of_bare_read", row_bare_share(s, row));
    jw_close(j, '}');
}

static int bench_write_json(const bench_state *s)
{
    strbuf j = {0};
    jw_open(&j, '{');
    jw_key_text(&j, "model", s->info.name);
    jw_key_text(&j, "file", s->path);
    jw_key_uint(&j, "file_bytes", s->weights.file_bytes);
    jw_key_uint(&j, "bytes_per_token", s->weights.per_token);
    if (s->weights.quantization != NULL)
        jw_key_text(&j, "quantization", s->weights.quantization);
    char cpu[CPU_NAME_BYTES];
    cpu_name(cpu);
    jw_key_text(&j, "cpu", cpu);
    char date[sizeof "2026-01-01"] = "";
    time_t now = time(NULL);
    struct tm utc;
    if (gmtime_r(&now, &utc) != NULL && strftime(date, sizeof date, "%Y-%m-%d", &utc) > 0)
        jw_key_text(&j, "date", date);
    jw_key_text(&j, "version", mote_version());
    jw_key_text(&j, "isa", mote_isa_name(s->info.isa));
    jw_key_uint(&j, "threads", s->b.threads);
    jw_key_double(&j, "bare_read_seconds", s->bare_seconds);
    jw_key_double(&j, "bare_read_bytes_per_second", (double)s->weights.per_token / s->bare_seconds);
    jw_key(&j, "results");
    jw_open(&j, '[');
    for (size_t i = 0; i < s->n_rows; i++)
        bench_write_row(&j, s, &s->rows[i]);
    jw_close(&j, ']');
    if (s->n_spec > 0)
        bench_write_spec(&j, s);
    if (s->replay.steps > 0)
        bench_write_replay(&j, s);
    jw_close(&j, '}');
    return out_json(s->call->out, &j);
}

/* Opens an engine to learn its number of threads: the bare read uses the same number. */
static int bench_find_threads(bench_state *s)
{
    uint64_t context = 64;
    int code = load_engine(&s->on, &s->options->load, &context, context, 1);
    if (code == CLI_DONE)
        s->b.threads = mote_engine_threads(s->on.engine);
    interrupt_set_engine(NULL);
    mote_session_free(s->on.session);
    mote_engine_free(s->on.engine);
    s->on.session = NULL;
    s->on.engine = NULL;
    return code;
}

static int bench_measure_all(bench_state *s)
{
    const bench_options *o = s->options;
    mote_model_describe(s->on.model, &s->info);
    s->b = (bench){.model = s->on.model,
                   .kv = (mote_kv)o->load.kv,
                   .pin = (mote_pin)o->load.pin,
                   .memory = o->load.memory,
                   .repeats = (uint32_t)o->repeats,
                   .decode_tokens = (uint32_t)o->tokens};
    int code = bench_find_threads(s);
    if (code == CLI_DONE)
        code = bench_time_bare_read(s);
    if (code == CLI_DONE)
        code = bench_measure_list(s, ROW_PROMPT, o->prompts, "--prompt");
    if (code == CLI_DONE)
        code = bench_measure_list(s, ROW_DECODE, o->depths, "--depth");
    if (code == CLI_DONE)
        code = bench_measure_list(s, ROW_STREAMS, o->streams, "--streams");
    if (code == CLI_DONE)
        code = bench_measure_list(s, ROW_VERIFY, o->verify, "--verify");
    if (code == CLI_DONE)
        code = bench_measure_spec(s);
    if (code == CLI_DONE)
        code = bench_measure_replay(s);
    return code == CLI_DONE ? bench_measure_one(s, ROW_FIRST, 0) : code;
}

static int bench_run(const cli_call *call)
{
    found_model found;
    bench_state s = {.call = call, .options = call->options, .path = found.path};
    int code = find_model(&found, call->words[0]);
    if (code == CLI_DONE)
        code = load_model(&s.on, &found, NULL, (mote_isa)s.options->load.isa);
    if (code == CLI_DONE)
        code = load_prefault(&s.on, s.options->load.memory);
    if (code == CLI_DONE)
        code = bench_measure_all(&s);
    if (code == CLI_DONE && call->common.json)
        code = bench_write_json(&s);
    else if (code == CLI_DONE)
        bench_print_table(&s);
    load_close(&s.on);
    return code;
}

const cli_command cmd_bench = {
    .name = "bench",
    .section = "Understand",
    .summary = "measure prefill and decode speed",
    .usage = "MODEL",
    .arguments = "MODEL",
    .min_words = 1,
    .max_words = 1,
    .groups = groups,
    .n_groups = sizeof groups / sizeof *groups,
    .options_bytes = sizeof(bench_options),
    .about =
        "Measures prefill and decode speed, with one session and in batches. \"Of memory\" "
        "compares "
        "decode with a bare read of the same weights by the same threads in the same run; 100 % "
        "is the limit of the memory bandwidth.",
    .examples = "mote bench model.gguf\n"
                "mote bench model.gguf -p 512,8192 -d 0,4096,32768 --json\n"
                "mote bench model.gguf -p 0 -b 0 --spec 1,3,5 --accept 0.9,0.8",
    .run = bench_run,
};
