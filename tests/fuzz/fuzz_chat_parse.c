/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_chat_parse.c - arbitrary bytes as an answer. The events must not depend on token boundaries,
 * arguments must be JSON, and calls must be the same with and without `constrained`.
 *
 * The first byte selects open thinking, a cut answer and the number of tools. In the other bytes,
 * 0xF8 to 0xFB are the four tags.
 */
#include "chat/parse_replay.h"
#include "fuzz/fuzz.h"
#include "support/random.h"

#include <stdio.h>
#include <stdlib.h>

enum { MAX_INPUT = 2048 };

static mote_model *model;
static chat_template template;
static json_doc *tools_doc;
static const json_node *tools[2];

static void demand(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "fuzz_chat_parse: %s\n", what);
    abort();
}

static void drop_all(void)
{
    json_doc_free(tools_doc);
    mote_model_close(model);
}

static void make_all(void)
{
    model = rig_tiny();
    demand(chat_template_tags(&template, model, NULL) == MOTE_OK, "no control tokens");
    tools_doc = rig_json(
        "[{\"name\":\"f\",\"parameters\":{\"properties\":{\"s\":{\"type\":\"string\"},\"i\":"
        "{\"type\":\"integer\"},\"o\":{\"type\":[\"object\",\"array\",\"null\"]}},"
        "\"required\":[\"s\"]}},{\"name\":\"now\"}]");
    tools[0] = json_node_first(json_doc_root(tools_doc));
    tools[1] = json_node_next(tools[0]);
    atexit(drop_all);
}

static void add_input(replay *r, const uint8_t *data, size_t size)
{
    size_t from = 0;
    for (size_t i = 0; i <= size; i++) {
        const bool tag = i < size && data[i] >= 0xF8 && data[i] <= 0xFB;
        if (i < size && !tag)
            continue;
        replay_add_bytes(r, (str){(const char *)data + from, i - from});
        if (tag)
            r->pieces[r->n_pieces++] =
                (replay_piece){.control = template.tags[CHAT_TAG_THINK + data[i] - 0xF8]};
        from = i + 1;
        if (r->n_pieces + 2 > REPLAY_MAX_PIECES)
            return;
    }
}

/* Cuts the answer in three ways; the log is that of the last. */
static void replay_ways(replay *r, test_random *random)
{
    static bool cuts[MAX_INPUT + 1];
    strbuf first = {0};
    for (int way = 0; way < 3; way++) {
        for (size_t i = 0; i <= MAX_INPUT; i++)
            cuts[i] = way == 1 || test_random_below(random, 4) == 0;
        replay_run(r, way == 0 ? NULL : cuts);
        demand(r->fault == NULL, r->fault);
        if (way == 0)
            strbuf_put(&first, strbuf_view(&r->log));
        else
            demand(str_eq(strbuf_view(&first), strbuf_view(&r->log)),
                   "other events when cut otherwise");
    }
    strbuf_fini(&first);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    replay r;
    strbuf whole = {0}, early = {0};
    test_random random = {size};
    if (model == NULL)
        make_all();
    if (size == 0 || size > MAX_INPUT)
        return 0;
    replay_init(&r, model, &template);
    r.thinking = data[0] & 1;
    r.cut = data[0] & 2;
    r.tools = tools;
    r.n_tools = data[0] >> 2 & 3 ? 2 : 0;
    add_input(&r, data + 1, size - 1);
    replay_ways(&r, &random);
    replay_outcome(&r, &whole);
    const bool differs = replay_may_differ(&r, strbuf_view(&r.log));
    r.constrained = true;
    replay_ways(&r, &random);
    replay_outcome(&r, &early);
    demand(differs || str_eq(strbuf_view(&whole), strbuf_view(&early)),
           "other calls with constrained");
    strbuf_fini(&whole);
    strbuf_fini(&early);
    replay_fini(&r);
    return 0;
}
