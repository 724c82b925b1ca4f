/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replay.c - runs a fuzz target without a fuzzer. Arguments are files and directories. Each file
 * is run unchanged and with 300 random mutations, which are the same in every run.
 *
 * Inputs are heap blocks of the exact size, so sanitizers detect reads past the end.
 */
#include "fuzz/fuzz.h"
#include "support/data.h"
#include "support/random.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MUTATIONS_PER_FILE = 300, MAX_EDITS = 8 };

static unsigned n_inputs;

static void replay_input(const unsigned char *bytes, size_t n)
{
    unsigned char *exact = calloc(n > 0 ? n : 1, 1);
    if (exact == NULL)
        abort();
    memcpy(exact, bytes, n);
    LLVMFuzzerTestOneInput(exact, n);
    free(exact);
    n_inputs++;
}

/* Flips a bit, overwrites, copies or removes bytes. *n never grows. */
static void mutate(test_random *r, unsigned char *bytes, size_t *n)
{
    const size_t at = (size_t)test_random_below(r, *n);
    const size_t room = *n - at, span = 1 + (size_t)test_random_below(r, room < 16 ? room : 16);
    switch (test_random_below(r, 6)) {
    case 0: bytes[at] ^= (unsigned char)(1u << test_random_below(r, 8)); break;
    case 1: bytes[at] = (unsigned char)test_random_u64(r); break;
    case 2: memset(bytes + at, test_random_below(r, 2) ? 0xFF : 0, span); break;
    case 3: memmove(bytes + at, bytes + test_random_below(r, *n - span + 1), span); break;
    case 4: /* removes up to 16 bytes */
        memmove(bytes + at, bytes + at + span, room - span);
        *n -= span;
        break;
    default: *n = 1 + (size_t)test_random_below(r, *n); break;
    }
}

static void replay_file(const char *path)
{
    size_t n;
    unsigned char *original = test_file_read(path, &n);
    if (original == NULL) {
        fprintf(stderr, "cannot read %s\n", path);
        exit(1);
    }
    replay_input(original, n);
    unsigned char *copy = malloc(n + 1);
    test_random r = {n};
    for (int i = 0; copy != NULL && n > 0 && i < MUTATIONS_PER_FILE; i++) {
        size_t left = n;
        memcpy(copy, original, n);
        for (uint64_t edits = 1 + test_random_below(&r, MAX_EDITS); edits > 0 && left > 0; edits--)
            mutate(&r, copy, &left);
        replay_input(copy, left);
    }
    free(copy);
    free(original);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* In sorted order, because readdir order differs between machines. */
static void replay_directory(DIR *directory, const char *path)
{
    enum { MAX_FILES = 4096 };
    static char *names[MAX_FILES];
    size_t n = 0;
    for (const struct dirent *e; n < MAX_FILES && (e = readdir(directory)) != NULL;)
        if (e->d_name[0] != '.')
            names[n++] = strdup(e->d_name);
    qsort(names, n, sizeof names[0], by_name);
    for (size_t i = 0; i < n; i++) {
        char file[TEST_PATH];
        snprintf(file, sizeof file, "%s/%s", path, names[i]);
        replay_file(file);
        free(names[i]);
    }
}

int main(int argc, char **argv)
{
    replay_input((const unsigned char *)"", 0);
    for (int i = 1; i < argc; i++) {
        DIR *directory = opendir(argv[i]);
        if (directory != NULL) {
            replay_directory(directory, argv[i]);
            closedir(directory);
        } else {
            replay_file(argv[i]);
        }
    }
    printf("%u inputs\n", n_inputs);
    if (n_inputs < 2) {
        fprintf(stderr, "the corpus is empty\n");
        return 1;
    }
    return 0;
}
