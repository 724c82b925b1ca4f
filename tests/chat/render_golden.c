/* SPDX-License-Identifier: Apache-2.0 */
/*
 * render_golden.c - official mode against recorded output of the templates: the text byte for byte,
 * the ids, the error texts.
 *
 *   render_golden [FILE]      other lines in the same format (scripts/chat_compare)
 */
#include "chat/chat_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static mote_model *model;
static chat_template template; /* tags of the model; the style is that of the line */
static const char *other_file;

/* Names of templates in the recorded lines. */
static const struct {
    const char *recorded, *style;
} names[] = {
    {"0.8B/2B", "qwen3.5-small"},
    {"4B+", "qwen3.5"},
    {"3.5-unsloth", "qwen3.5-unsloth"},
    {"3.6", "qwen3.6"},
    {"3.8", "qwen3.8"},
    {"3.6-unsloth", "qwen3.6-unsloth"},
    {"3.8-unsloth", "qwen3.8-unsloth"},
};

static void choose_template(const char *recorded)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(recorded, names[i].recorded) == 0) {
            assert_int_equal(chat_template_choose(&template, names[i].style, NULL), MOTE_OK);
            return;
        }
    fail_msg("unknown template %s", recorded);
}

/* Content spells a control token. The reference produces it; mote keeps it as text. */
static const char *const spelling[] = {"user_control_text", "reason_open_only",
                                       "reason_field_and_inline", "result_as_user",
                                       "only_result_user"};
/* The same for the templates of Qwen 3.8, which leave inline reasoning in the content. */
static const char *const inline_reasoning[] = {
    "reason_inline_last", "reason_inline_old",    "reason_inline_no_open", "reason_two_closes",
    "reason_two_blocks",  "preserve_true_inline", "preserve_false_inline"};

static bool spells_control(const json_node *line)
{
    const char *name = rig_text(line, "name");
    for (size_t i = 0; i < sizeof spelling / sizeof *spelling; i++)
        if (strcmp(name, spelling[i]) == 0)
            return true;
    const bool is_38 = strncmp(rig_text(line, "template"), "3.8", 3) == 0;
    for (size_t i = 0; is_38 && i < sizeof inline_reasoning / sizeof *inline_reasoning; i++)
        if (strcmp(name, inline_reasoning[i]) == 0)
            return true;
    return false;
}

/* The settings of a line are in `kwargs`, those of a request in chat_template_kwargs. */
static mote_status render(const json_node *line, chat_prompt *out, mote_error *err)
{
    strbuf text = {0};
    json_doc *doc;
    chat_parsed parsed;
    const json_node *prompt = json_node_get(json_node_get(line, "kwargs"), "add_generation_prompt");
    choose_template(rig_text(line, "template"));
    strbuf_text(&text, "{\"chat_template_kwargs\": ");
    json_put_as_spelt(&text, json_node_get(line, "kwargs"));
    strbuf_text(&text, ", \"messages\": ");
    json_put_as_spelt(&text, json_node_get(line, "messages"));
    strbuf_text(&text, ", \"tools\": ");
    json_put_as_spelt(&text, json_node_get(line, "tools"));
    strbuf_text(&text, "}");
    assert_int_equal(json_doc_read(&doc, strbuf_view(&text), NULL), MOTE_OK);
    mote_status status = chat_parsed_read(&parsed, json_doc_root(doc), CHAT_OFFICIAL, err);
    if (status == MOTE_OK) {
        parsed.request.no_generation_prompt = !json_node_truth(prompt);
        status = chat_render(model, &template, &parsed.request, out, err);
        chat_parsed_fini(&parsed);
    }
    json_doc_free(doc);
    strbuf_fini(&text);
    return status;
}

static void check_ids(const json_node *line, const chat_prompt *got)
{
    const json_node *ids = json_node_get(line, "ids");
    const json_node *id = json_node_first(ids);
    bool same = got->n == json_node_size(ids);
    for (size_t i = 0; same && i < got->n; i++, id = json_node_next(id))
        same = (double)got->ids[i] == json_node_double(id);
    if (same == spells_control(line))
        fail_msg("%s with %s: the ids are %s", rig_text(line, "name"), rig_text(line, "template"),
                 same ? "the same, though content spells" : "different");
}

static void check_line(const json_node *line, void *with)
{
    (void)with;
    const char *name = rig_text(line, "name"), *expected = rig_text(line, "error");
    chat_prompt got;
    mote_error err = {0};
    const mote_status status = render(line, &got, &err);
    if (expected != NULL) {
        if (status != MOTE_E_ARG)
            fail_msg("%s with %s is not rejected", name, rig_text(line, "template"));
        const bool of_engine = strstr(expected, "Error:") != NULL || expected[0] == '\'';
        if (!of_engine && strcmp(err.text, expected) != 0)
            fail_msg("%s with %s: \"%s\", expected \"%s\"", name, rig_text(line, "template"),
                     err.text, expected);
        return;
    }
    if (status != MOTE_OK)
        fail_msg("%s with %s: %s", name, rig_text(line, "template"), err.text);
    if (!str_eq(strbuf_view(&got.text), json_node_text(json_node_get(line, "rendered"))))
        fail_msg("%s with %s renders as\n%.*s", name, rig_text(line, "template"), (int)got.text.n,
                 got.text.p);
    if (json_node_get(line, "ids") != NULL)
        check_ids(line, &got);
    chat_prompt_fini(&got);
}

static void every_conversation_renders_as_the_template(void **state)
{
    (void)state;
    if (other_file != NULL) {
        printf("%d conversations\n", rig_each_line(other_file, check_line, NULL));
        return;
    }
    assert_int_equal(rig_each_line("golden/chat/vectors.jsonl", check_line, NULL), 194);
    assert_int_equal(rig_each_line("model/templates/render_vectors.jsonl", check_line, NULL), 40);
    assert_int_equal(rig_each_line("golden/chat/vectors_36_38.jsonl", check_line, NULL), 329);
    assert_int_equal(rig_each_line("golden/chat/vectors_35_unsloth.jsonl", check_line, NULL), 145);
}

static int setup(void **state)
{
    (void)state;
    mote_error err = {0};
    model = rig_tiny();
    if (chat_template_tags(&template, model, &err) != MOTE_OK)
        fail_msg("%s", err.text);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    mote_model_close(model);
    return 0;
}

int main(int argc, char **argv)
{
    other_file = argc > 1 ? argv[1] : NULL;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_conversation_renders_as_the_template),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
