/* SPDX-License-Identifier: Apache-2.0 */
/* duration.h - parses durations as Go and Ollama clients write them. */
#ifndef MOTE_BASE_DURATION_H
#define MOTE_BASE_DURATION_H

#include <stdbool.h>

/* Accepts "300ms", "1.5h", "5m30s", "90" (seconds) and "-1". False: not a duration. */
bool duration_read(const char *text, double *seconds);

#endif
