/* SPDX-License-Identifier: Apache-2.0 */
/*
 * classes.c - unfolds the list of runs in classes.inc into a two-stage table.
 *
 * The list is what belongs into a repository: short and readable. The table is
 * what belongs under a loop over characters: two loads. It takes some tens of
 * kilobytes and microseconds to make, so each tok makes its own and there is no
 * global state.
 */
#include "tok/classes.h"

#include "base/mem.h"

/* 256 * first code point + class, ascending; a run ends where the next begins. */
static const uint32_t runs[] = {
#include "tok/classes.inc"
};

enum { N_RUNS = sizeof runs / sizeof runs[0], N_CLASSES = 32 };

static uint32_t run_start(uint32_t run)
{
    return run < N_RUNS ? runs[run] / 256 : CLASS_CODE_POINTS;
}

/* Blocks in which a run begins that is not the block's first: these are written out. */
static uint32_t count_mixed_blocks(void)
{
    uint32_t n = 0, last = UINT32_MAX;
    for (uint32_t run = 0; run < N_RUNS; run++) {
        uint32_t start = run_start(run);
        if (start % CLASS_BLOCK != 0 && start / CLASS_BLOCK != last) {
            last = start / CLASS_BLOCK;
            n++;
        }
    }
    return n;
}

/* Writes out the block beginning at `first`, where `run` holds; returns the run that holds at its
 * end. */
static uint32_t write_block(uint8_t *block, uint32_t first, uint32_t run)
{
    for (uint32_t i = 0; i < CLASS_BLOCK; i++) {
        while (run_start(run + 1) <= first + i)
            run++;
        block[i] = (uint8_t)(runs[run] % 256);
    }
    return run;
}

mote_status tok_classes_init(tok_classes *c, mote_error *err)
{
    uint32_t uniform[N_CLASSES] = {0}; /* the block that is all of one class; 0: not made yet */
    c->n_blocks = count_mixed_blocks() + N_CLASSES;
    c->of = mem_new(c->n_blocks, CLASS_BLOCK);
    if (c->of == NULL)
        return err_set(err, MOTE_E_MEMORY, "no memory for the Unicode tables");

    uint32_t run = 0, made = 0;
    for (uint32_t b = 0; b < CLASS_CODE_POINTS / CLASS_BLOCK; b++) {
        uint32_t first = b * CLASS_BLOCK;
        while (run_start(run + 1) <= first)
            run++;
        bool mixed = run_start(run + 1) < first + CLASS_BLOCK;
        uint32_t class = runs[run] % N_CLASSES;
        if (!mixed && uniform[class] != 0) {
            c->block[b] = (uint16_t)uniform[class];
            continue;
        }
        c->block[b] = (uint16_t)made;
        run = write_block(c->of + (size_t)made * CLASS_BLOCK, first, run);
        if (!mixed)
            uniform[class] = made;
        made++;
    }
    return MOTE_OK;
}

void tok_classes_fini(tok_classes *c)
{
    mem_free(c->of);
    c->of = NULL;
}
