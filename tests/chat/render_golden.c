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
static chat_template small, large;
static const char *other_file;

/* Content spells a control token. The reference produces it; mote keeps it as text. */
static const char *const spelling[] = {"user_control_text", "reason_open_only",
                                       "reason_field_and_inline", "result_as_user"};

static bool spells_control(const char *name)
{
    for (size_t i = 0; i < sizeof spelling / sizeof *spelling; i++)
        if (strcmp(name, spelling[i]) == 0)
            return true;
    return false;
}

static mote_status render(const json_node *line, chat_prompt *out, mote_error *err)
{
    const json_node *kwargs = json_node_get(line, "kwargs");
    const json_node *thinking = json_node_get(kwargs, "enable_thinking");
    const char *which = rig_text(line, "template");
    chat_parsed parsed;
    TRY(chat_parsed_read(&parsed, line, CHAT_OFFICIAL, err));
    chat_request *q = &parsed.request;
    q->no_generation_prompt = !json_node_truth(json_node_get(kwargs, "add_generation_prompt"));
    q->number_media = json_node_truth(json_node_get(kwargs, "add_vision_id"));
    if (json_node_is(thinking, JSON_IS_BOOL))
        q->thinking = json_node_truth(thinking) ? CHAT_THINK_ON : CHAT_THINK_OFF;
    const mote_status status =
        chat_render(model, strcmp(which, "4B+") == 0 ? &large : &small, q, out, err);
    chat_parsed_fini(&parsed);
    return status;
}

static void check_ids(const char *name, const chat_prompt *got, const json_node *ids)
{
    const json_node *id = json_node_first(ids);
    bool same = got->n == json_node_size(ids);
    for (size_t i = 0; same && i < got->n; i++, id = json_node_next(id))
        same = (double)got->ids[i] == json_node_double(id);
    if (same == spells_control(name))
        fail_msg("%s: the ids are %s", name,
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
        assert_int_equal(status, MOTE_E_ARG);
        if (strstr(expected, "Error:") == NULL) /* otherwise an error of the template engine */
            assert_string_equal(err.text, expected);
        return;
    }
    if (status != MOTE_OK)
        fail_msg("%s: %s", name, err.text);
    if (!str_eq(strbuf_view(&got.text), json_node_text(json_node_get(line, "rendered"))))
        fail_msg("%s renders as\n%.*s", name, (int)got.text.n, got.text.p);
    if (json_node_get(line, "ids") != NULL)
        check_ids(name, &got, json_node_get(line, "ids"));
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
}

static int setup(void **state)
{
    (void)state;
    mote_error err = {0};
    model = rig_tiny();
    if (chat_template_tags(&small, model, &err) != MOTE_OK)
        fail_msg("%s", err.text);
    large = small;
    large.thinks = true;
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
