/* SPDX-License-Identifier: Apache-2.0 */
/*
 * grammar_int.h - shared by the files of grammar/: pushdown configurations, caches, matchers.
 *
 * After a prefix of a text the pushdown automaton of the rules is in one or several states, each
 * with a stack of return states. Stacks are linked lists of frames that share their lower parts
 * (a graph-structured stack). Equal frames are interned, and so are equal sets of (state, stack):
 * such a set is a configuration and has a number. A position in a text is therefore one integer.
 * Copying it is free, and results about it can be cached.
 *
 * Configurations are created on demand. When there are many, a mark-and-sweep collection frees
 * those that no matcher refers to.
 */
#ifndef MOTE_GRAMMAR_GRAMMAR_INT_H
#define MOTE_GRAMMAR_GRAMMAR_INT_H

#include "grammar/rules/rules.h"
#include "grammar/grammar.h"

enum {
    CONFIG_DEAD = 0,          /* no continuation, and not complete */
    CONFIG_START = 1,         /* before the first byte */
    CONFIGS_SOFT = 32768,     /* configurations at which the first collection starts */
    CONFIGS_HARD = 524288,    /* limits: configurations, */
    CONFIGS_FRAMES = 1048576, /* frames, */
    CONFIGS_ITEMS = 4096,     /* items of one configuration, */
    CONFIGS_DEPTH = 4000,     /* frames of one stack */
    CONFIGS_MEMO = 32768      /* entries of the cache of steps */
};
#define CONFIG_FAILED UINT32_MAX

/* Stack frame: where to continue when a rule has ended. */
typedef struct config_frame {
    uint32_t state;     /* RULES_PLAIN, RULES_LOOP or RULES_SET */
    uint32_t count;     /* loop: runs, set: bit mask of members; both include the current one */
    uint32_t parent;    /* frame below; 0: bottom of the stack */
    uint32_t canonical; /* frame with canonical counts, see configs_canonical */
    uint32_t next;      /* in its hash slot, or in the free list */
    uint16_t depth;
    bool marked;
} config_frame;

/* A state of the automaton with its stack. */
typedef struct config_item {
    uint32_t state, frame;
} config_item;

typedef struct config {
    uint64_t bytes[4];  /* bitmap of the bytes that may follow */
    uint32_t first, n;  /* items */
    uint32_t canonical; /* its canonical configuration, or CONFIG_FAILED: not computed yet */
    uint32_t next;      /* in its hash slot, or in the free list */
    bool complete;      /* the text may end here */
    bool used, marked;
} config;

/* Cached step: from a configuration by a byte class. */
typedef struct config_memo {
    uint32_t key; /* configuration * 256 + byte class */
    uint32_t to;
} config_memo;

typedef struct configs {
    const rules *r;
    uint32_t longest; /* bytes of the longest token */
    config_frame *frames;
    config *all;
    config_item *items;
    uint32_t n_frames, frames_room, free_frames, live_frames;
    uint32_t n_all, all_room, free_configs, live_configs;
    uint32_t n_items, items_room;
    uint32_t *frame_slots, *config_slots; /* hash tables [mask + 1]: number or 0 */
    uint32_t frame_mask, config_mask;
    uint32_t collect_at; /* number of live configurations that starts a collection */
    config_memo *memo;   /* [CONFIGS_MEMO] */
    /* State of the current epsilon closure. */
    config_item *stack, *found;
    uint32_t n_stack, stack_room, n_found, found_room;
    uint64_t *seen;    /* [SEEN], hash set of (state, frame) */
    uint32_t *seen_in; /* [SEEN], round that wrote the entry; older entries are free */
    uint32_t round, n_seen;
    bool complete;
    mote_status status; /* reason of the last CONFIG_FAILED */
    const char *reason;
} configs;

mote_status configs_init(configs *c, const rules *r, uint32_t longest_token, mote_error *err);
void configs_fini(configs *c);

/* These functions return CONFIG_FAILED if out of memory or over a limit; see configs_error. */

/* The configuration after a byte; CONFIG_DEAD: the byte is not allowed. */
uint32_t configs_step(configs *c, uint32_t from, uint8_t byte);

/* The configuration of a list of items, which may contain duplicates; CONFIG_DEAD: no items. */
uint32_t configs_of(configs *c, const config_item *items, uint32_t n);

/* The configuration at a state, with a stack. */
uint32_t configs_at(configs *c, uint32_t state, uint32_t frame);

/* The canonical configuration, which has the same mask. A token of n bytes adds at most n runs to
 * a loop. So loop counts that are further from both limits than the longest token are equivalent
 * for masks, and the canonical configuration uses one count for all of them. */
uint32_t configs_canonical(configs *c, uint32_t from);

static inline bool config_allows(const config *x, uint8_t byte)
{
    return (x->bytes[byte / 64] >> byte % 64 & 1) != 0;
}

/* Sets err to the reason of the last CONFIG_FAILED. */
mote_status configs_error(const configs *c, mote_error *err);

/* Mark and sweep. Call configs_keep for every configuration that must stay, then configs_sweep.
 * The numbers of all others are reused. */
static inline bool configs_want_collection(const configs *c)
{
    return c->live_configs >= c->collect_at;
}
void configs_keep(configs *c, uint32_t config);
void configs_sweep(configs *c);

/* ---- grammars and matchers ---- */

enum {
    MASK_CACHE = 32,         /* cached masks */
    MASK_CACHE_VISITS = 512, /* trie nodes a walk must visit for its mask to be cached */
    SELF_LOOP_CACHE = 256,   /* configurations with cached self_loops and tree_info */
    ROW_CACHE = 128,         /* configurations with a cached step_row */
    REACH_MAX = 24           /* configurations explored to show that no text is rejected */
};

typedef struct cached_mask {
    uint32_t config; /* canonical; CONFIG_DEAD: free */
    uint64_t used;   /* clock of the latest use, for LRU eviction */
    uint32_t *bits;  /* [words] or NULL */
} cached_mask;

/* Characters that lead from a configuration back to itself. */
typedef struct self_loops {
    uint32_t config;
    uint64_t ascii[2];
    bool multi;       /* all multi-byte characters, except perhaps those of the next field */
    bool punctuation; /* U+2000 to U+203F */
} self_loops;

/* Tries of which all tokens are allowed in a configuration. */
typedef struct tree_info {
    uint32_t config;
    bool known[TRIE_TREES], allowed[TRIE_TREES];
} tree_info;

/* Steps of one configuration by byte, filled on demand. A trie walk needs the steps of the same few
 * configurations hundreds of thousands of times. */
typedef struct step_row {
    uint32_t config; /* CONFIG_DEAD: free */
    uint32_t next[256];
} step_row;

struct grammar {
    rules *r;
    const token_trie *v;
    configs c;
    cached_mask masks[MASK_CACHE];
    self_loops loops[SELF_LOOP_CACHE]; /* direct-mapped, as the next two */
    tree_info trees[SELF_LOOP_CACHE];
    step_row *rows; /* [ROW_CACHE] */
    uint64_t clock;
    uint32_t string_start;     /* start state of json_char, or RULES_NONE */
    grammar_matcher *matchers; /* linked list */
};

struct grammar_matcher {
    grammar *g;
    grammar_matcher *next, *previous;
    uint32_t *history; /* [n + 1], configuration after each token; CONFIG_DEAD: the text ended */
    uint32_t n, room;
};

/* ---- mask_walk.c ---- */

/* Adds the tokens that a configuration allows, by walking the tries. `visited` counts nodes.
 * False: CONFIG_FAILED. */
bool mask_walk(grammar *g, uint32_t config_id, uint32_t *bits, uint64_t *visited);
/* Turns the mask of `from` into the mask of `to`: walks only where their steps differ. */
bool mask_change(grammar *g, uint32_t from, uint32_t to, uint32_t *bits, uint64_t *visited);
/* Do all lower-case letters lead back to the configuration? Then a walk is short. */
bool mask_is_cheap(grammar *g, uint32_t config_id);

/* ---- mask.c ---- */

/* Computes the mask of a configuration, without end-of-generation tokens. */
mote_status mask_fill(grammar *g, uint32_t config, uint32_t *bits, mote_error *err);

#endif
