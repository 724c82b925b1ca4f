/* SPDX-License-Identifier: Apache-2.0 */
/*
 * malloc_fault.c - an LD_PRELOAD library that makes a chosen allocation of a running program fail.
 *
 * It sees all allocations of mote, libuv, libcrypto and libc. It maps the file MALLOC_FAULT with
 * three 64-bit counters: the first counts down with every allocation, and the allocation that makes
 * it zero fails; the second counts failures; the third counts all allocations.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* The internal names of glibc, so that no dlsym() is needed before the first allocation. */
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t each);
void *__libc_realloc(void *p, size_t n);

typedef struct fault_switch {
    _Atomic uint64_t left, failed, seen;
} fault_switch;

static fault_switch *at;

__attribute__((constructor)) static void open_switch(void)
{
    const char *name = getenv("MALLOC_FAULT");
    const int fd = name != NULL ? open(name, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    void *map = mmap(NULL, sizeof *at, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    at = map != MAP_FAILED ? map : NULL;
    close(fd);
}

static bool fails(void)
{
    if (at == NULL)
        return false;
    atomic_fetch_add(&at->seen, 1);
    uint64_t left = atomic_load(&at->left);
    while (left > 0)
        if (atomic_compare_exchange_weak(&at->left, &left, left - 1)) {
            if (left == 1) {
                atomic_fetch_add(&at->failed, 1);
                errno = ENOMEM;
            }
            return left == 1;
        }
    return false;
}

void *malloc(size_t n)
{
    return fails() ? NULL : __libc_malloc(n);
}

void *calloc(size_t n, size_t each)
{
    return fails() ? NULL : __libc_calloc(n, each);
}

void *realloc(void *p, size_t n)
{
    return fails() ? NULL : __libc_realloc(p, n);
}
