/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_imatrix.c - any bytes as an importance matrix: an error, or entries that meet the contract of
 * imatrix.h.
 */
#include "base/mem.h"
#include "convert/imatrix.h"
#include "fuzz/fuzz.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void demand(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "fuzz_imatrix: %s\n", what);
    abort();
}

static void check_entry(const imatrix *m, uint32_t i, uint64_t size)
{
    const imatrix_entry *e = imatrix_at(m, i);
    demand(e->name.n >= 1 && e->name.n <= IMATRIX_MAX_NAME, "length of a name");
    demand(e->n >= 1 && e->n <= size / sizeof(float), "more values than the file has");
    for (uint64_t k = 0; k < e->n; k++)
        demand(isfinite(e->weights[k]) && e->weights[k] >= 0, "a weight");
    demand(imatrix_find(m, e->name) == e, "an entry is not found");
    if (i > 0)
        demand(!str_eq(imatrix_at(m, i - 1)->name, e->name), "a name twice");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const mem_stats before = mem_count();
    mote_error err = {0};
    imatrix *m = NULL;
    const mote_status status = imatrix_read(&m, data, size, &err);
    /* An entry takes at least 17 bytes of a file. */
    demand(mem_count().bytes - before.bytes <= 16384 + 64 * (uint64_t)size, "too much memory");
    if (status == MOTE_OK) {
        demand(imatrix_n(m) >= 1, "no entries");
        for (uint32_t i = 0; i < imatrix_n(m); i++)
            check_entry(m, i, size);
        demand(imatrix_dataset(m).n <= size, "name of the text");
        demand(imatrix_find(m, str_of("")) == NULL, "an entry without a name");
    } else {
        demand(m == NULL && err.text[0] != 0, "failed without an error text");
    }
    imatrix_free(m);
    demand(mem_count().blocks == before.blocks, "memory leak");
    return 0;
}
