/* SPDX-License-Identifier: Apache-2.0 */
/* os_wait_table.h - sleep on a word, with mutexes and conditions of pthreads. The contract is that of
 * os_wait and os_wake (os_process.h), for systems without a public call for it. */
#ifndef MOTE_BASE_OS_WAIT_TABLE_H
#define MOTE_BASE_OS_WAIT_TABLE_H

#include <stdatomic.h>
#include <stdint.h>

void wait_table_wait(_Atomic uint32_t *word, uint32_t seen);
/* Wakes all threads that sleep on the word. */
void wait_table_wake(_Atomic uint32_t *word);

#endif
