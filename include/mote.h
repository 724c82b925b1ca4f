/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mote.h - run a Qwen 3.5 language model on this machine's CPU.
 *
 * OBJECTS
 *
 *   mote_model     a GGUF file, mapped read-only, with its tokenizer and the kernels for this CPU.
 *                  Optionally with a vision encoder (mmproj file). Immutable once open.
 *   mote_engine    a thread pool, scratch, and the memory that its sessions share: the KV cache of
 *                  the attention layers and the recurrent state of the DeltaNet layers.
 *   mote_session   one sequence of tokens, with its part of that memory. Sessions fork and rewind.
 *   step           one call of mote_step: appends tokens to any number of sessions. Prompts
 *                  (prefill) and single tokens (decode) can share a step; the weights are read from
 *                  memory once per batch, not once per session.
 *   snapshot       a session as a file (mote_session_save, mote_session_load).
 *   mote_image     the output of the vision encoder for one image or two video frames.
 *   mote_lora      a LoRA adapter: small matrices that change the weights for some sessions.
 *
 * A program opens a model, creates an engine and a session, appends the prompt with mote_step, and
 * then repeats: mote_sample picks the next token, mote_step appends it. examples/hello.c has the
 * complete loop in 50 lines. mote_chat.h adds conversations, tools and structured output.
 *
 * RULES FOR ALL FUNCTIONS
 *
 *   Errors      A function that can fail returns mote_status and takes `mote_error *err` last. err
 *               may be NULL and is written only on failure. After a failure the out pointer is NULL
 *               and all other objects are unchanged, unless the function says otherwise.
 *   Options     NULL or an all-zero struct selects the defaults. Initialise structs with {0}.
 *   Ownership   Free an object with the function of its name; NULL is allowed there. Free sessions
 *               before their engine and engines before their model. Returned views must not be
 *               freed; each says how long it stays valid.
 *   Threads     Any number of threads may use a model, images and adapters at once. An engine and its
 *               sessions belong to one thread at a time. Exception: mote_cancel.
 *   Text        UTF-8, passed as pointer and length. Never null-terminated on output.
 *
 * The same tokens give the same bits, regardless of other sessions in the step, of how a prompt is
 * split into steps, of the number of threads, and of the CPU's instruction set. docs/numerics.md
 * defines the results. The library does not print, exit, read the environment or use the network.
 * It installs no signal handler unless mote_guard_files is called.
 */
#ifndef MOTE_H
#define MOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define MOTE_API __attribute__((visibility("default")))
#else
#define MOTE_API
#endif

#define MOTE_VERSION "0.1.0"

/* Version of the library at run time; can be newer than MOTE_VERSION of this header. */
MOTE_API const char *mote_version(void);

/* Incremented when any result changes by one bit. Snapshots store it. */
enum { MOTE_NUMERICS = 2 };

/* ---- errors ---- */

typedef enum mote_status {
    MOTE_OK = 0,
    MOTE_E_ARG,         /* invalid argument */
    MOTE_E_MEMORY,      /* out of memory, or a limit of the engine is reached */
    MOTE_E_IO,          /* open, read, write or map failed */
    MOTE_E_FORMAT,      /* the file is damaged or malformed */
    MOTE_E_UNSUPPORTED, /* the file is valid but not supported */
    MOTE_E_FULL,        /* a context or another limit of a session is full */
    MOTE_E_CANCELED,    /* stopped by mote_cancel() or mote_step_abort() */
    MOTE_E_MISMATCH     /* the file belongs to another model or engine configuration */
} mote_status;

/* `text` is one sentence: what is wrong, with the value, and what to do. */
typedef struct mote_error {
    mote_status status;
    char text[508];
} mote_error;

/* A stable identifier for logs and scripts: "ok", "bad_argument", "out_of_memory", ... */
MOTE_API const char *mote_status_name(mote_status status);

/* ---- model ---- */

typedef struct mote_model mote_model;
typedef int32_t mote_token;

/* Instruction set levels. A level is used only if the CPU and the operating system both support it.
 * The level affects speed, never a result. The values are names and have no order: each
 * architecture has levels of its own, and later versions add some. */
typedef enum mote_isa {
    MOTE_ISA_BEST = 0, /* the highest supported level */
    MOTE_ISA_REF = 1,  /* portable C; defines every result */
    /* x86-64; each level contains those above it, but AVX-512 does not need AVX-VNNI */
    MOTE_ISA_AVX2 = 2,    /* AVX2, FMA, F16C */
    MOTE_ISA_AVXVNNI = 8, /* AVX2 and AVX-VNNI */
    MOTE_ISA_AVX512 = 3,  /* AVX-512 F, BW, DQ, VL and VNNI */
    MOTE_ISA_AMX = 4,     /* AVX-512 with VBMI, GFNI, AMX-INT8 and AMX-BF16 */
    /* 64-bit ARM; each level contains those above it */
    MOTE_ISA_NEON = 5,    /* ARMv8.0 */
    MOTE_ISA_DOTPROD = 6, /* SDOT */
    MOTE_ISA_I8MM = 7     /* SMMLA */
} mote_isa;

/* "best", "ref", "avx2", "avxvnni", "avx512", "amx", "neon", "dotprod", "i8mm"; "unknown" for other
 * values. */
MOTE_API const char *mote_isa_name(mote_isa isa);
/* Inverse of mote_isa_name; false: unknown name. */
MOTE_API bool mote_isa_parse(const char *name, mote_isa *out);

typedef struct mote_model_options {
    mote_isa isa;       /* highest level to use; MOTE_E_ARG: a level of another architecture */
    const char *mmproj; /* path of the vision encoder (mmproj GGUF); NULL: text only */
    const char *mtp;    /* path of a file with the MTP head (mtp-*.gguf), for a model file without
                         * one; otherwise ignored. NULL: none */
} mote_model_options;

/* Maps a GGUF file (and the mmproj and MTP file) and checks everything except the weight values.
 * Weights are read from disk when first used, so opening is fast. The path of one part of a split
 * model (NAME-00001-of-00003.gguf) opens all parts. MOTE_E_MISMATCH: the mmproj or MTP file belongs
 * to another model. */
MOTE_API mote_status mote_model_open(mote_model **out, const char *path,
                                     const mote_model_options *options, mote_error *err);
MOTE_API void mote_model_close(mote_model *model);

/* Reads the next 32 MiB of the model file and the MTP file into memory, so that a program can show
 * load progress. Start with *done = 0 and call until it returns false. *done and *total are bytes.
 * Optional. */
MOTE_API bool mote_model_prefault(const mote_model *model, uint64_t *done, uint64_t *total);
/* Drops this process's pages of the mapped files, so the kernel can reuse the memory. They are read
 * again on next use. Affects timing only. Thread-safe. */
MOTE_API void mote_model_drop_pages(const mote_model *model);

/* ---- files that change while they are mapped ----
 *
 * Replace a model file by renaming a new one over it: the open model keeps the old contents. A file
 * that is truncated, overwritten in place or lost to a disk error damages the open model. Then all
 * computations with it fail with MOTE_E_IO, and no result that used missing data is returned. Other
 * models are not affected. */

/* Without this call the kernel kills the process with SIGBUS when a missing page is accessed. This
 * call installs a SIGBUS handler for mapped files; other SIGBUS go to the handler that was
 * installed before. The library installs no other signal handler and never this one by itself.
 * Threads that use a model must not block SIGBUS. Not thread-safe. Call it again if the program has
 * replaced the handler since. */
MOTE_API mote_status mote_guard_files(mote_error *err);

typedef enum mote_file_state {
    MOTE_FILE_SAME = 0,
    MOTE_FILE_REPLACED, /* another file has the name now, or none; the model is intact */
    MOTE_FILE_DAMAGED   /* truncated, overwritten or unreadable */
} mote_file_state;

/* Checks the files of the model with a few system calls; call it now and then to notice a change
 * before a computation does. Thread-safe. */
MOTE_API mote_file_state mote_model_file_state(const mote_model *model);
/* After damage: maps the files again if they are back, under the same names, with the same size and
 * the same samples of the weights. No other thread may use the model. MOTE_E_IO, MOTE_E_MISMATCH:
 * the model stays damaged. */
MOTE_API mote_status mote_model_reopen(const mote_model *model, mote_error *err);

typedef struct mote_model_info {
    char name[96];          /* general.name of the file; may be empty */
    uint64_t parameters;    /* without the draft head */
    uint64_t file_bytes;    /* of all parts of a split model */
    uint64_t private_bytes; /* memory of the open model without the mapping */
    uint32_t layers;        /* attention and DeltaNet layers */
    uint32_t attention_layers;
    uint32_t context;      /* trained context length */
    uint32_t vocabulary;   /* length of a row of logits, padding included */
    uint32_t tokens;       /* number of tokens; ids above are padding */
    uint32_t embedding;    /* length of a hidden row */
    uint32_t experts;      /* routed experts of a layer; 0: a dense model */
    uint32_t experts_used; /* of these, per token */
    uint64_t expert_bytes; /* of the routed experts of all layers, in the files */
    bool tied;             /* embedding and output head share their weights */
    bool draft_head;       /* has a multi-token prediction (MTP) head, in its file or in another */
    bool vision;           /* opened with a vision encoder */
    uint64_t vision_file_bytes;
    uint64_t draft_file_bytes; /* of a separate file with the MTP head */
    mote_isa isa;              /* the level in use */
    /* Chat template (Jinja) of the file, valid as long as the model; NULL: none. */
    const char *chat_template;
    size_t chat_template_bytes;
} mote_model_info;

MOTE_API void mote_model_describe(const mote_model *model, mote_model_info *out);

/* ---- text ---- */

enum {
    /* Recognise control tokens such as <|im_start|> in the text. Only for text that the program
     * wrote itself: in user input this would be prompt injection. */
    MOTE_TEXT_CONTROL = 1
};

/* Tokenizes text. Writes at most `capacity` ids, and always the full count to *n, so a call with
 * capacity 0 counts. Invalid UTF-8 is read as U+FFFD, as the reference tokenizer does. Thread-safe.
 */
MOTE_API mote_status mote_tokenize(const mote_model *model, const char *text, size_t bytes,
                                   unsigned flags, mote_token *ids, size_t capacity, size_t *n,
                                   mote_error *err);

/* The same for long texts: calls `hook` about every 64 KiB. If it returns false, tokenization stops
 * with MOTE_E_CANCELED. */
MOTE_API mote_status mote_tokenize_with_hook(const mote_model *model, const char *text,
                                             size_t bytes, unsigned flags, mote_token *ids,
                                             size_t capacity, size_t *n, bool (*hook)(void *ctx),
                                             void *ctx, mote_error *err);

/* A lower bound for the number of tokens of a text, from the length of the longest token of the
 * vocabulary. Takes about a thousandth of the time of mote_tokenize. Use it to reject texts that
 * cannot fit. */
MOTE_API size_t mote_tokens_at_least(const mote_model *model, const char *text, size_t bytes);

/* The bytes of one token, valid as long as the model; *bytes is 0 for ids without text. A character
 * can span several tokens: use mote_text_next to print text. */
MOTE_API const char *mote_token_bytes(const mote_model *model, mote_token id, size_t *bytes);
/* Control tokens structure a conversation and are not shown to users: those that the tokenizer of
 * the model lists as special. <think>, <tool_call> and <|fim_prefix|>, for example, are not. */
MOTE_API bool mote_token_is_control(const mote_model *model, mote_token id);
/* End of turn or end of text: stop generating. */
MOTE_API bool mote_token_is_end(const mote_model *model, mote_token id);

/* Converts tokens to text incrementally and never splits a character. Holds back the bytes of an
 * incomplete character. {0} is a new stream. */
typedef struct mote_text_stream {
    unsigned char held[4];
    uint8_t n_held;
} mote_text_stream;

/* Adds one token and writes the complete characters, at most `capacity` bytes. MOTE_PIECE_BYTES
 * always suffices; excess bytes are lost. Invalid UTF-8 becomes U+FFFD, control tokens their name.
 * id < 0 ends the stream and writes what was held back. Returns the number of bytes written. */
enum { MOTE_PIECE_BYTES = 4096 };
MOTE_API size_t mote_text_next(const mote_model *model, mote_text_stream *stream, mote_token id,
                               char *text, size_t capacity);

/* ---- adapters ---- */

/* A LoRA adapter for one model: a fine-tune as two small matrices A and B for some of the weight
 * matrices W, which become W + scale * alpha / rank * B A. Immutable; any number of engines of the
 * model and of sessions may use it. mote does not train adapters. */
typedef struct mote_lora mote_lora;

/* Opens a GGUF adapter of llama.cpp's format, or a directory that PEFT has written. Checks every
 * shape and copies the values, so the files are not needed afterwards. MOTE_E_MISMATCH: the adapter
 * belongs to another model. MOTE_E_UNSUPPORTED: it changes something else than the matrices that
 * docs/lora.md lists. */
MOTE_API mote_status mote_lora_open(mote_lora **out, const mote_model *model, const char *path,
                                    mote_error *err);
/* Free all sessions that use it first. Close it before its model. */
MOTE_API void mote_lora_close(mote_lora *lora);

typedef struct mote_lora_info {
    char name[96];        /* general.name of a GGUF file; else the name of the file or directory */
    uint32_t rank;        /* the largest rank of its matrices */
    uint32_t matrices;    /* number of matrices of the model that it changes */
    uint64_t parameters;  /* values of all A and B */
    uint64_t bytes;       /* memory */
    uint64_t fingerprint; /* hash of its files; snapshots store it */
} mote_lora_info;

MOTE_API void mote_lora_describe(const mote_lora *lora, mote_lora_info *out);

/* Merging: adds scale * alpha / rank * B A to rows first .. first + n - 1 of a weight matrix, given
 * as [n][columns] floats. `matrix` is its name in a GGUF file. With n = 0 nothing is added. false:
 * the adapter does not change this matrix. */
MOTE_API bool mote_lora_merge(const mote_lora *lora, float scale, const char *matrix,
                              uint64_t first, uint64_t n, float *rows);

/* An adapter of a session. */
typedef struct mote_lora_use {
    const mote_lora *lora;
    float scale; /* of its effect; 0 counts as 1 */
} mote_lora_use;

enum {
    MOTE_MAX_LORAS = 8, /* adapters of one session */
    MOTE_MAX_LORA_RANK = 4096
};

/* ---- engine ---- */

typedef struct mote_engine mote_engine;

/* Format of the KV cache. */
typedef enum mote_kv {
    MOTE_KV_F16 = 0,
    MOTE_KV_F32 = 1,  /* twice the memory; for comparison with a reference */
    MOTE_KV_Q8_0 = 2, /* 17/32 of the memory of f16: 8 bits per value, one scale per 32 values */
    MOTE_KV_Q4_0 = 3  /* 9/32 of the memory of f16: 4 bits per value, one scale per 32 values */
} mote_kv;

/* CPU affinity of the engine's worker threads. The thread that calls mote_step works too and is
 * never pinned. Affects speed, never a result. */
typedef enum mote_pin {
    MOTE_PIN_AUTO = 0, /* on CPUs with performance and efficiency cores: all workers to the set of
                        * performance cores, if `threads` is the default. Otherwise off */
    MOTE_PIN_OFF,      /* the kernel schedules freely */
    MOTE_PIN_CORES     /* each worker to one core, if there are enough. For a dedicated machine: two
                        * such processes would compete for the same cores */
} mote_pin;

typedef struct mote_engine_options {
    uint32_t threads;  /* 0: one per physical core this process may use; at most 512 */
    uint32_t sessions; /* sessions that can exist at once; 0: 1; at most 4,096 */
    uint64_t
        positions; /* KV cache capacity in tokens, all sessions together; 0: 4,096 per session */
    /* false: a session reserves its whole context when created, so its steps cannot run out of KV
     * cache. true: sessions share the capacity; a context is only a limit, and a step that needs
     * more pages than are free fails with MOTE_E_MEMORY. */
    bool shared_positions;
    uint32_t kept_states; /* recurrent states for mote_session_keep, all sessions; 0: none */
    uint32_t batch;       /* tokens per pass over the weights; 0: 512; at most 4,096 */
    uint32_t logits_rows; /* rows of logits one step can return; 0: one per session */
    mote_kv kv;
    float yarn; /* YaRN factor, 1 to 4; 0: as the file says */
    mote_pin pin;
    bool drafts; /* prepare mote_draft: one more attention layer of KV cache, and three more
                  * matrices per step, below 1 % of the weights. Ignored if the model has no MTP
                  * head. Does not change results of other functions */
    /* Bytes of routed experts to keep in memory; 0: all. For models with experts that are larger
     * than the memory: an expert that is not there is read from disk when a token needs it, and
     * others make room. Does not change results. */
    uint64_t expert_memory;
    uint32_t lora_rank; /* the largest sum of the ranks of a session's adapters, at most
                         * MOTE_MAX_LORA_RANK; 0: sessions have no adapters */
} mote_engine_options;

/* Memory of an engine in bytes, exact before it is created. `weights` are the mapped files of the
 * model, its vision encoder and its MTP head, which the kernel can drop and read again. All other
 * parts are private memory: address space is reserved at creation, memory is used when first
 * written. */
typedef struct mote_memory {
    uint64_t weights;         /* with expert_memory only what is kept */
    uint64_t experts;         /* the share of routed experts in `weights`; a token reads
                               * experts_used / experts of expert_bytes */
    uint64_t model;           /* decoded small weights, tokenizer, vision encoder tables */
    uint64_t kv_cache;        /* of all positions */
    uint64_t recurrent_state; /* of all sessions and kept states */
    uint64_t scratch;         /* of one pass, logits included */
    uint64_t total;
    uint64_t drafts; /* the share of the option `drafts` in the parts above */
} mote_memory;

/* Computes the memory of an engine without creating it. */
MOTE_API mote_status mote_engine_plan(const mote_model *model, const mote_engine_options *options,
                                      mote_memory *out, mote_error *err);
/* Starts the worker threads and reserves the memory. The model must outlive the engine. Several
 * engines can use one model. */
MOTE_API mote_status mote_engine_new(mote_engine **out, const mote_model *model,
                                     const mote_engine_options *options, mote_error *err);
MOTE_API void mote_engine_free(mote_engine *engine);
MOTE_API void mote_engine_memory(const mote_engine *engine, mote_memory *out);
MOTE_API uint32_t mote_engine_threads(const mote_engine *engine);
/* mote_engine_options.logits_rows, or its default. */
MOTE_API uint32_t mote_engine_logits_rows(const mote_engine *engine);
MOTE_API const mote_model *mote_engine_model(const mote_engine *engine);

/* The rows that a matrix of the model is multiplied with: tokens in the order of the step. */
typedef struct mote_observed {
    /* Its name in the file; not zero-terminated, valid as long as the model. */
    const char *name;
    size_t name_bytes;
    /* The name stands for one matrix of each of so many experts; this is that of `expert`, and the
     * rows are those of the tokens that it computes. 0, 0: the name stands for one matrix. */
    uint32_t experts, expert;
    const float *rows; /* [n_rows][n_cols] */
    size_t n_rows, n_cols;
} mote_observed;

typedef void mote_observe_fn(void *ctx, const mote_observed *observed);
/* Calls fn for every matrix product of the following steps and drafts, before it is computed; NULL:
 * no more. For statistics of activations, such as an importance matrix. The rows of a session do
 * not depend on threads, CPU or division into steps. fn runs on the thread of mote_step and must
 * not call functions of the engine. Of the output head it gets the rows with logits; of the vision
 * encoder none. The rows of one product may come in several calls. */
MOTE_API void mote_engine_observe(mote_engine *engine, mote_observe_fn *fn, void *ctx);

/* Current use. KV cache is allocated in pages of 64 positions: a partial page counts as a whole
 * page, and a page shared by several sessions counts once. */
typedef struct mote_usage {
    uint64_t positions_total; /* `positions` of the options, rounded up to pages */
    uint64_t positions_free;
    uint32_t sessions, sessions_total;
    uint32_t kept_states, kept_states_total; /* a state shared by forks counts once */
} mote_usage;

MOTE_API void mote_engine_usage(const mote_engine *engine, mote_usage *out);
/* mote_usage.positions_free alone. */
MOTE_API uint64_t mote_engine_positions_free(const mote_engine *engine);

/* ---- sessions ---- */

typedef struct mote_session mote_session;

typedef struct mote_session_options {
    uint64_t context; /* most tokens the session can hold; 0: positions / sessions of the engine, or
                       * all positions with shared_positions; at most the trained context times
                       * YaRN */
    /* [n_loras]: adapters, applied in this order; they cannot change later. They must be opened for
     * the engine's model, and the sum of their ranks be at most lora_rank of the engine. The array
     * is copied. */
    const mote_lora_use *loras;
    size_t n_loras;
} mote_session_options;

/* Creates an empty session. MOTE_E_MEMORY: all sessions are in use, or the context cannot be
 * reserved. MOTE_E_ARG: the context exceeds the trained one (mote_model_info.context) times the
 * YaRN factor, or an adapter does not fit the engine. */
MOTE_API mote_status mote_session_new(mote_session **out, mote_engine *engine,
                                      const mote_session_options *options, mote_error *err);
MOTE_API void mote_session_free(mote_session *session);

/* Creates a second session with the same tokens. Full KV pages and recurrent states are shared, so
 * a fork copies at most the rows since the last multiple of 32; the partial KV page is copied when
 * one of the two appends. The fork has no logits before its first step. To get several answers to
 * one prompt, sample their first tokens from the original (mote_sampling.draw), then fork. */
MOTE_API mote_status mote_session_fork(mote_session **out, const mote_session *from,
                                       mote_error *err);

MOTE_API uint64_t mote_session_length(const mote_session *session);
MOTE_API uint64_t mote_session_context(const mote_session *session);
/* The *n adapters of the session, valid until it is freed. A scale that was given as 0 is 1
 * here. */
MOTE_API const mote_lora_use *mote_session_loras(const mote_session *session, size_t *n);
/* All mote_session_length tokens. Valid until the next call on the session. */
MOTE_API const mote_token *mote_session_tokens(const mote_session *session);

/* Removes the tokens from position `pos` on and returns the new length. A KV cache can be cut
 * anywhere, a recurrent state cannot: if no state allows exactly `pos`, the session returns to an
 * earlier position, and the caller appends the tokens from there again. Exact: up to 16 tokens back
 * that do not cross a multiple of 32. Otherwise: the last multiple of 32, the last kept state
 * before `pos`, or 0. Computes nothing. Discards the logits of the session. */
MOTE_API uint64_t mote_session_rewind(mote_session *session, uint64_t pos);
/* The length that mote_session_rewind(session, pos) would return. */
MOTE_API uint64_t mote_session_rewind_target(const mote_session *session, uint64_t pos);

/* Keeps the recurrent state at the last multiple of 32, so that a later rewind can return to it.
 * *pos, if not NULL, is that position. The state counts against kept_states of the engine; forks
 * inherit the mark. MOTE_E_FULL: no kept state is free. */
MOTE_API mote_status mote_session_keep(mote_session *session, uint64_t *pos, mote_error *err);
/* Removes the mark at `pos`; marks of forks stay. false: no mark there. */
MOTE_API bool mote_session_unkeep(mote_session *session, uint64_t pos);
/* Writes at most `capacity` kept positions, ascending; returns their total number. */
MOTE_API size_t mote_session_kept(const mote_session *session, uint64_t *pos, size_t capacity);
/* The state kept at `pos`; forks share it, so equal pointers mean one state. NULL: none there. Valid
 * until the mark is removed. */
MOTE_API const void *mote_session_kept_state(const mote_session *session, uint64_t pos);

/* Writes a snapshot: to a temporary file in the same directory, then renamed. Kept states are not
 * saved. The file holds the whole KV cache of the session and its recurrent state. */
MOTE_API mote_status mote_session_save(const mote_session *session, const char *path,
                                       mote_error *err);
/* Creates a session from a snapshot; it continues with the same bits. The file is treated as
 * untrusted input. The options must list the adapters that it was saved with. MOTE_E_MISMATCH:
 * another model file, KV format, YaRN factor, `drafts`, adapters or MOTE_NUMERICS. MOTE_E_MEMORY:
 * as mote_session_new, or too few free positions with shared_positions. */
MOTE_API mote_status mote_session_load(mote_session **out, mote_engine *engine, const char *path,
                                       const mote_session_options *options, mote_error *err);

/*
 * Blocks: a session in parts, for a cache outside the engine. A session of n tokens, n a multiple
 * of 32, consists of the KV pages of its n positions and the recurrent state at n. With all of them
 * mote_session_prepare makes a session that continues with the same bits.
 */
enum { MOTE_PAGE_POSITIONS = 64, MOTE_STATE_POSITIONS = 32, MOTE_IDENTITY_BYTES = 16 };

struct mote_work;

typedef enum mote_block_kind { MOTE_BLOCK_PAGE, MOTE_BLOCK_STATE } mote_block_kind;

typedef struct mote_block {
    mote_block_kind kind;
    uint64_t position; /* page: the first of its 64; state: the number of tokens before it */
    void *data;
    size_t bytes;
} mote_block;

/* Lists the pages in order, then the states: kept ones in order, then that of the last multiple of
 * 32. Writes at most `room` blocks and returns their total number. The bytes do not change before
 * the next call that steps, rewinds, unkeeps or frees the session. Until then any thread may read
 * them, also while other sessions are in a step. With drafts the last row of a page depends on the
 * token after the page. */
MOTE_API size_t mote_session_blocks(const mote_session *session, mote_block *out, size_t room);
/* Zeroes all but the first `rows` rows of a copy of a page; with drafts also what depends on the
 * token after them. Thread-safe. */
MOTE_API void mote_engine_clear_page(const mote_engine *engine, void *page, size_t rows);
/* Creates a session that holds prefix->tokens, a multiple of 32 of them, with undefined contents.
 * The caller fills all blocks of mote_session_blocks, on any thread, with the bytes of a session of
 * an engine with the same identity, and calls mote_session_adopt. Before that only
 * mote_session_blocks and mote_session_free are allowed. prefix->images are the images of the
 * tokens; other fields are ignored. Errors as mote_session_load. */
MOTE_API mote_status mote_session_prepare(mote_session **out, mote_engine *engine,
                                          const mote_session_options *options,
                                          const struct mote_work *prefix, mote_error *err);
MOTE_API void mote_session_adopt(mote_session *session);
/* The end of a session: what it has after its last multiple of 32 tokens, and the logits of its
 * last token. With it a restored session continues without a step. Bytes for a session of `length`
 * tokens on this engine. */
MOTE_API size_t mote_session_end_bytes(const mote_session *session, uint64_t length);
/* Copies the end to `out`. MOTE_E_ARG: the last step of the engine computed no logits of it. */
MOTE_API mote_status mote_session_read_end(const mote_session *session, void *out, mote_error *err);
/* Appends n tokens, 1 to 31, to a session that ends at a multiple of 32, without computing them:
 * `bytes` is the end of a session with the same tokens, of an engine with the same identity. The
 * session has the logits of the last token then; those of other sessions end, as after a step. Not
 * for tokens of images. Errors as mote_step. */
MOTE_API mote_status mote_session_write_end(mote_session *session, const mote_token *tokens,
                                            size_t n, const void *bytes, mote_error *err);
/* Writes MOTE_IDENTITY_BYTES bytes: a hash of everything that the bytes of a block depend on
 * besides the tokens: weights, MOTE_NUMERICS, KV format, YaRN factor, drafts. */
MOTE_API void mote_engine_identity(const mote_engine *engine, unsigned char *out);

/* ---- steps ---- */

/* What a work item computes besides appending its tokens. */
typedef enum mote_logits {
    MOTE_LOGITS_LAST = 0, /* logits of the last token: the distribution of the next one */
    MOTE_LOGITS_NONE,     /* nothing; for prefill that continues in the next step */
    MOTE_LOGITS_ALL,      /* logits of every token of the item */
    MOTE_HIDDEN_LAST,     /* hidden row of the last token, no logits */
    MOTE_HIDDEN_SUM       /* hidden rows of all tokens, added to `sum`; no logits */
} mote_logits;

struct mote_image;

/* One item of a step: append `n` tokens to `session`. Each session appears at most once per step.
 * The arrays belong to the caller and must stay valid until the step returns. */
typedef struct mote_work {
    mote_session *session;
    const mote_token *tokens;
    size_t n;
    mote_logits want;
    /* [n_images]: the images that `tokens` contains tokens of (mote_image_tokens). */
    const struct mote_image *const *images;
    size_t n_images;
    /* MOTE_HIDDEN_SUM: mote_model_info.embedding doubles. Rows are added in token order, so a
     * prompt split into steps gives the same bits. Undefined after MOTE_E_CANCELED or an abort. */
    double *sum;
} mote_work;

/*
 * Appends the tokens of all items, prefill and decode mixed, in passes of at most `batch` tokens.
 * Cost: a decode pass is limited by memory bandwidth, because it reads all weights once. More
 * sessions in a step therefore cost little extra. Never allocates memory.
 *
 * These errors occur before any token is appended:
 * - MOTE_E_ARG: an item without tokens, a token outside the vocabulary, image tokens without their
 *   image or not from its first token, a session twice, or more rows of logits than logits_rows.
 * - MOTE_E_FULL: the tokens exceed the context of a session.
 * - MOTE_E_MEMORY: too few free KV pages (shared_positions only). A partial page shared with
 *   another session is copied and counts. Free or rewind a session and call again.
 *
 * MOTE_E_CANCELED: stopped by mote_cancel. Each session has a valid length (mote_session_length):
 * after its last complete pass or, if a pass of more than 16 tokens was interrupted, possibly at an
 * earlier multiple of 32 with a state. Appending the missing tokens again gives the same bits.
 */
MOTE_API mote_status mote_step(mote_engine *engine, const mote_work *work, size_t n,
                               mote_error *err);

/*
 * mote_step for servers: sessions can be removed while the step runs, for example because their
 * client disconnected. Calls hook(ctx) on the calling thread before every pass and before both
 * sublayers of every layer.
 *
 * Inside the hook you may call mote_step_abort for sessions in the step, free aborted sessions and
 * sessions that are not in the step, and call const functions on any session. All other functions
 * of the engine and its sessions have to wait for the end of the step. The remaining sessions keep
 * their bits, and none of their work is repeated.
 *
 * MOTE_E_CANCELED also if all sessions were aborted.
 */
MOTE_API mote_status mote_step_with_hook(mote_engine *engine, const mote_work *work, size_t n,
                                         void (*hook)(void *ctx), void *ctx, mote_error *err);
/* Removes a session from the running step. Call it inside the hook. The session ends at a valid
 * length as after mote_cancel and can be freed at once. No effect on a session that is not in the
 * step. */
MOTE_API void mote_step_abort(mote_session *session);
/* For a progress display, inside the hook: the session's length plus the computed share of its
 * tokens in the running pass. Outside of a step: its length. */
MOTE_API uint64_t mote_step_progress(const mote_session *session);

/* Stops the running step: after its current pass, or after a sublayer if the pass has more than 16
 * tokens. If no step is running, the next one stops before its first pass. Callable from any thread
 * and from signal handlers. */
MOTE_API void mote_cancel(mote_engine *engine);

/* Logits of the last step: row 0 with MOTE_LOGITS_LAST, row i of token i with MOTE_LOGITS_ALL;
 * mote_model_info.vocabulary floats each. Valid until the next step of the engine. NULL: no such
 * row. */
MOTE_API const float *mote_session_logits(const mote_session *session, size_t row);

/* The hidden row of the last token after the final norm, if the last step had MOTE_HIDDEN_LAST: *n
 * floats (n may be NULL), not normalised to unit length. Valid until the next step of the engine.
 * NULL: none. */
MOTE_API const float *mote_session_hidden(const mote_session *session, size_t *n);

/* ---- drafts ---- */

enum { MOTE_MAX_DRAFTS = 8 };

/*
 * A draft is a guess of the tokens that follow in a session. The multi-token prediction (MTP) head
 * of the model computes it at a fraction of the cost of a step. Speculative decoding with x the
 * sampled token and d the draft: append x, d[0], d[1], ... in one step with MOTE_LOGITS_ALL. Sample
 * row by row while the sampled token equals the next draft token. Rewind to the last token that was
 * right. The tokens are then the same as without drafts.
 */
typedef struct mote_draft_item {
    mote_session *session; /* not empty; at most once per call */
    mote_token next;       /* the token that will be appended next, for example the sampled one */
    /* Tokens after `next` that the caller has guessed already, for example because the text
     * repeats. The draft continues after them. */
    const mote_token *given; /* [n_given] */
    size_t n_given;
    size_t n; /* draft tokens wanted; n_given + n is at most MOTE_MAX_DRAFTS */
    /* Ends the draft after the first token at which the product of all probabilities is below this.
     * 0: never. */
    float stop_below;
    /* Output for comparison with a reference: logits of the complete output head for each draft
     * token, [n][mote_model_info.vocabulary]. NULL: off. */
    float *logits;
    /* Output. Fewer than n draft tokens because of stop_below or at the end of the context. */
    size_t n_drafts;
    mote_token tokens[MOTE_MAX_DRAFTS];
    float probability[MOTE_MAX_DRAFTS]; /* according to the head, given the tokens before */
} mote_draft_item;

/*
 * Drafts the tokens after `next` for all items together. Each draft token is the most likely one,
 * of two equally likely ones that with the lower id. A draft depends on the session's tokens and
 * the item, not on other items, threads or CPU. Does not change tokens, logits or any later result
 * of the sessions. Never allocates memory.
 *
 * MOTE_E_UNSUPPORTED: the model has no MTP head, or the engine was created without `drafts`.
 * MOTE_E_ARG: an empty session or one that ends inside an image, a session twice, a token outside
 * the vocabulary, too many tokens. MOTE_E_MEMORY: too few free KV pages (shared_positions only).
 */
MOTE_API mote_status mote_draft(mote_engine *engine, mote_draft_item *items, size_t n,
                                mote_error *err);

/* ---- sampling ---- */

typedef struct mote_bias {
    mote_token token;
    float add;
} mote_bias;

/* {0} selects greedy sampling. Zero disables a field. Enabled fields apply in this order: allowed,
 * bias, repetition, presence, frequency, top_k, temperature, typical_p, top_p, min_p, draw. Equal
 * logits rank by id, lower first. */
typedef struct mote_sampling {
    float temperature; /* 0 to 100; 0: greedy, after bias and penalties */
    uint32_t top_k;    /* keep the k most likely tokens */
    float top_p;       /* 0 to 1: keep the most likely tokens with this total probability; 1: off */
    float min_p;       /* 0 to 1: drop tokens below this fraction of the highest probability */
    float typical_p;   /* 0 to 1: keep tokens with this total probability, those with an
                        * information content nearest to the entropy first; 1: off */
    float presence;    /* -100 to 100: subtracted once from generated tokens */
    float frequency;   /* -100 to 100: subtracted per occurrence of generated tokens */
    float repetition;  /* 0.01 to 100: divides positive, multiplies negative logits of generated
                        * tokens; 1: off */
    uint32_t repeat_last;    /* window of `repetition`: the last n generated tokens */
    uint64_t generated_from; /* position of the first generated token; penalties start there */
    const uint32_t *allowed; /* token mask: bit id % 32 of word id / 32; NULL: all tokens */
    const mote_bias *bias;   /* [n_bias], added to logits; -INFINITY forbids a token */
    size_t n_bias;
    uint64_t seed;
    uint32_t draw;         /* selects one of several independent draws at one position; usually 0 */
    uint32_t top_logprobs; /* alternatives to report, at most MOTE_TOP_LOGPROBS */
} mote_sampling;

enum {
    MOTE_TOP_LOGPROBS = 20,
    MOTE_REPEAT_LAST = 64 /* default of repeat_last in mote_chat.h */
};

typedef struct mote_choice {
    mote_token token;
    float logprob;  /* natural logarithm, of the unmodified distribution */
    uint32_t n_top; /* alternatives, most likely first, same scale */
    struct {
        mote_token token;
        float logprob;
    } top[MOTE_TOP_LOGPROBS];
} mote_choice;

/* Samples a token from row `row` of the session's logits; append it with the next mote_step. The
 * draw depends only on the logits, the options, the tokens since generated_from and the position.
 * Does not change the session, so several draws from one row are possible.
 * MOTE_E_ARG: no such row, an option out of range, or all tokens forbidden by allowed and bias.
 * MOTE_E_FORMAT: all logits are NaN or -infinity, so the weights are damaged. */
MOTE_API mote_status mote_sample(const mote_session *session, size_t row, const mote_sampling *how,
                                 mote_choice *out, mote_error *err);

/* ---- images ---- */

/* An image, or two frames of a video, after the vision encoder: one row per 32 x 32 pixels, which
 * replaces a token embedding. Immutable; any number of sessions and threads may use it. To put it
 * in a prompt, append <|vision_start|>, mote_image_tokens and <|vision_end|>, and list it in
 * mote_work.images of every step that contains some of its tokens. It can be freed after that. */
typedef struct mote_image mote_image;

typedef struct mote_pixels {
    const uint8_t *rgb;          /* [height][width][3] */
    const uint8_t *second_frame; /* second frame of a video, same size; NULL: still image */
    uint32_t width, height;      /* multiples of MOTE_IMAGE_SIDE; resize beforehand */
} mote_pixels;

enum { MOTE_IMAGE_SIDE = 32, MOTE_IMAGE_MAX_TOKENS = 16384 };

/* Runs the vision encoder. Costs about as much as prefilling the same number of text tokens.
 * Starts its own threads (0: one per core) for the duration of the call; engines can run meanwhile.
 * The pixels are not needed afterwards. Thread-safe.
 * MOTE_E_UNSUPPORTED: the model was opened without an mmproj file. */
MOTE_API mote_status mote_image_new(mote_image **out, const mote_model *model,
                                    const mote_pixels *pixels, uint32_t threads, mote_error *err);
MOTE_API void mote_image_free(mote_image *image);

/* The *n token ids of the image, all below 0, valid as long as the image. They are derived from a
 * hash of the pixels: equal images have equal ids, so token comparison compares images too. */
MOTE_API const mote_token *mote_image_tokens(const mote_image *image, size_t *n);
/* Rows and columns of tokens; n = rows * cols. */
MOTE_API void mote_image_grid(const mote_image *image, uint32_t *rows, uint32_t *cols);
/* Memory that the image holds. */
MOTE_API uint64_t mote_image_bytes(const mote_image *image);
/* Scratch that mote_image_new uses for an image of this size; 0 without a vision encoder. */
MOTE_API uint64_t mote_image_plan(const mote_model *model, uint32_t width, uint32_t height,
                                  uint32_t threads);

#ifdef __cplusplus
}
#endif
#endif
