/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parse_random.c - random answers from fragments of tool calls: the events must not depend on token
 * boundaries and must keep the rules of parse_replay.c.
 *
 *   parse_random [ANSWERS [SEED]]      default: 5,000 and 1
 */
#include "chat/parse_replay.h"
#include "support/random.h"
#include "support/scale.h"

#include <stdio.h>
#include <stdlib.h>

static const char *const fragments[] = {
    "<tool_call>",
    "</tool_call>",
    "<think>",
    "</think>",
    "<function=now>",
    "<function=f>",
    "<function=unknown>",
    "<function=",
    "<function name=\"f\">",
    "</function>",
    "<parameter=a>",
    "<parameter=b>",
    "<parameter=c",
    "<parameter name=\"b\">",
    "</parameter>",
    "</a>",
    "\n",
    "\n",
    "\n\n",
    " ",
    "\r\n",
    "   ",
    "text",
    "1",
    "true",
    "{\"a\": 1}",
    "{\"name\": \"f\", \"arguments\": {\"a\": \"x\"}}",
    "'x'",
    "[1, 2]",
    "<",
    "</",
    ">",
    "```",
    "```\n",
    "\xC3\xA9",
    "\xF0\x9F\x98\x80",
    "\xE6\x80",
    "=",
    "</par",
    "<tool",
    "null",
    "\"",
    "\\",
    "\n<function=f>\n<parameter=a>\n1\n</parameter>\n</function>",
    "<tool_call>\n<function=f>\n<parameter=a>\n",
    "\n</parameter>\n</function>\n</tool_call>",
};

enum { N_FRAGMENTS = sizeof fragments / sizeof *fragments, MAX_FRAGMENTS = 24, MAX_BYTES = 4096 };

static const char tools_text[] = "[{\"name\":\"now\"},{\"name\":\"f\",\"parameters\":{"
                                 "\"properties\":{\"a\":{\"type\":\"string\"},"
                                 "\"b\":{\"type\":\"integer\"},\"c\":{}},\"required\":[\"a\"]}}]";

typedef struct answer {
    char text[MAX_BYTES];
    size_t n;
    bool thinking, cut, tags; /* tags: control tokens; otherwise spelled as text */
} answer;

static void make(answer *a, test_random *random)
{
    a->n = 0;
    a->thinking = test_random_below(random, 4) == 0;
    a->cut = test_random_below(random, 3) == 0;
    a->tags = test_random_below(random, 8) > 0;
    for (uint64_t n = test_random_below(random, MAX_FRAGMENTS) + 1; n > 0; n--) {
        const char *one = fragments[test_random_below(random, N_FRAGMENTS)];
        memcpy(a->text + a->n, one, strlen(one));
        a->n += strlen(one);
    }
}

static void fill(replay *r, const answer *a)
{
    r->n_pieces = 0;
    r->bytes = 0;
    r->thinking = a->thinking;
    r->cut = a->cut;
    if (a->tags)
        replay_add_text(r, (str){a->text, a->n});
    else
        replay_add_bytes(r, (str){a->text, a->n});
}

/* Cuts the answer in four ways and compares; `first` gets the first log. */
static const char *fault_of(replay *r, test_random *random, strbuf *first)
{
    static bool cuts[MAX_BYTES + 1];
    first->n = 0;
    for (int way = 0; way < 4; way++) {
        for (size_t i = 0; i <= r->bytes; i++)
            cuts[i] = way == 1 || test_random_below(random, 3) == 0;
        replay_run(r, way == 0 ? NULL : cuts);
        if (r->fault != NULL)
            return r->fault;
        if (way == 0)
            strbuf_put(first, strbuf_view(&r->log));
        else if (!str_eq(strbuf_view(first), strbuf_view(&r->log)))
            return "the events depend on token boundaries";
    }
    return NULL;
}

/* Without and with `constrained`: calls may start earlier but are the same calls. */
static bool check(replay *r, const answer *a, test_random *random)
{
    strbuf first = {0}, whole = {0}, early = {0};
    fill(r, a);
    r->constrained = false;
    const char *fault = fault_of(r, random, &first);
    const bool differs = replay_may_differ(r, strbuf_view(&r->log));
    replay_outcome(r, &whole);
    r->constrained = true;
    if (fault == NULL)
        fault = fault_of(r, random, &first);
    replay_outcome(r, &early);
    if (fault == NULL && !differs && !str_eq(strbuf_view(&whole), strbuf_view(&early)))
        fault = "other calls with constrained";
    if (fault != NULL)
        printf("%s (thinking %d, cut %d, tags %d)\n%.*s\n-- first\n%.*s-- now\n%.*s\n", fault,
               a->thinking, a->cut, a->tags, (int)a->n, a->text, (int)first.n, first.p,
               (int)r->log.n, r->log.p);
    strbuf_fini(&first);
    strbuf_fini(&whole);
    strbuf_fini(&early);
    return fault == NULL;
}

int main(int argc, char **argv)
{
    const int wanted = argc > 1 ? (int)strtol(argv[1], NULL, 10) : (int)test_scaled(5000, 1);
    const uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    mote_model *model = rig_tiny();
    json_doc *doc = rig_json(tools_text);
    const json_node *tools[2] = {json_node_first(json_doc_root(doc)), NULL};
    static answer a;
    chat_template template;
    replay r;
    bool sound = true;
    tools[1] = json_node_next(tools[0]);
    if (chat_template_tags(&template, model, NULL) != MOTE_OK)
        return 1;
    replay_init(&r, model, &template);
    r.tools = tools;
    r.n_tools = 2;
    for (int i = 0; i < wanted && sound; i++) {
        test_random random = {seed * 1000003u + (uint64_t)i};
        make(&a, &random);
        sound = check(&r, &a, &random);
        if (!sound)
            printf("answer %d of seed %llu\n", i, (unsigned long long)seed);
    }
    printf("%d answers, eight ways each\n", wanted);
    replay_fini(&r);
    json_doc_free(doc);
    mote_model_close(model);
    return sound ? 0 : 1;
}
