/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ram.h - how much memory this process can still use.
 *
 * The smallest of: MemAvailable of the machine; the free part of every memory cgroup from that of
 * the process up to the root, versions 1 and 2; RLIMIT_AS. Swap does not count. Pages of files
 * count as free, because the kernel can evict them. So the weights of a mapped model count as
 * needed memory whether or not they are already in the page cache.
 */
#ifndef MOTE_BASE_RAM_H
#define MOTE_BASE_RAM_H

#include <stdint.h>

typedef struct ram {
    uint64_t bytes;         /* of the machine and the cgroups; UINT64_MAX: unknown */
    uint64_t address_space; /* left below RLIMIT_AS; UINT64_MAX: no limit */
    char source[256];       /* what limits `bytes`: "RAM", "cgroup /a/b" */
} ram;

void ram_find(ram *out);
/* For tests: `root` is the directory that holds `proc` and `sys`. */
void ram_find_in(ram *out, const char *root);

/* Bytes that a plan may have in total, `mapped` bytes of mapped files included; keeps a reserve of
 * 1/16 for request bodies, stacks and other programs. *source, if not NULL, is set to the name of
 * the limit. UINT64_MAX: unknown. */
uint64_t ram_budget(const ram *r, uint64_t mapped, const char **source);

#endif
