/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gguf_files.h - a model on disk: one mapped GGUF file, or all parts of a split one.
 *
 * The parts of a split model are in one directory and named STEM-00001-of-00003.gguf. The path of
 * any part opens all of them.
 */
#ifndef MOTE_GGUF_GGUF_FILES_H
#define MOTE_GGUF_GGUF_FILES_H

#include "base/os_map.h"
#include "gguf/gguf.h"

typedef struct gguf_files {
    gguf *gguf;   /* NULL: closed */
    os_map *maps; /* [n_parts] */
    char **paths; /* [n_parts] */
    uint32_t n_parts;
    uint64_t bytes; /* of all parts */
} gguf_files;

mote_status gguf_files_open(gguf_files *out, const char *path, mote_error *err);
void gguf_files_close(gguf_files *f);
/* Heap memory, without the mappings. */
uint64_t gguf_files_private_bytes(const gguf_files *f);

/* Appends one line per part with its path, size and time of change: `sources` of a gguf_writer. */
void gguf_files_put_sources(const gguf_files *f, strbuf *out);

/* gguf_writer_check_input for all parts. */
mote_status gguf_files_check_output(const gguf_files *f, const char *path, mote_error *err);

/* As the functions of os_map.h, over all parts. */
bool gguf_files_intact(const gguf_files *f);
mote_status gguf_files_check(const gguf_files *f, mote_error *err);
void gguf_files_drop_pages(const gguf_files *f);

/* ---- names of parts ---- */

typedef struct gguf_part_name {
    str stem;           /* without "-00001-of-00003.gguf"; with the directory */
    uint32_t no, count; /* from 1 */
} gguf_part_name;

/* False: the path is not that of a part. */
bool gguf_part_name_parse(gguf_part_name *out, str path);
/* Writes the path of part `no` (from 1). False: it does not fit. */
bool gguf_part_name_print(char *out, size_t room, const gguf_part_name *name, uint32_t no);

#endif
