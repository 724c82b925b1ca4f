/* SPDX-License-Identifier: Apache-2.0 */
/*
 * eval_retrieval.c - texts with a hidden code.
 *
 * A text is made of short sentences until it has the wanted number of tokens; "The code of the red
 * box is 4711." stands between two of them. The same line gives the same texts with every model that
 * has the same tokenizer.
 */
#include "base/err.h"
#include "base/philox.h"
#include "cli/evaluate/eval_tasks.h"
#include "cli/term/terminal.h"
#include "json/json_writer.h"

#include <stdio.h>

enum { MAX_CASES = 1000, MIN_TOKENS = 32, MAX_TOKENS = 1 << 20, SENTENCE_BYTES = 160 };

static const char *const colors[] = {"red", "blue", "green", "yellow", "white", "black"};
static const char *const things[] = {"box", "chest", "room", "bag"};
static const char *const animals[] = {"duck", "fox", "horse", "goat", "mouse", "bear", "owl"};
static const char *const places[] = {"market", "river", "bridge", "forest", "garden", "hill"};
static const char *const times[] = {"in the morning", "in the evening", "every summer", "at noon"};

/* A sequence of random numbers below a limit. */
typedef struct draws {
    uint64_t seed, at;
} draws;

static uint32_t draw_below(draws *d, uint32_t n)
{
    return philox(d->seed, d->at++, 20).word[0] % n;
}

#define DRAW(d, list) ((list)[draw_below(d, sizeof(list) / sizeof *(list))])

static void put_sentence(draws *d, char *out)
{
    const char *animal = DRAW(d, animals), *place = DRAW(d, places), *when = DRAW(d, times);
    switch (draw_below(d, 3)) {
    case 0:
        snprintf(out, SENTENCE_BYTES, "The %s walked to the %s %s. ", animal, place, when);
        break;
    case 1: snprintf(out, SENTENCE_BYTES, "The %s lives near the %s. ", animal, place); break;
    default:
        snprintf(out, SENTENCE_BYTES, "The road from the %s to the %s is %u miles long. ", place,
                 DRAW(d, places), draw_below(d, 88) + 2);
    }
}

/* Sentences of `tokens` tokens in total, at least one. */
static mote_status put_sentences(draws *d, const mote_model *model, uint64_t tokens, strbuf *out,
                                 mote_error *err)
{
    uint64_t used = 0;
    while (used < tokens) {
        char sentence[SENTENCE_BYTES];
        size_t n;
        put_sentence(d, sentence);
        TRY(mote_tokenize(model, sentence, strlen(sentence), 0, NULL, 0, &n, err));
        strbuf_text(out, sentence);
        used += n;
    }
    return strbuf_check(out, err);
}

typedef struct retrieval {
    str id, category;
    uint64_t tokens, seed;
    double depth;
    uint32_t number; /* of the case, from 1 */
} retrieval;

static mote_status retrieval_put_prompt(const retrieval *r, const mote_model *model, char *code,
                                        strbuf *text, mote_error *err)
{
    draws d = {.seed = r->seed * 1000003 + r->number, .at = (uint64_t)(r->depth * 1000) << 32};
    char secret[SENTENCE_BYTES], question[SENTENCE_BYTES];
    const char *color = DRAW(&d, colors), *thing = DRAW(&d, things);
    snprintf(code, 8, "%u", 1000 + draw_below(&d, 9000));
    snprintf(secret, sizeof secret, "The code of the %s %s is %s. ", color, thing, code);
    snprintf(question, sizeof question, "\n\nWhat is the code of the %s %s?", color, thing);
    const uint64_t before = (uint64_t)((double)r->tokens * r->depth);
    TRY(put_sentences(&d, model, before, text, err));
    strbuf_text(text, secret);
    TRY(put_sentences(&d, model, r->tokens - before, text, err));
    if (text->n > 0 && text->p[text->n - 1] == ' ')
        text->n--;
    strbuf_text(text, question);
    return strbuf_check(text, err);
}

static mote_status retrieval_add_one(eval_tasks *out, const retrieval *r, const mote_model *model,
                                     mote_error *err)
{
    strbuf line = {0}, text = {0};
    char code[8], id[256];
    mote_status status = retrieval_put_prompt(r, model, code, &text, err);
    if (status == MOTE_OK) {
        snprintf(id, sizeof id, "%.*s/%llu/%.2f/%u", (int)(r->id.n < 160 ? r->id.n : 160), r->id.p,
                 (unsigned long long)r->tokens, r->depth, r->number);
        jw_open(&line, '{');
        jw_key_text(&line, "id", id);
        jw_key_str(&line, "category", r->category);
        jw_key_str(&line, "prompt", strbuf_view(&text));
        jw_key_uint(&line, "max_tokens", 64);
        jw_key(&line, "check");
        jw_open(&line, '{');
        jw_key_text(&line, "type", "contains");
        jw_key_text(&line, "text", code);
        jw_close(&line, '}');
        jw_close(&line, '}');
        status = strbuf_check(&line, err);
    }
    if (status == MOTE_OK)
        status = eval_tasks_add(out, strbuf_view(&line), r->tokens, err);
    strbuf_fini(&line);
    strbuf_fini(&text);
    return status;
}

/* A whole number of an object; `value` is the default. */
static bool read_count(const json_node *object, const char *name, int64_t min, int64_t max,
                       int64_t *value)
{
    const json_node *node = json_node_get(object, name);
    return node == NULL || (json_node_int64(node, value) && *value >= min && *value <= max);
}

mote_status eval_retrieval_add(eval_tasks *out, const json_node *line, const mote_model *model,
                               mote_error *err)
{
    const json_node *what = json_node_get(line, "retrieval");
    const json_node *depths = json_node_get(what, "depths");
    int64_t tokens = 0, cases = 1, seed = 1;
    retrieval r = {.id = json_node_text(json_node_get(line, "id")),
                   .category = json_node_text(json_node_get(line, "category"))};
    if (r.category.n == 0)
        r.category = str_of("retrieval");
    if (!read_count(what, "tokens", MIN_TOKENS, MAX_TOKENS, &tokens) || tokens == 0 ||
        !read_count(what, "cases", 1, MAX_CASES, &cases) ||
        !read_count(what, "seed", 0, INT32_MAX, &seed) || json_node_size(depths) == 0)
        return err_set(err, MOTE_E_ARG,
                       "retrieval needs tokens (%d to %d), depths (an array of numbers from 0 to "
                       "1), and optionally cases (1 to %d) and seed",
                       MIN_TOKENS, MAX_TOKENS, MAX_CASES);
    r.tokens = (uint64_t)tokens;
    r.seed = (uint64_t)seed;
    for (const json_node *d = json_node_first(depths); d != NULL; d = json_node_next(d)) {
        r.depth = json_node_double(d);
        if (!json_node_is(d, JSON_IS_NUMBER) || !(r.depth >= 0 && r.depth <= 1))
            return err_set(err, MOTE_E_ARG, "a depth must be a number from 0 to 1");
        for (r.number = 1; r.number <= (uint32_t)cases; r.number++) {
            char shown[64];
            snprintf(shown, sizeof shown, "making text %u", out->n + 1);
            if (term_progress())
                progress_show(shown);
            if (interrupt_pending())
                return err_set(err, MOTE_E_CANCELED, "interrupted");
            TRY(retrieval_add_one(out, &r, model, err));
        }
    }
    return MOTE_OK;
}
