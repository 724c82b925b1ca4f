/* SPDX-License-Identifier: Apache-2.0 */
/* idle.h - what a process uses while it has nothing to do. */
#ifndef MOTE_TESTS_SUPPORT_IDLE_H
#define MOTE_TESTS_SUPPORT_IDLE_H

/* Seconds of processor time of a second in which the caller sleeps: of the first one below
 * `enough`, or of the fifth. On a loaded machine a thread may still be owed the end of its
 * spinning; one that never sleeps is seen in every second. */
double test_idle_cpu(double enough);

#endif
