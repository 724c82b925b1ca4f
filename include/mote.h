/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mote.h - run a Qwen 3.5 model on this machine.
 *
 * Three objects, three lifetimes:
 *
 *   mote_model    the mapped file, its tokenizer and the kernels chosen for
 *                 this CPU. Immutable once open: any number of threads may read
 *                 it at once, and any number of engines may run on it.
 *   mote_engine   worker threads, scratch, and the pool of memory that its
 *                 sessions share. One thread at a time (mote_cancel excepted).
 *   mote_session  one timeline: the tokens seen and what they left behind.
 *                 Belongs to the thread that uses its engine.
 *
 * A program opens a model, makes an engine, starts sessions, appends tokens to
 * them with mote_step and picks the next token with mote_sample. The loop in
 * examples/hello.c is the whole of it.
 *
 * Every call that can fail returns mote_status and ends with `mote_error *err`,
 * which may be NULL and is written only on failure. A call that fails sets its
 * out pointer to NULL and leaves the object as it was, unless it says otherwise.
 * Options may be NULL; an all-zero options struct means the defaults.
 *
 * The same tokens give the same bits: whatever else runs in the step, however
 * the prompt was cut, however many threads there are, whichever instruction
 * set the CPU has. docs/numerics.md is the contract.
 *
 * The library does not print, exit, read the environment, touch signals or
 * use the network. Text is UTF-8, passed as pointer and length.
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

/* MOTE_VERSION of the library in use, which may be newer than this header. */
MOTE_API const char *mote_version(void);

/* Grows whenever any result changes by one bit; kept in every snapshot. */
enum { MOTE_NUMERICS = 1 };

/* ---- errors ---- */

typedef enum mote_status {
    MOTE_OK = 0,
    MOTE_E_ARG,         /* the call itself is wrong */
    MOTE_E_MEMORY,      /* the machine or the engine's share has no room */
    MOTE_E_IO,          /* the operating system refused: open, read, write, map */
    MOTE_E_FORMAT,      /* the file is damaged or not what it claims to be */
    MOTE_E_UNSUPPORTED, /* the file is sound, but of a kind mote does not run */
    MOTE_E_FULL,        /* the session has no room for these tokens */
    MOTE_E_CANCELED,    /* mote_cancel came */
    MOTE_E_MISMATCH     /* the snapshot belongs to another model or engine */
} mote_status;

/* One sentence for the person who can act on it. */
typedef struct mote_error {
    mote_status status;
    char text[508];
} mote_error;

/* A short stable word for a status: "ok", "bad_argument", "out_of_memory" ... */
MOTE_API const char *mote_status_name(mote_status status);

/* ---- model ---- */

typedef struct mote_model mote_model;
typedef int32_t mote_token;

/* Instruction sets, as the bundles CPUs shipped them in. A level is used only
 * if both the CPU and the operating system offer it. */
typedef enum mote_isa {
    MOTE_ISA_BEST = 0, /* the highest one this machine has */
    MOTE_ISA_REF,      /* portable C, the definition of every result */
    MOTE_ISA_AVX2,     /* AVX2, FMA, F16C */
    MOTE_ISA_AVX512,   /* AVX-512 F, BW, DQ, VL and VNNI */
    MOTE_ISA_AMX       /* AVX-512 and AMX-INT8 */
} mote_isa;

MOTE_API const char *mote_isa_name(mote_isa isa);
/* false: no level has this name. */
MOTE_API bool mote_isa_parse(const char *name, mote_isa *out);

typedef struct mote_model_options {
    mote_isa isa;       /* go no higher than this */
    const char *mmproj; /* path of the vision encoder (mmproj GGUF); NULL: text only */
} mote_model_options;

/* Maps a GGUF file and checks all of it that is not weights. */
MOTE_API mote_status mote_model_open(mote_model **out, const char *path,
                                     const mote_model_options *options, mote_error *err);
/* All engines on it must be gone. NULL is allowed. */
MOTE_API void mote_model_close(mote_model *model);

/* Touches the next stretch of the file, so that a program can show progress
 * while the disk works: start with *done = 0, call until it returns false. Optional. */
MOTE_API bool mote_model_prefault(const mote_model *model, uint64_t *done, uint64_t *total);
/* The opposite: this process holds no page of its files any more until it looks at one again. The
 * system may then use them for others. Changes nothing but times; any thread. */
MOTE_API void mote_model_drop_pages(const mote_model *model);

typedef struct mote_model_info {
    char name[96];       /* as the file says, may be empty */
    uint64_t parameters; /* without the draft head */
    uint64_t file_bytes;
    uint64_t private_bytes; /* memory the open model holds beside the mapping */
    uint32_t layers;        /* attention and DeltaNet layers together */
    uint32_t attention_layers;
    uint32_t context;    /* positions the model was trained for */
    uint32_t vocabulary; /* length of a row of logits */
    uint32_t tokens;     /* ids below this have a meaning */
    uint32_t embedding;  /* length of a hidden row */
    bool tied;           /* one table is both embedding and output */
    bool draft_head;     /* the file carries a multi-token-prediction head */
    bool vision;         /* it was opened with a picture tower */
    uint64_t vision_file_bytes;
    mote_isa isa; /* the level in use */
    /* How the file says conversations are written, not terminated; NULL: it does not say.
     * The view lives as long as the model. */
    const char *chat_template;
    size_t chat_template_bytes;
} mote_model_info;

MOTE_API void mote_model_describe(const mote_model *model, mote_model_info *out);

/* ---- text ---- */

enum {
    /* Spellings of control tokens become those tokens. Only for text that the
     * program itself wrote; text from elsewhere must not be able to do this. */
    MOTE_TEXT_CONTROL = 1
};

/* Writes at most `room` ids and always the full count to *n, so a call with
 * room 0 measures. Invalid UTF-8 is read as U+FFFD, as the reference does. */
MOTE_API mote_status mote_tokenize(const mote_model *model, const char *text, size_t bytes,
                                   unsigned flags, mote_token *ids, size_t room, size_t *n,
                                   mote_error *err);

/* The bytes of one token: a view that lives as long as the model; *bytes is 0
 * for ids without text. A character may be spread over several tokens. */
MOTE_API const char *mote_token_bytes(const mote_model *model, mote_token id, size_t *bytes);
/* Control tokens shape the conversation and are not for the reader's eye. */
MOTE_API bool mote_token_is_control(const mote_model *model, mote_token id);
/* The answer is over: end of turn or end of text. */
MOTE_API bool mote_token_is_end(const mote_model *model, mote_token id);

/* Turns tokens into text piece by piece without ever splitting a character.
 * An all-zero struct is a fresh stream. */
typedef struct mote_text_stream {
    unsigned char held[4];
    uint8_t n_held;
} mote_text_stream;

/* Adds one token and writes the text that is now complete, at most `room`
 * bytes; MOTE_PIECE_BYTES is always enough, and what does not fit is lost. Bytes
 * that can never become a character come out as U+FFFD, control tokens as their
 * spelling. id < 0 ends the stream and flushes it. Returns the number of bytes
 * written; there is no terminating zero. */
enum { MOTE_PIECE_BYTES = 4096 };
MOTE_API size_t mote_text_next(const mote_model *model, mote_text_stream *stream, mote_token id,
                               char *text, size_t room);

/* ---- engine ---- */

typedef struct mote_engine mote_engine;

typedef enum mote_kv {
    MOTE_KV_F16 = 0,
    MOTE_KV_F32 = 1, /* twice the memory; to compare with a reference */
    MOTE_KV_Q8_0 = 2 /* 17/32 of the memory; 8 bits a value, a scale for every 32 */
} mote_kv;

/* Whether the engine's own threads are kept to certain CPUs; the thread that calls
 * mote_step works too and is never touched. Changes the speed, never a result. */
typedef enum mote_pin {
    MOTE_PIN_AUTO = 0, /* as many threads as by default, on a machine with cores of unequal
                        * strength: to the strong ones, all of them to all. Else none */
    MOTE_PIN_OFF,      /* wherever the system puts them */
    MOTE_PIN_CORES     /* each to a core of its own, if there are enough: for a machine that
                        * runs nothing else. Two such programs would meet on the same cores */
} mote_pin;

typedef struct mote_engine_options {
    uint32_t threads;   /* 0: one per physical core this process may use */
    uint32_t sessions;  /* sessions alive at once; 0: 1 */
    uint64_t positions; /* context of all sessions together; 0: 4,096 a session */
    /* The context of a session is a limit, not a promise: each may have one of up to `positions`,
     * and a step that finds too few of them free is refused with MOTE_E_MEMORY. */
    bool shared_positions;
    uint32_t kept_states; /* mote_session_keep marks of all sessions; 0: none */
    uint32_t batch;       /* tokens of one pass over the weights; 0: 512 */
    uint32_t logits_rows; /* rows of logits one step can return; 0: one a session */
    mote_kv kv;
    float yarn; /* context stretched by this factor, 1 to 4; 0: as trained */
    mote_pin pin;
} mote_engine_options;

/* What an engine takes, in bytes, known before it is made. `weights` is the
 * mapped file, which the system can drop and read again; the rest is private
 * memory, reserved as a whole and filled as it is used. */
typedef struct mote_memory {
    uint64_t weights;
    uint64_t model;           /* small weights in decoded form, tokenizer */
    uint64_t kv_cache;        /* of all positions */
    uint64_t recurrent_state; /* of all sessions */
    uint64_t scratch;         /* working space of one pass, logits included */
    uint64_t total;
} mote_memory;

MOTE_API mote_status mote_engine_plan(const mote_model *model, const mote_engine_options *options,
                                      mote_memory *out, mote_error *err);
MOTE_API mote_status mote_engine_new(mote_engine **out, const mote_model *model,
                                     const mote_engine_options *options, mote_error *err);
/* Its sessions must be gone. NULL is allowed. */
MOTE_API void mote_engine_free(mote_engine *engine);
MOTE_API void mote_engine_memory(const mote_engine *engine, mote_memory *out);
MOTE_API uint32_t mote_engine_threads(const mote_engine *engine);
/* The one it was made for. */
MOTE_API const mote_model *mote_engine_model(const mote_engine *engine);

/* How much of an engine is in use now. Positions come in pages of 64: an unfinished page is
 * in use, and one that several sessions share is so once. */
typedef struct mote_usage {
    uint64_t positions_total; /* those of the options, up to whole pages */
    uint64_t positions_free;
    uint32_t sessions, sessions_total;
    uint32_t kept_states, kept_states_total; /* a state that several sessions keep counts once */
} mote_usage;

MOTE_API void mote_engine_usage(const mote_engine *engine, mote_usage *out);
/* positions_free of it. */
MOTE_API uint64_t mote_engine_positions_free(const mote_engine *engine);

/* ---- sessions ---- */

typedef struct mote_session mote_session;

typedef struct mote_session_options {
    uint64_t context; /* positions it can hold; 0: an even share of the engine's, or all of
                       * them if its sessions share positions */
} mote_session_options;

/* MOTE_E_MEMORY: the engine's sessions or positions are all promised. An engine whose
 * sessions share positions promises none of them. */
MOTE_API mote_status mote_session_new(mote_session **out, mote_engine *engine,
                                      const mote_session_options *options, mote_error *err);
/* NULL is allowed. */
MOTE_API void mote_session_free(mote_session *session);

/* A second timeline with the same past. Full pages and states are shared, so
 * it costs one unfinished page and the rows since the last boundary. It has no
 * logits before its own first step: for several answers to one prompt, pick
 * their first tokens from the original (mote_sampling.draw), then fork. */
MOTE_API mote_status mote_session_fork(mote_session **out, const mote_session *from,
                                       mote_error *err);

MOTE_API uint64_t mote_session_length(const mote_session *session);
MOTE_API uint64_t mote_session_context(const mote_session *session);
/* All tokens so far, mote_session_length of them; the view ends with the next
 * call on the session. */
MOTE_API const mote_token *mote_session_tokens(const mote_session *session);

/* Drops everything after `pos`, or as little more as it must: a recurrent state
 * cannot run backwards past what it kept. Returns the position it now stands
 * at; the caller appends again from there. Going back up to 16 tokens inside
 * a stretch of 32 is always exact. The session has no logits afterwards. */
MOTE_API uint64_t mote_session_rewind(mote_session *session, uint64_t pos);
/* Where mote_session_rewind(session, pos) would end. */
MOTE_API uint64_t mote_session_rewind_target(const mote_session *session, uint64_t pos);

/* Keeps the state of the last boundary (a multiple of 32), so that a later
 * rewind can return to it. *pos, if not NULL, is that boundary.
 * MOTE_E_FULL: the engine's kept_states are used up. */
MOTE_API mote_status mote_session_keep(mote_session *session, uint64_t *pos, mote_error *err);
/* Forgets what was kept at `pos`; a fork's own marks stay. false: nothing was kept there. */
MOTE_API bool mote_session_unkeep(mote_session *session, uint64_t pos);
/* Boundaries that are kept, ascending: writes at most `room`, returns how many there are. */
MOTE_API size_t mote_session_kept(const mote_session *session, uint64_t *pos, size_t room);

/* Writes the timeline to a file: first beside it, then renamed over it. */
MOTE_API mote_status mote_session_save(const mote_session *session, const char *path,
                                       mote_error *err);
/* A session that goes on from a saved one as if it had never stopped. The
 * model file, the KV format and the YaRN factor must be those it was saved with.
 * MOTE_E_MEMORY also if sessions share positions and too few of them are free. */
MOTE_API mote_status mote_session_load(mote_session **out, mote_engine *engine, const char *path,
                                       const mote_session_options *options, mote_error *err);

/* ---- steps ---- */

typedef enum mote_logits {
    MOTE_LOGITS_LAST = 0, /* of the last token: what comes next */
    MOTE_LOGITS_NONE,     /* a prompt that goes on in the next step */
    MOTE_LOGITS_ALL,      /* of every token of the item */
    MOTE_HIDDEN_LAST,     /* no logits, but the row that those of the last token are made from */
    MOTE_HIDDEN_SUM       /* no logits; such a row of every token is added to `sum` */
} mote_logits;

struct mote_image;

/* One item of a step: append `n` tokens to `session`. A session may appear
 * once in a step. */
typedef struct mote_work {
    mote_session *session;
    const mote_token *tokens;
    size_t n;
    mote_logits want;
    /* [n_images]: those whose tokens are among the item's; needed until the step returns */
    const struct mote_image *const *images;
    size_t n_images;
    /* Of MOTE_HIDDEN_SUM: the embedding of mote_model_info many, the caller's. Rows are added one
     * after the other, so that a prompt in pieces gives the bits of a prompt in one, and a mean is
     * a division away. Of no use after MOTE_E_CANCELED, nor if the session has left the step. */
    double *sum;
} mote_work;

/*
 * Runs all items, prompts and single tokens mixed, in as few passes over the
 * weights as the engine's batch allows: reading the weights is what a token
 * costs, so sharing the pass is what a server wants. Never allocates.
 *
 * MOTE_E_ARG: an item has no tokens, a token outside the vocabulary, tokens of a picture
 * that it does not name or not from its beginning, or a session that is named twice, or the items
 * want more rows than the engine's logits_rows. MOTE_E_FULL: an item would not fit its session.
 * MOTE_E_MEMORY: sessions share positions, and the free pages are not enough for all items;
 * an unfinished page that other sessions hold too has to be copied and counts. The caller can
 * free or rewind a session and try again.
 * After these nothing was appended anywhere.
 * MOTE_E_CANCELED: mote_cancel came; mote_session_length says where each session stands: at a
 * whole pass or, if a pass of more than 16 tokens was given up, no later than before that, at a
 * multiple of 32 that it could go back to. What is read again from there on has the same bits.
 */
MOTE_API mote_status mote_step(mote_engine *engine, const mote_work *work, size_t n,
                               mote_error *err);

/*
 * A step that sessions can leave while the others go on, for a program whose clients come and go.
 *
 * As mote_step, but calls between(with) on this thread before every pass and twice in each of its
 * layers, also if it has few tokens. From inside, mote_step_abort takes a session out: its item is
 * forgotten, it stands where it would after a cancel, and it may be freed at once. So may sessions
 * that are not in the step, and all may be looked at; any other use of the engine or its sessions
 * has to wait for the step's end. For those who stay nothing changes, no bit of their logits
 * either, nor does anything of theirs have to be computed again.
 *
 * MOTE_E_CANCELED also if everybody has left.
 */
MOTE_API mote_status mote_step_with_hook(mote_engine *engine, const mote_work *work, size_t n,
                                         void (*between)(void *with), void *with, mote_error *err);
/* From inside of `between`. A session that is not in the step stays as it is. */
MOTE_API void mote_step_abort(mote_session *session);

/* Ends the running step after its current pass, or inside it after a layer if it has more than 16
 * tokens; if none is running, the next one before its first. May be called from another thread or a
 * signal handler. */
MOTE_API void mote_cancel(mote_engine *engine);

/* Logits of the last step: row 0 of LAST, row i of ALL. One float per entry of
 * the vocabulary. Lives until the next step of the engine; NULL if there is no such row. */
MOTE_API const float *mote_session_logits(const mote_session *session, size_t row);

/* The hidden state of the last token after the final norm, if the last step was asked for it
 * with MOTE_HIDDEN_LAST: *n floats (n may be NULL), the embedding of mote_model_info, not scaled
 * to any length. Lives as long as logits do; NULL if there is none. */
MOTE_API const float *mote_session_hidden(const mote_session *session, size_t *n);

/* ---- pictures ---- */

/* A picture, or two frames of a film, as the model sees it: rows that stand in a prompt in the
 * place of tokens. Once made it never changes; any number of sessions and threads may use it. */
typedef struct mote_image mote_image;

typedef struct mote_pixels {
    const uint8_t *rgb;          /* [height][width][3] */
    const uint8_t *second_frame; /* the second frame, of the same size; NULL: a still picture */
    uint32_t width, height;      /* multiples of 32: 32 x 32 pixels become one token */
} mote_pixels;

enum { MOTE_IMAGE_SIDE = 32, MOTE_IMAGE_MAX_TOKENS = 16384 };

/* Looks at the pixels, which takes as long as reading a good part of as many tokens as text does,
 * on threads of its own. Any thread may call; engines need not stand still. threads 0: one per
 * core. MOTE_E_UNSUPPORTED: the model was opened without a tower. */
MOTE_API mote_status mote_image_new(mote_image **out, const mote_model *model,
                                    const mote_pixels *pixels, uint32_t threads, mote_error *err);
/* NULL is allowed. */
MOTE_API void mote_image_free(mote_image *image);

/* What stands for it among the tokens of a prompt, between <|vision_start|> and <|vision_end|>:
 * *n ids below 0, made from the content, so that equal pictures have equal ids and others do not.
 * The view lives as long as the picture. */
MOTE_API const mote_token *mote_image_tokens(const mote_image *image, size_t *n);
/* Rows and columns of its tokens. */
MOTE_API void mote_image_grid(const mote_image *image, uint32_t *rows, uint32_t *cols);
/* What it holds, and what making one of this size takes for a while. */
MOTE_API uint64_t mote_image_bytes(const mote_image *image);
MOTE_API uint64_t mote_image_plan(const mote_model *model, uint32_t width, uint32_t height,
                                  uint32_t threads);

/* ---- sampling ---- */

typedef struct mote_bias {
    mote_token token;
    float add;
} mote_bias;

/* All zero: the most likely token. Zero always means "off". What is on applies in
 * this order: allowed, bias, repetition, presence, frequency, top_k, temperature, top_p,
 * min_p, draw. Equal logits rank by id, the lower first. */
typedef struct mote_sampling {
    float temperature;    /* to 100; 0: no draw, the best after bias and penalties */
    uint32_t top_k;       /* candidates left */
    float top_p;          /* to 1: share of probability the candidates left have; 1 is off too */
    float min_p;          /* to 1: drops what is less likely than this part of the best */
    float typical_p;      /* to 1: share that the candidates have whose surprise is nearest to the
                           * average one; measured before top_p and min_p; 1 is off too */
    float presence;       /* to +-100, subtracted once from tokens already generated */
    float frequency;      /* to +-100, subtracted for each time they were */
    float repetition;     /* 0.01 to 100, divides their positive logits, multiplies their
                           * negative ones; 1 is off too */
    uint32_t repeat_last; /* the last so many generated tokens are what repetition looks at */
    uint64_t generated_from; /* position of the first generated token: what penalties look at */
    const uint32_t *allowed; /* one bit per token, bit id % 32 of word id / 32: tokens without
                              * theirs are not chosen; NULL: all may be */
    const mote_bias *bias;   /* [n_bias], added to the logits; -INFINITY forbids a token */
    size_t n_bias;
    uint64_t seed;
    uint32_t draw;         /* which of several draws at one position; usually 0 */
    uint32_t top_logprobs; /* alternatives to report, up to MOTE_TOP_LOGPROBS */
} mote_sampling;

enum {
    MOTE_TOP_LOGPROBS = 20,
    MOTE_REPEAT_LAST = 64 /* what chats take unless they are told otherwise */
};

typedef struct mote_choice {
    mote_token token;
    float logprob;  /* natural log, before all that mote_sampling asks for */
    uint32_t n_top; /* most likely first, same scale */
    struct {
        mote_token token;
        float logprob;
    } top[MOTE_TOP_LOGPROBS];
} mote_choice;

/* Picks the next token from row `row` of the session's logits; append it with the
 * next mote_step. The draw depends on the logits, the options, the tokens since
 * generated_from and the position, and on nothing else.
 * MOTE_E_ARG: there is no such row, an option is out of range, or allowed and bias
 * forbid every token. MOTE_E_FORMAT: no logit is a number, so the weights are damaged. */
MOTE_API mote_status mote_sample(const mote_session *session, size_t row, const mote_sampling *how,
                                 mote_choice *out, mote_error *err);

#ifdef __cplusplus
}
#endif
#endif
