/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine_int.h - the objects behind mote.h, for the files of engine/ and tests.
 *
 * Who owns what:
 *   model    the mapped file, tokenizer, weights; nothing here changes it.
 *   engine   threads, scratch, three pools of blocks, and the slots that its
 *            sessions live in.
 *   session  references to pages and states, one tail, the token ids.
 *
 * A state is what DeltaNet layers know at a multiple of 32 positions. It is
 * immutable while more than one holder (sessions and kept marks) refers to it:
 * a session that crosses a boundary writes in place if it is alone, else into a
 * fresh block. In a pass that may be given up it does not write in place as long as
 * blocks are free. State 0 is the empty beginning, all zero, and is never written.
 *
 * Two sessions never leave the same shared, unmarked state in one pass (step.c
 * ends the pass before the second one). So an old state is always still held by
 * somebody, and sessions + kept_states + 1 blocks are enough at every moment.
 *
 * A page is written in place while the session is its only holder; else the
 * next append copies it first. Full pages are never written again. Sessions of an
 * engine with shared_positions are promised no pages: a step counts beforehand
 * what it will take (step.c).
 */
#ifndef MOTE_ENGINE_ENGINE_INT_H
#define MOTE_ENGINE_ENGINE_INT_H

#include "base/os.h"
#include "engine/block_pool.h"
#include "model/forward.h"
#include "model/vision_encoder.h"
#include "tok/tok.h"

#include <stdatomic.h>

struct mote_model {
    os_map map;
    gguf *file;
    tok *tok;
    hparams hp;
    weights w;
    kern_table kernels;
    uint64_t fingerprint; /* of the file, kept in snapshots */
    char name[96];
    /* the picture tower, from a file of its own */
    bool sees;
    os_map vision_map;
    gguf *vision_file;
    vision vision;
};

struct mote_image {
    uint32_t rows, cols; /* of tokens */
    size_t n;
    float *features; /* [n][n_embd] */
    mote_token *ids; /* [n], all below 0 */
    uint64_t bytes;
};

enum { STATE_ZERO = 0 };

/* A session's own memory for each page of its context: token ids and the page's address. */
enum { BOOK_BYTES = KERN_PAGE * sizeof(mote_token) + sizeof(unsigned char *) };

/* A boundary that a rewind can return to. */
typedef struct kept_mark {
    uint64_t pos;
    uint32_t state;
} kept_mark;

/* A picture in a timeline: tokens start .. start + rows * cols - 1, the last ones perhaps yet to
 * come. */
typedef struct image_span {
    uint64_t start;
    uint32_t rows, cols;
} image_span;

enum { SESSION_SPANS = 1024 };

struct mote_session {
    mote_engine *engine; /* NULL: the slot is free */
    uint64_t context;
    uint64_t length;
    unsigned char **pages; /* [max_pages], those up to length are set */
    mote_token *tokens;    /* [max_pages * 64], in the same mapping */
    size_t n_pages, max_pages;
    uint32_t state; /* at length / 32 * 32 */
    uint32_t tail;
    uint64_t ring_from; /* the tail's ring holds inputs of ring_from .. length-1 */
    kept_mark *kept;    /* [engine's kept_states], ascending */
    uint32_t n_kept;
    image_span *spans; /* [SESSION_SPANS] of a model that sees, ascending */
    uint32_t n_spans;
    uint64_t logits_step; /* the step that made its logits; 0: none */
    size_t logits_row, n_logits;
    uint64_t hidden_step; /* the step that made its hidden row; 0: none */
    bool copies_page;     /* in the step being checked: its unfinished page is another's too */
    uint64_t in_check;    /* the last check of work that met it, to find it named twice */
};

struct mote_engine {
    const mote_model *model;
    mote_engine_options options; /* as resolved: no zero means "default" any more */
    float yarn;                  /* in force: the options' or the file's; 1: none */
    forward forward;
    pool *threads;
    block_pool pages, states, tails;
    uint32_t *kept_counts;  /* [states.n]: marks on each state */
    uint32_t n_kept;        /* states that carry a mark */
    uint64_t promised;      /* pages that sessions may still come to need; 0: they share */
    mote_session *sessions; /* [options.sessions] */
    kept_mark *kept_marks;  /* [sessions][kept_states] */
    image_span *spans;      /* [sessions][SESSION_SPANS], of a model that sees */
    pass_run *runs;         /* [batch]: pictures in the pass being built */
    unsigned char *scratch; /* working memory: passes, workers, logits, sampling */
    size_t scratch_bytes;
    float *logits; /* [logits_rows][n_vocab] */
    float *hidden; /* [sessions][n_embd], in the order of the slots */
    void *sample_scratch;
    pass_segment *segments;   /* [sessions] of the pass being built */
    uint32_t *next_states;    /* [sessions]: the state each segment will hold */
    uint32_t *items;          /* [sessions]: the item of the step that each segment is of */
    bool *left;               /* [sessions]: items whose session has left the step */
    struct progress *running; /* the step, while it may be left; else NULL */
    uint64_t check;           /* number of the last call of mote_step */
    uint64_t step;            /* number of the current or last one that was accepted */
    mote_memory memory;
    atomic_bool cancel;
};

static inline size_t pages_of(uint64_t positions)
{
    return (size_t)((positions + KERN_PAGE - 1) / KERN_PAGE);
}

/* The context of a session that names none. */
uint64_t session_default_context(const mote_engine *e);
/* Session slots without their first tokens: the shared part of new, fork and load. */
mote_status session_claim(mote_session **out, mote_engine *e, uint64_t context, mote_error *err);
/* Is the page that the next token goes into begun, and held by others too? */
bool session_shares_last_page(const mote_session *s);
/* Makes pages [n_pages] exist and the last one writable, for positions below `end`. */
void session_make_room(mote_session *s, uint64_t end);
/* Drops pages beyond the length. */
void session_trim(mote_session *s);
/* A pass that was to append n tokens was given up: back to where the session can go on from.
 * `state_lost`: it was writing the session's state in place. */
void session_undo(mote_session *s, size_t n, bool state_lost);
/* Puts the inputs that belong to the session's state into the ring. */
void session_refill_ring(mote_session *s);

/* What of a DeltaNet layer's tail is in use, in the order of a snapshot: rows k, u, G, and the
 * ring's inputs from ring_from on, as two stretches. */
enum { TAIL_PARTS = 5 };
typedef struct tail_part {
    void *data;
    size_t bytes; /* may be 0 */
} tail_part;
void session_tail_parts(const mote_session *s, uint32_t delta_layer, tail_part parts[TAIL_PARTS]);

static inline float *session_hidden_row(const mote_session *s)
{
    return s->engine->hidden + (size_t)(s - s->engine->sessions) * s->engine->model->hp.n_embd;
}

static inline uint64_t session_boundary(const mote_session *s)
{
    return s->length / KERN_CHUNK * KERN_CHUNK;
}

/* ---- pictures in a timeline (spans.c) ---- */

/* May these tokens follow what the session holds? Looks at those below 0 only. */
mote_status spans_check(const mote_session *s, const mote_work *w, mote_error *err);
/* The pictures among tokens from .. from + n - 1 of the item, which are about to be appended:
 * their runs, at most n, and how far positions stand off before the first of them. */
size_t spans_lay(mote_session *s, const mote_work *w, size_t from, size_t n, pass_run *runs,
                 int64_t *shift);
/* Forgets pictures that begin at or beyond the length. */
void spans_trim(mote_session *s);

static inline uint64_t span_tokens(const image_span *span)
{
    return (uint64_t)span->rows * span->cols;
}

/* Reads a snapshot from memory: mote_session_load after the file is mapped. */
mote_status snapshot_read(mote_session **out, mote_engine *e, const unsigned char *bytes, size_t n,
                          const mote_session_options *options, mote_error *err);

/* ---- for tests ---- */

void engine_set_tap(mote_engine *e, forward_tap_fn *fn, void *ctx);

#endif
