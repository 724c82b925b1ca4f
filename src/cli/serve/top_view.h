/* SPDX-License-Identifier: Apache-2.0 */
/*
 * top_view.h - the screen of `mote top`, from two samples of /v1/status.
 *
 * Rates are differences between the samples, so the first sample has none. The output is lines of
 * text; nothing here uses a terminal.
 */
#ifndef MOTE_CLI_SERVE_TOP_VIEW_H
#define MOTE_CLI_SERVE_TOP_VIEW_H

#include "base/str.h"
#include "json/json.h"

typedef enum top_sort { TOP_BY_AGE, TOP_BY_GENERATED, TOP_BY_PROMPT, TOP_SORTS } top_sort;

typedef struct top_sample {
    json_doc *doc; /* NULL: none */
    double at;     /* os_now */
} top_sample;

typedef struct top_view {
    top_sample now, before;
    top_sort sort;
    bool paused;
    bool utf8;
    unsigned columns, rows;
} top_view;

/* At most `rows` lines of at most `columns` columns, without control characters. */
void top_draw(strbuf *out, const top_view *v);
const char *top_sort_name(top_sort sort);

#endif
