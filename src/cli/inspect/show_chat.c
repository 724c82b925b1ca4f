/* SPDX-License-Identifier: Apache-2.0 */
/* show_chat.c - see show_chat.h. */
#include "cli/inspect/show_chat.h"

#include "chat/prompt/chat_context.h"

#include <stdio.h>

static const char *const origins[] = {
    [CHAT_ORIGIN_OFFICIAL] = "official template",
    [CHAT_ORIGIN_CHANGED] = "template changed, read as the official one",
    [CHAT_ORIGIN_FOREIGN] = "unknown template, the official one is used instead",
    [CHAT_ORIGIN_MISSING] = "no template, the official one is used",
};

static bool is_default(const chat_preset *preset, const chat_template *how)
{
    return preset->thinking == how->thinks && preset->task == CHAT_TASK_GENERAL;
}

static void print_preset(cli_out *o, const chat_preset *preset, bool by_default)
{
    out_printf(o, "    %-24s  temperature %.1f  top_p %.2f  top_k %u  presence %.1f%s\n",
               preset->name, (double)preset->temperature, (double)preset->top_p, preset->top_k,
               (double)preset->presence, by_default ? "  default" : "");
}

void show_chat_text(const mote_model *model, cli_out *o)
{
    chat_template how;
    mote_model_info info;
    mote_error err;
    mote_model_describe(model, &info);
    if (chat_template_of(&how, model, &err) != MOTE_OK) {
        out_printf(o, "  Chat         not possible: %s\n", err.text);
        return;
    }
    out_printf(o, "  Chat         %s, thinks %s\n", origins[how.origin],
               how.thinks ? "unless told not to" : "only if asked");
    for (size_t i = 0; chat_preset_at(i) != NULL; i++)
        if (chat_preset_at(i)->size == chat_size_of(info.parameters))
            print_preset(o, chat_preset_at(i), is_default(chat_preset_at(i), &how));
}

static void write_preset(json *j, const chat_preset *preset, bool by_default)
{
    json_begin_object(j);
    json_key_text(j, "name", preset->name);
    json_key_bool(j, "default", by_default);
    json_key(j, "temperature");
    json_f32(j, preset->temperature);
    json_key(j, "top_p");
    json_f32(j, preset->top_p);
    json_key_u64(j, "top_k", preset->top_k);
    json_key(j, "min_p");
    json_f32(j, preset->min_p);
    json_key(j, "presence_penalty");
    json_f32(j, preset->presence);
    json_key(j, "repetition_penalty");
    json_f32(j, preset->repetition);
    json_end_object(j);
}

void show_chat_json(const mote_model *model, json *j)
{
    chat_template how;
    mote_model_info info;
    json_key(j, "chat");
    mote_model_describe(model, &info);
    if (chat_template_of(&how, model, NULL) != MOTE_OK) {
        json_absent(j);
        return;
    }
    json_begin_object(j);
    json_key_text(j, "template", chat_origin_name(how.origin));
    json_key_bool(j, "thinks", how.thinks);
    json_key(j, "presets");
    json_begin_array(j);
    for (size_t i = 0; chat_preset_at(i) != NULL; i++)
        if (chat_preset_at(i)->size == chat_size_of(info.parameters))
            write_preset(j, chat_preset_at(i), is_default(chat_preset_at(i), &how));
    json_end_array(j);
    json_end_object(j);
}
