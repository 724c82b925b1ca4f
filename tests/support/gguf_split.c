/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_split.c - see gguf_split.h. */
#include "support/gguf_split.h"

#include "base/os_map.h"
#include "support/gguf_build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char blocks_key[] = "qwen35.block_count", drafts_key[] = "qwen35.nextn_predict_layers";

static void part_copy_metadata(test_gguf *b, const gguf *g, bool draft_keys)
{
    for (uint64_t i = 0; i < gguf_n_kv(g); i++) {
        const gguf_kv *kv = gguf_kv_at(g, i);
        const uint64_t key_bytes = kv->key.n;
        if (!draft_keys && (str_is(kv->key, blocks_key) || str_is(kv->key, drafts_key)))
            continue;
        test_gguf_raw_u64(b, key_bytes);
        test_gguf_raw(b, kv->key.p, kv->key.n);
        if (kv->is_array)
            test_gguf_raw_u32(b, GGUF_ARRAY);
        test_gguf_raw_u32(b, kv->type);
        if (kv->is_array)
            test_gguf_raw_u64(b, kv->count);
        test_gguf_raw(b, kv->bytes, (size_t)kv->n_bytes);
        b->n_kv++;
    }
}

/* The types of the three keys are those of llama-gguf-split. */
static void part_put_position(test_gguf *b, uint32_t no, uint32_t count, uint64_t n_tensors)
{
    const uint16_t no16 = (uint16_t)no, count16 = (uint16_t)count;
    const int32_t total = (int32_t)n_tensors;
    test_gguf_kv(b, "split.no", GGUF_U16, &no16, sizeof no16);
    test_gguf_kv(b, "split.count", GGUF_U16, &count16, sizeof count16);
    test_gguf_kv(b, "split.tensors.count", GGUF_I32, &total, sizeof total);
}

static void part_copy_tensor(test_gguf *b, const gguf_tensor *t)
{
    char name[GGUF_MAX_KEY + 1];
    snprintf(name, sizeof name, "%.*s", (int)t->name.n, t->name.p);
    test_gguf_tensor(b, name, t->gguf_type, t->n_dims, t->dims, t->data, t->bytes);
}

static void part_copy_tensors(test_gguf *b, const gguf *g, uint64_t from, uint64_t end)
{
    for (uint64_t i = from; i < end; i++)
        part_copy_tensor(b, gguf_tensor_at(g, i));
}

static bool file_write(const test_gguf *b, const char *path)
{
    FILE *f = fopen(path, "wb");
    if (f == NULL)
        return false;
    const bool ok = fwrite(b->bytes, 1, b->n, f) == b->n;
    return fclose(f) == 0 && ok;
}

static bool part_write(const test_gguf *b, const char *stem, uint32_t no, uint32_t count)
{
    char path[1024];
    snprintf(path, sizeof path, "%s-%05u-of-%05u.gguf", stem, no + 1, count);
    return file_write(b, path);
}

static bool split_write(const gguf *g, const char *stem, uint32_t parts, bool empty_first)
{
    const uint64_t n = gguf_n_tensors(g);
    const uint32_t skipped = empty_first ? 1 : 0, filled = parts - skipped;
    bool ok = true;
    test_gguf *b = malloc(sizeof *b);
    for (uint32_t i = 0; i < parts && b != NULL && ok; i++) {
        test_gguf_begin(b);
        if (i == 0) {
            part_copy_metadata(b, g, true);
            b->alignment = gguf_alignment(g);
        }
        part_put_position(b, i, parts, n);
        if (i >= skipped)
            part_copy_tensors(b, g, (i - skipped) * n / filled, (i - skipped + 1) * n / filled);
        test_gguf_finish(b);
        ok = part_write(b, stem, i, parts);
        test_gguf_free(b);
    }
    free(b);
    return ok && b != NULL;
}

bool test_gguf_split(const char *source, const char *stem, uint32_t parts, bool empty_first)
{
    os_map map;
    gguf *g = NULL;
    if (os_map_open(&map, source, NULL) != MOTE_OK)
        return false;
    bool ok = gguf_read(&g, map.data, map.bytes, NULL) == MOTE_OK &&
              gguf_n_tensors(g) <= TEST_GGUF_MAX_TENSORS;
    ok = ok && split_write(g, stem, parts, empty_first);
    gguf_free(g);
    os_map_close(&map);
    return ok;
}

static bool head_has(const gguf_tensor *t, const char *block)
{
    return t->name.n > strlen(block) && memcmp(t->name.p, block, strlen(block)) == 0;
}

/* `is_head`: only the draft block and what it shares with the model; otherwise all but the block. */
static bool head_write(const gguf *g, uint32_t blocks, bool is_head, const char *path)
{
    char block[32];
    snprintf(block, sizeof block, "blk.%u.", blocks - 1);
    test_gguf *b = malloc(sizeof *b);
    if (b == NULL)
        return false;
    test_gguf_begin(b);
    part_copy_metadata(b, g, is_head);
    b->alignment = gguf_alignment(g);
    if (!is_head)
        test_gguf_u32(b, blocks_key, blocks - 1);
    for (uint64_t i = 0; i < gguf_n_tensors(g); i++) {
        const gguf_tensor *t = gguf_tensor_at(g, i);
        const bool shared =
            str_is(t->name, "token_embd.weight") || str_is(t->name, "output_norm.weight");
        if (head_has(t, block) == is_head || shared)
            part_copy_tensor(b, t);
    }
    test_gguf_finish(b);
    const bool ok = file_write(b, path);
    test_gguf_free(b);
    free(b);
    return ok;
}

bool test_gguf_split_head(const char *source, const char *body, const char *head)
{
    os_map map;
    gguf *g = NULL;
    uint32_t blocks = 0;
    if (os_map_open(&map, source, NULL) != MOTE_OK)
        return false;
    bool ok = gguf_read(&g, map.data, map.bytes, NULL) == MOTE_OK &&
              gguf_n_tensors(g) <= TEST_GGUF_MAX_TENSORS &&
              gguf_get_u32(g, blocks_key, &blocks, NULL, NULL) == MOTE_OK;
    ok = ok && head_write(g, blocks, false, body) && head_write(g, blocks, true, head);
    gguf_free(g);
    os_map_close(&map);
    return ok;
}
