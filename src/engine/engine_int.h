/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine_int.h - the objects behind mote.h. Private to engine/ and to tests.
 *
 * Ownership:
 *   model    mapped files, tokenizer, weights, kernel table. Immutable once open.
 *   engine   thread pool, scratch, three block pools, the array of session slots.
 *   session  references to KV pages and to recurrent states, one tail, the token ids.
 *
 * Recurrent states. A state holds the DeltaNet layers at a multiple of 32 positions. It is
 * immutable while more than one holder (session or kept mark) references it. A session that crosses
 * a multiple of 32 writes its state in place if it is the only holder, otherwise into a new block.
 * A pass that can be canceled also uses a new block if one is free, so that undo needs no
 * recomputation. State 0 is the empty state: all zero, never written.
 *
 * Two sessions never replace the same shared, unmarked state in one pass: step.c ends the pass
 * before the second one. Therefore every replaced state still has a holder, and
 * sessions + kept_states + 1 blocks always suffice.
 *
 * KV pages. A session writes a page in place while it is the only holder; otherwise the next append
 * copies the page first. Full pages are never written again; with drafts, only once position
 * length - 1 of the MTP block is known too. With shared_positions sessions reserve
 * no pages: each step counts the pages it needs before it changes anything (step.c).
 */
#ifndef MOTE_ENGINE_ENGINE_INT_H
#define MOTE_ENGINE_ENGINE_INT_H

#include "base/os.h"
#include "engine/block_pool.h"
#include "gguf/gguf_files.h"
#include "model/forward.h"
#include "model/lora.h"
#include "model/vision_encoder.h"
#include "tok/tok.h"

#include <stdatomic.h>

struct mote_model {
    gguf_files files;
    tok *tok;
    hparams hp;
    weights w;
    kern_table kernels;
    uint64_t fingerprint;        /* of the weights; stored in snapshots */
    uint64_t vision_fingerprint; /* of the mmproj file */
    uint64_t draft_fingerprint;  /* of the MTP file; 0: none */
    char name[96];
    gguf_files draft_files;  /* the MTP file, if the model file has no head; always one file */
    bool has_vision;         /* opened with an mmproj file, or one inside the model file */
    gguf_files vision_files; /* one file, or none if the encoder is inside the model file */
    vision_encoder vision;
};

struct mote_image {
    uint32_t rows, cols; /* of tokens */
    size_t n;
    float *features; /* [n][n_embd] */
    mote_token *ids; /* [n], all below 0 */
    uint64_t bytes;
};

struct mote_lora {
    const mote_model *model;
    lora values;
    uint64_t fingerprint;
    char name[96];
};

enum { STATE_ZERO = 0 };

/* Scratch of mote_draft (draft.c). */
typedef struct draft_scratch {
    uint32_t rows;              /* sessions that draft together */
    uint32_t n_common;          /* output rows that every draft computes; a test may lower it */
    struct draft_chain *chains; /* [rows] */
    draft_row *block_rows;      /* [rows] */
    draft_row *kept_rows;       /* [DRAFT_KEEP_ROWS]: rows to complete, see draft_complete() */
    size_t n_kept_rows;
    float *logits;         /* [rows][n_common + DRAFT_RARE]; may be scratch of the pass */
    nn_acts one;           /* one row, quantised for the output head */
    unsigned char *picked; /* [DRAFT_RARE] rows of the output head */
} draft_scratch;

/* Takes the scratch of mote_draft from the arena, or counts it; after that of the passes. */
void draft_scratch_take(mote_engine *e, arena *a);

/*
 * With drafts, K and V of the MTP block are complete below session.draft_done. A pass of one token
 * leaves its row out (draft_defers), so most plain decode steps do not read the weights of the
 * block. The rows are completed before drafts, before a pass of several tokens, and at the end of
 * each 32 positions. Until then their hidden rows are in the ring of the tail. They belong to the
 * last page. A session copies a shared last page before it completes rows.
 */
enum { DRAFT_KEEP_ROWS = 64 };
bool draft_defers(const pass_segment *seg);
/* Rows that every session with the same tokens has, and a snapshot of it. The loaded session
 * computes the others when they are needed. It cannot compute those of image tokens, because their
 * features are gone; passes do not leave them out. */
uint64_t draft_saved(const mote_session *s);
/* Clears the rows of a page after the first `rows`, and of the MTP block after `draft_rows`. */
void engine_clear_page(const mote_engine *e, unsigned char *page, size_t rows, size_t draft_rows);
/* Computes the missing rows of a session below length - 1, or collects them for draft_flush(). */
void draft_complete(mote_session *s);
void draft_flush(mote_engine *e);

/* Bytes a session allocates per page of its context: 64 token ids and the address of the page. */
enum { PAGE_ENTRY_BYTES = KERN_PAGE * sizeof(mote_token) + sizeof(unsigned char *) };

/* A state marked by mote_session_keep: a rewind can return to `pos`, a multiple of 32. */
typedef struct kept_mark {
    uint64_t pos;
    uint32_t state;
} kept_mark;

/* An image in a session: positions start .. start + rows * cols - 1. The session may end inside the
 * span; the next append must then continue the image. */
typedef struct image_span {
    uint64_t start;
    uint32_t rows, cols;
} image_span;

enum { SESSION_SPANS = 1024 };

struct mote_session {
    mote_engine *engine; /* NULL: free slot */
    uint64_t context;
    uint64_t length;
    unsigned char **pages; /* [max_pages]; entries below n_pages are set */
    mote_token *tokens;    /* [max_pages * 64], in the same mapping */
    size_t n_pages, max_pages;
    uint32_t state; /* at length / 32 * 32 */
    uint32_t tail;
    uint64_t ring_from;  /* the tail's ring holds convolution inputs of ring_from .. length-1 */
    uint64_t draft_done; /* with drafts: the MTP block has K and V of the positions below this */
    kept_mark *kept;     /* [kept_states of the engine], ascending */
    uint32_t n_kept;
    image_span *spans; /* [SESSION_SPANS], ascending; NULL without a vision encoder */
    uint32_t n_spans;
    nn_lora_set lora;                    /* its adapters, for the passes */
    mote_lora_use loras[MOTE_MAX_LORAS]; /* [lora.n]: the same as given */
    uint64_t logits_step;                /* engine step that computed its logits; 0: none */
    size_t logits_row, n_logits;
    uint64_t hidden_step; /* engine step that computed its hidden row; 0: none */
    bool copies_page;     /* scratch of session_count_pages: its partial page is shared */
    uint64_t in_check;    /* last mote_step call that named it; detects duplicates */
};

struct mote_engine {
    const mote_model *model;
    mote_engine_options options; /* with defaults filled in */
    float yarn;                  /* effective factor, from the options or the file; 1: off */
    forward forward;
    expert_pages experts;
    mote_observe_fn *observe; /* NULL: off */
    void *observe_ctx;
    pool *threads;
    block_pool pages, states, tails;
    uint32_t *kept_counts;  /* [states.n]: marks on each state */
    uint32_t n_kept;        /* states that carry a mark */
    uint64_t reserved;      /* pages reserved by sessions; 0 with shared_positions */
    mote_session *sessions; /* [options.sessions] */
    kept_mark *kept_marks;  /* [sessions][kept_states] */
    image_span *spans;      /* [sessions][SESSION_SPANS]; NULL without a vision encoder */
    pass_image *images;     /* [batch]: images in the pass being built; NULL likewise */
    unsigned char *scratch; /* passes, workers, logits, sampling, the arrays below */
    size_t scratch_bytes;
    float *logits; /* [logits_rows][n_vocab] */
    float *hidden; /* [sessions][n_embd], by slot */
    void *sample_scratch;
    pass_segment *segments;   /* [sessions] of the pass being built */
    uint32_t *next_states;    /* [sessions]: state of each segment's session after the pass */
    uint32_t *items;          /* [sessions]: work item of each segment */
    bool *aborted;            /* [sessions]: work items removed by mote_step_abort */
    struct step_run *running; /* the step in progress; NULL between steps */
    draft_scratch draft;      /* all NULL without drafts */
    uint64_t check;           /* number of mote_step calls */
    uint64_t step;            /* number of accepted mote_step calls */
    mote_memory memory;
    atomic_bool cancel;
};

/* MOTE_E_IO if the model file, or the mmproj file, cannot be read any more. Call it after every
 * computation with mapped weights, before the result is used: it may be wrong. */
mote_status model_check_files(const mote_model *m, mote_error *err);
/* The same without the mmproj file. */
mote_status model_check_text_files(const mote_model *m, mote_error *err);

static inline size_t pages_of(uint64_t positions)
{
    return (size_t)((positions + KERN_PAGE - 1) / KERN_PAGE);
}

/* The context of a session created with context 0. */
uint64_t session_default_context(const mote_engine *e);
/* Takes a free slot and reserves its pages: the common part of new, fork and load. `options` gives
 * the adapters and may be NULL. */
mote_status session_claim(mote_session **out, mote_engine *e, uint64_t context,
                          const mote_session_options *options, mote_error *err);

/* ---- adapters (adapter.c) ---- */

/* Checks the adapters of the options; NULL: none. */
mote_status adapters_check(const mote_engine *e, const mote_session_options *options,
                           mote_error *err);
/* Gives the adapters to a new session. */
void adapters_set(mote_session *s, const mote_session_options *options);
/*
 * Counts the KV pages that session_add_pages(s, end) will take. If k sessions of a step share a
 * partial page with r holders in total, min(k, r - 1) of them copy it: the last holder writes in
 * place. So the count drops these references in step order; session_count_pages_end, called for
 * every session after the last count, restores them.
 */
uint64_t session_count_pages(mote_session *s, uint64_t end);
void session_count_pages_end(mote_session *s);
/* Takes the pages for positions below `end` and makes the last partial page private. The caller has
 * made sure that enough pages are free. */
void session_add_pages(mote_session *s, uint64_t end);
/* Releases pages and image spans beyond the length. */
void session_trim(mote_session *s);
/* Undoes a canceled pass of n tokens: returns to the latest position with an intact state.
 * `state_lost`: the pass was writing the session's state in place. */
void session_undo(mote_session *s, size_t n, bool state_lost);
/* Copies the convolution inputs and the hidden row stored with the session's state into the rings.
 */
void session_refill_ring(mote_session *s);

/* The used parts of a DeltaNet layer's tail, in snapshot order: rows k, u, G, then the convolution
 * inputs from ring_from on, split in two where the ring wraps. */
enum { TAIL_PARTS = 5 };
typedef struct tail_part {
    void *data;
    size_t bytes; /* may be 0 */
} tail_part;
void session_tail_parts(const mote_session *s, uint32_t layer, tail_part parts[TAIL_PARTS]);
/* With drafts: the hidden rows from the position before the boundary on, in two parts likewise. */
enum { HIDDEN_PARTS = 2 };
void session_hidden_parts(const mote_session *s, tail_part parts[HIDDEN_PARTS]);

static inline float *session_hidden_row(const mote_session *s)
{
    return s->engine->hidden + (size_t)(s - s->engine->sessions) * s->engine->model->hp.n_embd;
}

static inline uint64_t session_boundary(const mote_session *s)
{
    return s->length / KERN_CHUNK * KERN_CHUNK;
}

/* ---- images in a session (image.c) ---- */

/* Checks that the image tokens of the work item (ids below 0) can follow the session's tokens. */
mote_status image_spans_check(const mote_session *s, const mote_work *w, mote_error *err);
/* Adds the spans of images that start in tokens from .. from + n - 1 of the work item. Writes the
 * images of these tokens to `images` (at most n) and returns their number; *rope_offset is the
 * offset of the tokens before the first image. */
size_t image_spans_append(mote_session *s, const mote_work *w, size_t from, size_t n,
                          pass_image *images, int64_t *rope_offset);
/* Adds the spans of all images that start in the tokens of the work item, to an empty session.
 * image_spans_check has accepted the item. */
void image_spans_set(mote_session *s, const mote_work *w);
/* Does the session end inside an image? */
bool image_spans_end_open(const mote_session *s);
/* Rotary position minus position of a text token after all images. */
int64_t image_spans_end_offset(const mote_session *s);
/* Removes images that start at or beyond the length. */
void image_spans_trim(mote_session *s);

static inline uint64_t span_tokens(const image_span *span)
{
    return (uint64_t)span->rows * span->cols;
}

/* mote_session_load of a mapped file. */
mote_status snapshot_read(mote_session **out, mote_engine *e, const unsigned char *bytes, size_t n,
                          const mote_session_options *options, mote_error *err);

/* For tests: calls fn with intermediate rows of every pass; NULL: off. */
void engine_set_tap(mote_engine *e, forward_tap_fn *fn, void *ctx);

#endif
