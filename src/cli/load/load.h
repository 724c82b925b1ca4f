/* SPDX-License-Identifier: Apache-2.0 */
/*
 * load.h - the steps that all commands with a model share: flags about the machine, opening the
 * model, an engine with one session, reading text and token ids, prefill with a progress line.
 *
 * Functions that return int return an exit code and have reported the error unless it is 0.
 */
#ifndef MOTE_CLI_LOAD_LOAD_H
#define MOTE_CLI_LOAD_LOAD_H

#include "base/str.h"
#include "cli/args/command.h"

#include <mote.h>
#include <mote_chat.h>

struct found_model; /* find_model.h */

/* ---- model and engine (load.c) ---- */

typedef struct load_options {
    uint64_t threads; /* 0: one per physical core */
    uint64_t isa;     /* mote_isa */
    uint64_t kv;      /* mote_kv */
    double yarn;      /* 0: off */
    uint64_t pin;     /* mote_pin */
    uint64_t context; /* 0: the command decides */
    uint64_t memory;  /* bytes; 0: what is available */
    bool drafts;      /* mote_engine_options.drafts; no flag */
    bool keep_drafts; /* even if memory is short; no flag */
} load_options;

/* The words of a flag for mote_kv, and the word of one value. */
#define LOAD_KV_CHOICES  "f16|f32|q8_0|q4_0"
/* Values of --isa: the levels of all architectures, so that the help is the same everywhere. */
#define LOAD_ISA_CHOICES "best|ref|avx2|avx512|amx|neon|dotprod|i8mm|avxvnni"
const char *load_kv_name(uint64_t kv);

/* The flags of a flag_group with a load_options at its base. */
extern const cli_flag load_flags[];
enum { LOAD_N_FLAGS = 7 };
/* What several commands have in common in a flag: its names, its range, its variable. A row adds
 * `at`, `help` and the default. */
#define LOAD_CONTEXT_FLAG                                                                          \
    .name = "context", .letter = 'c', .kind = FLAG_COUNT, .min = 1, .max = 4194304,                \
    .aliases = "num-ctx|ctx-size|n-ctx|max-model-len"
#define LOAD_MEMORY_FLAG                                                                           \
    .name = "memory", .kind = FLAG_SIZE, .value = "SIZE", .min = 10e6, .max = 65536e9,             \
    .env = "MOTE_MEMORY"
#define LOAD_THREADS_FLAG                                                                          \
    .name = "threads", .letter = 't', .kind = FLAG_COUNT, .value = "N", .min = 1,                  \
    .max = LOAD_MAX_THREADS, .limit = load_threads_limit, .range = "1 to 4 per CPU",               \
    .shown = "one per core", .env = "MOTE_THREADS"
#define LOAD_KV_FLAG                                                                               \
    .name = "kv", .kind = FLAG_CHOICE, .value = LOAD_KV_CHOICES, .initial = "f16", .env = "MOTE_KV"
#define LOAD_ISA_FLAG                                                                              \
    .name = "isa", .kind = FLAG_CHOICE, .value = LOAD_ISA_CHOICES, .initial = "best",              \
    .env = "MOTE_ISA"
#define LOAD_PARALLEL_FLAG                                                                         \
    .name = "parallel", .kind = FLAG_COUNT, .value = "N", .min = 1, .max = 256,                    \
    .aliases = "np|max-num-seqs"
#define LOAD_CACHE_DISK_FLAG                                                                       \
    .name = "cache-disk", .kind = FLAG_SIZE, .value = "SIZE|off", .word = "off", .initial = "2GB", \
    .min = 1e6, .max = 1e15, .env = "MOTE_CACHE_DISK"
enum { LOAD_MAX_THREADS = 512 };
flag_limit load_threads_limit;
#define LOAD_FLAG_GROUP(base)                                                                      \
    {                                                                                              \
        "Machine", load_flags, LOAD_N_FLAGS, base                                                  \
    }

typedef struct loaded {
    mote_model *model;
    mote_engine *engine;
    mote_session *session;
    mote_lora_use loras[MOTE_MAX_LORAS]; /* [n_loras]: adapters of all sessions */
    mote_lora *opened[MOTE_MAX_LORAS];   /* [n_loras]: the same adapters, to be closed */
    size_t n_loras;
} loaded;

/* Reports a file that is missing or cannot be read. */
int load_check_file(const char *path);
/* Reports an error about a file, with its path. */
int load_failed(const char *path, mote_error *err);

/* Opens a model that find_model() found; `vision` is the path of its vision encoder (mmproj), or
 * NULL. A file with its MTP head is opened too; if it cannot be used, a note says why. */
int load_model(loaded *l, const struct found_model *m, const char *vision, mote_isa isa);
/* The same without reports. */
mote_status load_open(loaded *l, const struct found_model *m, const char *vision, mote_isa isa,
                      mote_error *err);
/* For a server with a model of `mapped` bytes that exceeds `budget`: sets how many bytes of its
 * experts stay in memory, and prints a note. False: it has none, or the rest does not fit. */
bool load_limit_experts(const mote_model *model, uint64_t mapped, uint64_t budget,
                        const char *source, uint64_t *out);
/* Reads the mapped file into memory, with a progress line. A signal ends it. A file that exceeds
 * `memory` bytes, or what is available if that is 0, is refused at once. */
int load_prefault(const loaded *l, uint64_t memory);
/* Creates an engine with one session of *context positions. From now on Ctrl-C cancels its steps.
 * For `needed`, see load_fit_memory. */
int load_engine(loaded *l, const load_options *options, uint64_t *context, uint64_t needed,
                uint32_t logits_rows);
/* Checks that an engine, with suffix lookup if it has drafts, fits into --memory, or into the
 * memory that is available. If the user did not set --context, a context that does not fit is
 * reduced, down to `needed` positions per session. If that is not enough, drafts are turned off
 * unless keep_drafts is set. A note says so. */
int load_fit_memory(const mote_model *model, const load_options *options,
                    mote_engine_options *engine, uint64_t needed);
/* The directory of the prefix cache on disk. False: no variable names one. */
bool load_disk_directory(char *out, size_t room);
/* Frees session, engine and model. */
void load_close(loaded *l);

/* The context to use: --context, else 4,096 tokens or prompt + answer tokens if that is more, at
 * most the model's trained context times --yarn. */
uint64_t load_context(const loaded *l, const load_options *options, uint64_t prompt,
                      uint64_t answer);
/* The trained context times --yarn. */
uint64_t load_context_max(const loaded *l, const load_options *options);

/* Prints model, kernels, threads, context and memory, for -v. */
void load_describe(const loaded *l, uint64_t context);

/* ---- --lora (lora_files.c) ---- */

typedef struct lora_options {
    flag_list files;
} lora_options;

/* The flags of a flag_group with a lora_options at its base. */
extern const cli_flag lora_flags[];
enum { LORA_N_FLAGS = 1, LORA_PATH_BYTES = 1024 };
#define LORA_FLAG_GROUP(base)                                                                      \
    {                                                                                              \
        "Adapters", lora_flags, LORA_N_FLAGS, base                                                 \
    }

/* Splits FILE[=SCALE]; the scale is 1 if there is none. False: the scale is 0 or too large. */
bool lora_flag_split(const char *given, char path[LORA_PATH_BYTES], float *scale);
/* Opens the adapters of the model, before its engine. */
int load_loras(loaded *l, const lora_options *options);
/* mote_engine_options.lora_rank for them. */
uint32_t load_lora_rank(const loaded *l);

/* ---- prefill (load.c) ---- */

/* Called when the logits of `rows` more tokens are in the session; false aborts the prefill. */
typedef bool prefill_rows_fn(void *ctx, const mote_session *session, size_t rows);

typedef struct prefill_job {
    mote_engine *engine;
    mote_session *session;
    const mote_token *tokens;
    size_t n;
    size_t chunk;          /* tokens per step; 0: chosen by time, so that Ctrl-C reacts quickly */
    size_t chunk_max;      /* limit of a chosen chunk; 0: 512 */
    mote_logits want;      /* LAST: logits of the last token; ALL: of every token */
    prefill_rows_fn *rows; /* required with ALL */
    void *ctx;
    size_t done; /* result: tokens computed, those of a canceled pass in proportion */
} prefill_job;

/* Prefills a prompt in chunks, with a progress line. The chunk size never changes the result. */
mote_status prefill_prompt(prefill_job *job, mote_error *err);

/* ---- --think (load.c) ---- */

#define THINK_FLAG_WORDS "on, off, auto, minimal, low, medium, high, max or a number of tokens"
/* For cli_flag.words. */
#define THINK_FLAG_LIST  "on|off|auto|minimal|low|medium|high|max"
#define THINK_FLAG_HELP                                                                            \
    "on, off, auto (by size), minimal, low, medium, high, max, or a number of tokens"

/* Without a default and a variable, and with those of most commands. */
#define THINK_FLAG_ALONE                                                                           \
    .name = "think", .kind = FLAG_TEXT, .value = "HOW", .check = think_flag_check,                 \
    .words = THINK_FLAG_LIST
#define THINK_FLAG THINK_FLAG_ALONE, .shown = "auto", .env = "MOTE_THINK"

/* For cli_flag.check. */
const char *think_flag_check(const char *value);
/* Reads a checked value of --think. NULL or "" leaves both outputs unchanged. */
void think_flag_read(const char *value, mote_think *think, uint32_t *budget);

/* ---- --mmproj ---- */

#define MMPROJ_FLAG                                                                                \
    .name = "mmproj", .kind = FLAG_TEXT, .value = "FILE",                                          \
    .shown = "mmproj*.gguf in the model's directory"

/* ---- --spec (load.c) ---- */

#define SPEC_FLAG                                                                                  \
    .name = "spec", .kind = FLAG_TEXT, .value = "HOW", .shown = "auto", .env = "MOTE_SPEC",        \
    .check = spec_flag_check, .words = "auto|off"
#define SPEC_FLAG_HELP                                                                             \
    "speculative decoding: auto (where it measured faster), off, or a draft length of 1 to 8; "    \
    "does not change the answer"

/* For cli_flag.check. */
const char *spec_flag_check(const char *value);
/* mote_answer_options.spec of a checked value. NULL or "": MOTE_SPEC_AUTO. */
int spec_flag_read(const char *value);

/* ---- --template and --chat-template (load.c) ---- */

typedef struct template_options {
    uint64_t official; /* 0: keep-thinking, 1: official */
    const char *name;  /* of a built-in template; NULL or "auto": that of the file */
} template_options;

/* The flags of a flag_group with a template_options at its base. */
extern const cli_flag template_flags[];
enum { TEMPLATE_N_FLAGS = 2 };
#define TEMPLATE_FLAG_GROUP(base)                                                                  \
    {                                                                                              \
        "Chat template", template_flags, TEMPLATE_N_FLAGS, base                                    \
    }

/* Says so if the file's template is not one that mote implements, unless the user chose one. */
void template_flag_note(const template_options *options, const mote_model *model);

/* ---- text and token ids (input.c) ---- */

typedef struct input_ids {
    mote_token *ids;
    size_t n;
} input_ids;

void input_ids_free(input_ids *ids);

/* Reports that there is no memory for a text. */
int input_no_memory(void);
/* Appends a file, or stdin if path is "-". At most 256 MiB. */
int input_read(strbuf *text, const char *path);
/* Appends `given`, or the file of "@FILE" without its final newline. */
int input_text_or_file(strbuf *text, const char *given);
/* Stdin is a pipe, a socket or a file, so it is meant to be read. */
bool input_has_stdin(void);

/* Parses "1,2,3"; spaces and newlines also separate. `flag` is for the error message. */
int input_parse_ids(input_ids *out, const char *list, const char *flag);
/* Tokenizes a text; `flags` as for mote_tokenize. */
int input_tokenize(input_ids *out, const mote_model *model, const char *text, size_t n,
                   unsigned flags);

#endif
