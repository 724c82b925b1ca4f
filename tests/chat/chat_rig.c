/* SPDX-License-Identifier: Apache-2.0 */
/* chat_rig.c - see chat_rig.h. */
#include "chat/chat_rig.h"

#include "base/os.h"
#include "engine/engine_int.h"
#include "support/data.h"

#include <stdio.h>
#include <stdlib.h>

struct rig_vocabulary {
    os_map file;
    gguf *directory;
    struct mote_model model; /* has only a tokenizer */
};

static void give_up(const char *what, const mote_error *err)
{
    fprintf(stderr, "%s: %s\n", what, err->text);
    exit(1);
}

mote_model *rig_tiny(void)
{
    char path[TEST_PATH];
    mote_model *model;
    mote_error err;
    if (!test_data_path(path, "mote-tiny-Q4_K_M.gguf"))
        exit(TEST_SKIPPED);
    if (mote_model_open(&model, path, NULL, &err) != MOTE_OK)
        give_up(path, &err);
    return model;
}

rig_vocabulary *rig_vocabulary_open(void)
{
    char path[TEST_PATH];
    mote_error err;
    rig_vocabulary *v = calloc(1, sizeof *v);
    if (v == NULL || !test_data_path(path, "qwen35-vocab.gguf"))
        exit(TEST_SKIPPED);
    if (os_map_open(&v->file, path, &err) != MOTE_OK ||
        gguf_read(&v->directory, v->file.data, v->file.bytes, &err) != MOTE_OK ||
        tok_new(&v->model.tok, v->directory, &err) != MOTE_OK)
        give_up(path, &err);
    return v;
}

const mote_model *rig_vocabulary_model(const rig_vocabulary *v)
{
    return &v->model;
}

void rig_vocabulary_close(rig_vocabulary *v)
{
    tok_free(v->model.tok);
    gguf_free(v->directory);
    os_map_close(&v->file);
    free(v);
}

int rig_each_line(const char *where, void (*check)(const json_node *line, void *with), void *with)
{
    char path[TEST_PATH];
    size_t bytes = 0;
    mote_error err = {0};
    int n = 0;
    if (strncmp(where, "tests/", 6) == 0)
        snprintf(path, sizeof path, "%s/%s", MOTE_TEST_SOURCE, where + 6);
    else if (where[0] == '/')
        snprintf(path, sizeof path, "%s", where);
    else if (!test_data_path(path, where))
        give_up(where, &err);
    char *text = (char *)test_file_read(path, &bytes), *end = text + bytes;
    if (text == NULL)
        give_up(path, &err);
    for (char *at = text; at < end; n++) {
        char *stop = memchr(at, '\n', (size_t)(end - at));
        json_doc *doc;
        stop = stop != NULL ? stop : end;
        if (json_doc_read(&doc, (str){at, (size_t)(stop - at)}, &err) != MOTE_OK)
            give_up(path, &err);
        check(json_doc_root(doc), with);
        json_doc_free(doc);
        at = stop + 1;
    }
    free(text);
    return n;
}

const char *rig_text(const json_node *node, const char *name)
{
    const json_node *member = json_node_get(node, name);
    return json_node_is(member, JSON_IS_STRING) ? json_node_text(member).p : NULL;
}

json_doc *rig_json(const char *text)
{
    json_doc *doc;
    mote_error err;
    if (json_doc_read(&doc, str_of(text), &err) != MOTE_OK)
        give_up(text, &err);
    return doc;
}
