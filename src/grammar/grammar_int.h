/* SPDX-License-Identifier: Apache-2.0 */
/*
 * configs.h - where a text stands in a grammar.
 *
 * A text that the rules have read so far leaves them in one or several states,
 * each with its own stack of rules to return to. Stacks are lists of frames that
 * share their lower parts; equal frames are one frame, and equal sets of states
 * and stacks are one configuration, with a number. So a position in a text is a
 * number, copying it costs nothing, and what was once found out about it is
 * remembered.
 *
 * Configurations are made as they are needed and collected when there are many:
 * those that a matcher refers to, and what they stand on, stay.
 */
#ifndef MOTE_GRAMMAR_GRAMMAR_INT_H
#define MOTE_GRAMMAR_GRAMMAR_INT_H

#include "grammar/rules/rules.h"
#include "grammar/grammar.h"

enum {
    CONFIG_DEAD = 0,       /* nothing can follow, and nothing is complete */
    CONFIG_START = 1,      /* of every text */
    CONFIGS_SOFT = 32768,  /* configurations before the first collection */
    CONFIGS_HARD = 524288, /* and at most */
    CONFIGS_FRAMES = 1048576,
    CONFIGS_ITEMS = 4096, /* states of one configuration */
    CONFIGS_DEPTH = 4000, /* frames of one stack */
    CONFIGS_MEMO = 32768  /* steps that are remembered */
};
#define CONFIG_FAILED UINT32_MAX

/* Where to go on when a rule has ended. */
typedef struct config_frame {
    uint32_t state;  /* a plain state, a loop or a set */
    uint32_t count;  /* runs of the loop, members of the set, the one under way included */
    uint32_t parent; /* frame below; 0: the bottom */
    uint32_t plain;  /* the frame whose counts stand for all that a token cannot tell apart */
    uint32_t next;   /* in its slot of the table, or in the list of free ones */
    uint16_t depth;
    bool marked;
} config_frame;

typedef struct config_item {
    uint32_t state, frame;
} config_item;

typedef struct config {
    uint64_t bytes[4]; /* which bytes may follow */
    uint32_t first, n; /* items */
    uint32_t plain;    /* configuration of plain frames, or CONFIG_FAILED: not known yet */
    uint32_t next;     /* in its slot, or in the list of free ones */
    bool complete;     /* the text may end here */
    bool used, marked;
} config;

typedef struct config_memo {
    uint32_t key; /* configuration * 256 + class */
    uint32_t to;
} config_memo;

typedef struct configs {
    const rules *r;
    uint32_t longest; /* bytes of a token: counts further than that from a limit are alike */
    config_frame *frames;
    config *all;
    config_item *items;
    uint32_t n_frames, frames_room, free_frames, live_frames;
    uint32_t n_all, all_room, free_configs, live_configs;
    uint32_t n_items, items_room;
    uint32_t *frame_slots, *config_slots; /* [mask + 1], number or 0 */
    uint32_t frame_mask, config_mask;
    uint32_t collect_at; /* live configurations that start a collection */
    config_memo *memo;   /* [CONFIGS_MEMO] */
    /* The closure under way. */
    config_item *stack, *found;
    uint32_t n_stack, stack_room, n_found, found_room;
    uint64_t *seen;    /* [SEEN], state and frame */
    uint32_t *seen_in; /* [SEEN], round in which it was seen */
    uint32_t round, n_seen;
    bool complete;
    mote_status status; /* why a call returned CONFIG_FAILED */
    const char *reason;
} configs;

mote_status configs_init(configs *c, const rules *r, uint32_t longest_token, mote_error *err);
void configs_fini(configs *c);

/* Where a byte leads; CONFIG_DEAD: it is not allowed. CONFIG_FAILED: no memory, or a limit. */
uint32_t configs_step(configs *c, uint32_t from, uint8_t byte);

/* The configuration of these items, which may repeat; CONFIG_DEAD: of none. */
uint32_t configs_of(configs *c, const config_item *items, uint32_t n);

/* The one that stands at a state, with a frame to return to. */
uint32_t configs_at(configs *c, uint32_t state, uint32_t frame);

/* The one that has the same masks, with counts made alike where no token can tell. */
uint32_t configs_plain(configs *c, uint32_t from);

static inline bool config_allows(const config *x, uint8_t byte)
{
    return (x->bytes[byte / 64] >> byte % 64 & 1) != 0;
}

/* What CONFIG_FAILED was about. */
mote_status configs_error(const configs *c, mote_error *err);

/* Enter one in its table; for configs_collect.c. */
void configs_link_frame(configs *c, uint32_t frame);
void configs_link(configs *c, uint32_t config);

/* ---- collecting (configs_collect.c) ---- */

static inline bool configs_want_collection(const configs *c)
{
    return c->live_configs >= c->collect_at;
}
/* Call for every configuration that must stay, then sweep. All others are gone afterwards, and
 * their numbers may be given to new ones. */
void configs_keep(configs *c, uint32_t config);
void configs_sweep(configs *c);

enum {
    MASKS_KEPT = 32,   /* masks that are remembered */
    MASKS_WORTH = 512, /* nodes a walk must have visited for its mask to be one of them */
    STAYS_KEPT = 256,  /* configurations whose stay_info is remembered */
    REACH_MOST = 24,   /* configurations looked at to find that none refuses */
    ROWS_KEPT = 128    /* and whose walk_row */
};

typedef struct kept_mask {
    uint32_t config; /* plain; CONFIG_DEAD: free */
    uint64_t used;   /* clock of the latest use */
    uint32_t *bits;  /* [words] or NULL */
} kept_mask;

/* Characters that a configuration is not left by. */
typedef struct stay_info {
    uint32_t config;
    uint64_t ascii[2];
    bool multi;       /* every character of more than one byte, but for those of */
    bool punctuation; /* U+2000 to U+203F */
} stay_info;

/* Trees of the vocabulary that may follow a configuration whole. */
typedef struct tree_info {
    uint32_t config;
    bool asked[TRIE_TREES], taken[TRIE_TREES];
} tree_info;

/* Where each byte leads from a configuration, as far as it was asked: walks ask the same few
 * configurations hundreds of thousands of times. */
typedef struct walk_row {
    uint32_t config; /* CONFIG_DEAD: free */
    uint32_t next[256];
} walk_row;

struct grammar {
    rules *r;
    const token_trie *v;
    configs c;
    kept_mask kept[MASKS_KEPT];
    stay_info stays[STAYS_KEPT];
    tree_info trees[STAYS_KEPT];
    walk_row *rows; /* [ROWS_KEPT] */
    uint64_t clock;
    uint32_t string_start;     /* state where a character of a JSON string begins, or RULES_NONE */
    grammar_matcher *matchers; /* list */
};

struct grammar_matcher {
    grammar *g;
    grammar_matcher *next, *previous;
    uint32_t *places; /* [n + 1], configuration after each token; CONFIG_DEAD: it has ended */
    uint32_t n, room;
};

/* ---- mask_walk.c ---- */

/* Allows what a configuration can read, by walking over the vocabulary. False: CONFIG_FAILED. */
bool mask_walk(grammar *g, uint32_t config_id, uint32_t *bits, uint64_t *visited);
/* Turns the mask of `from` into that of `to`, by walking where they lead to different places. */
bool mask_change(grammar *g, uint32_t from, uint32_t to, uint32_t *bits, uint64_t *visited);
/* Do letters not leave the configuration? Then most of its walk is taken whole. */
bool mask_is_cheap(grammar *g, uint32_t config_id);

/* ---- mask.c ---- */

/* Fills the mask of a configuration, without the tokens that end the answer. */
mote_status mask_fill(grammar *g, uint32_t config, uint32_t *bits, mote_error *err);

#endif
