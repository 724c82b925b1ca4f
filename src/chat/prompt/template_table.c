/* SPDX-License-Identifier: Apache-2.0 */
/* template_table.c - the table of chat templates and their recognition. See template_table.h. */
#include "chat/prompt/template_table.h"

#include "chat/prompt/chat_context.h"

#include <stdio.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* ---- the table ---- */

/* The test chat_render compares each hash with the template text in the test data, and
 * scripts/chat_compare compares the renderer with jinja2 row by row. */
static const chat_style styles[] = {
    /* Qwen 3.5, 0.8B and 2B */
    {.name = "qwen3.5-small", .hash = 0xEA7113E61D9A8BCFu, .splits_content = true},
    /* Qwen 3.5, 4B and larger */
    {.name = "qwen3.5", .hash = 0x0ED0A1D8B9D7E0BEu, .thinks = true, .splits_content = true},
    /* Qwen 3.5, GGUF files of 2B, 4B and 9B by unsloth */
    {.name = "qwen3.5-unsloth",
     .hash = 0xC5797ED5D540FE54u,
     .splits_content = true,
     .arguments = STYLE_ARGUMENTS_ANY},
    /* Qwen 3.6 */
    {.name = "qwen3.6",
     .hash = 0x579B2C2E5ECDAE85u,
     .thinks = true,
     .history = STYLE_HISTORY_ON_DEMAND,
     .splits_content = true,
     .json_values = true},
    /* Qwen 3.6, files by unsloth */
    {.name = "qwen3.6-unsloth",
     .hash = 0xD7CB24554CF2D690u,
     .thinks = true,
     .history = STYLE_HISTORY_ON_DEMAND,
     .splits_content = true,
     .no_empty_system = true,
     .no_query_needed = true,
     .unknown_ignored = true,
     .systems = STYLE_SYSTEMS_TWO,
     .arguments = STYLE_ARGUMENTS_ANY},
    /* Qwen 3.8 */
    {.name = "qwen3.8",
     .hash = 0xB488FED7DAE5F0EDu,
     .thinks = true,
     .history = STYLE_HISTORY_KEPT,
     .effort = STYLE_EFFORT_THREE,
     .json_values = true,
     .no_empty_system = true,
     .arguments = STYLE_ARGUMENTS_OR_EMPTY},
    /* Qwen 3.8, GGUF files by unsloth */
    {.name = "qwen3.8-unsloth",
     .hash = 0xDDF19480A6A636FCu,
     .thinks = true,
     .history = STYLE_HISTORY_KEPT,
     .effort = STYLE_EFFORT_AND_HIGH,
     .json_values = true,
     .no_empty_system = true,
     .no_query_needed = true,
     .systems = STYLE_SYSTEMS_LEADING,
     .arguments = STYLE_ARGUMENTS_OR_BLANK},
};

const chat_style *chat_style_at(size_t i)
{
    return i < sizeof styles / sizeof *styles ? &styles[i] : NULL;
}

const chat_style *chat_style_find(str name)
{
    for (size_t i = 0; chat_style_at(i) != NULL; i++)
        if (str_is(name, styles[i].name))
            return &styles[i];
    return NULL;
}

/* ---- recognition ---- */

/* GGUF converters differ in whether they keep the final line break. */
static str text_trim_newlines(str text)
{
    while (text.n > 0 && (text.p[text.n - 1] == '\n' || text.p[text.n - 1] == '\r'))
        text.n--;
    return text;
}

static bool text_contains(str text, const char *words)
{
    const size_t n = strlen(words);
    for (size_t i = 0; i + n <= text.n; i++)
        if (memcmp(text.p + i, words, n) == 0)
            return true;
    return false;
}

/* The row for a changed text: the newest version of which the text has the setting. */
static const chat_style *style_most_similar(str text, bool thinks)
{
    const bool unsloth = text_contains(text, "'developer'");
    if (text_contains(text, "reasoning_effort"))
        return chat_style_find(str_of(unsloth ? "qwen3.8-unsloth" : "qwen3.8"));
    if (text_contains(text, "preserve_thinking"))
        return chat_style_find(str_of(unsloth ? "qwen3.6-unsloth" : "qwen3.6"));
    return chat_style_find(str_of(thinks ? "qwen3.5" : "qwen3.5-small"));
}

/* The parameter count decides if the text says nothing: small models do not think by default. */
static const chat_style *style_of_size(uint64_t parameters)
{
    return chat_style_find(
        str_of(chat_size_of(parameters) == CHAT_SIZE_SMALL ? "qwen3.5-small" : "qwen3.5"));
}

void chat_template_recognise(chat_template *out, str text, uint64_t parameters)
{
    text = text_trim_newlines(text);
    out->text_bytes = text.n;
    out->text_hash = text.n > 0 ? XXH3_64bits(text.p, text.n) : 0;
    out->origin = text.n > 0 ? CHAT_ORIGIN_FOREIGN : CHAT_ORIGIN_MISSING;
    out->style = style_of_size(parameters);
    out->thinks = out->style->thinks;
    for (size_t i = 0; text.n > 0 && chat_style_at(i) != NULL; i++)
        if (styles[i].hash == out->text_hash) {
            out->origin = CHAT_ORIGIN_KNOWN;
            out->style = &styles[i];
            out->thinks = styles[i].thinks;
            return;
        }
    if (!text_contains(text, "<function=") || !text_contains(text, "<|im_start|>"))
        return;
    /* Templates of the family end with one of two branches. */
    const bool tests_true = text_contains(text, "enable_thinking is true");
    const bool tests_false = text_contains(text, "enable_thinking is false");
    if (!tests_true && !tests_false)
        return;
    out->origin = CHAT_ORIGIN_CHANGED;
    out->thinks = tests_false;
    out->style = style_most_similar(text, out->thinks);
}

mote_status chat_template_choose(chat_template *out, const char *name, mote_error *err)
{
    if (name == NULL || name[0] == '\0' || strcmp(name, "auto") == 0)
        return MOTE_OK;
    const chat_style *style = chat_style_find(str_of(name));
    if (style != NULL) {
        out->style = style;
        out->thinks = style->thinks;
        out->origin = CHAT_ORIGIN_CHOSEN;
        return MOTE_OK;
    }
    char names[256] = "auto";
    size_t n = strlen(names);
    for (size_t i = 0; chat_style_at(i) != NULL && n < sizeof names; i++)
        n += (size_t)snprintf(names + n, sizeof names - n, ", %s", styles[i].name);
    return err_set(err, MOTE_E_ARG, "the chat template must be one of %s; got '%.60s'", names,
                   name);
}

const char *chat_origin_name(chat_origin origin)
{
    static const char *const names[] = {"known", "changed", "foreign", "missing", "chosen"};
    return names[origin];
}

void chat_template_note(const chat_template *template, char out[MOTE_TEMPLATE_NOTE])
{
    static const char choose[] = "if answers look wrong, choose another with --chat-template";
    out[0] = '\0';
    switch (template->origin) {
    case CHAT_ORIGIN_KNOWN:
    case CHAT_ORIGIN_CHOSEN: return;
    case CHAT_ORIGIN_MISSING:
        snprintf(out, MOTE_TEMPLATE_NOTE,
                 "the file has no chat template; messages are rendered as %s (%s)",
                 template->style->name, choose);
        return;
    case CHAT_ORIGIN_CHANGED:
    case CHAT_ORIGIN_FOREIGN:
        snprintf(out, MOTE_TEMPLATE_NOTE,
                 "the chat template of the file (%zu bytes, xxh3 %016llx) is %s; messages are "
                 "rendered as %s, thinking %s by default (%s)",
                 template->text_bytes, (unsigned long long)template->text_hash,
                 template->origin == CHAT_ORIGIN_CHANGED ? "a modified template of this family"
                                                         : "unknown to mote",
                 template->style->name, template->thinks ? "on" : "off", choose);
        return;
    }
}

/* ---- control tokens ---- */

static const char *const tag_texts[CHAT_N_TAGS] = {
    "<|im_start|>",     "<|im_end|>",     "<think>",         "</think>",
    "<tool_call>",      "</tool_call>",   "<tool_response>", "</tool_response>",
    "<|vision_start|>", "<|vision_end|>", "<|image_pad|>",   "<|video_pad|>",
};

const char *chat_tag_text(chat_tag tag)
{
    return tag_texts[tag];
}

mote_status chat_template_tags(chat_template *out, const mote_model *model, mote_error *err)
{
    for (int tag = 0; tag < CHAT_N_TAGS; tag++) {
        size_t n = 0;
        TRY(mote_tokenize(model, tag_texts[tag], strlen(tag_texts[tag]), MOTE_TEXT_CONTROL,
                          &out->tags[tag], 1, &n, err));
        if (n != 1)
            return err_set(err, MOTE_E_UNSUPPORTED, "control token %s is missing in the vocabulary",
                           tag_texts[tag]);
    }
    return MOTE_OK;
}

mote_status chat_template_of(chat_template *out, const mote_model *model, mote_error *err)
{
    mote_model_info info;
    *out = (chat_template){0};
    mote_model_describe(model, &info);
    chat_template_recognise(out, (str){info.chat_template, info.chat_template_bytes},
                            info.parameters);
    return chat_template_tags(out, model, err);
}
