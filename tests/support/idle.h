/* SPDX-License-Identifier: Apache-2.0 */
/* idle.h - CPU use of an idle process. */
#ifndef MOTE_TESTS_SUPPORT_IDLE_H
#define MOTE_TESTS_SUPPORT_IDLE_H

/* Sleeps one second and returns the CPU seconds used by the process. Repeats up to five times until
 * the result is below `enough`: on a loaded machine a thread may finish its spin phase late. A
 * thread that never sleeps shows in every second. */
double test_idle_cpu(double enough);

#endif
