/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parse_corpus.c - malformed model outputs from public bug reports
 * (tests/data/chat/malformed.jsonl).
 *
 * Each is cut into tokens in many ways: by the tokenizer, once before every byte, into single
 * bytes, at random. The events must always equal those in the file. With `constrained`, calls may
 * start earlier but must be the same calls.
 */
#include "chat/parse_replay.h"
#include "support/random.h"
#include "support/scale.h"

#include <stdio.h>
#include <stdlib.h>

/* The tools that the corpus calls. */
static const char tools_text[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"get_weather\",\"parameters\":{\"type\":"
    "\"object\","
    "\"properties\":{\"city\":{\"type\":\"string\"},\"days\":{\"type\":\"integer\"}},\"required\":["
    "\"city\"]}}},"
    "{\"type\":\"function\",\"function\":{\"name\":\"now\"}},"
    "{\"name\":\"exec_command\",\"parameters\":{\"properties\":{\"cmd\":{\"type\":\"string\"}}}},"
    "{\"type\":\"function\",\"function\":{\"name\":\"write_file\",\"parameters\":{\"properties\":{"
    "\"path\":"
    "{\"type\":\"string\"},\"content\":{\"type\":\"string\"}},\"required\":[\"path\",\"content\"]}}"
    "},"
    "{\"type\":\"function\",\"function\":{\"name\":\"typed\",\"parameters\":{\"properties\":{"
    "\"s\":{\"type\":\"string\"},\"i\":{\"type\":\"integer\"},\"n\":{\"type\":\"number\"},"
    "\"b\":{\"type\":\"boolean\"},\"o\":{\"type\":\"object\"},\"a\":{\"type\":\"array\"},"
    "\"z\":{\"type\":\"null\"},\"sz\":{\"type\":[\"string\",\"null\"]},"
    "\"is\":{\"type\":[\"integer\",\"string\"]},"
    "\"any\":{\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"string\"}]},"
    "\"ref\":{\"$ref\":\"#/$defs/point\"},\"e\":{\"enum\":[1,2]},\"es\":{\"enum\":[\"1\",\"2\"]},"
    "\"u\":{\"description\":\"anything\"},\"int\":{\"type\":\"int\"}},"
    "\"$defs\":{\"point\":{\"properties\":{\"x\":{}}}}}}}]";

typedef struct corpus {
    const mote_model *model;
    chat_template template;
    const json_node *tools[8];
    size_t n_tools;
    replay r;
    strbuf expected;
    char *bytes; /* of {"hex": ...} */
    int n_replays, n_faults;
} corpus;

static str from_hex(corpus *c, str hex)
{
    c->bytes = realloc(c->bytes, hex.n / 2 + 1);
    for (size_t i = 0; i + 1 < hex.n; i += 2) {
        const char two[3] = {hex.p[i], hex.p[i + 1], 0};
        c->bytes[i / 2] = (char)strtol(two, NULL, 16);
    }
    return (str){c->bytes, hex.n / 2};
}

static void read_output(corpus *c, const json_node *output)
{
    for (const json_node *one = json_node_first(output); one != NULL; one = json_node_next(one)) {
        const json_node *plain = json_node_get(one, "plain"), *hex = json_node_get(one, "hex");
        if (plain != NULL)
            replay_add_bytes(&c->r, json_node_text(plain));
        else if (hex != NULL)
            replay_add_bytes(&c->r, from_hex(c, json_node_text(hex)));
        else
            replay_add_text(&c->r, json_node_text(one));
    }
}

static void read_expected(corpus *c, const json_node *events)
{
    c->expected.n = 0;
    for (const json_node *one = json_node_first(events); one != NULL; one = json_node_next(one)) {
        const json_node *kind = json_node_first(one);
        strbuf_put(&c->expected, json_node_text(kind));
        strbuf_byte(&c->expected, ' ');
        json_put_escaped(&c->expected, json_node_text(json_node_next(kind)));
        strbuf_byte(&c->expected, '\n');
    }
}

static bool replay_once(corpus *c, const char *name, const char *how, const bool *cuts)
{
    replay *r = &c->r;
    replay_run(r, cuts);
    c->n_replays++;
    const bool same = str_eq(strbuf_view(&r->log), strbuf_view(&c->expected));
    if (same && r->fault == NULL)
        return true;
    c->n_faults++;
    printf("%s, %s: %s\n-- got\n%.*s-- expected\n%.*s\n", name, how,
           r->fault != NULL ? r->fault : "other events", (int)r->log.n, r->log.p,
           (int)c->expected.n, c->expected.p);
    return false;
}

static bool replay_early(corpus *c, const char *name, const bool *cuts)
{
    replay *r = &c->r;
    strbuf want = {0}, got = {0};
    r->constrained = false;
    replay_run(r, cuts);
    const bool differs = replay_may_differ(r, strbuf_view(&r->log));
    replay_outcome(r, &want);
    r->constrained = true;
    replay_run(r, cuts);
    replay_outcome(r, &got);
    c->n_replays++;
    const bool same = (differs || str_eq(strbuf_view(&want), strbuf_view(&got))) && !r->fault;
    if (!same)
        printf("%s, constrained: %s\n-- got\n%.*s-- expected\n%.*s\n", name,
               r->fault != NULL ? r->fault : "other calls", (int)got.n, got.p, (int)want.n, want.p);
    c->n_faults += !same;
    strbuf_fini(&want);
    strbuf_fini(&got);
    r->constrained = false;
    return same;
}

static bool replay_all(corpus *c, const char *name, bool *cuts, size_t n)
{
    test_random random = {n};
    if (!replay_once(c, name, "cut by the tokenizer", NULL))
        return false;
    for (size_t i = 1; i < n; i++) {
        cuts[i] = true;
        if (!replay_once(c, name, "cut once", cuts))
            return false;
        cuts[i] = false;
    }
    for (uint32_t i = 0; i < test_scaled(20, 1); i++) {
        const uint64_t one_in = 2 + test_random_below(&random, 8);
        for (size_t k = 0; k < n; k++)
            cuts[k] = test_random_below(&random, one_in) == 0;
        if (!replay_once(c, name, "cut at random", cuts))
            return false;
    }
    memset(cuts, true, n);
    return replay_once(c, name, "byte by byte", cuts) && replay_early(c, name, cuts) &&
           replay_early(c, name, NULL);
}

static void check_case(const json_node *line, void *with)
{
    corpus *c = with;
    replay_init(&c->r, c->model, &c->template);
    c->r.thinking = json_node_truth(json_node_get(line, "thinking"));
    c->r.cut = json_node_truth(json_node_get(line, "cut"));
    c->r.tools = c->tools;
    c->r.n_tools = strcmp(rig_text(line, "tools"), "none") == 0 ? 0 : c->n_tools;
    read_output(c, json_node_get(line, "output"));
    read_expected(c, json_node_get(line, "events"));
    bool *cuts = calloc(c->r.bytes + 1, 1);
    if (rig_text(line, "source") == NULL || cuts == NULL)
        c->n_faults++;
    else
        replay_all(c, rig_text(line, "name"), cuts, c->r.bytes);
    free(cuts);
    replay_fini(&c->r);
}

int main(void)
{
    rig_vocabulary *v = rig_vocabulary_open();
    json_doc *doc = rig_json(tools_text);
    corpus c = {.model = rig_vocabulary_model(v)};
    if (chat_template_tags(&c.template, c.model, NULL) != MOTE_OK)
        return 1;
    for (const json_node *tool = json_node_first(json_doc_root(doc)); tool != NULL;
         tool = json_node_next(tool))
        c.tools[c.n_tools++] = tool;
    const int n = rig_each_line("tests/data/chat/malformed.jsonl", check_case, &c);
    printf("%d outputs, %d replays, %d faults\n", n, c.n_replays, c.n_faults);
    strbuf_fini(&c.expected);
    free(c.bytes);
    json_doc_free(doc);
    rig_vocabulary_close(v);
    return n >= 150 && c.n_faults == 0 ? 0 : 1;
}
