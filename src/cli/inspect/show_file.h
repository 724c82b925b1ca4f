/* SPDX-License-Identifier: Apache-2.0 */
/*
 * show_file.h - tensors and metadata of a GGUF file, for `mote show`.
 *
 * Reads the file through gguf/, because mote.h does not expose tensors. Running a model does not
 * need this.
 */
#ifndef MOTE_CLI_INSPECT_SHOW_FILE_H
#define MOTE_CLI_INSPECT_SHOW_FILE_H

#include "cli/term/output.h"
#include "gguf/gguf_files.h"

enum { SHOW_MAX_FORMATS = 48, SHOW_ARRAY_MAX = 16 };

typedef struct show_format {
    char name[24];
    uint64_t tensors;
    uint64_t values;
    uint64_t bytes;
} show_format;

typedef struct show_file {
    gguf_files files;
    const gguf *gguf;
    show_format formats[SHOW_MAX_FORMATS]; /* most bytes first */
    size_t n_formats;
    uint64_t tensor_bytes;
} show_file;

mote_status show_file_open(show_file *f, const char *path, mote_error *err);
void show_file_close(show_file *f);

/* The files of a split model; nothing for a single file. */
void show_parts_text(const show_file *f, cli_out *o);
void show_parts_json(const show_file *f, strbuf *j);

/* A string value of the metadata, or "" */
str show_file_text(const show_file *f, const char *key);

void show_formats_text(const show_file *f, cli_out *o);
void show_tensors_text(const show_file *f, cli_out *o);
void show_metadata_text(const show_file *f, cli_out *o, size_t columns);

/* Each writes one key and its value into the open JSON object. The long ones write the document to
 * `out` in parts. */
void show_formats_json(const show_file *f, strbuf *j);
void show_tensors_json(const show_file *f, strbuf *j, cli_out *out);
void show_metadata_json(const show_file *f, strbuf *j, cli_out *out);

#endif
