/* SPDX-License-Identifier: Apache-2.0 */
/* duration.h - spans of time as people and Ollama's clients write them. */
#ifndef MOTE_BASE_DURATION_H
#define MOTE_BASE_DURATION_H

#include <stdbool.h>

/* "300ms", "1.5h", "5m30s", "90" for seconds, "-1". false: it is something else. */
bool duration_read(const char *text, double *seconds);

#endif
