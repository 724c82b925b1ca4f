/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_head.c - implements gguf_head.h. */
#include "store/gguf_head.h"

#include "base/cursor.h"
#include "base/mem.h"
#include "base/str.h"
#include "gguf/gguf.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static bool head_string(cursor *c, str *out)
{
    uint64_t n;
    const unsigned char *bytes;
    if (!cursor_u64(c, &n) || !cursor_view(c, n, &bytes))
        return false;
    *out = (str){(const char *)bytes, (size_t)n};
    return true;
}

/* Bytes of one value; 0: a string or an array. */
static uint64_t head_size(uint32_t type)
{
    static const uint8_t sizes[GGUF_N_TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    return type < GGUF_N_TYPES ? sizes[type] : 0;
}

static bool head_skip_array(cursor *c)
{
    uint32_t type;
    uint64_t n;
    str ignored;
    if (!cursor_u32(c, &type) || !cursor_u64(c, &n))
        return false;
    if (type != GGUF_STRING)
        return head_size(type) > 0 && n <= GGUF_HEAD_BYTES && cursor_skip(c, n * head_size(type));
    for (; n > 0; n--)
        if (!head_string(c, &ignored))
            return false;
    return true;
}

static void head_use_string(gguf_head *h, str key, str value)
{
    if (str_is(key, "general.architecture") && value.n < sizeof h->architecture &&
        str_has_only(value, "._-"))
        snprintf(h->architecture, sizeof h->architecture, "%.*s", (int)value.n, value.p);
}

static void head_use_number(gguf_head *h, str key, uint32_t value)
{
    char embedding[GGUF_HEAD_NAME_BYTES + 32], vision[GGUF_HEAD_NAME_BYTES + 32];
    snprintf(embedding, sizeof embedding, "%s.embedding_length", h->architecture);
    snprintf(vision, sizeof vision, "%s.vision.block_count", h->architecture);
    if (str_is(key, embedding))
        h->embedding = value;
    else if (str_is(key, vision))
        h->vision = value;
    else if (str_is(key, "clip.vision.projection_dim"))
        h->projection = value;
}

/* Reads one entry; false: the end of what was read, or an invalid entry. */
static bool head_entry(gguf_head *h, cursor *c)
{
    str key, text;
    uint32_t type, number;
    if (!head_string(c, &key) || !cursor_u32(c, &type))
        return false;
    if (type == GGUF_ARRAY)
        return head_skip_array(c);
    if (type == GGUF_STRING) {
        if (!head_string(c, &text))
            return false;
        head_use_string(h, key, text);
        return true;
    }
    if (type != GGUF_U32 && type != GGUF_I32)
        return head_size(type) > 0 && cursor_skip(c, head_size(type));
    if (!cursor_u32(c, &number))
        return false;
    head_use_number(h, key, number);
    return true;
}

static bool head_parse(gguf_head *h, cursor c)
{
    char magic[4];
    uint32_t version;
    uint64_t tensors, entries;
    if (!cursor_copy(&c, magic, 4) || memcmp(magic, "GGUF", 4) != 0 || !cursor_u32(&c, &version) ||
        (version != 2 && version != 3) || !cursor_u64(&c, &tensors) || !cursor_u64(&c, &entries))
        return false;
    while (entries > 0 && head_entry(h, &c))
        entries--;
    return true;
}

bool gguf_head_read(gguf_head *out, const char *path)
{
    memset(out, 0, sizeof *out);
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    unsigned char *bytes = fd >= 0 ? mem_new(GGUF_HEAD_BYTES, 1) : NULL;
    const ssize_t n = bytes != NULL ? pread(fd, bytes, GGUF_HEAD_BYTES, 0) : -1;
    const bool valid = n > 0 && head_parse(out, (cursor){.p = bytes, .n = (size_t)n});
    mem_free(bytes);
    if (fd >= 0)
        close(fd);
    return valid;
}
