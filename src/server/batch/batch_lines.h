/* SPDX-License-Identifier: Apache-2.0 */
/*
 * batch_lines.h - the requests of a batch file: one JSON object per line, and the order to run them.
 *
 * A line is {"custom_id","method":"POST","url","body"}. A bare body is a chat completion. Lines with
 * prompts that begin equally run one after another, so that the prefix cache has what they share: they are
 * sorted by the text of their prompts. A request is checked when it runs, so a bad line
 * is an error of that line only.
 *
 * The file is mapped. It must not change while it is open.
 */
#ifndef MOTE_SERVER_BATCH_BATCH_LINES_H
#define MOTE_SERVER_BATCH_BATCH_LINES_H

#include "base/os_map.h"
#include "base/str.h"

typedef struct batch_line {
    str text;
    uint32_t number; /* in the file, from 0; blank lines count */
    bool done;       /* the output has its result */
    bool repeated;   /* an earlier line has the same custom_id */
    uint64_t hash;   /* of the text */
    uint64_t custom; /* of the custom_id; 0: none */
    uint64_t group;  /* of what a prompt depends on besides `prompt`: url, model, tools */
    str prompt;      /* messages, prompt or input */
} batch_line;

typedef struct batch_lines {
    os_map map;
    batch_line *lines; /* [n], as in the file, without blank lines */
    uint32_t n, room;
    const batch_line **order; /* [n_order]: what to run, in this order */
    uint32_t n_order;
} batch_lines;

/* Which lines to run. */
typedef struct batch_part {
    uint32_t most;          /* a file with more lines is refused; 0: any number */
    uint32_t limit;         /* the first so many lines; 0: all */
    uint32_t shard, shards; /* part number `shard`, from 1, of `shards`; 0: all */
} batch_part;

/* Maps the file and sorts its lines. Takes seconds for millions of lines. MOTE_E_ARG: it has more
 * than part->most. */
mote_status batch_lines_open(batch_lines *b, const char *path, const batch_part *part,
                             mote_error *err);
void batch_lines_close(batch_lines *b);
/* The line with this number in the file; NULL: there is none, or it is blank. */
batch_line *batch_lines_find(batch_lines *b, uint32_t number);

/* ---- the request of a line ---- */

typedef struct batch_request {
    str custom_id; /* a JSON string; empty: none */
    str url;       /* a JSON string */
    str body;      /* a JSON object */
    /* NULL: valid. Otherwise a short word and a sentence for people. */
    const char *code, *message;
} batch_request;

/* `bare`: a line may be a body without custom_id and url. */
batch_request batch_line_read(const batch_line *line, bool bare);

/* ---- ids of results ---- */

/* "batch_req_", number and hash of the line. So a result names its line, and results of another file
 * are recognised. */
enum { BATCH_ID_BYTES = 10 + 8 + 16 + 1 };
void batch_line_id(const batch_line *line, char out[BATCH_ID_BYTES]);
/* The line of a result; NULL: it is not one of this file. */
batch_line *batch_lines_find_id(batch_lines *b, str id);

#endif
