/* SPDX-License-Identifier: Apache-2.0 */
/*
 * top_view.h - the screen of `mote top`, from two readings of /v1/status.
 *
 * Speeds are differences between the readings; a first reading has none. Nothing here touches
 * a terminal: what comes out is lines of text.
 */
#ifndef MOTE_CLI_SERVE_TOP_VIEW_H
#define MOTE_CLI_SERVE_TOP_VIEW_H

#include "base/strbuf.h"
#include "json/json.h"

typedef enum top_sort { TOP_BY_AGE, TOP_BY_WRITTEN, TOP_BY_PROMPT, TOP_SORTS } top_sort;

typedef struct top_reading {
    json_doc *doc; /* NULL: there is none */
    double at;     /* os_now's clock */
} top_reading;

typedef struct top_view {
    top_reading now, before;
    top_sort sort;
    bool paused;
    bool utf8;
    unsigned columns, rows;
} top_view;

/* Lines without controls, each at most `columns` wide, at most `rows` of them. */
void top_draw(strbuf *out, const top_view *v);
const char *top_sort_name(top_sort sort);

#endif
