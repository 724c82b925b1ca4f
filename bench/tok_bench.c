/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tok_bench.c - the tokenizer by itself, for bench/tok_compare.py and the clock.
 *
 *   tok_bench VOCABULARY.gguf time FILE [ROUNDS]   how long opening and encoding take
 *   tok_bench VOCABULARY.gguf ids FILE             ids of the file, one on a line
 *   tok_bench VOCABULARY.gguf pipe                 answers requests from standard input
 *
 * A request is two 32-bit numbers, flags of tok_encode and a length, and that many
 * bytes of text; the answer is a 32-bit count and the ids. All little-endian.
 *
 *   cc -O2 -Iinclude -Isrc bench/tok_bench.c build/release/libmote.a -lutf8proc -lpthread -lm
 */
#include "base/os.h"
#include "gguf/gguf.h"
#include "tok/tok.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Processor time: another program on the machine must not count. */
static double seconds_used(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

static _Noreturn void die(const char *what, const mote_error *err)
{
    fprintf(stderr, "tok_bench: %s: %s\n", what, err->text);
    exit(1);
}

/* The ids of a text, to be freed; an id takes at least one byte, after NFC up to three. */
static mote_token *encode(const tok *t, str text, unsigned flags, size_t *n)
{
    mote_error err;
    size_t room = 3 * text.n + 1;
    mote_token *ids = malloc(room * sizeof *ids);
    if (ids == NULL || tok_encode(t, text, flags, ids, room, n, &err) != MOTE_OK)
        die("encode", &err);
    return ids;
}

static void answer_requests(const tok *t)
{
    uint32_t head[2];
    while (fread(head, sizeof head, 1, stdin) == 1) {
        char *text = malloc((size_t)head[1] + 1);
        if (text == NULL || fread(text, 1, head[1], stdin) != head[1])
            exit(1);
        size_t n;
        mote_token *ids = encode(t, (str){text, head[1]}, head[0], &n);
        uint32_t count = (uint32_t)n;
        fwrite(&count, sizeof count, 1, stdout);
        fwrite(ids, sizeof *ids, n, stdout);
        fflush(stdout);
        free(ids);
        free(text);
    }
}

static void time_file(const tok *t, str text, int rounds)
{
    double best = 1e9;
    size_t n = 0;
    for (int i = 0; i < rounds; i++) {
        double start = seconds_used();
        free(encode(t, text, 0, &n));
        double seconds = seconds_used() - start;
        best = seconds < best ? seconds : best;
    }
    printf("%zu bytes, %zu ids, %.3f s, %.1f MB/s\n", text.n, n, best, (double)text.n / best / 1e6);
}

int main(int n_arguments, char **arguments)
{
    mote_error err;
    os_map file = {0}, map = {0};
    gguf *g;
    tok *t;
    bool pipe = n_arguments == 3 && strcmp(arguments[2], "pipe") == 0;
    if (!pipe && n_arguments < 4) {
        fprintf(stderr, "usage: tok_bench VOCABULARY.gguf time|ids FILE, or pipe\n");
        return 2;
    }
    if (os_map_open(&file, arguments[1], &err) != MOTE_OK ||
        gguf_read(&g, file.data, file.bytes, &err) != MOTE_OK)
        die(arguments[1], &err);
    double start = seconds_used();
    if (tok_new(&t, g, &err) != MOTE_OK)
        die(arguments[1], &err);
    double opened = seconds_used() - start;
    if (pipe) {
        answer_requests(t);
    } else {
        if (os_map_open(&map, arguments[3], &err) != MOTE_OK)
            die(arguments[3], &err);
        str text = {(const char *)map.data, map.bytes};
        if (strcmp(arguments[2], "time") == 0) {
            printf("opened in %.1f ms, holds %.1f MB\n", opened * 1e3,
                   (double)tok_private_bytes(t) / 1e6);
            time_file(t, text, n_arguments > 4 ? atoi(arguments[4]) : 3);
        } else {
            size_t n;
            mote_token *ids = encode(t, text, 0, &n);
            for (size_t i = 0; i < n; i++)
                printf("%d\n", ids[i]);
            free(ids);
        }
    }
    os_map_close(&map);
    tok_free(t);
    gguf_free(g);
    os_map_close(&file);
    return 0;
}
