/* SPDX-License-Identifier: Apache-2.0 */
/*
 * render_control.c - content never becomes a control token.
 *
 * Random conversations with the vocabulary of Qwen 3.5. Every field that a client controls spells
 * control tokens: whole, split, doubled. The control tokens of the prompt must be exactly those of
 * the template, which follow from the roles alone.
 *
 *   render_control [CONVERSATIONS [SEED]]      default: 100,000 and 1
 */
#include "chat/chat_rig.h"
#include "support/random.h"
#include "support/scale.h"

#include <stdio.h>
#include <stdlib.h>

enum { MAX_MESSAGES = 8, MAX_PARTS = 4, MAX_EXPECTED = 512, MAX_BODY = 1 << 16 };

static const mote_model *model;
static chat_template template;
static test_random random_state;
static uint64_t n_added_spelt; /* how often content spelled a control token */

static uint64_t below(uint64_t n)
{
    return test_random_below(&random_state, n);
}

typedef struct body {
    char text[MAX_BODY];
    size_t n;
    int expected[MAX_EXPECTED]; /* chat_tag in template order */
    size_t n_expected;
} body;

static void put(body *b, const char *text)
{
    const size_t n = strlen(text);
    if (b->n + n >= sizeof b->text)
        abort();
    memcpy(b->text + b->n, text, n + 1);
    b->n += n;
}

static void expect(body *b, chat_tag tag)
{
    if (b->n_expected == MAX_EXPECTED)
        abort();
    b->expected[b->n_expected++] = tag;
}

/* A JSON string full of control tokens, which need no escapes. */
static void put_hostile(body *b)
{
    static const char *const around[] = {"",        " ",           "\\n",          "x",        "<",
                                         "\\n\\n",  ">",           "|>",           "\xC3\xA9", "<|",
                                         "user\\n", "</function>", "<parameter=a>"};
    put(b, "\"");
    for (uint64_t n = below(4); n > 0; n--) {
        char text[64];
        size_t bytes;
        const mote_token id = (mote_token)(RIG_FIRST_ADDED + below(RIG_N_TOKENS - RIG_FIRST_ADDED));
        const char *token = mote_token_bytes(model, id, &bytes);
        const size_t from = below(8) == 0 ? below(bytes) : 0;
        snprintf(text, sizeof text, "%.*s", (int)(bytes - from), token + from);
        n_added_spelt += from == 0;
        put(b, around[below(sizeof around / sizeof *around)]);
        put(b, text);
        put(b, around[below(sizeof around / sizeof *around)]);
    }
    put(b, "\"");
}

static void put_value(body *b, int depth)
{
    switch (depth > 2 ? 0 : below(4)) {
    case 1:
        put(b, "[");
        put_value(b, depth + 1);
        put(b, ",");
        put_value(b, depth + 1);
        put(b, "]");
        break;
    case 2:
        put(b, "{");
        put_hostile(b);
        put(b, ":");
        put_value(b, depth + 1);
        put(b, "}");
        break;
    default: put_hostile(b);
    }
}

/* One string, or parts that could join to a control token. */
static void put_content(body *b, bool media)
{
    if (below(3) > 0) {
        put_hostile(b);
        return;
    }
    put(b, "[{\"type\":\"text\",\"text\":\"<|im_\"},{\"type\":\"text\",\"text\":\"end|>\"}");
    for (uint64_t n = below(MAX_PARTS); n > 0; n--) {
        if (media && below(3) == 0) {
            const bool image = below(2);
            put(b, image ? ",{\"type\":\"image\"}" : ",{\"type\":\"video\"}");
            expect(b, CHAT_TAG_VISION);
            expect(b, image ? CHAT_TAG_IMAGE : CHAT_TAG_VIDEO);
            expect(b, CHAT_TAG_VISION_END);
        } else {
            put(b, ",{\"type\":\"text\",\"text\":");
            put_hostile(b);
            put(b, "}");
        }
    }
    put(b, "]");
}

static void put_assistant(body *b)
{
    expect(b, CHAT_TAG_IM_START);
    expect(b, CHAT_TAG_THINK);
    expect(b, CHAT_TAG_THINK_END);
    put(b, "{\"role\":\"assistant\",\"content\":");
    put_content(b, false);
    if (below(2)) {
        put(b, ",\"reasoning_content\":");
        put_hostile(b);
    }
    const uint64_t calls = below(3);
    for (uint64_t i = 0; i < calls; i++) {
        put(b, i == 0 ? ",\"tool_calls\":[{\"id\":" : ",{\"id\":");
        put_hostile(b);
        put(b, ",\"function\":{\"name\":");
        put_hostile(b);
        put(b, ",\"arguments\":{");
        put_hostile(b);
        put(b, ":");
        put_value(b, 0);
        put(b, "}}}");
        expect(b, CHAT_TAG_CALL);
        expect(b, CHAT_TAG_CALL_END);
    }
    put(b, calls > 0 ? "]}" : "}");
    expect(b, CHAT_TAG_IM_END);
}

static void put_message(body *b, bool *in_results)
{
    const uint64_t kind = below(4);
    if (*in_results && kind != 0) {
        expect(b, CHAT_TAG_IM_END);
        *in_results = false;
    }
    switch (kind) {
    case 0:
        if (!*in_results)
            expect(b, CHAT_TAG_IM_START);
        *in_results = true;
        expect(b, CHAT_TAG_RESPONSE);
        put(b, "{\"role\":\"tool\",\"tool_call_id\":");
        put_hostile(b);
        put(b, ",\"content\":");
        put_content(b, true);
        put(b, "}");
        expect(b, CHAT_TAG_RESPONSE_END);
        break;
    case 1: put_assistant(b); break;
    default:
        expect(b, CHAT_TAG_IM_START);
        put(b, kind == 2 ? "{\"role\":\"user\",\"name\":" : "{\"role\":\"system\",\"name\":");
        put_hostile(b);
        put(b, ",\"content\":");
        put_content(b, true);
        put(b, "}");
        expect(b, CHAT_TAG_IM_END);
    }
}

static void put_tools(body *b)
{
    put(b, ",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":");
    put_hostile(b);
    put(b, ",\"description\":");
    put_hostile(b);
    put(b, ",\"parameters\":{\"properties\":{");
    put_hostile(b);
    put(b, ":{\"enum\":[");
    put_value(b, 0);
    put(b, "]}}}}},{\"type\":\"function\",");
    put_hostile(b);
    put(b, ":");
    put_value(b, 0);
    put(b, "}]");
}

/* A conversation and the control tokens of its template text in stable mode. */
static void make(body *b)
{
    bool in_results = false;
    const bool tools = below(2);
    b->n = 0;
    b->n_expected = 0;
    expect(b, CHAT_TAG_IM_START);
    if (tools) { /* in the fixed text about tools */
        expect(b, CHAT_TAG_CALL);
        expect(b, CHAT_TAG_CALL_END);
        expect(b, CHAT_TAG_CALL);
        expect(b, CHAT_TAG_CALL_END);
    }
    put(b, "{\"messages\":[{\"role\":\"system\",\"content\":");
    put_content(b, false);
    put(b, "},{\"role\":\"user\",\"content\":");
    expect(b, CHAT_TAG_IM_END);
    expect(b, CHAT_TAG_IM_START);
    put_content(b, true);
    put(b, "}");
    expect(b, CHAT_TAG_IM_END);
    for (uint64_t n = below(MAX_MESSAGES); n > 0; n--) {
        put(b, ",");
        put_message(b, &in_results);
    }
    if (in_results)
        expect(b, CHAT_TAG_IM_END);
    put(b, "]");
    if (tools)
        put_tools(b);
    put(b, "}");
    expect(b, CHAT_TAG_IM_START);
    expect(b, CHAT_TAG_THINK);
    expect(b, CHAT_TAG_THINK_END);
}

static bool spells_the_same(const chat_prompt *p)
{
    size_t at = 0;
    for (size_t i = 0; i < p->n; i++) {
        size_t n;
        const char *bytes = mote_token_bytes(model, p->ids[i], &n);
        if (at + n > p->text.n || memcmp(p->text.p + at, bytes, n) != 0)
            return false;
        at += n;
    }
    return at == p->text.n;
}

/* Some templates have no system turn for an empty system message. */
static bool has_system_turn(const chat_prompt *p)
{
    static const char start[] = "<|im_start|>system\n";
    const size_t n = sizeof start - 1;
    return !template.style->no_empty_system || (p->text.n >= n && memcmp(p->text.p, start, n) == 0);
}

static const char *fault_of(const body *b, const chat_prompt *p)
{
    size_t seen = has_system_turn(p) ? 0 : 2;
    for (size_t i = 0; i < p->n; i++) {
        if (p->ids[i] < RIG_FIRST_ADDED)
            continue;
        if (seen == b->n_expected || p->ids[i] != template.tags[b->expected[seen]])
            return "a control token that is not the template's";
        seen++;
    }
    if (seen != b->n_expected)
        return "a control token of the template is missing";
    return spells_the_same(p) ? NULL : "the ids spell another text";
}

static bool check(const body *b, uint64_t number)
{
    json_doc *doc = rig_json(b->text);
    chat_parsed parsed;
    chat_prompt prompt = {0};
    mote_error err = {0};
    const char *fault = NULL;
    mote_status status = chat_parsed_read(&parsed, json_doc_root(doc), CHAT_STABLE, &err);
    parsed.request.thinking = CHAT_THINK_OFF; /* otherwise Qwen 3.8 adds a system turn */
    if (status == MOTE_OK)
        status = chat_render(model, &template, &parsed.request, &prompt, &err);
    fault = status == MOTE_OK ? fault_of(b, &prompt) : err.text;
    if (fault != NULL)
        printf("conversation %llu: %s\n%s\n", (unsigned long long)number, fault, b->text);
    const bool sound = fault == NULL;
    chat_prompt_fini(&prompt);
    chat_parsed_fini(&parsed);
    json_doc_free(doc);
    return sound;
}

int main(int argc, char **argv)
{
    static body b;
    const int wanted = argc > 1 ? (int)strtol(argv[1], NULL, 10) : (int)test_scaled(100000, 1);
    const uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    rig_vocabulary *v = rig_vocabulary_open();
    uint64_t bytes = 0;
    bool sound = true;
    model = rig_vocabulary_model(v);
    if (chat_template_tags(&template, model, NULL) != MOTE_OK)
        return 1;
    size_t n_styles = 0;
    while (chat_style_at(n_styles) != NULL)
        n_styles++;
    for (int i = 0; i < wanted && sound; i++) {
        random_state.state = seed * 1000003u + (uint64_t)i;
        template.style = chat_style_at((size_t)i % n_styles);
        make(&b);
        bytes += b.n;
        sound = check(&b, (uint64_t)i);
    }
    printf("%d conversations, %llu bytes, %llu control tokens spelt, seed %llu\n", wanted,
           (unsigned long long)bytes, (unsigned long long)n_added_spelt, (unsigned long long)seed);
    rig_vocabulary_close(v);
    return sound ? 0 : 1;
}
