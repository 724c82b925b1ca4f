/* SPDX-License-Identifier: Apache-2.0 */
/* kill_at.c - LD_PRELOAD library: the process dies (SIGKILL) before its KILL_AT-th call that
 * removes or renames a file. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void count_call(void)
{
    static long n;
    const char *at = getenv("KILL_AT");
    if (at != NULL && ++n == atol(at))
        raise(SIGKILL);
}

#define WRAP_PATH(name)                                                                            \
    int name(const char *path)                                                                     \
    {                                                                                              \
        static int (*next)(const char *);                                                          \
        if (next == NULL)                                                                          \
            *(void **)&next = dlsym(RTLD_NEXT, #name);                                             \
        count_call();                                                                              \
        return next(path);                                                                         \
    }
WRAP_PATH(unlink)
WRAP_PATH(rmdir)
WRAP_PATH(remove)

int rename(const char *from, const char *to)
{
    static int (*next)(const char *, const char *);
    if (next == NULL)
        *(void **)&next = dlsym(RTLD_NEXT, "rename");
    count_call();
    return next(from, to);
}
