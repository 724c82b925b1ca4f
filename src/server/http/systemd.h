/* SPDX-License-Identifier: Apache-2.0 */
/* systemd.h - what a service manager passes to a process, and is told in return. */
#ifndef MOTE_SERVER_HTTP_SYSTEMD_H
#define MOTE_SERVER_HTTP_SYSTEMD_H

#include <stdbool.h>

enum { SYSTEMD_FIRST = 3 };

/* How many sockets were passed to this very process, from descriptor SYSTEMD_FIRST on. */
int systemd_passed(void);
/* "READY=1", "STOPPING=1", "WATCHDOG=1". Nothing happens if nobody wants to know. */
void systemd_tell(const char *text);
/* How often it wants to hear "WATCHDOG=1", in seconds; 0: never. */
double systemd_watchdog(void);

#endif
