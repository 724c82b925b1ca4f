/* SPDX-License-Identifier: Apache-2.0 */
/* template.c - see template.h. */
#include "chat/prompt/template.h"

#include "chat/prompt/presets.h"

static const char *const tag_texts[CHAT_N_TAGS] = {
    "<|im_start|>",     "<|im_end|>",     "<think>",         "</think>",
    "<tool_call>",      "</tool_call>",   "<tool_response>", "</tool_response>",
    "<|vision_start|>", "<|vision_end|>", "<|image_pad|>",   "<|video_pad|>",
};

const char *chat_tag_text(chat_tag tag)
{
    return tag_texts[tag];
}

const char *chat_origin_name(chat_origin origin)
{
    static const char *const names[] = {"official", "changed", "foreign", "missing"};
    return names[origin];
}

/* The template may end in a line break or not, depending on who packed the file. */
static str without_last_break(str text)
{
    while (text.n > 0 && (text.p[text.n - 1] == '\n' || text.p[text.n - 1] == '\r'))
        text.n--;
    return text;
}

/* FNV-1a: it recognises what we know and proves nothing about what we do not. */
static uint64_t fingerprint(str text)
{
    uint64_t hash = 0xCBF29CE484222325u;
    for (size_t i = 0; i < text.n; i++)
        hash = (hash ^ (unsigned char)text.p[i]) * 0x100000001B3u;
    return hash;
}

static bool contains(str text, const char *words)
{
    const size_t n = strlen(words);
    for (size_t i = 0; i + n <= text.n; i++)
        if (memcmp(text.p + i, words, n) == 0)
            return true;
    return false;
}

/* Both templates begin alike; the last branch asks one question or the other. */
void chat_template_recognise(chat_template *out, str text, uint64_t parameters)
{
    enum { SMALL = 0, LARGE = 1 };
    static const uint64_t official[] = {
        [SMALL] = 0x407BBCDEB62737B7u, [LARGE] = 0xF07C510F47FBACA0u};
    text = without_last_break(text);
    const uint64_t hash = fingerprint(text);
    out->thinks = chat_size_of(parameters) == CHAT_SIZE_LARGE;
    out->origin = text.n > 0 ? CHAT_ORIGIN_FOREIGN : CHAT_ORIGIN_MISSING;
    if (hash == official[SMALL] || hash == official[LARGE]) {
        out->origin = CHAT_ORIGIN_OFFICIAL;
        out->thinks = hash == official[LARGE];
    } else if (contains(text, "<function=") && contains(text, "<|im_start|>")) {
        const bool asks_true = contains(text, "enable_thinking is true");
        const bool asks_false = contains(text, "enable_thinking is false");
        if (asks_true != asks_false) {
            out->origin = CHAT_ORIGIN_CHANGED;
            out->thinks = asks_false;
        }
    }
}

mote_status chat_template_tags(chat_template *out, const mote_model *model, mote_error *err)
{
    for (int tag = 0; tag < CHAT_N_TAGS; tag++) {
        size_t n = 0;
        TRY(mote_tokenize(model, tag_texts[tag], strlen(tag_texts[tag]), MOTE_TEXT_CONTROL,
                          &out->tags[tag], 1, &n, err));
        if (n != 1)
            return err_set(err, MOTE_E_UNSUPPORTED, "the vocabulary has no control token %s",
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
