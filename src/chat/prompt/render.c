/* SPDX-License-Identifier: Apache-2.0 */
/*
 * render.c - the two official templates of Qwen 3.5, by hand.
 *
 * In official mode every branch, refusal and blank is the template's, in its
 * order. Stable mode differs where a comment says so, and for two reasons only: what was
 * rendered once must not change later, and clients must not be turned away for habits
 * that the model does not mind.
 */
#include "chat/prompt/render.h"

#include "base/mem.h"
#include "chat/prompt/chat_limits.h"
#include "chat/prompt/prompt_builder.h"

#include <stdio.h>

typedef struct renderer {
    const mote_model *model;
    const chat_template *how;
    const chat_request *request;
    prompt_builder out;
    prompt_builder content; /* of the message at hand */
    chat_prompt *prompt;
    uint32_t images; /* counted so far */
    uint32_t videos;
    size_t last_query; /* index of the last user message that is not a tool's result */
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

static mote_status refuse(mote_error *err, const char *why)
{
    return err_set(err, MOTE_E_ARG, "%s", why);
}

static bool stable(const renderer *r)
{
    return r->request->mode == CHAT_STABLE;
}

static chat_role role_of(const renderer *r, size_t index)
{
    const chat_role role = r->request->messages[index].role;
    if (stable(r) && role == CHAT_ROLE_DEVELOPER)
        return CHAT_ROLE_SYSTEM;
    if (stable(r) && role == CHAT_ROLE_FUNCTION)
        return CHAT_ROLE_TOOL;
    return role;
}

/* ---- content ---- */

/* Pictures are numbered as they are met, which may be more than once: content is read for its
 * length and again to be written. */
static mote_status put_image(renderer *r, const mote_image *image, const char *pad, mote_error *err)
{
    chat_prompt *out = r->prompt;
    size_t index = 0;
    while (index < out->n_images && out->images[index] != image)
        index++;
    if (index == out->n_images) {
        const mote_image **moved = mem_resize(out->images, index, index + 1, sizeof *out->images);
        if (moved == NULL)
            return err_set(err, MOTE_E_MEMORY, "no memory for the pictures of a prompt");
        out->images = moved;
        out->images[out->n_images++] = image;
    }
    prompt_builder_template(&r->content, "<|vision_start|>");
    prompt_builder_image(&r->content, pad, index);
    prompt_builder_template(&r->content, "<|vision_end|>");
    prompt_builder_mark(&r->content, CHAT_MARK_SHOWN, index);
    return MOTE_OK;
}

/* A film is its frames, each behind its time. */
static mote_status put_shown(renderer *r, const chat_part *part, mote_error *err)
{
    const chat_media *media = part->media;
    for (size_t i = 0; i < media->n; i++) {
        char stamp[48];
        if (part->kind == CHAT_PART_VIDEO) {
            snprintf(stamp, sizeof stamp, "<%.1f seconds>", media->seconds[i]);
            prompt_builder_content(&r->content, str_of(stamp));
        }
        TRY(put_image(r, media->images[i],
                      part->kind == CHAT_PART_IMAGE ? "<|image_pad|>" : "<|video_pad|>", err));
    }
    return MOTE_OK;
}

static mote_status put_media(renderer *r, const chat_part *part, bool count, mote_error *err)
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
        return put_shown(r, part, err);
    prompt_builder_template(&r->content, "<|vision_start|>");
    prompt_builder_mark(&r->content, image ? CHAT_MARK_IMAGE : CHAT_MARK_VIDEO, *number - count);
    prompt_builder_template(&r->content, image ? "<|image_pad|>" : "<|video_pad|>");
    prompt_builder_template(&r->content, "<|vision_end|>");
    return MOTE_OK;
}

/* Writes the content of a message to r->content. */
static mote_status read_content(renderer *r, size_t index, bool count, bool is_system,
                                mote_error *err)
{
    const chat_message *message = &r->request->messages[index];
    prompt_builder_clear(&r->content);
    if (message->bad_content)
        return refuse(err, "Unexpected content type.");
    for (size_t i = 0; i < message->n_parts; i++) {
        const chat_part *part = &message->parts[i];
        switch (part->kind) {
        case CHAT_PART_TEXT: prompt_builder_content(&r->content, part->text); break;
        case CHAT_PART_IMAGE:
        case CHAT_PART_VIDEO:
            if (is_system)
                return refuse(err, part->kind == CHAT_PART_IMAGE
                                       ? "System message cannot contain images."
                                       : "System message cannot contain videos.");
            TRY(put_media(r, part, count, err));
            break;
        default: return refuse(err, "Unexpected item type in content.");
        }
    }
    return MOTE_OK;
}

static chat_range trimmed(const renderer *r)
{
    return prompt_builder_trim(&r->content, prompt_builder_all(&r->content));
}

/* Where `words` begins in the range, the first or the last time; range.end: nowhere. */
static size_t find(const renderer *r, chat_range range, const char *words, bool last)
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

static bool starts_and_ends(const renderer *r, chat_range range, const char *start, const char *end)
{
    const str text = prompt_builder_view(&r->content, range);
    const size_t n = strlen(start), m = strlen(end);
    return text.n >= n && text.n >= m && memcmp(text.p, start, n) == 0 &&
           memcmp(text.p + text.n - m, end, m) == 0;
}

static chat_range skip_breaks(const renderer *r, chat_range range)
{
    while (range.begin < range.end && r->content.text.p[range.begin] == '\n')
        range.begin++;
    return range;
}

/* ---- the beginning: tools and system ---- */

static size_t leading_systems(const renderer *r)
{
    size_t n = 0;
    while (n < r->request->n_messages && role_of(r, n) == CHAT_ROLE_SYSTEM)
        n++;
    return stable(r) || n == 0 ? n : 1;
}

/* The first system message; in stable mode all that begin the conversation, empty ones left out. */
static mote_status put_system_text(renderer *r, const char *before, mote_error *err)
{
    const size_t n = leading_systems(r);
    for (size_t i = 0; i < n; i++) {
        TRY(read_content(r, i, false, true, err));
        const chat_range text = trimmed(r);
        if (text.begin == text.end)
            continue;
        prompt_builder_template(&r->out, before);
        prompt_builder_append(&r->out, &r->content, text);
        before = "\n\n";
    }
    return MOTE_OK;
}

static mote_status put_beginning(renderer *r, mote_error *err)
{
    const size_t systems = leading_systems(r);
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
        /* A word ends here, between a letter and what may be ">" or ">\n\n". */
        prompt_builder_mark(&r->out, CHAT_MARK_TOOLS, 0);
        prompt_builder_template(&r->out, ">");
        TRY(put_system_text(r, "\n\n", err));
    } else if (systems > 0) {
        prompt_builder_template(&r->out, "<|im_start|>system\n");
        TRY(put_system_text(r, "", err));
    } else {
        return MOTE_OK;
    }
    prompt_builder_template(&r->out, "<|im_end|>\n");
    prompt_builder_mark(&r->out, CHAT_MARK_SYSTEM, 0);
    return MOTE_OK;
}

/* ---- turns ---- */

static mote_status find_last_query(renderer *r, mote_error *err)
{
    for (size_t i = r->request->n_messages; i-- > 0;) {
        if (role_of(r, i) != CHAT_ROLE_USER)
            continue;
        TRY(read_content(r, i, false, false, err));
        if (starts_and_ends(r, trimmed(r), "<tool_response>", "</tool_response>"))
            continue;
        r->last_query = i;
        return MOTE_OK;
    }
    r->last_query = r->request->n_messages;
    return stable(r) ? MOTE_OK : refuse(err, "No user query found in messages.");
}

/* Python's str() of what is neither list nor mapping; those as JSON. */
static void put_value(prompt_builder *out, const json_node *value)
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

static void put_calls(renderer *r, const chat_message *message, bool after_content)
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
            put_value(&r->out, argument);
            prompt_builder_template(&r->out, "\n</parameter>\n");
        }
        prompt_builder_template(&r->out, "</function>\n</tool_call>");
    }
}

/* Reasoning from its own field, or from before the first </think> of the content. */
static void put_think_block(renderer *r, const chat_message *message, chat_range reasoning)
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

/* Cuts `content` at </think>; returns what is the reasoning of it. */
static chat_range split_thinking(const renderer *r, chat_range *content)
{
    static const char open[] = "<think>", close[] = "</think>";
    const size_t first = find(r, *content, close, false), last = find(r, *content, close, true);
    chat_range reasoning = {content->begin, first};
    if (first == content->end)
        return (chat_range){content->begin, content->begin};
    while (reasoning.end > reasoning.begin && r->content.text.p[reasoning.end - 1] == '\n')
        reasoning.end--;
    const size_t opened = find(r, reasoning, open, true);
    if (opened < reasoning.end)
        reasoning.begin = opened + sizeof open - 1;
    content->begin = last + sizeof close - 1;
    *content = skip_breaks(r, *content);
    return skip_breaks(r, reasoning);
}

static mote_status put_assistant(renderer *r, size_t index, mote_error *err)
{
    const chat_message *message = &r->request->messages[index];
    const bool is_open = r->request->continue_last && index + 1 == r->request->n_messages;
    prompt_builder_template(&r->out, "<|im_start|>assistant\n");
    if (stable(r) && message->tokens != NULL && !is_open) {
        prompt_builder_tokens(&r->out, r->model, message, index);
        prompt_builder_template(&r->out, "<|im_end|>\n");
        return MOTE_OK;
    }
    chat_range content = trimmed(r), reasoning = {0, 0};
    if (!message->has_reasoning)
        reasoning = split_thinking(r, &content);
    /* The template drops the block once another question follows; stable mode keeps it. */
    if (stable(r) || index > r->last_query)
        put_think_block(r, message, reasoning);
    prompt_builder_append(&r->out, &r->content, content);
    const chat_range visible = prompt_builder_trim(&r->content, content);
    put_calls(r, message, visible.begin < visible.end);
    if (is_open && message->n_calls > 0)
        return refuse(err, "A message with tool calls cannot be continued.");
    if (!is_open)
        prompt_builder_template(&r->out, "<|im_end|>\n");
    return MOTE_OK;
}

static void put_tool_result(renderer *r, size_t index)
{
    const size_t n = r->request->n_messages;
    /* Without a message before it, the template forgets to open the turn; stable mode does not. */
    const bool opens = index > 0 ? role_of(r, index - 1) != CHAT_ROLE_TOOL : stable(r);
    const bool closes = index + 1 == n || role_of(r, index + 1) != CHAT_ROLE_TOOL;
    prompt_builder_template(&r->out,
                            opens ? "<|im_start|>user\n<tool_response>\n" : "\n<tool_response>\n");
    prompt_builder_append(&r->out, &r->content, trimmed(r));
    prompt_builder_template(&r->out,
                            closes ? "\n</tool_response><|im_end|>\n" : "\n</tool_response>");
}

static mote_status put_message(renderer *r, size_t index, mote_error *err)
{
    TRY(read_content(r, index, true, false, err));
    switch (role_of(r, index)) {
    case CHAT_ROLE_SYSTEM:
        if (index < leading_systems(r))
            return MOTE_OK;
        if (!stable(r))
            return refuse(err, "System message must be at the beginning.");
        prompt_builder_template(&r->out, "<|im_start|>system\n");
        prompt_builder_append(&r->out, &r->content, trimmed(r));
        prompt_builder_template(&r->out, "<|im_end|>\n");
        break;
    case CHAT_ROLE_USER:
        prompt_builder_template(&r->out, "<|im_start|>user\n");
        prompt_builder_append(&r->out, &r->content, trimmed(r));
        prompt_builder_template(&r->out, "<|im_end|>\n");
        break;
    case CHAT_ROLE_ASSISTANT: TRY(put_assistant(r, index, err)); break;
    case CHAT_ROLE_TOOL: put_tool_result(r, index); break;
    default: return refuse(err, "Unexpected message role.");
    }
    prompt_builder_mark(&r->out, CHAT_MARK_MESSAGE, index);
    return MOTE_OK;
}

/* ---- all of it ---- */

static bool thinks(const renderer *r)
{
    if (r->request->thinking == CHAT_THINK_AUTO)
        return r->how->thinks;
    return r->request->thinking == CHAT_THINK_ON;
}

static mote_status check_request(const chat_request *q, mote_error *err)
{
    if (q->n_messages == 0)
        return refuse(err, "No messages provided.");
    if (q->n_messages > CHAT_MAX_MESSAGES)
        return err_set(err, MOTE_E_ARG, "%zu messages are too many: at most %d", q->n_messages,
                       CHAT_MAX_MESSAGES);
    if (q->n_tools > CHAT_MAX_TOOLS)
        return err_set(err, MOTE_E_ARG, "%zu tools are too many: at most %d", q->n_tools,
                       CHAT_MAX_TOOLS);
    const chat_message *last = &q->messages[q->n_messages - 1];
    if (q->continue_last && (q->mode != CHAT_STABLE || last->role != CHAT_ROLE_ASSISTANT))
        return refuse(err,
                      "Only an assistant's message can be continued, and only in stable mode.");
    return MOTE_OK;
}

static mote_status render(renderer *r, chat_prompt *out, mote_error *err)
{
    const chat_request *q = r->request;
    TRY(check_request(q, err));
    TRY(put_beginning(r, err));
    TRY(find_last_query(r, err));
    for (size_t i = 0; i < q->n_messages; i++)
        TRY(put_message(r, i, err));
    if (!q->no_generation_prompt && !q->continue_last) {
        prompt_builder_mark(&r->out, CHAT_MARK_PROMPT, 0);
        out->thinking = thinks(r);
        prompt_builder_template(&r->out, out->thinking
                                             ? "<|im_start|>assistant\n<think>\n"
                                             : "<|im_start|>assistant\n<think>\n\n</think>\n\n");
    }
    TRY(strbuf_check(&r->out.text, err));
    TRY(strbuf_check(&r->content.text, err));
    return prompt_builder_encode(&r->out, r->model, r->how, q, out, err);
}

mote_status chat_render(const mote_model *model, const chat_template *how,
                        const chat_request *request, chat_prompt *out, mote_error *err)
{
    renderer r = {.model = model, .how = how, .request = request, .prompt = out};
    *out = (chat_prompt){0};
    mote_status status = render(&r, out, err);
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
