/* SPDX-License-Identifier: Apache-2.0 */
/*
 * render.c - the chat templates of the family, implemented by hand.
 *
 * Official mode reproduces every branch, rejection and blank of the template, in its order. What
 * differs between templates is a switch of `style` (template_table.h). Stable mode differs where a
 * comment says so, for two reasons: tokens that were rendered once must not change in later
 * requests, and common client habits that do not confuse the model are accepted.
 */
#include "chat/prompt/render.h"

#include "base/mem.h"
#include "chat/prompt/chat_limits.h"
#include "chat/prompt/prompt_builder.h"
#include "chat/prompt/volatile_line.h"

#include <stdio.h>

typedef struct renderer {
    const mote_model *model;
    const chat_template *template;
    const chat_style *style;
    const chat_request *request;
    prompt_builder out;
    prompt_builder content; /* of the current message */
    prompt_builder system;  /* text of the system turn */
    chat_prompt *prompt;
    uint32_t images; /* numbered so far */
    uint32_t videos;
    size_t last_query; /* index of the last user message that is not a tool result */
    bool user_seen;    /* a user message was rendered */
} renderer;

static const char tools_before[] =
    "# Tools\n\nYou have access to the following functions:\n\n<tools>";

static const char tools_after[] =
    "\n</tools>\n\nIf you choose to call a function ONLY reply in the following format with NO "
    "suffix:\n\n<tool_call>\n<function=example_function_name>\n<parameter=example_parameter_1>\n"
    "value_1\n</parameter>\n<parameter=example_parameter_2>\nThis is the value for the second "
    "parameter\nthat can span\nmultiple lines\n</parameter>\n</function>\n</tool_call>\n\n"
    "<IMPORTANT>\nReminder:\n- Function calls MUST follow the specified format: an inner "
    "<function=...></function> block must be nested within <tool_call></tool_call> XML tags\n- "
    "Required parameters MUST be specified\n- You may provide optional reasoning for your function "
    "call in natural language BEFORE the function call, but NOT after\n- If there is no function "
    "call available, answer the question like normal with your current knowledge and do not tell "
    "the user about function calls\n</IMPORTANT";

static mote_status render_error(mote_error *err, const char *why)
{
    return err_set(err, MOTE_E_ARG, "%s", why);
}

static bool render_is_stable(const renderer *r)
{
    return r->request->mode == CHAT_STABLE;
}

static chat_role render_role(const renderer *r, size_t index)
{
    const chat_role role = r->request->messages[index].role;
    const bool developer = render_is_stable(r) || r->style->systems != STYLE_SYSTEMS_FIRST;
    if (developer && role == CHAT_ROLE_DEVELOPER)
        return CHAT_ROLE_SYSTEM;
    if (render_is_stable(r) && role == CHAT_ROLE_FUNCTION)
        return CHAT_ROLE_TOOL;
    return role;
}

/* ---- content ---- */

/* Adds an image to the prompt's list. The same content may be rendered twice (first to find the
 * last user query, then for output), so an image that is in the list already keeps its index. */
static mote_status render_image(renderer *r, const mote_image *image, const char *pad,
                                mote_error *err)
{
    chat_prompt *out = r->prompt;
    size_t index = 0;
    while (index < out->n_images && out->images[index] != image)
        index++;
    if (index == out->n_images) {
        const mote_image **moved = mem_resize(out->images, index, index + 1, sizeof *out->images);
        if (moved == NULL)
            return err_set(err, MOTE_E_MEMORY, "out of memory: %zu images of a prompt", index + 1);
        out->images = moved;
        out->images[out->n_images++] = image;
    }
    prompt_builder_template(&r->content, "<|vision_start|>");
    prompt_builder_image(&r->content, pad, index);
    prompt_builder_template(&r->content, "<|vision_end|>");
    prompt_builder_mark(&r->content, CHAT_MARK_SHOWN, index);
    return MOTE_OK;
}

/* An image, or the frames of a video with "<SECONDS seconds>" before each. */
static mote_status render_frames(renderer *r, const chat_part *part, mote_error *err)
{
    const chat_media *media = part->media;
    for (size_t i = 0; i < media->n; i++) {
        char stamp[48];
        if (part->kind == CHAT_PART_VIDEO) {
            snprintf(stamp, sizeof stamp, "<%.1f seconds>", media->seconds[i]);
            prompt_builder_content(&r->content, str_of(stamp));
        }
        TRY(render_image(r, media->images[i],
                         part->kind == CHAT_PART_IMAGE ? "<|image_pad|>" : "<|video_pad|>", err));
    }
    return MOTE_OK;
}

/* `count`: number this image or video; false when the content is rendered a second time. */
static mote_status render_media(renderer *r, const chat_part *part, bool count, mote_error *err)
{
    const bool image = part->kind == CHAT_PART_IMAGE;
    uint32_t *number = image ? &r->images : &r->videos;
    *number += count;
    if (r->request->number_media) {
        char label[32];
        snprintf(label, sizeof label, "%s %u: ", image ? "Picture" : "Video", *number);
        prompt_builder_template(&r->content, label);
    }
    if (part->media != NULL)
        return render_frames(r, part, err);
    prompt_builder_template(&r->content, "<|vision_start|>");
    prompt_builder_mark(&r->content, image ? CHAT_MARK_IMAGE : CHAT_MARK_VIDEO, *number - count);
    prompt_builder_template(&r->content, image ? "<|image_pad|>" : "<|video_pad|>");
    prompt_builder_template(&r->content, "<|vision_end|>");
    return MOTE_OK;
}

/* Renders the content of a message into r->content. `count`: number its images and videos. */
static mote_status render_content(renderer *r, size_t index, bool count, bool is_system,
                                  mote_error *err)
{
    const chat_message *message = &r->request->messages[index];
    prompt_builder_clear(&r->content);
    if (message->bad_content)
        return render_error(err, "Unexpected content type.");
    for (size_t i = 0; i < message->n_parts; i++) {
        const chat_part *part = &message->parts[i];
        switch (part->kind) {
        case CHAT_PART_TEXT: prompt_builder_content(&r->content, part->text); break;
        case CHAT_PART_IMAGE:
        case CHAT_PART_VIDEO:
            if (is_system)
                return render_error(err, part->kind == CHAT_PART_IMAGE
                                             ? "System message cannot contain images."
                                             : "System message cannot contain videos.");
            TRY(render_media(r, part, count, err));
            break;
        default: return render_error(err, "Unexpected item type in content.");
        }
    }
    return MOTE_OK;
}

static chat_range content_trimmed(const renderer *r)
{
    return prompt_builder_trim(&r->content, prompt_builder_all(&r->content));
}

/* Position of the first or the last `words` in the range; range.end: not found. */
static size_t content_find(const renderer *r, chat_range range, const char *words, bool last)
{
    const size_t n = strlen(words);
    size_t found = range.end;
    for (size_t at = range.begin; at + n <= range.end; at++) {
        if (memcmp(r->content.text.p + at, words, n) != 0)
            continue;
        found = at;
        if (!last)
            break;
    }
    return found;
}

static bool content_is_wrapped(const renderer *r, chat_range range, const char *start,
                               const char *end)
{
    const str text = prompt_builder_view(&r->content, range);
    const size_t n = strlen(start), m = strlen(end);
    return text.n >= n && text.n >= m && memcmp(text.p, start, n) == 0 &&
           memcmp(text.p + text.n - m, end, m) == 0;
}

static chat_range content_skip_newlines(const renderer *r, chat_range range)
{
    while (range.begin < range.end && r->content.text.p[range.begin] == '\n')
        range.begin++;
    return range;
}

/* Adds a range with a mark before its first volatile line. The pre-tokenizer splits after the end of
 * the line before it, so the mark changes no token. */
static void render_append_marked(renderer *r, const prompt_builder *from, chat_range range,
                                 size_t index)
{
    const str text = prompt_builder_view(from, range);
    const size_t at = range.begin + volatile_line_find(text);
    prompt_builder_append(&r->out, from, (chat_range){range.begin, at});
    if (at == range.end)
        return;
    prompt_builder_mark(&r->out, CHAT_MARK_VOLATILE, index);
    prompt_builder_append(&r->out, from, (chat_range){at, range.end});
}

/* ---- tools and system text ---- */

/* Number of messages that form the system turn. */
static size_t render_leading_systems(const renderer *r)
{
    size_t n = 0, most = r->request->n_messages;
    if (!render_is_stable(r) && r->style->systems == STYLE_SYSTEMS_FIRST)
        most = 1;
    if (!render_is_stable(r) && r->style->systems == STYLE_SYSTEMS_TWO)
        most = 2;
    while (n < r->request->n_messages && n < most && render_role(r, n) == CHAT_ROLE_SYSTEM)
        n++;
    return n;
}

/* Renders the leading system messages into r->system, joined, without empty ones. */
static mote_status render_system_text(renderer *r, mote_error *err)
{
    const size_t n = render_leading_systems(r);
    const bool keeps_empty = !render_is_stable(r) && r->style->systems == STYLE_SYSTEMS_TWO;
    for (size_t i = 0; i < n; i++) {
        TRY(render_content(r, i, false, true, err));
        const chat_range text = content_trimmed(r);
        if (keeps_empty ? i > 0 : r->system.text.n > 0 && text.begin < text.end)
            prompt_builder_template(&r->system, render_is_stable(r) ? "\n\n" : "\n");
        prompt_builder_append(&r->system, &r->content, text);
    }
    return MOTE_OK;
}

/* As Python prints a value in a text: None, True, 1.5, and strings without quotes. */
static void put_python_text(strbuf *out, const json_node *value)
{
    switch (json_node_kind(value)) {
    case JSON_IS_STRING: strbuf_put(out, json_node_text(value)); return;
    case JSON_IS_BOOL: strbuf_text(out, json_node_truth(value) ? "True" : "False"); return;
    case JSON_IS_NULL: strbuf_text(out, "None"); return;
    default: break;
    }
    const size_t from = out->n;
    json_put_node(out, value);
    const str text = {out->p + from, out->n - from};
    if (str_is(text, "Infinity") || str_is(text, "-Infinity")) { /* Python: inf */
        out->n = from;
        strbuf_text(out, text.p[0] == '-' ? "-inf" : "inf");
    }
}

static mote_status render_effort_error(const renderer *r, mote_error *err)
{
    strbuf value = {0};
    if (r->request->effort == CHAT_EFFORT_OTHER)
        put_python_text(&value, r->request->effort_value);
    else
        strbuf_text(&value, "high");
    const str shown = strbuf_view(&value);
    const mote_status status =
        err_set(err, MOTE_E_ARG,
                "Unexpected reasoning effort %.*s. Supported types are xhigh (default), medium, "
                "and low.",
                (int)(shown.n < 100 ? shown.n : 100), shown.p);
    strbuf_fini(&value);
    return status;
}

/* *line: the sentence about the reasoning effort at the head of the system turn, or "". */
static mote_status render_effort(const renderer *r, const char **line, mote_error *err)
{
    const chat_request *q = r->request;
    *line = "";
    if (r->style->effort == STYLE_EFFORT_NONE || q->thinking == CHAT_THINK_OFF ||
        q->thinking == CHAT_THINK_OTHER)
        return MOTE_OK;
    switch (q->effort) {
    case CHAT_EFFORT_OTHER: return render_effort_error(r, err);
    case CHAT_EFFORT_HIGH:
        if (!render_is_stable(r) && r->style->effort != STYLE_EFFORT_AND_HIGH)
            return render_effort_error(r, err);
        /* fall through */
    case CHAT_EFFORT_AUTO:
    case CHAT_EFFORT_XHIGH:
        *line = "Reasoning effort is set to xhigh. Please think carefully through the task, "
                "validate key assumptions, consider plausible alternatives, and prioritize "
                "correctness, consistency, and clarity in the final answer.";
        return MOTE_OK;
    case CHAT_EFFORT_LOW:
        *line = "Reasoning effort is set to low. Keep your thinking brief and focused, moving "
                "directly to the conclusion without unnecessary elaboration.";
        return MOTE_OK;
    case CHAT_EFFORT_MEDIUM: return MOTE_OK;
    }
    return MOTE_OK;
}

static void render_tools(renderer *r)
{
    prompt_builder_template(&r->out, tools_before);
    for (size_t i = 0; i < r->request->n_tools; i++) {
        prompt_builder_template(&r->out, "\n");
        strbuf json = {0};
        json_put_node(&json, r->request->tools[i]);
        prompt_builder_content(&r->out, strbuf_view(&json));
        r->out.text.failed |= json.failed;
        strbuf_fini(&json);
    }
    prompt_builder_template(&r->out, tools_after);
    /* The pre-tokenizer splits here, between a letter and ">" or ">\n\n". */
    prompt_builder_mark(&r->out, CHAT_MARK_TOOLS, 0);
    prompt_builder_template(&r->out, ">");
}

/* The system turn: effort line, tools, system text; none of them: no turn, or an empty one. */
static mote_status render_preamble(renderer *r, mote_error *err)
{
    const bool systems_first = r->style->systems != STYLE_SYSTEMS_FIRST; /* order of rejections */
    const char *effort = "";
    if (systems_first)
        TRY(render_system_text(r, err));
    TRY(render_effort(r, &effort, err));
    if (!systems_first)
        TRY(render_system_text(r, err));
    const bool has_tools = r->request->n_tools > 0, has_text = r->system.text.n > 0;
    const bool keeps_empty = render_leading_systems(r) > 0 && !r->style->no_empty_system;
    if (!has_tools && !has_text && effort[0] == '\0' && !keeps_empty)
        return MOTE_OK;
    prompt_builder_template(&r->out, "<|im_start|>system\n");
    prompt_builder_template(&r->out, effort);
    if (effort[0] != '\0' && (has_tools || has_text))
        prompt_builder_template(&r->out, "\n\n");
    if (has_tools)
        render_tools(r);
    if (has_tools && has_text)
        prompt_builder_template(&r->out, "\n\n");
    render_append_marked(r, &r->system, prompt_builder_all(&r->system), 0);
    prompt_builder_template(&r->out, "<|im_end|>\n");
    prompt_builder_mark(&r->out, CHAT_MARK_SYSTEM, 0);
    return MOTE_OK;
}

/* ---- turns ---- */

/* Finds the last user message that is not a tool result. */
static mote_status render_find_last_query(renderer *r, mote_error *err)
{
    for (size_t i = r->request->n_messages; i-- > 0;) {
        if (render_role(r, i) != CHAT_ROLE_USER)
            continue;
        TRY(render_content(r, i, false, false, err));
        if (content_is_wrapped(r, content_trimmed(r), "<tool_response>", "</tool_response>"))
            continue;
        r->last_query = i;
        return MOTE_OK;
    }
    r->last_query = r->request->n_messages;
    return render_is_stable(r) || r->style->no_query_needed
               ? MOTE_OK
               : render_error(err, "No user query found in messages.");
}

/* Prints the value of an argument. Strings are never quoted. */
static void render_value(renderer *r, const json_node *value)
{
    strbuf text = {0};
    const bool as_json = json_node_is(value, JSON_IS_ARRAY) ||
                         json_node_is(value, JSON_IS_OBJECT) ||
                         (r->style->json_values && !json_node_is(value, JSON_IS_STRING));
    if (as_json)
        json_put_node(&text, value);
    else
        put_python_text(&text, value);
    prompt_builder_content(&r->out, strbuf_view(&text));
    r->out.text.failed |= text.failed;
    strbuf_fini(&text);
}

/* Arguments that are no object exist only in messages that were read in official mode. */
static mote_status render_check_arguments(const renderer *r, size_t index, const chat_call *call,
                                          mote_error *err)
{
    const json_node *given = call->arguments;
    const bool is_string = json_node_is(given, JSON_IS_STRING);
    if (given == NULL || json_node_is(given, JSON_IS_OBJECT))
        return MOTE_OK;
    switch (r->style->arguments) {
    case STYLE_ARGUMENTS_ANY: return MOTE_OK;
    case STYLE_ARGUMENTS_OR_EMPTY:
        if (is_string && json_node_text(given).n == 0)
            return MOTE_OK;
        break;
    case STYLE_ARGUMENTS_OR_BLANK:
        if (json_node_is(given, JSON_IS_NULL) ||
            (is_string && chat_text_trim(json_node_text(given)).n == 0))
            return MOTE_OK;
        return err_set(err, MOTE_E_ARG, "Tool call arguments for function \"%.*s\" %s",
                       STR_ARG(call->name),
                       is_string ? "were passed as a JSON string. Parse them into an object before "
                                   "calling apply_chat_template."
                                 : "must be an object/mapping or a JSON string.");
    case STYLE_ARGUMENTS_OBJECT: break;
    }
    return err_set(err, MOTE_E_ARG,
                   "messages[%zu]: the arguments of tool call %.*s must be an object", index,
                   STR_ARG(call->name));
}

static mote_status render_call(renderer *r, size_t index, const chat_call *call, mote_error *err)
{
    if (call->name.p == NULL)
        return render_error(err, "Tool call is missing a function name.");
    prompt_builder_template(&r->out, "<tool_call>\n<function=");
    prompt_builder_content(&r->out, call->name);
    prompt_builder_template(&r->out, ">\n");
    TRY(render_check_arguments(r, index, call, err));
    const json_node *argument =
        json_node_is(call->arguments, JSON_IS_OBJECT) ? json_node_first(call->arguments) : NULL;
    for (; argument != NULL; argument = json_node_next(argument)) {
        prompt_builder_template(&r->out, "<parameter=");
        prompt_builder_content(&r->out, json_node_name(argument));
        prompt_builder_template(&r->out, ">\n");
        render_value(r, argument);
        prompt_builder_template(&r->out, "\n</parameter>\n");
    }
    prompt_builder_template(&r->out, "</function>\n</tool_call>");
    return MOTE_OK;
}

static mote_status render_calls(renderer *r, size_t index, bool after_content, mote_error *err)
{
    const chat_message *message = &r->request->messages[index];
    for (size_t i = 0; i < message->n_calls; i++) {
        if (i > 0 || after_content)
            prompt_builder_template(&r->out, i > 0 ? "\n" : "\n\n");
        TRY(render_call(r, index, &message->calls[i], err));
    }
    return MOTE_OK;
}

/* The reasoning is the field of the message, or the content before the first </think>. */
static void render_think_block(renderer *r, const chat_message *message, chat_range reasoning)
{
    prompt_builder_template(&r->out, "<think>\n");
    if (message->has_reasoning) {
        prompt_builder field = {0};
        prompt_builder_content(&field, message->reasoning);
        prompt_builder_append(&r->out, &field,
                              prompt_builder_trim(&field, prompt_builder_all(&field)));
        prompt_builder_fini(&field);
    } else {
        prompt_builder_append(&r->out, &r->content, prompt_builder_trim(&r->content, reasoning));
    }
    prompt_builder_template(&r->out, "\n</think>\n\n");
}

/* Removes everything up to </think> from `content`; returns the reasoning in it. */
static chat_range content_split_thinking(const renderer *r, chat_range *content)
{
    static const char open[] = "<think>", close[] = "</think>";
    const size_t first = content_find(r, *content, close, false),
                 last = content_find(r, *content, close, true);
    chat_range reasoning = {content->begin, first};
    if (first == content->end)
        return (chat_range){content->begin, content->begin};
    while (reasoning.end > reasoning.begin && r->content.text.p[reasoning.end - 1] == '\n')
        reasoning.end--;
    const size_t opened = content_find(r, reasoning, open, true);
    if (opened < reasoning.end)
        reasoning.begin = opened + sizeof open - 1;
    content->begin = last + sizeof close - 1;
    *content = content_skip_newlines(r, *content);
    return content_skip_newlines(r, reasoning);
}

/* Whether the answer keeps its think block. Stable mode keeps all unless the request says no. */
static bool render_keeps_thinking(const renderer *r, size_t index)
{
    const chat_preserve preserve = r->request->preserve;
    if (index > r->last_query)
        return true;
    if (render_is_stable(r))
        return preserve != CHAT_PRESERVE_NOT_TRUE;
    switch (r->style->history) {
    case STYLE_HISTORY_DROPPED: return false;
    case STYLE_HISTORY_ON_DEMAND: return preserve == CHAT_PRESERVE_TRUE;
    case STYLE_HISTORY_KEPT: return preserve != CHAT_PRESERVE_NOT_TRUE;
    }
    return false;
}

static mote_status render_assistant(renderer *r, size_t index, mote_error *err)
{
    const chat_message *message = &r->request->messages[index];
    const bool is_open = r->request->continue_last && index + 1 == r->request->n_messages;
    const bool keeps_thinking = render_keeps_thinking(r, index);
    prompt_builder_template(&r->out, "<|im_start|>assistant\n");
    if (render_is_stable(r) && message->tokens != NULL && keeps_thinking && !is_open) {
        prompt_builder_tokens(&r->out, r->model, message, index);
        prompt_builder_template(&r->out, "<|im_end|>\n");
        return MOTE_OK;
    }
    chat_range content = content_trimmed(r), reasoning = {0, 0};
    if (!message->has_reasoning && (render_is_stable(r) || r->style->splits_content))
        reasoning = content_split_thinking(r, &content);
    if (keeps_thinking)
        render_think_block(r, message, reasoning);
    prompt_builder_append(&r->out, &r->content, content);
    const chat_range visible = prompt_builder_trim(&r->content, content);
    TRY(render_calls(r, index, visible.begin < visible.end, err));
    if (is_open && message->n_calls > 0)
        return render_error(err, "A message with tool calls cannot be continued.");
    if (!is_open)
        prompt_builder_template(&r->out, "<|im_end|>\n");
    return MOTE_OK;
}

static void render_tool_result(renderer *r, size_t index)
{
    const size_t n = r->request->n_messages;
    /* As first message, the template does not open a user turn. Stable mode does. */
    const bool opens =
        index > 0 ? render_role(r, index - 1) != CHAT_ROLE_TOOL : render_is_stable(r);
    const bool closes = index + 1 == n || render_role(r, index + 1) != CHAT_ROLE_TOOL;
    prompt_builder_template(&r->out,
                            opens ? "<|im_start|>user\n<tool_response>\n" : "\n<tool_response>\n");
    prompt_builder_append(&r->out, &r->content, content_trimmed(r));
    prompt_builder_template(&r->out,
                            closes ? "\n</tool_response><|im_end|>\n" : "\n</tool_response>");
}

/* A system message that is not part of the system turn. */
static mote_status render_later_system(renderer *r, mote_error *err)
{
    if (!render_is_stable(r))
        return render_error(err, "System message must be at the beginning.");
    prompt_builder_template(&r->out, "<|im_start|>system\n");
    prompt_builder_append(&r->out, &r->content, content_trimmed(r));
    prompt_builder_template(&r->out, "<|im_end|>\n");
    return MOTE_OK;
}

/* Whether the template skips a message before it reads the content. */
static bool render_skips(const renderer *r, size_t index)
{
    if (render_role(r, index) != CHAT_ROLE_SYSTEM || render_is_stable(r))
        return false;
    return r->style->systems == STYLE_SYSTEMS_TWO ||
           (r->style->systems == STYLE_SYSTEMS_LEADING && index < render_leading_systems(r));
}

static mote_status render_message(renderer *r, size_t index, mote_error *err)
{
    if (render_skips(r, index))
        return MOTE_OK;
    TRY(render_content(r, index, true, false, err));
    switch (render_role(r, index)) {
    case CHAT_ROLE_SYSTEM:
        if (index < render_leading_systems(r))
            return MOTE_OK;
        TRY(render_later_system(r, err));
        break;
    case CHAT_ROLE_USER:
        prompt_builder_template(&r->out, "<|im_start|>user\n");
        if (r->user_seen)
            prompt_builder_append(&r->out, &r->content, content_trimmed(r));
        else
            render_append_marked(r, &r->content, content_trimmed(r), index);
        r->user_seen = true;
        prompt_builder_template(&r->out, "<|im_end|>\n");
        break;
    case CHAT_ROLE_ASSISTANT: TRY(render_assistant(r, index, err)); break;
    case CHAT_ROLE_TOOL: render_tool_result(r, index); break;
    default:
        if (!render_is_stable(r) && r->style->unknown_ignored)
            return MOTE_OK;
        return render_error(err, "Unexpected message role.");
    }
    prompt_builder_mark(&r->out, CHAT_MARK_MESSAGE, index);
    return MOTE_OK;
}

/* ---- the whole prompt ---- */

static bool render_thinks(const renderer *r)
{
    switch (r->request->thinking) {
    case CHAT_THINK_ON: return true;
    case CHAT_THINK_OFF: return false;
    case CHAT_THINK_AUTO:
    case CHAT_THINK_OTHER: break;
    }
    return r->template->thinks;
}

static mote_status render_check_request(const chat_request *q, mote_error *err)
{
    if (q->n_messages == 0)
        return render_error(err, "No messages provided.");
    if (q->n_messages > CHAT_MAX_MESSAGES)
        return err_set(err, MOTE_E_ARG, "%zu messages; at most %d", q->n_messages,
                       CHAT_MAX_MESSAGES);
    if (q->n_tools > CHAT_MAX_TOOLS)
        return err_set(err, MOTE_E_ARG, "%zu tools; at most %d", q->n_tools, CHAT_MAX_TOOLS);
    const chat_message *last = &q->messages[q->n_messages - 1];
    if (q->continue_last && (q->mode != CHAT_STABLE || last->role != CHAT_ROLE_ASSISTANT))
        return render_error(
            err,
            "Only an assistant's message can be continued, and not with the template official.");
    return MOTE_OK;
}

static mote_status render_all(renderer *r, chat_prompt *out, mote_error *err)
{
    const chat_request *q = r->request;
    TRY(render_check_request(q, err));
    TRY(render_preamble(r, err));
    TRY(render_find_last_query(r, err));
    for (size_t i = 0; i < q->n_messages; i++)
        TRY(render_message(r, i, err));
    if (!q->no_generation_prompt && !q->continue_last) {
        prompt_builder_mark(&r->out, CHAT_MARK_PROMPT, 0);
        out->thinking = render_thinks(r);
        prompt_builder_template(&r->out, out->thinking
                                             ? "<|im_start|>assistant\n<think>\n"
                                             : "<|im_start|>assistant\n<think>\n\n</think>\n\n");
    }
    TRY(strbuf_check(&r->out.text, err));
    TRY(strbuf_check(&r->content.text, err));
    TRY(strbuf_check(&r->system.text, err));
    return prompt_builder_encode(&r->out, r->model, r->template, q, out, err);
}

mote_status chat_render(const mote_model *model, const chat_template *template,
                        const chat_request *request, chat_prompt *out, mote_error *err)
{
    renderer r = {.model = model,
                  .template = template,
                  .style = template->style,
                  .request = request,
                  .prompt = out};
    *out = (chat_prompt){0};
    mote_status status = render_all(&r, out, err);
    out->text = r.out.text; /* moved */
    r.out.text = (strbuf){0};
    prompt_builder_fini(&r.out);
    prompt_builder_fini(&r.content);
    prompt_builder_fini(&r.system);
    const size_t least = out->n;
    if (status != MOTE_OK)
        chat_prompt_fini(out);
    if (status == MOTE_E_FULL)
        out->n = least;
    return status;
}

void chat_prompt_fini(chat_prompt *prompt)
{
    mem_free(prompt->ids);
    mem_free(prompt->marks);
    mem_free(prompt->images);
    strbuf_fini(&prompt->text);
    *prompt = (chat_prompt){0};
}
