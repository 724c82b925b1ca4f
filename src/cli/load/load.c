/* SPDX-License-Identifier: Apache-2.0 */
/* load.c - see load.h. */
#include "cli/load/load.h"

#include "base/os.h"
#include "cli/term/interrupt.h"
#include "cli/term/progress.h"
#include "cli/term/output_messages.h"
#include "cli/term/text.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { USUAL_CONTEXT = 4096 };

/* The choice's words are in the order of the enum. */
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
     .shown = "4096, a conversation 32768, or what the prompt needs",
     .env = "MOTE_CONTEXT",
     .at = offsetof(load_options, context),
     .help = "room for prompt and answer together, in tokens"},
    {.name = "threads",
     .letter = 't',
     .kind = FLAG_COUNT,
     .value = "N",
     .min = 1,
     .max = 1024,
     .shown = "one per core",
     .env = "MOTE_THREADS",
     .at = offsetof(load_options, threads),
     .help = "changes the speed, never the answer"},
    {.name = "pin",
     .kind = FLAG_CHOICE,
     .value = "auto|off|cores",
     .initial = "auto",
     .at = offsetof(load_options, pin),
     .help = "threads kept off weak cores, left free, or each on a core of its own"},
    {.name = "kv",
     .kind = FLAG_CHOICE,
     .value = LOAD_KV_CHOICES,
     .initial = "f16",
     .env = "MOTE_KV",
     .at = offsetof(load_options, kv),
     .help = "attention memory; q8_0 takes half the room of f16, f32 twice, to compare with a "
             "reference"},
    {.name = "isa",
     .kind = FLAG_CHOICE,
     .value = "best|ref|avx2|avx512|amx",
     .initial = "best",
     .env = "MOTE_ISA",
     .at = offsetof(load_options, isa),
     .help = "go no higher than this instruction set; changes the speed, never the answer"},
    {.name = "yarn",
     .kind = FLAG_NUMBER,
     .value = "F",
     .min = 1,
     .max = 4,
     .shown = "off",
     .at = offsetof(load_options, yarn),
     .help = "stretch the context by this factor, 1 to 4"},
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
                        "there is no file %s; give the path of a .gguf file", path);
    if (fd < 0 && (errno == EACCES || errno == EPERM))
        return msg_fail(CLI_REFUSED, "permission", "%s may not be read: %s", path, strerror(errno));
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
    bool at_fault = err->status == MOTE_E_FORMAT || err->status == MOTE_E_UNSUPPORTED;
    if (at_fault && strstr(err->text, path) == NULL)
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

int load_warm(const loaded *l)
{
    uint64_t done = 0, total = 0;
    progress p;
    progress_begin(&p, "loading", PROGRESS_BYTES, 0);
    while (mote_model_prefault(l->model, &done, &total) && !interrupt_came()) {
        p.total = total;
        progress_at(&p, done);
    }
    progress_end(&p);
    return interrupt_came() ? interrupt_exit_code() : CLI_DONE;
}

static void describe(const loaded *l, uint64_t context)
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
    mote_engine_options wanted = {
        .threads = (uint32_t)options->threads,
        .sessions = 1,
        .positions = context,
        .logits_rows = logits_rows,
        .kv = (mote_kv)options->kv,
        .yarn = (float)options->yarn,
        .pin = (mote_pin)options->pin,
    };
    mote_error err;
    if (mote_engine_new(&l->engine, l->model, &wanted, &err) != MOTE_OK)
        return msg_error(&err);
    if (mote_session_new(&l->session, l->engine, &(mote_session_options){.context = context},
                         &err) != MOTE_OK)
        return msg_error(&err);
    interrupt_watch(l->engine);
    describe(l, context);
    return CLI_DONE;
}

void load_close(loaded *l)
{
    interrupt_watch(NULL);
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
    mote_model_info info;
    mote_model_describe(l->model, &info);
    double stretch = options->yarn > 1 ? options->yarn : 1;
    uint64_t most = (uint64_t)(info.context * stretch);
    uint64_t needed = prompt + answer;
    uint64_t context = needed > USUAL_CONTEXT ? needed : USUAL_CONTEXT;
    return context < most ? context : most;
}
