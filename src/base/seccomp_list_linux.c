/* SPDX-License-Identifier: Apache-2.0 */
/* seccomp_list_linux.c - implements seccomp_list.h. */
#include "base/seccomp_list.h"

#include <errno.h>
#include <seccomp.h>

static bool filter_add(scmp_filter_ctx filter, uint32_t action, const char *name, unsigned n,
                       const struct scmp_arg_cmp *compare)
{
    const int number = seccomp_syscall_resolve_name(name);
    return number < 0 || seccomp_rule_add_array(filter, action, number, n, compare) == 0;
}

static bool filter_fill(scmp_filter_ctx filter, const seccomp_list *list)
{
    bool done = filter_add(filter, SCMP_ACT_ERRNO(ENOSYS), "clone3", 0, NULL);
    for (size_t i = 0; done && i < list->n_plain; i++)
        done = filter_add(filter, SCMP_ACT_ALLOW, list->plain[i], 0, NULL);
    for (size_t i = 0; done && i < list->n_limited; i++) {
        const seccomp_limited *call = &list->limited[i];
        const struct scmp_arg_cmp compare = {call->argument, SCMP_CMP_MASKED_EQ, call->mask,
                                             call->value};
        done = filter_add(filter, SCMP_ACT_ALLOW, call->name, 1, &compare);
    }
    return done;
}

bool seccomp_list_enter(const seccomp_list *list)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
    bool done = filter != NULL && filter_fill(filter, list);
    if (done && list->all_threads)
        done = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1) == 0;
    done = done && seccomp_load(filter) == 0;
    if (filter != NULL)
        seccomp_release(filter);
    return done;
}
