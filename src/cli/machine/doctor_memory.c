/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_memory.c - checks of `mote doctor`: memory, its limits, huge pages. */
#include "base/ram.h"
#include "cli/machine/doctor.h"
#include "cli/term/text.h"

#include <stdio.h>
#include <string.h>

/* Below this even the smallest model of the family has no room for a context. */
static const uint64_t little = 1500000000;

/* MemTotal in bytes; 0: unknown. */
static uint64_t memory_total(const doctor *d)
{
    char line[128];
    unsigned long long kb;
    /* It is the first line. */
    return doctor_read_line(d, "/proc/meminfo", line, sizeof line) &&
                   sscanf(line, "MemTotal: %llu", &kb) == 1
               ? kb * 1024
               : 0;
}

void doctor_memory(doctor *d)
{
    char a[TEXT_NUMBER_BYTES], b[TEXT_NUMBER_BYTES];
    ram found;
    ram_find_in(&found, d->machine->root);
    const uint64_t total = memory_total(d);
    const bool limited = strncmp(found.source, "cgroup", 6) == 0;
    if (found.bytes == UINT64_MAX) {
        doctor_add(d, DOCTOR_NOTE, "set --memory", "the available memory is unknown");
        return;
    }
    if (limited)
        doctor_add(d, DOCTOR_NOTE,
                   "raise the memory limit of the container or unit if mote may use "
                   "more",
                   "%s has %s left; the machine has %s", found.source, text_bytes(a, found.bytes),
                   text_bytes(b, total));
    else
        doctor_add(d, DOCTOR_OK, NULL, "%s, %s available", text_bytes(a, total),
                   text_bytes(b, found.bytes));
    if (found.bytes < little)
        doctor_add(d, DOCTOR_PROBLEM, "end other programs, or use a machine with more memory",
                   "%s is too little for a model; mote fit lists what models need",
                   text_bytes(a, found.bytes));
    if (found.address_space != UINT64_MAX)
        doctor_add(d, DOCTOR_NOTE, "ulimit -v unlimited",
                   "ulimit -v leaves %s of address space, which limits models and KV cache",
                   text_bytes(a, found.address_space));
}

/* The kernel marks the selected word: "always [madvise] never". mote requests no huge pages, and
 * weights are mapped from their file, so the setting affects scratch memory only. */
void doctor_memory_pages(doctor *d)
{
    char line[128], word[32];
    const char *open;
    if (!doctor_read_line(d, "/sys/kernel/mm/transparent_hugepage/enabled", line, sizeof line) ||
        (open = strchr(line, '[')) == NULL || sscanf(open, "[%31[a-z]]", word) != 1) {
        doctor_add(d, DOCTOR_OK, NULL, "none: the kernel has no transparent huge pages");
        return;
    }
    doctor_add(d, DOCTOR_OK, NULL, "%s; weights are mapped from their file and not affected", word);
}
