/* SPDX-License-Identifier: Apache-2.0 */
/*
 * speed_cache.c - the stored result of a measurement; see machine_speed.h.
 *
 * A JSON object. A file that is not exactly what machine_speed_save writes counts as absent, and
 * the next measurement replaces it.
 */
#include "fit/machine_speed.h"

#include "base/os.h"
#include "json/json.h"
#include "json/json_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_BYTES = 1 << 16, PATH_BYTES = 1024 };

/* Every number of the file is a speed or a time. */
static bool cache_number(const json_node *object, const char *name, double *out)
{
    const json_node *node = json_node_get(object, name);
    *out = json_node_double(node);
    return json_node_is(node, JSON_IS_NUMBER) && *out > 0 && *out < 1e18;
}

static bool cache_read_formats(machine_speed *out, const json_node *list)
{
    for (const json_node *node = json_node_first(list); node != NULL; node = json_node_next(node))
        for (int f = 0; f < QUANT_N_FORMATS; f++)
            if (str_is(json_node_name(node), quant_get((quant_format)f)->name) &&
                (!cache_number(node, "decode", &out->formats[f].decode) ||
                 !cache_number(node, "prefill", &out->formats[f].prefill) ||
                 (json_node_get(node, "row") != NULL &&
                  !cache_number(node, "row", &out->formats[f].row))))
                return false;
    return true;
}

/* The numbers of a machine_speed besides the formats. */
static const struct {
    const char *name;
    size_t at;
} plain_numbers[] = {
    {"read", offsetof(machine_speed, read)},
    {"decode_rest", offsetof(machine_speed, decode_rest)},
    {"decode_position", offsetof(machine_speed, decode_position)},
    {"prefill_delta", offsetof(machine_speed, prefill_delta)},
    {"prefill_attention", offsetof(machine_speed, prefill_attention)},
    {"prefill_ffn", offsetof(machine_speed, prefill_ffn)},
    {"slowdown", offsetof(machine_speed, slowdown)},
};
enum { N_PLAIN_NUMBERS = sizeof plain_numbers / sizeof *plain_numbers };

static bool cache_read_numbers(machine_speed *out, const json_node *root)
{
    for (size_t i = 0; i < N_PLAIN_NUMBERS; i++)
        if (!cache_number(root, plain_numbers[i].name,
                          (double *)((char *)out + plain_numbers[i].at)))
            return false;
    return true;
}

static bool cache_read(machine_speed *out, const json_node *root)
{
    double threads;
    mote_isa isa;
    const str cpu = json_node_text(json_node_get(root, "cpu"));
    *out = (machine_speed){.streams = 1};
    if (!str_is(json_node_text(json_node_get(root, "version")), mote_version()) ||
        cpu.n >= sizeof out->cpu || !cache_number(root, "threads", &threads) ||
        !mote_isa_parse(json_node_text(json_node_get(root, "isa")).p, &isa) ||
        !cache_read_numbers(out, root))
        return false;
    memcpy(out->cpu, cpu.p, cpu.n);
    out->threads = (uint32_t)threads;
    out->isa = isa;
    return cache_read_formats(out, json_node_get(root, "formats"));
}

/* Is this a result for the machine, the options and all the formats? */
static bool cache_matches(const machine_speed *speed, const speed_options *options)
{
    char name[CPU_NAME_BYTES];
    cores found;
    cpu_name(name);
    cores_find(&found);
    const mote_isa isa = cpu_best_isa_up_to(options->isa);
    if (strcmp(speed->cpu, name) != 0 || speed->isa != isa || options->streams > 1 ||
        speed->threads != (options->threads != 0 ? options->threads : found.n))
        return false;
    for (uint32_t f = 0; f < QUANT_N_FORMATS; f++)
        if ((options->formats >> f & 1) != 0 && !(speed->formats[f].decode > 0))
            return false;
    return true;
}

bool machine_speed_load(machine_speed *out, const char *path, const speed_options *options)
{
    char text[FILE_BYTES];
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return false;
    const ssize_t n = read(fd, text, sizeof text);
    close(fd);
    json_doc *doc;
    if (n <= 0 || n == sizeof text || json_doc_read(&doc, (str){text, (size_t)n}, NULL) != MOTE_OK)
        return false;
    const bool ok = cache_read(out, json_doc_root(doc)) && cache_matches(out, options);
    json_doc_free(doc);
    return ok;
}

/* Creates the directories of a file; those that exist are not changed. */
static void cache_make_directories(const char *path)
{
    char part[PATH_BYTES];
    for (const char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        if ((size_t)(slash - path) >= sizeof part)
            return;
        memcpy(part, path, (size_t)(slash - path));
        part[slash - path] = '\0';
        mkdir(part, 0700);
    }
}

mote_status machine_speed_save(const machine_speed *speed, const char *path, mote_error *err)
{
    strbuf j = {0};
    jw_open(&j, '{');
    jw_key_text(&j, "version", mote_version());
    jw_key_text(&j, "cpu", speed->cpu);
    jw_key_uint(&j, "threads", speed->threads);
    jw_key_text(&j, "isa", mote_isa_name(speed->isa));
    for (size_t i = 0; i < N_PLAIN_NUMBERS; i++)
        jw_key_double(&j, plain_numbers[i].name,
                      *(const double *)((const char *)speed + plain_numbers[i].at));
    jw_key(&j, "formats");
    jw_open(&j, '{');
    for (int f = 0; f < QUANT_N_FORMATS; f++) {
        if (!(speed->formats[f].decode > 0))
            continue;
        jw_key(&j, quant_get((quant_format)f)->name);
        jw_open(&j, '{');
        jw_key_double(&j, "decode", speed->formats[f].decode);
        if (speed->formats[f].row > 0)
            jw_key_double(&j, "row", speed->formats[f].row);
        jw_key_double(&j, "prefill", speed->formats[f].prefill);
        jw_close(&j, '}');
    }
    jw_close(&j, '}');
    jw_close(&j, '}');
    strbuf_byte(&j, '\n');
    mote_status status = strbuf_check(&j, err);
    if (status == MOTE_OK) {
        cache_make_directories(path);
        status = os_file_replace(path, j.p, j.n, err);
    }
    strbuf_fini(&j);
    return status;
}

bool machine_speed_path(char *out, size_t room, const char *mote_cache, const char *cache_home,
                        const char *home)
{
    int n = -1;
    if (mote_cache != NULL && mote_cache[0] != '\0')
        n = snprintf(out, room, "%s/machine-speed.json", mote_cache);
    else if (cache_home != NULL && cache_home[0] == '/')
        n = snprintf(out, room, "%s/mote/machine-speed.json", cache_home);
    else if (home != NULL && home[0] == '/')
        n = snprintf(out, room, "%s/.cache/mote/machine-speed.json", home);
    return n > 0 && (size_t)n < room;
}
