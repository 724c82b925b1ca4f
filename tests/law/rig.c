/* SPDX-License-Identifier: Apache-2.0 */
/* rig.c - see rig.h. */
#define _GNU_SOURCE
#include "law/rig.h"

#include "base/cpu.h"
#include "base/philox.h"
#include "support/data.h"
#include "support/scale.h"

#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void rig_fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fflush(stdout);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

void rig_must(mote_status status, const mote_error *err, const char *what)
{
    if (status != MOTE_OK)
        rig_fail("%s: %s: %s", what, mote_status_name(status), err != NULL ? err->text : "");
}

uint32_t rig_below(rig_random *r, uint32_t below)
{
    uint32_t word = philox(r->seed, r->n++, r->stream).word[0];
    return (uint32_t)(((uint64_t)word * below) >> 32);
}

bool rig_once_in(rig_random *r, uint32_t n)
{
    return rig_below(r, n) == 0;
}

size_t rig_levels(mote_isa levels[RIG_MAX_LEVELS])
{
    size_t n = cpu_list_usable(levels);
    if (test_is_short() && n > 1)
        memmove(levels, levels + 1, --n * sizeof *levels);
    return n;
}

mote_isa rig_lowest(void)
{
    mote_isa levels[RIG_MAX_LEVELS];
    rig_levels(levels);
    return levels[0];
}

static const char *const kv_names[] = {"f16", "f32", "q8_0", "q4_0"};

mote_kv rig_kv(const char *name)
{
    for (int kv = MOTE_KV_F16; kv <= MOTE_KV_Q4_0; kv++)
        if (strcmp(kv_names[kv], name) == 0)
            return (mote_kv)kv;
    rig_fail("unknown KV format %s", name);
}

const char *rig_kv_name(mote_kv kv)
{
    return kv_names[kv];
}

static char temp_dir[64];

static void remove_temp_dir(void)
{
    DIR *dir = opendir(temp_dir);
    if (dir == NULL)
        return;
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir))
        if (entry->d_name[0] != '.')
            unlinkat(dirfd(dir), entry->d_name, 0);
    closedir(dir);
    rmdir(temp_dir);
}

const char *rig_temp_dir(void)
{
    if (temp_dir[0] != '\0')
        return temp_dir;
    snprintf(temp_dir, sizeof temp_dir, "/dev/shm/mote-test-XXXXXX");
    if (mkdtemp(temp_dir) == NULL) {
        snprintf(temp_dir, sizeof temp_dir, "/tmp/mote-test-XXXXXX");
        if (mkdtemp(temp_dir) == NULL)
            rig_fail("cannot make a temporary directory");
    }
    atexit(remove_temp_dir);
    return temp_dir;
}

void rig_temp_path(char *path, size_t bytes, const char *name)
{
    if ((size_t)snprintf(path, bytes, "%s/%s", rig_temp_dir(), name) >= bytes)
        rig_fail("the temporary path for %s is too long", name);
}

void rig_random_tokens(rig_random *r, uint32_t vocabulary, mote_token *tokens, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && rig_once_in(r, 4))
            tokens[i] = tokens[i - 1];
        else if (i > 8 && rig_once_in(r, 8))
            tokens[i] = tokens[i - 1 - rig_below(r, 8)];
        else
            tokens[i] = (mote_token)rig_below(r, vocabulary);
    }
}

/* ---- data files ---- */

const char *rig_data(const char *name)
{
    static char path[TEST_PATH];
    return test_data_path(path, name) || test_shared_path(path, name) ? path : NULL;
}

const char *rig_model_path(const char *name)
{
    static const char *const directories[] = {"", "shapes/", "golden/moe/", "models/mote-tiny/",
                                              "golden/shapes/"};
    for (size_t i = 0; i < sizeof directories / sizeof *directories; i++) {
        char file[256];
        snprintf(file, sizeof file, "%s%s.gguf", directories[i], name);
        const char *path = rig_data(file);
        if (path != NULL)
            return path;
    }
    return NULL;
}
