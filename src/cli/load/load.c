/* SPDX-License-Identifier: Apache-2.0 */
/* load.c - flags about the machine, model, engine, prefill and --think; see load.h. */
#include "cli/load/load.h"

#include "base/err.h"
#include "base/os.h"
#include "cli/args/command.h"
#include "cli/term/output.h"
#include "cli/term/terminal.h"
#include "cli/term/text.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEFAULT_CONTEXT = 4096 };

/* The words of a choice are in the order of its enum. */
_Static_assert(MOTE_ISA_BEST == 0 && MOTE_ISA_AMX == 4, "--isa lists the levels in order");
_Static_assert(MOTE_PIN_AUTO == 0 && MOTE_PIN_CORES == 2, "--pin lists the ways in order");
_Static_assert(MOTE_KV_F16 == 0 && MOTE_KV_F32 == 1 && MOTE_KV_Q8_0 == 2,
               "LOAD_KV_CHOICES lists the formats in order");

const cli_flag load_flags[] = {
    {.name = "context",
     .letter = 'c',
     .kind = FLAG_COUNT,
     .value = "N",
     .min = 1,
     .max = 4194304,
     .shown = "4096, in a chat 32768, or what the prompt needs",
     .env = "MOTE_CONTEXT",
     .at = offsetof(load_options, context),
     .help = "context size in tokens: prompt and answer together"},
    {.name = "threads",
     .letter = 't',
     .kind = FLAG_COUNT,
     .value = "N",
     .min = 1,
     .max = 1024,
     .shown = "one per core",
     .env = "MOTE_THREADS",
     .at = offsetof(load_options, threads),
     .help = "threads; affects speed, never the output"},
    {.name = "pin",
     .kind = FLAG_CHOICE,
     .value = "auto|off|cores",
     .initial = "auto",
     .at = offsetof(load_options, pin),
     .help = "thread affinity: auto avoids slow cores, off sets none, cores binds each thread to "
             "one core"},
    {.name = "kv",
     .kind = FLAG_CHOICE,
     .value = LOAD_KV_CHOICES,
     .initial = "f16",
     .env = "MOTE_KV",
     .at = offsetof(load_options, kv),
     .help =
         "type of the KV cache: q8_0 needs half the memory of f16; f32 needs twice as much and is "
         "for comparison with a reference"},
    {.name = "isa",
     .kind = FLAG_CHOICE,
     .value = "best|ref|avx2|avx512|amx",
     .initial = "best",
     .env = "MOTE_ISA",
     .at = offsetof(load_options, isa),
     .help = "highest instruction set to use; affects speed, never the output"},
    {.name = "yarn",
     .kind = FLAG_NUMBER,
     .value = "F",
     .min = 1,
     .max = 4,
     .shown = "off",
     .at = offsetof(load_options, yarn),
     .help = "extend the trained context by this factor with YaRN, 1 to 4"},
};
_Static_assert(sizeof load_flags / sizeof *load_flags == LOAD_N_FLAGS, "LOAD_N_FLAGS");

const char *load_kv_name(uint64_t kv)
{
    static const char *const names[] = {"f16", "f32", "q8_0"};
    return names[kv];
}

int load_check_file(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return msg_fail(CLI_NO_MODEL, "not_found",
                        "no such file: %s; give the path of a .gguf file", path);
    if (fd < 0 && (errno == EACCES || errno == EPERM))
        return msg_fail(CLI_REFUSED, "permission", "cannot read %s: %s", path, strerror(errno));
    if (fd < 0)
        return msg_fail(CLI_FAILED, "io_error", "cannot open %s: %s", path, strerror(errno));
    struct stat info;
    bool directory = fstat(fd, &info) == 0 && S_ISDIR(info.st_mode);
    close(fd);
    if (directory)
        return msg_fail(CLI_NO_MODEL, "not_found",
                        "%s is a directory; give the path of a .gguf file in it", path);
    return CLI_DONE;
}

int load_failed(const char *path, mote_error *err)
{
    bool about_file = err->status == MOTE_E_FORMAT || err->status == MOTE_E_UNSUPPORTED;
    if (about_file && strstr(err->text, path) == NULL)
        err_prefix(err, path);
    return msg_error(err);
}

int load_model(loaded *l, const char *path, const char *vision, mote_isa isa)
{
    int code = load_check_file(path);
    if (code != CLI_DONE)
        return code;
    mote_error err;
    mote_status status =
        mote_model_open(&l->model, path, &(mote_model_options){.isa = isa, .mmproj = vision}, &err);
    return status == MOTE_OK ? CLI_DONE : load_failed(path, &err);
}

int load_prefault(const loaded *l)
{
    uint64_t done = 0, total = 0;
    progress p;
    progress_begin(&p, "loading", PROGRESS_BYTES, 0);
    while (mote_model_prefault(l->model, &done, &total) && !interrupt_pending()) {
        p.total = total;
        progress_at(&p, done);
    }
    progress_end(&p);
    return interrupt_pending() ? interrupt_exit_code() : CLI_DONE;
}

void load_describe(const loaded *l, uint64_t context)
{
    mote_model_info info;
    mote_model_describe(l->model, &info);
    mote_memory memory;
    mote_engine_memory(l->engine, &memory);
    char a[TEXT_NUMBER_BYTES], b[TEXT_NUMBER_BYTES], c[TEXT_NUMBER_BYTES], d[TEXT_NUMBER_BYTES];
    msg_detail("%s   %s, %s   context %s   memory %s, %s mapped",
               info.name[0] != '\0' ? info.name : "model", mote_isa_name(info.isa),
               text_counted(d, mote_engine_threads(l->engine), "thread"), text_count(a, context),
               text_bytes(b, memory.total - memory.weights), text_bytes(c, memory.weights));
}

int load_engine(loaded *l, const load_options *options, uint64_t context, uint32_t logits_rows)
{
    mote_engine_options engine = {
        .threads = (uint32_t)options->threads,
        .sessions = 1,
        .positions = context,
        .logits_rows = logits_rows,
        .kv = (mote_kv)options->kv,
        .yarn = (float)options->yarn,
        .pin = (mote_pin)options->pin,
    };
    mote_error err;
    if (mote_engine_new(&l->engine, l->model, &engine, &err) != MOTE_OK)
        return msg_error(&err);
    if (mote_session_new(&l->session, l->engine, &(mote_session_options){.context = context},
                         &err) != MOTE_OK)
        return msg_error(&err);
    interrupt_set_engine(l->engine);
    load_describe(l, context);
    return CLI_DONE;
}

void load_close(loaded *l)
{
    interrupt_set_engine(NULL);
    if (l->session != NULL)
        mote_session_free(l->session);
    mote_engine_free(l->engine);
    mote_model_close(l->model);
    *l = (loaded){0};
}

uint64_t load_context(const loaded *l, const load_options *options, uint64_t prompt,
                      uint64_t answer)
{
    if (options->context != 0)
        return options->context;
    uint64_t needed = prompt + answer, limit = load_context_max(l, options);
    uint64_t context = needed > DEFAULT_CONTEXT ? needed : DEFAULT_CONTEXT;
    return context < limit ? context : limit;
}

uint64_t load_context_max(const loaded *l, const load_options *options)
{
    mote_model_info info;
    mote_model_describe(l->model, &info);
    return (uint64_t)(info.context * (options->yarn > 1 ? options->yarn : 1));
}

/* ---- prefill ---- */

enum { FIRST_CHUNK = 32, MIN_CHUNK = 32, MAX_CHUNK = 512 };

/* Larger chunks prefill faster, smaller ones react faster to Ctrl-C. */
static const double chunk_too_short = 0.15, chunk_too_long = 0.6; /* seconds */

static size_t prefill_next_chunk(size_t chunk, size_t largest, double seconds)
{
    if (seconds < chunk_too_short && chunk < largest)
        return chunk * 2 < largest ? chunk * 2 : largest;
    if (seconds > chunk_too_long && chunk > MIN_CHUNK)
        return chunk / 2;
    return chunk;
}

static mote_status prefill_chunk(const prefill_job *job, size_t at, size_t n, mote_error *err)
{
    bool last = at + n == job->n;
    mote_work work = {
        .session = job->session,
        .tokens = job->tokens + at,
        .n = n,
        .want = job->want == MOTE_LOGITS_LAST && !last ? MOTE_LOGITS_NONE : job->want,
    };
    TRY(mote_step(job->engine, &work, 1, err));
    size_t rows = work.want == MOTE_LOGITS_ALL ? n : work.want == MOTE_LOGITS_LAST ? 1 : 0;
    if (rows > 0 && job->rows != NULL && !job->rows(job->ctx, job->session, rows))
        return err_set(err, MOTE_E_IO, "cannot write the logits");
    return MOTE_OK;
}

mote_status prefill_prompt(const prefill_job *job, mote_error *err)
{
    size_t largest = job->chunk_max != 0 ? job->chunk_max : MAX_CHUNK;
    size_t chunk = job->chunk != 0 ? job->chunk : FIRST_CHUNK < largest ? FIRST_CHUNK : largest;
    progress p;
    progress_begin(&p, "prefill", PROGRESS_TOKENS, job->n);
    mote_status status = MOTE_OK;
    for (size_t at = 0; at < job->n && status == MOTE_OK;) {
        size_t n = chunk < job->n - at ? chunk : job->n - at;
        double started = os_now();
        status = interrupt_pending() ? err_set(err, MOTE_E_CANCELED, "interrupted")
                                     : prefill_chunk(job, at, n, err);
        at += n;
        if (job->chunk == 0)
            chunk = prefill_next_chunk(chunk, largest, os_now() - started);
        if (status == MOTE_OK)
            progress_at(&p, at);
    }
    progress_end(&p);
    return status;
}

/* ---- --think ---- */

int think_flag_read(const char *value, mote_think *think, uint32_t *budget)
{
    if (value == NULL || value[0] == '\0' || mote_think_parse(value, strlen(value), think, budget))
        return CLI_DONE;
    return msg_usage("--think must be " THINK_FLAG_WORDS ", got '%.60s'", value);
}
