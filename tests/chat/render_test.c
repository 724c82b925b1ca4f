/* SPDX-License-Identifier: Apache-2.0 */
/*
 * render_test.c - stable mode, marks, limits, template recognition, failing allocations.
 * render_golden.c tests official mode.
 */
#include "base/mem.h"
#include "chat/chat_rig.h"
#include "chat/prompt/chat_limits.h"
#include "support/data.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static mote_model *model;
static chat_template template;

typedef struct rendering {
    json_doc *doc;
    chat_parsed parsed;
    chat_prompt prompt;
} rendering;

static rendering render(const char *body, chat_mode mode)
{
    rendering r = {.doc = rig_json(body)};
    mote_error err = {0};
    if (chat_parsed_read(&r.parsed, json_doc_root(r.doc), mode, &err) != MOTE_OK ||
        chat_render(model, &template, &r.parsed.request, &r.prompt, &err) != MOTE_OK)
        fail_msg("%s: %s", body, err.text);
    return r;
}

static void drop(rendering *r)
{
    chat_prompt_fini(&r->prompt);
    chat_parsed_fini(&r->parsed);
    json_doc_free(r->doc);
}

static void gives(const char *body, const char *text)
{
    rendering r = render(body, CHAT_STABLE);
    strbuf_byte(&r.prompt.text, 0);
    assert_string_equal(r.prompt.text.p, text);
    drop(&r);
}

static void refuses(const char *body, chat_mode mode, const char *why)
{
    json_doc *doc = rig_json(body);
    chat_parsed parsed;
    chat_prompt prompt = {0};
    mote_error err = {0};
    mote_status status = chat_parsed_read(&parsed, json_doc_root(doc), mode, &err);
    if (status == MOTE_OK)
        status = chat_render(model, &template, &parsed.request, &prompt, &err);
    assert_int_equal(status, MOTE_E_ARG);
    assert_null(prompt.ids);
    if (strstr(err.text, why) == NULL)
        fail_msg("%s: \"%s\" does not say \"%s\"", body, err.text, why);
    chat_parsed_fini(&parsed);
    json_doc_free(doc);
}

#define PROMPT           "<|im_start|>assistant\n<think>\n\n</think>\n\n"
#define TURN(role, text) "<|im_start|>" role "\n" text "<|im_end|>\n"

static void stable_mode_accepts_client_habits(void **state)
{
    (void)state;
    gives("{\"messages\":[{\"role\":\"system\",\"content\":\"a\"},{\"role\":\"developer\","
          "\"content\":\"\"},"
          "{\"role\":\"Developer\",\"content\":\" b \"},{\"role\":\"USER\",\"content\":\"q\"},"
          "{\"role\":\"system\",\"content\":\"later\"}]}",
          TURN("system", "a\n\nb") TURN("user", "q") TURN("system", "later") PROMPT);
    gives("{\"messages\":[{\"role\":\"system\",\"content\":\"s\"}]}", TURN("system", "s") PROMPT);
    gives("{\"messages\":[{\"role\":\"function\",\"content\":\"1\"},{\"role\":\"tool\",\"content\":"
          "\"2\"}]}",
          TURN("user", "<tool_response>\n1\n</tool_response>\n<tool_response>\n2\n</tool_response>")
              PROMPT);
    gives(
        "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"refusal\",\"refusal\":\"no\"},"
        "{\"type\":\"input_text\",\"text\":\"!\"}]}],\"tools\":[{\"type\":\"web_search\"}]}",
        TURN("user", "no!") PROMPT);
    gives(
        "{\"messages\":[{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"assistant\",\"tool_"
        "calls\":"
        "[{\"id\":\"c\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"a\\\": [1.50, true]}\"}},"
        "{\"function\":{\"name\":\"g\",\"arguments\":\"\"}},{\"function\":{\"name\":\"h\","
        "\"arguments\":null}}]}]}",
        TURN("user", "q")
            TURN("assistant", "<think>\n\n</think>\n\n<tool_call>\n<function=f>\n<parameter=a>\n"
                              "[1.5, true]\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n"
                              "<function=g>\n</function>\n</tool_call>\n<tool_call>\n"
                              "<function=h>\n</function>\n</tool_call>") PROMPT);
}

static void a_refusal_without_content_is_text(void **state)
{
    (void)state;
    gives("{\"messages\":[{\"role\":\"assistant\",\"content\":null,\"refusal\":\"No.\"},"
          "{\"role\":\"assistant\",\"content\":\"Yes.\",\"refusal\":\"No.\"},"
          "{\"role\":\"user\",\"content\":\"q\",\"refusal\":null}]}",
          TURN("assistant", "<think>\n\n</think>\n\nNo.")
              TURN("assistant", "<think>\n\n</think>\n\nYes.") TURN("user", "q") PROMPT);
}

static void arguments_without_an_object_stay_text(void **state)
{
    (void)state;
    gives("{\"messages\":[{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"assistant\",\"tool_"
          "calls\":[{\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"a\\\": tru\"}},"
          "{\"function\":{\"name\":\"g\",\"arguments\":\"[1]\"}},"
          "{\"function\":{\"name\":\"h\",\"arguments\":\"null\"}}]}]}",
          TURN("user", "q")
              TURN("assistant", "<think>\n\n</think>\n\n<tool_call>\n<function=f>\n"
                                "<parameter=arguments>\n{\"a\": tru\n</parameter>\n</function>\n"
                                "</tool_call>\n<tool_call>\n<function=g>\n<parameter=arguments>\n"
                                "[1]\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n"
                                "<function=h>\n</function>\n</tool_call>") PROMPT);
}

static void stable_mode_keeps_thinking(void **state)
{
    (void)state;
    gives("{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\","
          "\"content\":\"b\","
          "\"reasoning\":\" r \"},{\"role\":\"user\",\"content\":\"c\"},{\"role\":\"assistant\","
          "\"content\":\"d\"},{\"role\":\"user\",\"content\":\"e\"}],\"enable_thinking\":true}",
          TURN("user", "a") TURN("assistant", "<think>\nr\n</think>\n\nb") TURN("user", "c")
              TURN("assistant", "<think>\n\n</think>\n\nd")
                  TURN("user", "e") "<|im_start|>assistant\n<think>\n");
}

static void settings_are_read(void **state)
{
    (void)state;
    gives("{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"enable_thinking\":false,"
          "\"chat_template_kwargs\":{\"enable_thinking\":true}}",
          TURN("user", "a") "<|im_start|>assistant\n<think>\n");
    gives("{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image\"},{\"type\":\"video\"}"
          "]}],"
          "\"chat_template_kwargs\":{\"add_vision_id\":true,\"add_generation_prompt\":false}}",
          TURN("user", "Picture 1: <|vision_start|><|image_pad|><|vision_end|>"
                       "Video 1: <|vision_start|><|video_pad|><|vision_end|>"));
}

/* Every prompt starts with all tokens of the previous prompt and its answer. */
static void a_turn_keeps_its_tokens(void **state)
{
    (void)state;
    static const char *const answers[] = {" odd\n\n\n</think>\n\n  spaces kept \n",
                                          "x\n</think>\n\n<tool_call>\n<function=f>\n</function>",
                                          "</think>"};
    enum { N = 3 };
    chat_message messages[2 * N + 1] = {{0}};
    chat_part question = {.kind = CHAT_PART_TEXT, .text = str_of("What now?")};
    mote_token before[4096], turns[N][256];
    size_t n_before = 0;
    for (size_t i = 0; i <= N; i++) {
        messages[2 * i] = (chat_message){.role = CHAT_ROLE_USER, .parts = &question, .n_parts = 1};
        chat_request q = {.messages = messages, .n_messages = 2 * i + 1, .thinking = CHAT_THINK_ON};
        chat_prompt prompt;
        assert_int_equal(chat_render(model, &template, &q, &prompt, NULL), MOTE_OK);
        assert_true(prompt.thinking);
        assert_true(prompt.n >= n_before);
        assert_memory_equal(prompt.ids, before, n_before * sizeof *before);
        if (i == N) {
            chat_prompt_fini(&prompt);
            break;
        }
        /* The turn is what follows "<|im_start|>assistant\n": the end of the prompt and the answer.
         */
        size_t start = prompt.n, n;
        while (prompt.ids[start - 1] != template.tags[CHAT_TAG_THINK])
            start--;
        start--;
        memcpy(turns[i], prompt.ids + start, (prompt.n - start) * sizeof *before);
        assert_int_equal(mote_tokenize(model, answers[i], strlen(answers[i]), MOTE_TEXT_CONTROL,
                                       turns[i] + (prompt.n - start), 200, &n, NULL),
                         MOTE_OK);
        messages[2 * i + 1] = (chat_message){
            .role = CHAT_ROLE_ASSISTANT, .tokens = turns[i], .n_tokens = prompt.n - start + n};
        memcpy(before, prompt.ids, prompt.n * sizeof *before);
        memcpy(before + prompt.n, turns[i] + (prompt.n - start), n * sizeof *before);
        n_before = prompt.n + n;
        before[n_before++] = template.tags[CHAT_TAG_IM_END];
        chat_prompt_fini(&prompt);
    }
}

static void the_last_message_can_be_continued(void **state)
{
    (void)state;
    rendering r =
        render("{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\","
               "\"content\":\"The answer is\"}]}",
               CHAT_STABLE);
    chat_prompt open;
    r.parsed.request.continue_last = true;
    assert_int_equal(chat_render(model, &template, &r.parsed.request, &open, NULL), MOTE_OK);
    strbuf_byte(&open.text, 0);
    assert_string_equal(open.text.p, TURN("user", "a") PROMPT "The answer is");
    assert_false(open.thinking);
    chat_prompt_fini(&open);
    r.parsed.request.n_messages = 1;
    assert_int_equal(chat_render(model, &template, &r.parsed.request, &open, NULL), MOTE_E_ARG);
    drop(&r);
}

static size_t mark_of(const chat_prompt *p, chat_mark_kind kind, uint32_t index)
{
    for (size_t i = 0; i < p->n_marks; i++)
        if (p->marks[i].kind == kind && p->marks[i].index == index)
            return p->marks[i].position;
    fail_msg("no mark of kind %d for %u", kind, index);
    return 0;
}

#define TOOLS ",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{}}}]"

static void same_up_to(const rendering *a, const rendering *b, chat_mark_kind kind, uint32_t index)
{
    const size_t n = mark_of(&a->prompt, kind, index);
    assert_int_equal(n, mark_of(&b->prompt, kind, index));
    assert_true(n > 0);
    assert_memory_equal(a->prompt.ids, b->prompt.ids, n * sizeof *a->prompt.ids);
}

static void marks_are_shared_prefixes(void **state)
{
    (void)state;
    static const char *const bodies[] = {
        "{\"messages\":[{\"role\":\"system\",\"content\":\"One.\"},{\"role\":\"user\",\"content\":"
        "\"a\"}]" TOOLS "}",
        "{\"messages\":[{\"role\":\"user\",\"content\":\"b\"}]" TOOLS "}",
        "{\"messages\":[{\"role\":\"system\",\"content\":\"One.\"},{\"role\":\"user\",\"content\":"
        "\"zz\"},"
        "{\"role\":\"assistant\",\"content\":\"yy\"},{\"role\":\"tool\",\"content\":\"1\"},{"
        "\"role\":"
        "\"tool\",\"content\":\"2\"}]" TOOLS "}",
        "{\"messages\":[{\"role\":\"system\",\"content\":\"One.\"},{\"role\":\"user\",\"content\":"
        "\"zz\"},"
        "{\"role\":\"assistant\",\"content\":\"yy\"},{\"role\":\"tool\",\"content\":\"1\"},{"
        "\"role\":"
        "\"user\",\"content\":[{\"type\":\"text\",\"text\":\"x\"},{\"type\":\"image\"}]}]" TOOLS
        "}"};
    rendering r[4];
    for (int i = 0; i < 4; i++)
        r[i] = render(bodies[i], CHAT_STABLE);
    for (int i = 1; i < 4; i++)
        same_up_to(&r[0], &r[i], CHAT_MARK_TOOLS, 0);
    same_up_to(&r[0], &r[2], CHAT_MARK_SYSTEM, 0);
    for (uint32_t i = 1; i < 3; i++)
        same_up_to(&r[2], &r[3], CHAT_MARK_MESSAGE, i);
    /* In a turn with several tool results, each has a mark. */
    const chat_prompt *p = &r[2].prompt;
    assert_int_equal(p->ids[mark_of(p, CHAT_MARK_MESSAGE, 3) - 1],
                     template.tags[CHAT_TAG_RESPONSE_END]);
    assert_int_equal(mark_of(p, CHAT_MARK_PROMPT, 0), mark_of(p, CHAT_MARK_MESSAGE, 4));
    assert_int_equal(p->ids[mark_of(p, CHAT_MARK_PROMPT, 0)], template.tags[CHAT_TAG_IM_START]);
    p = &r[3].prompt;
    assert_int_equal(p->ids[mark_of(p, CHAT_MARK_IMAGE, 0)], template.tags[CHAT_TAG_IMAGE]);
    for (int i = 0; i < 4; i++)
        drop(&r[i]);
}

/* The mark before a volatile line: two sessions share the tokens before it, and it changes no token.
 */
static void volatile_lines_are_marked(void **state)
{
    (void)state;
    static const struct {
        const char *before, *a, *b;
    } lines[] = {
        {"You are an agent.\\n\\n<env>\\n", "Working directory: /srv/a\\nPlatform: linux",
         "Working directory: /srv/b\\nPlatform: linux"},
        {"You are an agent.\\n", "  - Current date: 2026-11-17", "  - Current date: 2026-11-18"},
        {"You are an agent.\\n\\n", "# Current Time\\n10:01", "# Current Time\\n10:02"},
        {"<environment_context>\\n", "  <cwd>/a</cwd>", "  <cwd>/b</cwd>"},
        {"Rules.\\r\\n\\r\\n", "Today's date is Monday.", "Today's date is Tuesday."},
        {"Rules\\n   \\n\\t", "I'm currently working in the directory: /a",
         "I'm currently working in the directory: /b"},
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        for (int user = 0; user < 2; user++) {
            rendering r[2];
            for (int k = 0; k < 2; k++) {
                char body[512];
                snprintf(body, sizeof body,
                         "{\"messages\":[{\"role\":\"%s\",\"content\":\"%s%s\"},{\"role\":\"user\","
                         "\"content\":\"x\\nDate: now\"}]" TOOLS "}",
                         user ? "user" : "system", lines[i].before, k ? lines[i].b : lines[i].a);
                r[k] = render(body, CHAT_STABLE);
                const chat_prompt *p = &r[k].prompt;
                mote_token ids[512];
                size_t n;
                assert_int_equal(mote_tokenize(model, p->text.p, p->text.n, MOTE_TEXT_CONTROL, ids,
                                               512, &n, NULL),
                                 MOTE_OK);
                assert_int_equal(n, p->n);
                assert_memory_equal(ids, p->ids, n * sizeof *ids);
                size_t marks = 0;
                for (size_t m = 0; m < p->n_marks; m++)
                    marks += p->marks[m].kind == CHAT_MARK_VOLATILE;
                assert_int_equal(marks, user ? 1 : 2); /* of the user's messages the first one */
            }
            same_up_to(&r[0], &r[1], CHAT_MARK_VOLATILE, 0);
            const size_t at = mark_of(&r[0].prompt, CHAT_MARK_VOLATILE, 0);
            size_t same = 0;
            while (r[0].prompt.ids[same] == r[1].prompt.ids[same])
                same++;
            assert_true(same >= at && same <= at + 24);
            for (int k = 0; k < 2; k++)
                drop(&r[k]);
        }
    /* no such line: the words inside a line, in its first line, and other words */
    rendering r =
        render("{\"messages\":[{\"role\":\"system\",\"content\":\"Date: x\\nThe date: y\\n"
               "Dates: z\\nThe working directory: z\"},{\"role\":\"user\",\"content\":\"x\"}]}",
               CHAT_STABLE);
    for (size_t m = 0; m < r.prompt.n_marks; m++)
        assert_int_not_equal(r.prompt.marks[m].kind, CHAT_MARK_VOLATILE);
    drop(&r);
}

static void invalid_conversations_are_rejected(void **state)
{
    (void)state;
    refuses("{}", CHAT_STABLE, "No messages provided.");
    refuses("{\"messages\":{\"role\":\"user\"}}", CHAT_STABLE, "No messages provided.");
    refuses("{\"messages\":[5]}", CHAT_STABLE, "messages[0]: must be an object");
    refuses("{\"messages\":[{\"content\":\"x\"}]}", CHAT_STABLE, "Unexpected message role.");
    refuses("{\"messages\":[{\"role\":\"user\",\"content\":[{\"text\":5}]}]}", CHAT_OFFICIAL,
            "messages[0]: text of a content part");
    refuses("{\"messages\":[{\"role\":\"user\",\"content\":[\"a\"]}]}", CHAT_OFFICIAL,
            "Unexpected item type");
    refuses("{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{\"name\":\"f\","
            "\"arguments\":[1]}}]}]}",
            CHAT_STABLE, "messages[0]: the arguments of tool call f must be an object");
    refuses(
        "{\"messages\":[{\"role\":\"user\"},{\"role\":\"assistant\",\"tool_calls\":[{\"function\":"
        "{\"name\":\"f\",\"arguments\":\"{\"}}]}]}",
        CHAT_OFFICIAL, "messages[1]: the arguments of tool call f must be an object");
    refuses("{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{}]}]}", CHAT_STABLE,
            "needs a name");
    refuses("{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"tools\":\"x\"}", CHAT_STABLE,
            "tools must be an array");
}

/* `before`, then n times `each` with commas, then `after` */
static char *repeated(const char *before, const char *each, size_t n, const char *after)
{
    char *text = malloc(strlen(before) + n * (strlen(each) + 1) + strlen(after) + 1), *at = text;
    assert_non_null(text);
    at += sprintf(at, "%s", before);
    for (size_t i = 0; i < n; i++)
        at += sprintf(at, "%s%s", i > 0 ? "," : "", each);
    sprintf(at, "%s", after);
    return text;
}

static void limits_hold(void **state)
{
    (void)state;
    static const struct {
        const char *before, *each, *after, *why;
        size_t limit;
    } cases[] = {
        {"{\"messages\":[", "{\"role\":\"user\",\"content\":\"a\"}", "]}", "messages; at most",
         CHAT_MAX_MESSAGES},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"tools\":[", "{}", "]}",
         "tools; at most", CHAT_MAX_TOOLS},
        {"{\"messages\":[{\"role\":\"user\",\"content\":[", "{\"text\":\"a\"}", "]}]}",
         "content parts; at most", CHAT_MAX_PARTS},
        {"{\"messages\":[{\"role\":\"user\",\"content\":[", "{\"type\":\"image\"}", "]}]}",
         "images and videos", CHAT_MAX_IMAGES},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"tool_"
         "calls\":[",
         "{\"name\":\"f\"}", "]}]}", "tool calls; at most", CHAT_MAX_CALLS},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *text = repeated(cases[i].before, cases[i].each, cases[i].limit, cases[i].after);
        rendering r = render(text, CHAT_OFFICIAL);
        drop(&r);
        free(text);
        text = repeated(cases[i].before, cases[i].each, cases[i].limit + 1, cases[i].after);
        refuses(text, CHAT_OFFICIAL, cases[i].why);
        free(text);
    }
}

static chat_template recognise(const char *text, size_t bytes, uint64_t parameters)
{
    chat_template t;
    chat_template_recognise(&t, (str){text, bytes}, parameters);
    return t;
}

/* The files of all templates and the rows that implement them. */
static const struct {
    const char *file, *name;
} known_templates[] = {
    {"Qwen3.5-0.8B-2B.jinja", "qwen3.5-small"},   {"Qwen3.5-4B.llama.cpp.jinja", "qwen3.5"},
    {"Qwen3.5.unsloth.jinja", "qwen3.5-unsloth"}, {"Qwen3.6.jinja", "qwen3.6"},
    {"Qwen3.6.unsloth.jinja", "qwen3.6-unsloth"}, {"Qwen3.8.jinja", "qwen3.8"},
    {"Qwen3.8.unsloth.jinja", "qwen3.8-unsloth"},
};
enum { N_KNOWN = sizeof known_templates / sizeof *known_templates };

/* A text with one changed byte is rendered by the row of the original, or of the same version. */
static void a_changed_text_is_reported(char *text, size_t n, const char *name, bool thinks)
{
    char note[MOTE_TEMPLATE_NOTE];
    text[0] = ' ';
    chat_template t = recognise(text, n, 0);
    assert_int_equal(t.origin, CHAT_ORIGIN_CHANGED);
    assert_int_equal(t.thinks, thinks);
    const bool is_35 = strncmp(name, "qwen3.5", 7) == 0;
    assert_string_equal(t.style->name, is_35 ? (thinks ? "qwen3.5" : "qwen3.5-small") : name);
    chat_template_note(&t, note);
    assert_non_null(strstr(note, t.style->name));
    assert_non_null(strstr(note, "--chat-template"));
}

static void the_templates_are_recognised(void **state)
{
    (void)state;
    assert_null(chat_style_at(N_KNOWN));
    for (size_t i = 0; i < N_KNOWN; i++) {
        char path[TEST_PATH], file[64], note[MOTE_TEMPLATE_NOTE] = "x";
        size_t n;
        snprintf(file, sizeof file, "model/templates/%s", known_templates[i].file);
        assert_true(test_data_path(path, file));
        char *text = (char *)test_file_read(path, &n);
        assert_non_null(text);
        chat_template t = recognise(text, n, 0);
        assert_int_equal(t.origin, CHAT_ORIGIN_KNOWN);
        assert_string_equal(t.style->name, known_templates[i].name);
        chat_template_note(&t, note);
        assert_string_equal(note, "");
        text[n] = '\n'; /* overwrites the terminating zero */
        assert_int_equal(recognise(text, n + 1, 0).origin, CHAT_ORIGIN_KNOWN);
        a_changed_text_is_reported(text, n, t.style->name, t.thinks);
        free(text);
    }
    chat_template of_file;
    assert_int_equal(chat_template_of(&of_file, model, NULL), MOTE_OK);
    assert_int_equal(of_file.origin, CHAT_ORIGIN_KNOWN);
}

static void other_templates_are_reported(void **state)
{
    (void)state;
    char note[MOTE_TEMPLATE_NOTE];
    chat_template t = recognise("{{ messages }}", 14, 4000000000u);
    assert_int_equal(t.origin, CHAT_ORIGIN_FOREIGN);
    assert_string_equal(t.style->name, "qwen3.5");
    assert_true(t.thinks);
    chat_template_note(&t, note);
    assert_non_null(strstr(note, "14 bytes"));
    assert_non_null(strstr(note, "unknown to mote; messages are rendered as qwen3.5, thinking on"));
    t = recognise(NULL, 0, 800000000);
    assert_int_equal(t.origin, CHAT_ORIGIN_MISSING);
    assert_string_equal(t.style->name, "qwen3.5-small");
    chat_template_note(&t, note);
    assert_non_null(strstr(note, "has no chat template"));

    mote_error err;
    assert_int_equal(chat_template_choose(&t, "qwen3.7", &err), MOTE_E_ARG);
    assert_non_null(strstr(err.text, "qwen3.6-unsloth"));
    assert_non_null(strstr(err.text, "got 'qwen3.7'"));
    assert_int_equal(chat_template_choose(&t, "auto", &err), MOTE_OK);
    assert_int_equal(t.origin, CHAT_ORIGIN_MISSING);
    assert_int_equal(chat_template_choose(&t, "qwen3.8", &err), MOTE_OK);
    assert_int_equal(t.origin, CHAT_ORIGIN_CHOSEN);
    assert_true(t.thinks);
    chat_template_note(&t, note);
    assert_string_equal(note, "");

    mote_template_info info;
    mote_chat_template(model, &info);
    assert_true(info.known && !info.thinking);
    assert_string_equal(info.name, "qwen3.5-small");
    assert_string_equal(info.note, "");
    assert_string_equal(mote_chat_template_name(0), "qwen3.5-small");
    assert_null(mote_chat_template_name(N_KNOWN));
}

#define TALK                                                                                       \
    "\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\","                 \
    "\"content\":\"<think>r</think>b\"},{\"role\":\"user\",\"content\":\"c\"}]"

#define ASKED(system) system "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n"
#define ENDING        "b<|im_end|>\n<|im_start|>user\nc<|im_end|>\n<|im_start|>assistant\n<think>\n"

/* Stable mode keeps thinking with every template unless the request says no. Reasoning inside the
 * content is split off, also where the template does not. */
static void stable_mode_with_other_templates(void **state)
{
    (void)state;
    const chat_template usual = template;
    static const char low[] =
        "<|im_start|>system\nReasoning effort is set to low. Keep your thinking brief and focused, "
        "moving directly to the conclusion without unnecessary elaboration.<|im_end|>\n";
    char wanted[1024];
    for (size_t i = 0; i < N_KNOWN; i++) {
        assert_int_equal(chat_template_choose(&template, known_templates[i].name, NULL), MOTE_OK);
        const bool effort = template.style->effort != STYLE_EFFORT_NONE;
        snprintf(wanted, sizeof wanted, "%s%s", effort ? low : "",
                 ASKED("") "<think>\nr\n</think>\n\n" ENDING);
        gives("{" TALK ",\"chat_template_kwargs\":{\"enable_thinking\":true,"
              "\"reasoning_effort\":\"low\"}}",
              wanted);
        snprintf(wanted, sizeof wanted, "%s", ASKED("") ENDING);
        gives("{" TALK ",\"preserve_thinking\":false,\"chat_template_kwargs\":{\"enable_thinking\":"
              "true,\"reasoning_effort\":\"medium\"}}",
              wanted);
    }
    template = usual;
}

static void effort_follows_the_budget(void **state)
{
    (void)state;
    static const struct {
        uint32_t budget;
        chat_effort effort;
    } cases[] = {{0, CHAT_EFFORT_AUTO},
                 {1, CHAT_EFFORT_LOW},
                 {MOTE_THINK_LOW, CHAT_EFFORT_LOW},
                 {MOTE_THINK_LOW + 1, CHAT_EFFORT_MEDIUM},
                 {MOTE_THINK_MEDIUM, CHAT_EFFORT_MEDIUM},
                 {MOTE_THINK_HIGH, CHAT_EFFORT_XHIGH},
                 {MOTE_THINK_MAX, CHAT_EFFORT_XHIGH}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(chat_effort_of_budget(cases[i].budget), cases[i].effort);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    json_doc *doc = rig_json(
        "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":"
        "\"assistant\",\"content\":\"t\","
        "\"reasoning_details\":[{\"text\":\"r\"}],\"tool_calls\":[{\"function\":{\"name\":\"f\","
        "\"arguments\":\"{\\\"a\\\":[1]}\"}"
        "}]}]" TOOLS "}");
    const uint64_t blocks = mem_count().blocks;
    mote_status status = MOTE_E_MEMORY;
    for (uint64_t n = 1; status != MOTE_OK; n++) {
        chat_parsed parsed = {0};
        chat_prompt prompt = {0};
        mem_fail_at(n);
        status = chat_parsed_read(&parsed, json_doc_root(doc), CHAT_STABLE, NULL);
        if (status == MOTE_OK)
            status = chat_render(model, &template, &parsed.request, &prompt, NULL);
        assert_true(status == MOTE_OK || status == MOTE_E_MEMORY);
        assert_int_equal(status == MOTE_OK, !mem_failed());
        chat_prompt_fini(&prompt);
        chat_parsed_fini(&parsed);
        assert_int_equal(mem_count().blocks, blocks);
        assert_true(n < 1000);
    }
    mem_fail_at(0);
    json_doc_free(doc);
}

static int setup(void **state)
{
    (void)state;
    mote_error err = {0};
    model = rig_tiny();
    if (chat_template_of(&template, model, &err) != MOTE_OK)
        fail_msg("%s", err.text);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    mote_model_close(model);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stable_mode_accepts_client_habits),
        cmocka_unit_test(a_refusal_without_content_is_text),
        cmocka_unit_test(arguments_without_an_object_stay_text),
        cmocka_unit_test(stable_mode_keeps_thinking),
        cmocka_unit_test(settings_are_read),
        cmocka_unit_test(a_turn_keeps_its_tokens),
        cmocka_unit_test(the_last_message_can_be_continued),
        cmocka_unit_test(marks_are_shared_prefixes),
        cmocka_unit_test(volatile_lines_are_marked),
        cmocka_unit_test(invalid_conversations_are_rejected),
        cmocka_unit_test(limits_hold),
        cmocka_unit_test(the_templates_are_recognised),
        cmocka_unit_test(other_templates_are_reported),
        cmocka_unit_test(stable_mode_with_other_templates),
        cmocka_unit_test(effort_follows_the_budget),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
