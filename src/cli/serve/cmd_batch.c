/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_batch.c - `mote batch`: answers the requests of a file with a server that has no sockets.
 *
 * The output file is also the record of what is done (server/batch/batch_journal.h), so the same
 * command continues after any end.
 */
#include "base/mem.h"
#include "base/os.h"
#include "cli/args/command.h"
#include "cli/load/load.h"
#include "cli/serve/serve_flags.h"
#include "cli/serve/serve_models.h"
#include "cli/term/output.h"
#include "cli/term/terminal.h"
#include "cli/term/text.h"
#include "json/json_writer.h"
#include "server/batch/batch_run.h"
#include "server/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct batch_options {
    const char *model;
    const char *shard;
    const char *think;
    const char *spec;
    const char *mmproj;
    uint64_t parallel;
    uint64_t limit;
    uint64_t kv_tokens;
    uint64_t preset;
    flag_list loras;
    bool fail_fast;
    bool restart;
    load_options load;
} batch_options;

#define AT(member) offsetof(batch_options, member)

static bool shard_read(const char *text, batch_part *part)
{
    char *slash, *end;
    const unsigned long shard = strtoul(text, &slash, 10);
    if (slash == text || *slash != '/')
        return false;
    const unsigned long shards = strtoul(slash + 1, &end, 10);
    if (end == slash + 1 || *end != '\0' || shard < 1 || shard > shards || shards > 100000)
        return false;
    part->shard = (uint32_t)shard;
    part->shards = (uint32_t)shards;
    return true;
}

static const char *shard_check(const char *text)
{
    batch_part part;
    return shard_read(text, &part) ? NULL : "I/N with I from 1 to N, such as 2/4";
}

static const cli_flag model_flags[] = {
    {.name = "model",
     .letter = 'm',
     .kind = FLAG_TEXT,
     .value = "MODEL",
     .env = "MOTE_MODEL",
     .shown = "the installed models, by the names in the requests",
     .at = AT(model),
     .help = "answer all requests with this model, whatever name they have"},
};

static const cli_flag batch_flags[] = {
    {.name = "limit",
     .kind = FLAG_COUNT,
     .value = "N",
     .min = 1,
     .max = 1e9,
     .shown = "all",
     .once = true,
     .at = AT(limit),
     .help = "only the first N lines"},
    {.name = "shard",
     .kind = FLAG_TEXT,
     .value = "I/N",
     .shown = "all",
     .check = shard_check,
     .once = true,
     .at = AT(shard),
     .help = "only part I of N, for N machines with the same input and an output each; lines that "
             "begin equally are in one part"},
    {.name = "restart",
     .kind = FLAG_SWITCH,
     .once = true,
     .at = AT(restart),
     .help = "discard what OUT.jsonl has, instead of continuing it"},
    {.name = "fail-fast",
     .kind = FLAG_SWITCH,
     .once = true,
     .at = AT(fail_fast),
     .help = "stop at the first line that fails"},
};

static const cli_flag capacity_flags[] = {
    {LOAD_PARALLEL_FLAG, .shown = "8", .env = "MOTE_PARALLEL", .at = AT(parallel),
     .help = "requests generated at the same time"},
    {LOAD_MEMORY_FLAG, .shown = "what the other settings need, at most what is available",
     .at = AT(load.memory), .help = "memory limit, such as 8GB, 500MB or 4GiB"},
    {LOAD_CONTEXT_FLAG, .value = "N|auto", .word = "auto",
     .shown = "auto: that of the model, at most --kv-tokens", .env = "MOTE_CONTEXT",
     .at = AT(load.context), .help = "maximum context of a request, in tokens"},
    {KV_TOKENS_FLAG, .at = AT(kv_tokens),
     .help = "size of the KV cache in tokens, shared by all requests"},
    {SPEC_FLAG, .at = AT(spec), .help = SPEC_FLAG_HELP},
    {MMPROJ_FLAG, .at = AT(mmproj),
     .help = "vision encoder (mmproj) of the model; none: images are rejected"},
};

static const cli_flag request_flags[] = {
    {THINK_FLAG, .at = AT(think), .help = "thinking, unless the request sets it: " THINK_FLAG_HELP},
    {REQUEST_PRESET_FLAG, .at = AT(preset)},
};

static const cli_flag adapter_flags[] = {{SERVED_LORA_FLAG, .at = AT(loras)}};

static const flag_group batch_groups[] = {
    FLAG_GROUP("Model", model_flags, 0),
    FLAG_GROUP("Batch", batch_flags, 0),
    FLAG_GROUP("Capacity", capacity_flags, 0),
    FLAG_GROUP("Requests", request_flags, 0),
    FLAG_GROUP("Adapters", adapter_flags, 0),
    /* Without the first two flags: --context and --memory have other meanings here. */
    {"Machine", load_flags + 2, LOAD_N_FLAGS - 2, offsetof(batch_options, load)},
};

/* ---- the run ---- */

typedef struct batch_state {
    const batch_options *flags;
    batch_lines lines;
    batch_journal journal;
    batch_run *run;
    server *server;
    batch_progress progress; /* at the end */
    double drawn;
    int code;
} batch_state;

static double reuse_percent(const batch_progress *p)
{
    return p->prompt_tokens > 0 ? 100.0 * (double)p->cached_tokens / (double)p->prompt_tokens : 0;
}

static double answer_rate(const batch_progress *p)
{
    return p->seconds > 0 ? (double)p->answer_tokens / p->seconds : 0;
}

/* batch  418/1000  ████░░░░  41 %   312 t/s   prefix reuse 88 %   12 m left   3 errors */
static void batch_draw(batch_state *b, const batch_progress *p)
{
    char line[256], bar[PROGRESS_BAR_BYTES], rate[TEXT_NUMBER_BYTES], left[TEXT_NUMBER_BYTES];
    const double share = p->lines > 0 ? (double)p->done / p->lines : 1;
    const unsigned columns = term_columns(STDERR_FILENO);
    const double now = os_now();
    if (!term_progress() || now - b->drawn < 0.2)
        return;
    b->drawn = now;
    progress_bar(bar, sizeof bar, share, term_utf8());
    size_t n =
        (size_t)snprintf(line, sizeof line, "batch  %u/%u%s  %.0f %%   %s t/s", p->done, p->lines,
                         columns >= 100 ? bar : "", 100 * share, text_rate(rate, answer_rate(p)));
    n += (size_t)snprintf(line + n, sizeof line - n, "   prefix reuse %.0f %%", reuse_percent(p));
    if (p->finished > 0)
        n += (size_t)snprintf(line + n, sizeof line - n, "   %s left",
                              text_seconds(left, p->seconds * (p->lines - p->done) / p->finished));
    if (p->failed > 0)
        snprintf(line + n, sizeof line - n, "   %u errors", p->failed);
    progress_show(line);
}

static void batch_on_over(void *with)
{
    batch_state *b = with;
    server_stop(b->server);
}

static void batch_on_start(void *with, server_context *ctx)
{
    batch_state *b = with;
    const batch_run_options options = {.ctx = ctx,
                                       .lines = &b->lines,
                                       .journal = &b->journal,
                                       .parallel = (uint32_t)b->flags->parallel,
                                       .bare = true,
                                       .fail_fast = b->flags->fail_fast,
                                       .patience = 60,
                                       .sync_seconds = 1,
                                       .over = batch_on_over,
                                       .with = b};
    b->run = batch_run_new(&options);
    if (b->run != NULL) {
        batch_run_start(b->run);
        return;
    }
    b->code = msg_no_memory("the requests");
    server_stop(b->server);
}

static void batch_on_tick(void *with, double now)
{
    batch_state *b = with;
    batch_progress p;
    if (b->run == NULL)
        return;
    batch_run_tick(b->run, now);
    batch_run_progress(b->run, &p);
    batch_draw(b, &p);
}

static void batch_on_stop(void *with)
{
    batch_state *b = with;
    if (b->run != NULL)
        batch_run_stop(b->run);
}

static void batch_stop_server(void *with)
{
    server_stop(with);
}

/* Runs the lines without a result. */
static int batch_serve(batch_state *b, server_options *o)
{
    mote_error err;
    o->local = (server_local){batch_on_start, batch_on_tick, batch_on_stop, b};
    if (server_new(&b->server, o, &err) != MOTE_OK)
        return err.status == MOTE_E_ARG ? msg_usage("%s", err.text) : msg_error(&err);
    interrupt_set_handler(batch_stop_server, b->server);
    if (!interrupt_pending() && server_run(b->server, &err) != MOTE_OK)
        b->code = msg_error(&err);
    interrupt_set_handler(NULL, NULL);
    progress_clear();
    if (b->run != NULL) {
        batch_run_progress(b->run, &b->progress);
        if (b->code == CLI_DONE && batch_run_error(b->run, &err) != MOTE_OK)
            b->code = err.status == MOTE_E_IO
                          ? msg_fail(CLI_NOT_WRITABLE, mote_status_name(err.status), "%s", err.text)
                          : msg_error(&err);
    }
    batch_run_free(b->run);
    b->run = NULL;
    server_free(b->server);
    return b->code;
}

/* ---- files ---- */

static int batch_open(batch_state *b, const char *in, const char *out)
{
    mote_error err;
    batch_part part = {.limit = (uint32_t)b->flags->limit};
    struct stat x, y;
    if (b->flags->shard != NULL)
        shard_read(b->flags->shard, &part);
    if (stat(in, &x) == 0 && stat(out, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino)
        return msg_usage("IN.jsonl and OUT.jsonl are the same file: %s", in);
    const int code = load_check_file(in);
    if (code != CLI_DONE)
        return code;
    if (batch_lines_open(&b->lines, in, &part, &err) != MOTE_OK)
        return msg_error(&err);
    const mote_status status =
        batch_journal_open(&b->journal, out, &b->lines,
                           b->flags->restart ? JOURNAL_RESTART : JOURNAL_CONTINUE, 0666, &err);
    if (status == MOTE_E_MISMATCH)
        return msg_usage("%s; give another file, or --restart to overwrite it", err.text);
    if (status == MOTE_E_IO)
        return msg_fail(CLI_NOT_WRITABLE, mote_status_name(status), "%s", err.text);
    return status == MOTE_OK ? CLI_DONE : msg_error(&err);
}

static uint32_t batch_count_done(const batch_state *b, uint32_t *failed)
{
    uint32_t done = 0;
    *failed = 0;
    for (uint32_t i = 0; i < b->lines.n_order; i++) {
        const batch_line *line = b->lines.order[i];
        done += line->done;
        *failed += line->done && b->journal.entries[line - b->lines.lines].failed;
    }
    return done;
}

/* Results in the order of the input. */
static int batch_finish_file(batch_state *b)
{
    mote_error err;
    if (batch_journal_sync(&b->journal, &err) == MOTE_OK &&
        (batch_journal_in_order(&b->journal) ||
         batch_journal_export(&b->journal, b->journal.path, JOURNAL_ALL, &err) == MOTE_OK))
        return CLI_DONE;
    return err.status == MOTE_E_IO
               ? msg_fail(CLI_NOT_WRITABLE, mote_status_name(err.status), "%s", err.text)
               : msg_error(&err);
}

/* ---- the report ---- */

static int batch_report_json(const cli_call *call, const batch_progress *p)
{
    strbuf j = {0};
    jw_open(&j, '{');
    jw_key_uint(&j, "requests", p->lines);
    jw_key_uint(&j, "done", p->done);
    jw_key_uint(&j, "failed", p->failed);
    jw_key_uint(&j, "finished_now", p->finished);
    jw_key_uint(&j, "prompt_tokens", p->prompt_tokens);
    jw_key_uint(&j, "cached_tokens", p->cached_tokens);
    jw_key_uint(&j, "answer_tokens", p->answer_tokens);
    jw_key_double(&j, "seconds", p->seconds);
    jw_key_double(&j, "answer_tokens_per_second", answer_rate(p));
    jw_close(&j, '}');
    return out_json(call->out, &j);
}

static int batch_report(const cli_call *call, const batch_progress *p)
{
    char a[TEXT_NUMBER_BYTES], b[TEXT_NUMBER_BYTES], c[TEXT_NUMBER_BYTES];
    if (call->common.json)
        return batch_report_json(call, p);
    if (p->finished < p->done)
        msg_note("%u of %u requests were done before", p->done - p->finished, p->lines);
    if (p->finished > 0)
        msg_note("%s in %s, %s t/s, prefix reuse %.0f %%", text_counted(a, p->finished, "request"),
                 text_seconds(b, p->seconds), text_rate(c, answer_rate(p)), reuse_percent(p));
    if (p->failed > 0)
        msg_note("%s failed: their lines in %s say why", text_counted(a, p->failed, "request"),
                 call->words[1]);
    return CLI_DONE;
}

/* ---- the command ---- */

static void batch_server_options(server_options *o, const batch_options *f)
{
    o->sched.parallel = (uint32_t)f->parallel;
    o->sched.kv_tokens = f->kv_tokens;
    o->sched.context = f->load.context;
    o->sched.threads = (uint32_t)f->load.threads;
    o->sched.kv = (mote_kv)f->load.kv;
    o->sched.yarn = (float)f->load.yarn;
    o->sched.pin = (mote_pin)f->load.pin;
    o->sched.spec = spec_flag_read(f->spec);
    o->defaults.no_ext = true; /* the shape that programs for OpenAI's output expect */
    o->defaults.preset = (uint32_t)f->preset;
    o->sandbox = SERVER_SANDBOX_OFF;
    o->keep_alive = -1;
    o->drain_seconds = 1;
    think_flag_read(f->think, &o->defaults.think, &o->defaults.think_budget);
}

/* Opens the models and runs the lines that have no result. */
static int batch_work(batch_state *b, const cli_call *call)
{
    const batch_options *f = b->flags;
    server_options *o = mem_new(1, sizeof *o);
    serve_models *models = mem_new(1, sizeof *models);
    int code = o == NULL || models == NULL ? msg_no_memory("the options of the server") : CLI_DONE;
    if (code == CLI_DONE) {
        *models = (serve_models){.arguments = &f->model,
                                 .n = f->model != NULL,
                                 .mmproj = f->mmproj,
                                 .lora_files = &f->loras,
                                 .catalog = {.config = call->config},
                                 .isa = (mote_isa)f->load.isa};
        batch_server_options(o, f);
        code = models->n > 0 ? serve_models_open(models, o, f->load.memory)
                             : serve_models_open_catalog(models, o, f->load.memory, false);
    }
    if (code == CLI_DONE)
        code = batch_serve(b, o);
    if (models != NULL)
        serve_models_close(models);
    mem_free(models);
    mem_free(o);
    return code;
}

static int batch_command(const cli_call *call)
{
    batch_state *b = mem_new(1, sizeof *b);
    uint32_t failed;
    if (b == NULL)
        return msg_no_memory("the batch");
    b->flags = call->options;
    int code = batch_open(b, call->words[0], call->words[1]);
    if (code == CLI_DONE && batch_count_done(b, &failed) < b->lines.n_order)
        code = batch_work(b, call);
    if (code == CLI_DONE) {
        b->progress.lines = b->lines.n_order;
        b->progress.done = batch_count_done(b, &b->progress.failed);
        code = batch_report(call, &b->progress);
        const bool all = b->progress.done == b->progress.lines;
        if (code == CLI_DONE && all)
            code = batch_finish_file(b);
        if (code == CLI_DONE && interrupt_pending())
            code = interrupt_exit_code();
        if (code == CLI_DONE && (!all || b->progress.failed > 0))
            code = CLI_FAILED;
    }
    batch_journal_close(&b->journal);
    batch_lines_close(&b->lines);
    mem_free(b);
    return code;
}

const cli_command cmd_batch = {
    .name = "batch",
    .section = "Use a model",
    .summary = "answer the requests of a file",
    .usage = "IN.jsonl OUT.jsonl",
    .arguments = "FILE FILE",
    .min_words = 2,
    .max_words = 2,
    .groups = batch_groups,
    .n_groups = sizeof batch_groups / sizeof *batch_groups,
    .options_bytes = sizeof(batch_options),
    .about =
        "Answers every line of IN.jsonl and writes one line per request to OUT.jsonl, in the forms "
        "of OpenAI's Batch API: {\"custom_id\", \"method\": \"POST\", \"url\", \"body\"} with the "
        "url /v1/chat/completions, /v1/completions, /v1/embeddings or /v1/responses. A line may "
        "also be the body of a chat completion alone.\n"
        "Requests that begin equally run together, so that the prefix cache has what they share. "
        "Results are appended to OUT.jsonl as they come, and sorted in the order of the input at "
        "the end. The same command continues after an interruption, with each request once in the "
        "output. A line that is not valid gets an error as its result; the others run.\n"
        "The exit code is 0 if every request has a response, 1 if some have failed.",
    .examples = "mote batch requests.jsonl answers.jsonl --model qwen3.5:4b\n"
                "mote batch requests.jsonl part-2.jsonl --model model.gguf --shard 2/4",
    .run = batch_command,
};
