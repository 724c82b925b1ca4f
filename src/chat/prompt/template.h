/* SPDX-License-Identifier: Apache-2.0 */
/*
 * template.h - which of the two official templates a model has, and its control tokens.
 *
 * The templates of Qwen 3.5 differ in one branch: whether an answer begins with thinking when
 * nobody said. Text that a file carries in their place is not executed; if it is another
 * template, the nearer of the two is used and `origin` says so.
 */
#ifndef MOTE_CHAT_PROMPT_TEMPLATE_H
#define MOTE_CHAT_PROMPT_TEMPLATE_H

#include "base/err.h"
#include "base/str.h"

/* Spelt by the scaffold. The order is that of the table in template.c. */
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
    CHAT_ORIGIN_OFFICIAL = 0, /* the file carries this very template */
    CHAT_ORIGIN_CHANGED,      /* one with the same last branch, otherwise different */
    CHAT_ORIGIN_FOREIGN,      /* something else */
    CHAT_ORIGIN_MISSING       /* nothing */
} chat_origin;

typedef struct chat_template {
    bool thinks;        /* by default: the template of 4B and larger */
    chat_origin origin; /* if FOREIGN or MISSING, `thinks` follows from the size of the model */
    mote_token tags[CHAT_N_TAGS];
} chat_template;

/* Of an open model. MOTE_E_UNSUPPORTED: its vocabulary lacks a control token. */
mote_status chat_template_of(chat_template *out, const mote_model *model, mote_error *err);

/* The two halves of it: the text alone, and the tokens alone. */
void chat_template_recognise(chat_template *out, str text, uint64_t parameters);
mote_status chat_template_tags(chat_template *out, const mote_model *model, mote_error *err);

const char *chat_tag_text(chat_tag tag);
/* "official", "changed", "foreign", "missing" */
const char *chat_origin_name(chat_origin origin);

#endif
