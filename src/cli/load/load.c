/* SPDX-License-Identifier: Apache-2.0 */
/* load.c - flags about the machine, model, engine, prefill, --think and --template; see load.h. */
#include "cli/load/load.h"

#include "base/cpu.h"
#include "base/err.h"
#include "base/os.h"
#include "base/ram.h"
#include "cli/args/command.h"
#include "cli/load/find_model.h"
#include "cli/term/output.h"
#include "cli/term/terminal.h"
#include "cli/term/text.h"
#include "disk_cache/disk_cache.h"
#include "spec/spec.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEFAULT_CONTEXT = 4096 };

/* The words of a choice are in the order of its enum. */
_Static_assert(MOTE_ISA_BEST == 0 && MOTE_ISA_AVXVNNI == 8,
               "LOAD_ISA_CHOICES lists the levels by value");
_Static_assert(MOTE_PIN_AUTO == 0 && MOTE_PIN_CORES == 2, "--pin lists the ways in order");
_Static_assert(MOTE_KV_F16 == 0 && MOTE_KV_F32 == 1 && MOTE_KV_Q8_0 == 2 && MOTE_KV_Q4_0 == 3,
               "LOAD_KV_CHOICES lists the formats in order");

enum { THREADS_PER_CPU = 4 };

/* More threads than CPUs only take turns; a few per CPU are enough for every test. CPUs are those
 * of the affinity mask, or the cgroup quota if it is smaller. */
double load_threads_limit(const char **why)
{
    static char text[64];
    cores found;
    cores_find(&found);
    uint32_t cpus = 0;
    for (size_t i = 0; i < CORES_MAX / 64; i++)
        cpus += (uint32_t)__builtin_popcountll(found.cpus.bits[i]);
    if (found.quota || cpus == 0)
        cpus = found.n;
    snprintf(text, sizeof text, "%d per CPU; this process may use %u", THREADS_PER_CPU, cpus);
    *why = text;
    return cpus < LOAD_MAX_THREADS / THREADS_PER_CPU ? cpus * THREADS_PER_CPU : LOAD_MAX_THREADS;
}

const cli_flag load_flags[] = {
    {LOAD_CONTEXT_FLAG, .value = "N|auto", .word = "auto",
     .shown = "auto: 4096, in a chat 32768, or what the prompt needs; less if memory is short",
     .env = "MOTE_CONTEXT", .at = offsetof(load_options, context),
     .help = "context size in tokens: prompt and answer together"},
    {LOAD_MEMORY_FLAG, .shown = "what is available", .at = offsetof(load_options, memory),
     .help = "memory limit, such as 8GB, 500MB or 4GiB; may exceed what is available"},
    {LOAD_THREADS_FLAG, .at = offsetof(load_options, threads),
     .help = "threads; affects speed, never the output"},
    {.name = "pin",
     .kind = FLAG_CHOICE,
     .value = "auto|off|cores",
     .initial = "auto",
     .at = offsetof(load_options, pin),
     .help = "thread affinity: auto avoids slow cores, off sets none, cores binds each thread to "
             "one core"},
    {LOAD_KV_FLAG, .at = offsetof(load_options, kv),
     .help = "type of the KV cache: q8_0 needs half the memory of f16, q4_0 a little more than a "
             "quarter and is less accurate; f32 needs twice as much and is for comparison with a "
             "reference"},
    {LOAD_ISA_FLAG, .at = offsetof(load_options, isa),
     .help = "highest instruction set to use; affects speed, never the output"},
    {.name = "yarn",
     .kind = FLAG_NUMBER,
     .value = "F",
     .min = 1,
     .max = 4,
     .shown = "off",
     .at = offsetof(load_options, yarn),
     .help = "extend the trained context by this factor with YaRN"},
};
_Static_assert(sizeof load_flags / sizeof *load_flags == LOAD_N_FLAGS, "LOAD_N_FLAGS");

const char *load_kv_name(uint64_t kv)
{
    static const char *const names[] = {"f16", "f32", "q8_0", "q4_0"};
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

int load_model(loaded *l, const found_model *m, const char *vision, mote_isa isa)
{
    int code = load_check_file(m->path);
    if (code != CLI_DONE)
        return code;
    mote_error err;
    mote_status status = load_open(l, m, vision, isa, &err);
    return status == MOTE_OK ? CLI_DONE : load_failed(m->path, &err);
}

mote_status load_open(loaded *l, const found_model *m, const char *vision, mote_isa isa,
                      mote_error *err)
{
    char mtp[MTP_PATH_BYTES];
    const char *path = m->path;
    find_mtp(mtp, m);
    mote_model_options options = {.isa = isa, .mmproj = vision, .mtp = mtp[0] != '\0' ? mtp : NULL};
    const mote_status status = mote_model_open(&l->model, path, &options, err);
    if (status == MOTE_OK || options.mtp == NULL)
        return status;
    mote_error without;
    options.mtp = NULL;
    if (mote_model_open(&l->model, path, &options, &without) != MOTE_OK) {
        *err = without;
        return without.status;
    }
    msg_note("%s is not used: %s", mtp, err->text);
    return MOTE_OK;
}

/* --memory, or else what is available. *mapped: bytes of the model's files. */
static uint64_t load_budget(const mote_model *model, uint64_t given, uint64_t *mapped, ram *machine,
                            const char **source)
{
    mote_model_info info;
    mote_model_describe(model, &info);
    *mapped = info.file_bytes + info.vision_file_bytes + info.draft_file_bytes;
    *source = "--memory";
    if (given > 0)
        return given;
    ram_find(machine);
    return ram_budget(machine, *mapped, source);
}

/* A model with experts runs if everything else and a few experts fit; the others are read from disk
 * when a token needs them. Returns the bytes of experts that fit, 0: too few. `rest`: bytes of all
 * other parts. */
static uint64_t load_experts_in(const mote_model *model, uint64_t rest, uint64_t budget)
{
    enum { TOKENS = 4 }; /* experts of so many tokens are the least */
    mote_model_info info;
    mote_model_describe(model, &info);
    if (info.experts == 0 || rest >= budget)
        return 0;
    const uint64_t least = TOKENS * (info.expert_bytes / info.experts) * info.experts_used;
    return budget - rest >= least ? budget - rest : 0;
}

static void load_warn_disk(const mote_model *model, uint64_t needed, uint64_t budget,
                           uint64_t experts, const char *source)
{
    char a[TEXT_NUMBER_BYTES], b[TEXT_NUMBER_BYTES], c[TEXT_NUMBER_BYTES];
    mote_model_info info;
    mote_model_describe(model, &info);
    const double kept = (double)experts / (double)info.expert_bytes;
    const uint64_t token = info.expert_bytes / info.experts * info.experts_used;
    msg_note(
        "the model needs %s, available are %s (%s): %.0f %% of the experts stay in memory, the "
        "others are read from disk, up to %s per token",
        text_bytes(a, needed), text_bytes(b, budget), source, 100 * kept,
        text_bytes(c, (uint64_t)((1 - kept) * (double)token)));
}

bool load_limit_experts(const mote_model *model, uint64_t mapped, uint64_t budget,
                        const char *source, uint64_t *out)
{
    mote_model_info info;
    mote_model_describe(model, &info);
    const uint64_t others = budget / 4; /* for sessions */
    *out = load_experts_in(model, mapped - info.expert_bytes + others, budget);
    if (*out >= info.expert_bytes) /* the memory is short for another reason */
        *out = 0;
    if (*out > 0)
        load_warn_disk(model, mapped, budget, *out, source);
    return *out > 0;
}

int load_prefault(const loaded *l, uint64_t memory)
{
    char a[TEXT_NUMBER_BYTES], b[TEXT_NUMBER_BYTES];
    uint64_t done = 0, total = 0, mapped;
    const char *source;
    progress p;
    ram machine;
    const uint64_t budget = load_budget(l->model, memory, &mapped, &machine, &source);
    mote_model_info info;
    mote_model_describe(l->model, &info);
    if (mapped > budget && load_experts_in(l->model, mapped - info.expert_bytes, budget) > 0)
        return CLI_DONE; /* what is read ahead would be evicted again */
    if (mapped > budget)
        return msg_fail(CLI_NO_MEMORY, mote_status_name(MOTE_E_MEMORY),
                        "the weights need %s, available are %s (%s); use a smaller model%s",
                        text_bytes(a, mapped), text_bytes(b, budget), source,
                        memory > 0 ? "" : ", or set --memory to try anyway");
    progress_begin(&p, "loading", PROGRESS_BYTES, 0, 0);
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

int load_engine(loaded *l, const load_options *options, uint64_t *context, uint64_t needed,
                uint32_t logits_rows)
{
    mote_engine_options engine = {
        .threads = (uint32_t)options->threads,
        .sessions = 1,
        .positions = *context,
        .logits_rows = logits_rows,
        .kv = (mote_kv)options->kv,
        .yarn = (float)options->yarn,
        .pin = (mote_pin)options->pin,
        .drafts = options->drafts,
        .lora_rank = load_lora_rank(l),
    };
    mote_error err;
    const int code = load_fit_memory(l->model, options, &engine, needed);
    if (code != CLI_DONE)
        return code;
    *context = engine.positions;
    if (mote_engine_new(&l->engine, l->model, &engine, &err) != MOTE_OK)
        return msg_error(&err);
    const mote_session_options session = {
        .context = *context, .loras = l->loras, .n_loras = l->n_loras};
    if (mote_session_new(&l->session, l->engine, &session, &err) != MOTE_OK)
        return msg_error(&err);
    interrupt_set_engine(l->engine);
    load_describe(l, *context);
    return CLI_DONE;
}

/* Memory of an engine and of suffix lookup. */
static mote_status load_plan(const mote_model *model, const mote_engine_options *engine,
                             uint64_t *bytes, mote_error *err)
{
    mote_memory memory;
    TRY(mote_engine_plan(model, engine, &memory, err));
    *bytes = memory.total;
    if (engine->drafts)
        *bytes += spec_bytes(1, engine->positions / engine->sessions);
    return MOTE_OK;
}

/* The most positions per session that fit, in whole pages; 0: none. */
static uint64_t load_most_context(const mote_model *model, mote_engine_options engine,
                                  uint64_t budget)
{
    const uint64_t page = 64;
    uint64_t low = 0, high = engine.positions / engine.sessions / page;
    while (low < high) {
        const uint64_t middle = low + (high - low + 1) / 2;
        uint64_t bytes;
        engine.positions = middle * page * engine.sessions;
        if (load_plan(model, &engine, &bytes, NULL) == MOTE_OK && bytes <= budget)
            low = middle;
        else
            high = middle - 1;
    }
    return low * page;
}

/* Reduces the context and turns drafts off as far as the user allows. false: it still does not fit;
 * *most is the largest context that does. */
static bool load_reduce(const mote_model *model, const load_options *options,
                        mote_engine_options *engine, uint64_t needed, uint64_t budget,
                        uint64_t *most)
{
    const uint64_t wanted = engine->positions / engine->sessions;
    const uint64_t least = options->context == 0 && needed < wanted ? needed : wanted;
    mote_engine_options plain = *engine;
    plain.drafts = false;
    plain.logits_rows = 1;
    *most = load_most_context(model, *engine, budget);
    const bool reduced = options->context == 0 && *most > 0 && *most >= least;
    if (!reduced && engine->drafts && !options->keep_drafts) {
        uint64_t bytes;
        const bool fits = load_plan(model, &plain, &bytes, NULL) == MOTE_OK && bytes <= budget;
        *engine = plain;
        *most = fits ? wanted : load_most_context(model, plain, budget);
    }
    if (*most < wanted && (options->context != 0 || *most == 0 || *most < least))
        return false;
    if (*most < wanted)
        engine->positions = *most * engine->sessions;
    return true;
}

static void load_note_reduced(const mote_engine_options *before, const mote_engine_options *now,
                              uint64_t budget, const char *source)
{
    char a[TEXT_NUMBER_BYTES], b[TEXT_NUMBER_BYTES], c[TEXT_NUMBER_BYTES];
    if (now->positions < before->positions)
        msg_note("context reduced from %s to %s: %s available (%s)",
                 text_count(a, before->positions / before->sessions),
                 text_count(b, now->positions / now->sessions), text_bytes(c, budget), source);
    if (before->drafts && !now->drafts)
        msg_note("no drafts (--spec off): %s available (%s)", text_bytes(c, budget), source);
}

/* What to do if an engine does not fit; `most`: the largest context that does. */
static void load_advise(char *advice, size_t room, const mote_model *model,
                        mote_engine_options engine, uint64_t budget, uint64_t most)
{
    uint64_t bytes;
    const bool drafts = engine.drafts;
    engine.drafts = false;
    engine.logits_rows = 1;
    if (drafts && load_plan(model, &engine, &bytes, NULL) == MOTE_OK && bytes <= budget)
        snprintf(advice, room, "use --spec off");
    else if (most > 0)
        snprintf(advice, room, "lower --context to %llu", (unsigned long long)most);
    else
        snprintf(advice, room, "use a smaller model");
}

/* Lets a part of the experts stay on disk, if that is enough. */
static bool load_use_disk(const mote_model *model, mote_engine_options *engine, uint64_t budget,
                          const char *source)
{
    uint64_t bytes;
    mote_model_info info;
    mote_model_describe(model, &info);
    if (load_plan(model, engine, &bytes, NULL) != MOTE_OK)
        return false;
    const uint64_t experts = load_experts_in(model, bytes - info.expert_bytes, budget);
    if (experts == 0)
        return false;
    load_warn_disk(model, bytes, budget, experts, source);
    engine->expert_memory = experts;
    return true;
}

int load_fit_memory(const mote_model *model, const load_options *options,
                    mote_engine_options *engine, uint64_t needed)
{
    char a[TEXT_NUMBER_BYTES], b[TEXT_NUMBER_BYTES], c[TEXT_NUMBER_BYTES], advice[96];
    uint64_t mapped, bytes, most;
    mote_error err;
    ram machine;
    const char *source;
    const mote_engine_options before = *engine;
    if (load_plan(model, engine, &bytes, &err) != MOTE_OK)
        return msg_error(&err);
    const uint64_t budget = load_budget(model, options->memory, &mapped, &machine, &source);
    if (bytes <= budget)
        return CLI_DONE;
    if (load_reduce(model, options, engine, needed, budget, &most)) {
        load_note_reduced(&before, engine, budget, source);
        return CLI_DONE;
    }
    const mote_engine_options plain = *engine;
    *engine = before;
    if (load_use_disk(model, engine, budget, source))
        return CLI_DONE;
    *engine = plain; /* perhaps without drafts */
    if (before.drafts && !plain.drafts && load_use_disk(model, engine, budget, source)) {
        load_note_reduced(&before, engine, budget, source);
        return CLI_DONE;
    }
    load_advise(advice, sizeof advice, model, *engine, budget, most);
    return msg_fail(CLI_NO_MEMORY, mote_status_name(MOTE_E_MEMORY),
                    "a context of %s needs %s, available are %s (%s); %s%s",
                    text_count(a, before.positions / before.sessions), text_bytes(b, bytes),
                    text_bytes(c, budget), source, advice,
                    options->memory > 0 ? "" : ", or set --memory to use more");
}

bool load_disk_directory(char *out, size_t room)
{
    return disk_cache_directory(out, room, getenv("MOTE_CACHE"), getenv("XDG_CACHE_HOME"),
                                getenv("HOME"));
}

void load_close(loaded *l)
{
    interrupt_set_engine(NULL);
    if (l->session != NULL)
        mote_session_free(l->session);
    mote_engine_free(l->engine);
    for (size_t i = 0; i < l->n_loras; i++)
        mote_lora_close(l->opened[i]);
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

/* A running prefill_prompt. */
typedef struct prefill_run {
    prefill_job *job;
    uint64_t before; /* length of the session at the start */
    progress line;
} prefill_run;

/* Called between two sublayers of a step and after it. */
static void prefill_on_progress(void *with)
{
    prefill_run *r = with;
    r->job->done = (size_t)(mote_step_progress(r->job->session) - r->before);
    progress_at(&r->line, r->job->done);
}

static mote_status prefill_chunk(prefill_run *r, size_t at, size_t n, mote_error *err)
{
    const prefill_job *job = r->job;
    bool last = at + n == job->n;
    mote_work work = {
        .session = job->session,
        .tokens = job->tokens + at,
        .n = n,
        .want = job->want == MOTE_LOGITS_LAST && !last ? MOTE_LOGITS_NONE : job->want,
    };
    TRY(mote_step_with_hook(job->engine, &work, 1, prefill_on_progress, r, err));
    prefill_on_progress(r);
    size_t rows = work.want == MOTE_LOGITS_ALL ? n : work.want == MOTE_LOGITS_LAST ? 1 : 0;
    if (rows > 0 && job->rows != NULL && !job->rows(job->ctx, job->session, rows))
        return err_set(err, MOTE_E_IO, "cannot write the logits");
    return MOTE_OK;
}

mote_status prefill_prompt(prefill_job *job, mote_error *err)
{
    size_t largest = job->chunk_max != 0 ? job->chunk_max : MAX_CHUNK;
    size_t chunk = job->chunk != 0 ? job->chunk : FIRST_CHUNK < largest ? FIRST_CHUNK : largest;
    prefill_run r = {.job = job, .before = mote_session_length(job->session)};
    mote_status status = MOTE_OK;
    job->done = 0;
    progress_begin(&r.line, "prefill", PROGRESS_TOKENS, 0, job->n);
    for (size_t at = 0; at < job->n && status == MOTE_OK;) {
        size_t n = chunk < job->n - at ? chunk : job->n - at;
        double started = os_now();
        status = interrupt_pending() ? err_set(err, MOTE_E_CANCELED, "interrupted")
                                     : prefill_chunk(&r, at, n, err);
        at += n;
        if (job->chunk == 0)
            chunk = prefill_next_chunk(chunk, largest, os_now() - started);
    }
    progress_end(&r.line);
    return status;
}

/* ---- --think ---- */

const char *think_flag_check(const char *value)
{
    mote_think think;
    uint32_t budget;
    return value[0] == '\0' || mote_think_parse(value, strlen(value), &think, &budget)
               ? NULL
               : THINK_FLAG_WORDS;
}

void think_flag_read(const char *value, mote_think *think, uint32_t *budget)
{
    if (value != NULL && value[0] != '\0')
        mote_think_parse(value, strlen(value), think, budget);
}

/* ---- --spec ---- */

const char *spec_flag_check(const char *value)
{
    const bool length = value[0] >= '1' && value[0] <= '0' + MOTE_SPEC_MAX && value[1] == '\0';
    return value[0] == '\0' || length || strcmp(value, "auto") == 0 || strcmp(value, "off") == 0
               ? NULL
               : "auto, off, or 1 to 8";
}

int spec_flag_read(const char *value)
{
    if (value == NULL || value[0] == '\0' || strcmp(value, "auto") == 0)
        return MOTE_SPEC_AUTO;
    return strcmp(value, "off") == 0 ? MOTE_SPEC_OFF : value[0] - '0';
}

/* ---- --template and --chat-template ---- */

/* For cli_flag.check: the names of all templates if the value is none of them. */
static const char *template_name_check(const char *value)
{
    static char names[256];
    size_t n = (size_t)snprintf(names, sizeof names, "auto");
    bool found = value[0] == '\0' || strcmp(value, names) == 0;
    for (size_t i = 0; mote_chat_template_name(i) != NULL; i++) {
        found = found || strcmp(value, mote_chat_template_name(i)) == 0;
        if (n < sizeof names)
            n += (size_t)snprintf(names + n, sizeof names - n, ", %s", mote_chat_template_name(i));
    }
    return found ? NULL : names;
}

const cli_flag template_flags[] = {
    {.name = "template",
     .kind = FLAG_CHOICE,
     .value = "keep-thinking|official",
     .initial = "keep-thinking",
     .at = offsetof(template_options, official),
     .help =
         "keep-thinking: earlier answers keep their thinking, so that the prefix cache matches; "
         "official: exactly as the template of the model's authors"},
    {.name = "chat-template",
     .kind = FLAG_TEXT,
     .value = "NAME",
     .shown = "auto: that of the file",
     .check = template_name_check,
     .words = "auto|qwen3.5-small|qwen3.5|qwen3.5-unsloth|qwen3.6|qwen3.6-unsloth|qwen3.8|qwen3.8-"
              "unsloth",
     .at = offsetof(template_options, name),
     .help = "use a built-in template: qwen3.5-small, qwen3.5, qwen3.6, qwen3.8 and unsloth's "
             "variants of them"},
};
_Static_assert(sizeof template_flags / sizeof *template_flags == TEMPLATE_N_FLAGS,
               "TEMPLATE_N_FLAGS");

void template_flag_note(const template_options *options, const mote_model *model)
{
    mote_template_info info;
    mote_chat_template(model, &info);
    const bool chosen =
        options->name != NULL && options->name[0] != '\0' && strcmp(options->name, "auto") != 0;
    if (!chosen && !info.known)
        msg_note("%s", info.note);
}
