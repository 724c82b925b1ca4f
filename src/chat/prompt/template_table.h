/* SPDX-License-Identifier: Apache-2.0 */
/*
 * template_table.h - the chat templates that mote implements, and which of them a model file has.
 *
 * mote never executes the template text of a GGUF file. One renderer (render.c) implements the
 * templates of the family; a row of the table (template_table.c) has the switches in which one
 * template differs from the others. A file's template is recognised by a hash of its text. Any
 * other text is reported (chat_template_note()) and rendered by the most similar row.
 *
 * Rows are constants. Everything is thread-safe.
 */
#ifndef MOTE_CHAT_PROMPT_TEMPLATE_TABLE_H
#define MOTE_CHAT_PROMPT_TEMPLATE_TABLE_H

#include "base/err.h"
#include "base/str.h"

#include <mote_chat.h>

/* ---- the table ---- */

/* Think blocks of answers before the last user query. Later ones are always rendered. */
typedef enum style_history {
    STYLE_HISTORY_DROPPED,   /* removed; preserve_thinking has no effect */
    STYLE_HISTORY_ON_DEMAND, /* kept if preserve_thinking is true */
    STYLE_HISTORY_KEPT       /* removed if preserve_thinking is given and not true */
} style_history;

/* System messages. All but FIRST treat `developer` as system. */
typedef enum style_systems {
    STYLE_SYSTEMS_FIRST,  /* only as first message; rejected elsewhere */
    STYLE_SYSTEMS_TWO,    /* the first two, joined by a line break; ignored elsewhere */
    STYLE_SYSTEMS_LEADING /* all leading ones, joined, empty ones skipped; rejected elsewhere */
} style_systems;

/* Arguments of a tool call that are not an object. Absent arguments are always accepted. */
typedef enum style_arguments {
    STYLE_ARGUMENTS_OBJECT,   /* rejected */
    STYLE_ARGUMENTS_OR_EMPTY, /* "" means none, others are rejected */
    STYLE_ARGUMENTS_OR_BLANK, /* null and blank strings mean none, others are rejected */
    STYLE_ARGUMENTS_ANY       /* ignored */
} style_arguments;

/* Values of reasoning_effort. */
typedef enum style_effort {
    STYLE_EFFORT_NONE,    /* the template does not read it */
    STYLE_EFFORT_THREE,   /* xhigh (default), medium, low */
    STYLE_EFFORT_AND_HIGH /* also high, which equals xhigh */
} style_effort;

typedef struct chat_style {
    const char *name; /* value of --chat-template */
    uint64_t hash;    /* XXH3-64 of the text without final line breaks */
    bool thinks;      /* thinking is on unless the request turns it off */
    style_history history;
    style_effort effort;
    bool splits_content;  /* without reasoning_content, text before </think> is the reasoning */
    bool json_values;     /* argument values: JSON except strings; false: Python's str() */
    bool no_empty_system; /* an empty system message makes no system turn */
    bool no_query_needed; /* accepts a conversation without a user query */
    bool unknown_ignored; /* messages of unknown roles are ignored instead of rejected */
    style_systems systems;
    style_arguments arguments;
} chat_style;

/* Row i of the table; NULL behind the last. */
const chat_style *chat_style_at(size_t i);
/* NULL: no row has this name. */
const chat_style *chat_style_find(str name);

/* ---- the template of a model ---- */

/* Control tokens of all templates, in the order of the table in template_table.c. */
typedef enum chat_tag {
    CHAT_TAG_IM_START,
    CHAT_TAG_IM_END,
    CHAT_TAG_THINK,
    CHAT_TAG_THINK_END,
    CHAT_TAG_CALL,
    CHAT_TAG_CALL_END,
    CHAT_TAG_RESPONSE,
    CHAT_TAG_RESPONSE_END,
    CHAT_TAG_VISION,
    CHAT_TAG_VISION_END,
    CHAT_TAG_IMAGE,
    CHAT_TAG_VIDEO,
    CHAT_N_TAGS
} chat_tag;

typedef enum chat_origin {
    CHAT_ORIGIN_KNOWN = 0, /* the file carries exactly this template */
    CHAT_ORIGIN_CHANGED,   /* another text that looks like a template of the family */
    CHAT_ORIGIN_FOREIGN,   /* another template */
    CHAT_ORIGIN_MISSING,   /* the file has no template */
    CHAT_ORIGIN_CHOSEN     /* the user chose it by name */
} chat_origin;

typedef struct chat_template {
    const chat_style *style;
    chat_origin origin;
    bool thinks;        /* style->thinks, or what a changed text says */
    uint64_t text_hash; /* of the file's template text */
    size_t text_bytes;
    mote_token tags[CHAT_N_TAGS];
} chat_template;

/* Reads the template of an open model. MOTE_E_UNSUPPORTED: the vocabulary lacks a control token. */
mote_status chat_template_of(chat_template *out, const mote_model *model, mote_error *err);
/* Renders with row `name` from now on, whatever the file carries. NULL, "" and "auto" change
 * nothing. MOTE_E_ARG: no such row; the error text lists them. */
mote_status chat_template_choose(chat_template *out, const char *name, mote_error *err);

/* The two halves of chat_template_of(): the template text alone, the control tokens alone. */
void chat_template_recognise(chat_template *out, str text, uint64_t parameters);
mote_status chat_template_tags(chat_template *out, const mote_model *model, mote_error *err);

const char *chat_tag_text(chat_tag tag);
/* "known", "changed", "foreign", "missing", "chosen" */
const char *chat_origin_name(chat_origin origin);

/* What the user must know about a template that is not known, and what to do. Empty for KNOWN and
 * CHOSEN. */
void chat_template_note(const chat_template *template, char out[MOTE_TEMPLATE_NOTE]);

#endif
