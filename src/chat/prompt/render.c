/* SPDX-License-Identifier: Apache-2.0 */
/*
 * render.c - the two official chat templates of Qwen 3.5, implemented by hand.
 *
 * Official mode reproduces every branch, rejection and blank of the template, in its order. Stable
 * mode differs where a comment says so, for two reasons: tokens that were rendered once must not
 * change in later requests, and common client habits that do not confuse the model are accepted.
 */
#include "chat/prompt/render.h"

#include "base/mem.h"
#include "chat/prompt/chat_limits.h"
#include "chat/prompt/prompt_builder.h"

#include <stdio.h>

typedef struct renderer {
    const mote_model *model;
    const chat_template *template;
    const chat_request *request;
    prompt_builder out;
    prompt_builder content; /* of the current message */
    chat_prompt *prompt;
    uint32_t images; /* numbered so far */
    uint32_t videos;
    size_t last_query; /* index of the last user message that is not a tool result */
} renderer;

static const char tools_before[] =
    "<|im_start|>system\n# Tools\n\nYou have access to the following functions:\n\n<tools>";

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
    if (render_is_stable(r) && role == CHAT_ROLE_DEVELOPER)
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

/* ---- tools and system text ---- */

static size_t render_leading_systems(const renderer *r)
{
    size_t n = 0;
    while (n < r->request->n_messages && render_role(r, n) == CHAT_ROLE_SYSTEM)
        n++;
    return render_is_stable(r) || n == 0 ? n : 1;
}

/* The first system message; in stable mode all leading ones, joined, without empty ones. */
static mote_status render_system_text(renderer *r, const char *before, mote_error *err)
{
    const size_t n = render_leading_systems(r);
    for (size_t i = 0; i < n; i++) {
        TRY(render_content(r, i, false, true, err));
        const chat_range text = content_trimmed(r);
        if (text.begin == text.end)
            continue;
        prompt_builder_template(&r->out, before);
        prompt_builder_append(&r->out, &r->content, text);
        before = "\n\n";
    }
    return MOTE_OK;
}

static mote_status render_preamble(renderer *r, mote_error *err)
{
    const size_t systems = render_leading_systems(r);
    if (r->request->n_tools > 0) {
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
        TRY(render_system_text(r, "\n\n", err));
    } else if (systems > 0) {
        prompt_builder_template(&r->out, "<|im_start|>system\n");
        TRY(render_system_text(r, "", err));
    } else {
        return MOTE_OK;
    }
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
    return render_is_stable(r) ? MOTE_OK : render_error(err, "No user query found in messages.");
}

/* As the template prints arguments: lists and objects as JSON, the others by Python's str(). */
static void render_value(prompt_builder *out, const json_node *value)
{
    strbuf text = {0};
    switch (json_node_kind(value)) {
    case JSON_IS_STRING: prompt_builder_content(out, json_node_text(value)); return;
    case JSON_IS_BOOL:
        prompt_builder_content(out, str_of(json_node_truth(value) ? "True" : "False"));
        return;
    case JSON_IS_NULL: prompt_builder_content(out, str_of("None")); return;
    default: json_put_node(&text, value);
    }
    if (str_is(strbuf_view(&text), "Infinity"))
        prompt_builder_content(out, str_of("inf"));
    else if (str_is(strbuf_view(&text), "-Infinity"))
        prompt_builder_content(out, str_of("-inf"));
    else
        prompt_builder_content(out, strbuf_view(&text));
    out->text.failed |= text.failed;
    strbuf_fini(&text);
}

static void render_calls(renderer *r, const chat_message *message, bool after_content)
{
    for (size_t i = 0; i < message->n_calls; i++) {
        const chat_call *call = &message->calls[i];
        if (i > 0)
            prompt_builder_template(&r->out, "\n");
        else if (after_content)
            prompt_builder_template(&r->out, "\n\n");
        prompt_builder_template(&r->out, "<tool_call>\n<function=");
        prompt_builder_content(&r->out, call->name);
        prompt_builder_template(&r->out, ">\n");
        for (const json_node *argument = json_node_first(call->arguments); argument != NULL;
             argument = json_node_next(argument)) {
            prompt_builder_template(&r->out, "<parameter=");
            prompt_builder_content(&r->out, json_node_name(argument));
            prompt_builder_template(&r->out, ">\n");
            render_value(&r->out, argument);
            prompt_builder_template(&r->out, "\n</parameter>\n");
        }
        prompt_builder_template(&r->out, "</function>\n</tool_call>");
    }
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

static mote_status render_assistant(renderer *r, size_t index, mote_error *err)
{
    const chat_message *message = &r->request->messages[index];
    const bool is_open = r->request->continue_last && index + 1 == r->request->n_messages;
    prompt_builder_template(&r->out, "<|im_start|>assistant\n");
    if (render_is_stable(r) && message->tokens != NULL && !is_open) {
        prompt_builder_tokens(&r->out, r->model, message, index);
        prompt_builder_template(&r->out, "<|im_end|>\n");
        return MOTE_OK;
    }
    chat_range content = content_trimmed(r), reasoning = {0, 0};
    if (!message->has_reasoning)
        reasoning = content_split_thinking(r, &content);
    /* The template drops the block once another user message follows; stable mode keeps it. */
    if (render_is_stable(r) || index > r->last_query)
        render_think_block(r, message, reasoning);
    prompt_builder_append(&r->out, &r->content, content);
    const chat_range visible = prompt_builder_trim(&r->content, content);
    render_calls(r, message, visible.begin < visible.end);
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

static mote_status render_message(renderer *r, size_t index, mote_error *err)
{
    TRY(render_content(r, index, true, false, err));
    switch (render_role(r, index)) {
    case CHAT_ROLE_SYSTEM:
        if (index < render_leading_systems(r))
            return MOTE_OK;
        if (!render_is_stable(r))
            return render_error(err, "System message must be at the beginning.");
        prompt_builder_template(&r->out, "<|im_start|>system\n");
        prompt_builder_append(&r->out, &r->content, content_trimmed(r));
        prompt_builder_template(&r->out, "<|im_end|>\n");
        break;
    case CHAT_ROLE_USER:
        prompt_builder_template(&r->out, "<|im_start|>user\n");
        prompt_builder_append(&r->out, &r->content, content_trimmed(r));
        prompt_builder_template(&r->out, "<|im_end|>\n");
        break;
    case CHAT_ROLE_ASSISTANT: TRY(render_assistant(r, index, err)); break;
    case CHAT_ROLE_TOOL: render_tool_result(r, index); break;
    default: return render_error(err, "Unexpected message role.");
    }
    prompt_builder_mark(&r->out, CHAT_MARK_MESSAGE, index);
    return MOTE_OK;
}

/* ---- the whole prompt ---- */

static bool render_thinks(const renderer *r)
{
    if (r->request->thinking == CHAT_THINK_AUTO)
        return r->template->thinks;
    return r->request->thinking == CHAT_THINK_ON;
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
            err, "Only an assistant's message can be continued, and only in stable mode.");
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
    return prompt_builder_encode(&r->out, r->model, r->template, q, out, err);
}

mote_status chat_render(const mote_model *model, const chat_template *template,
                        const chat_request *request, chat_prompt *out, mote_error *err)
{
    renderer r = {.model = model, .template = template, .request = request, .prompt = out};
    *out = (chat_prompt){0};
    mote_status status = render_all(&r, out, err);
    out->text = r.out.text; /* moved */
    r.out.text = (strbuf){0};
    prompt_builder_fini(&r.out);
    prompt_builder_fini(&r.content);
    if (status != MOTE_OK)
        chat_prompt_fini(out);
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
