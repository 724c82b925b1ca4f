/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_system.c - checks of `mote doctor`: sandbox, port, installed programs, clock, locale. */
#include "cli/machine/doctor.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void doctor_sandbox(doctor *d)
{
    const doctor_machine *m = d->machine;
    static const char advice[] = "use Linux 5.13 or newer with CONFIG_SECURITY_LANDLOCK, and "
                                 "landlock in the kernel parameter lsm=";
    if (strcmp(m->system, "Linux") != 0)
        doctor_add(d, DOCTOR_NOTE, "run the server as a user of its own; decode images you trust",
                   "mote has no sandbox on %s: server and image decoders can do what the user can",
                   m->system);
    else if (m->seccomp && m->landlock > 0)
        doctor_add(d, DOCTOR_OK, NULL, "the kernel has seccomp and Landlock (version %d)",
                   m->landlock);
    else if (m->seccomp)
        doctor_add(d, DOCTOR_NOTE, advice,
                   "the kernel has seccomp and no Landlock: the server can read all files of its "
                   "user");
    else
        doctor_add(d, DOCTOR_PROBLEM,
                   "use a kernel with CONFIG_SECCOMP_FILTER; check the seccomp profile of the "
                   "container",
                   "the kernel allows no seccomp filter: decoders of images run without a sandbox");
}

/* ---- port ---- */

enum { DEFAULT_PORT = 11435 };

/* The port of MOTE_HOST, or the default; 0: a UNIX socket. */
static unsigned port_number(const doctor *d)
{
    const char *host = doctor_env(d, "MOTE_HOST");
    if (host == NULL)
        return DEFAULT_PORT;
    if (strncmp(host, "unix:", 5) == 0)
        return 0;
    const char *colon = strrchr(host, ':');
    const unsigned long port = colon != NULL ? strtoul(colon + 1, NULL, 10) : 0;
    return port > 0 && port < 65536 ? (unsigned)port : DEFAULT_PORT;
}

/* The inode of a socket that listens on the port, from /proc/net/tcp or tcp6; 0: none. */
static unsigned long port_find_socket(const doctor *d, const char *table, unsigned wanted)
{
    enum { LISTEN = 0x0A };
    char path[DOCTOR_PATH_BYTES], line[512];
    unsigned long found = 0;
    snprintf(path, sizeof path, "%s/proc/net/%s", d->machine->root, table);
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return 0;
    while (found == 0 && fgets(line, sizeof line, f) != NULL) {
        unsigned port, state;
        unsigned long inode;
        if (sscanf(line, " %*d: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x %*s %*s %*s %*s %*s %lu",
                   &port, &state, &inode) == 3 &&
            port == wanted && state == LISTEN)
            found = inode;
    }
    fclose(f);
    return found;
}

/* True if a descriptor of the process is the socket. */
static bool process_has_socket(const char *directory, unsigned long inode)
{
    char wanted[64], path[DOCTOR_PATH_BYTES], target[64];
    snprintf(wanted, sizeof wanted, "socket:[%lu]", inode);
    DIR *fds = opendir(directory);
    if (fds == NULL)
        return false;
    bool found = false;
    for (const struct dirent *e; !found && (e = readdir(fds)) != NULL;) {
        snprintf(path, sizeof path, "%.700s/%.255s", directory, e->d_name);
        const ssize_t n = readlink(path, target, sizeof target - 1);
        target[n > 0 ? n : 0] = '\0';
        found = strcmp(target, wanted) == 0;
    }
    closedir(fds);
    return found;
}

/* The process that has the socket: its id and name. False: a process of another user. */
static bool port_find_process(const doctor *d, unsigned long inode, long *pid, char *name,
                              size_t room)
{
    char path[DOCTOR_PATH_BYTES];
    snprintf(path, sizeof path, "%s/proc", d->machine->root);
    DIR *processes = opendir(path);
    if (processes == NULL)
        return false;
    bool found = false;
    for (const struct dirent *e; !found && (e = readdir(processes)) != NULL;) {
        if (!isdigit((unsigned char)e->d_name[0]))
            continue;
        snprintf(path, sizeof path, "%.500s/proc/%.20s/fd", d->machine->root, e->d_name);
        if (!process_has_socket(path, inode))
            continue;
        *pid = strtol(e->d_name, NULL, 10);
        snprintf(path, sizeof path, "/proc/%ld/comm", *pid);
        found = doctor_read_line(d, path, name, room);
    }
    closedir(processes);
    return found;
}

void doctor_port(doctor *d)
{
    const unsigned port = port_number(d);
    if (port == 0) {
        doctor_add(d, DOCTOR_OK, NULL, "MOTE_HOST is a UNIX socket");
        return;
    }
    unsigned long inode = port_find_socket(d, "tcp", port);
    if (inode == 0)
        inode = port_find_socket(d, "tcp6", port);
    long pid;
    char name[64];
    static const char advice[] = "end that program, or choose another port: mote serve --listen";
    if (inode == 0)
        doctor_add(d, DOCTOR_OK, NULL, "%u is free", port);
    else if (!port_find_process(d, inode, &pid, name, sizeof name))
        doctor_add(d, DOCTOR_NOTE, advice, "%u is in use by a program of another user", port);
    else if (strcmp(name, "mote") == 0)
        doctor_add(d, DOCTOR_OK, NULL, "%u: mote (process %ld) serves there", port, pid);
    else
        doctor_add(d, DOCTOR_PROBLEM, advice, "%u is in use by %s (process %ld)", port, name, pid);
}

/* ---- programs ---- */

void doctor_programs(doctor *d)
{
    static const struct {
        const char *name, *without;
    } parts[] = {
#ifndef MOTE_ONE_FILE
        {"mote-pull", "mote pull does not work"},
#endif
        {"mote-media-ffmpeg", "videos and some images are refused; others work"},
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        bool found = false;
        for (size_t k = 0; k < sizeof d->machine->programs / sizeof *d->machine->programs; k++) {
            char path[DOCTOR_PATH_BYTES];
            if (d->machine->programs[k] == NULL)
                continue;
            snprintf(path, sizeof path, "%s/%s", d->machine->programs[k], parts[i].name);
            found = found || access(path, X_OK) == 0;
        }
        if (found)
            doctor_add(d, DOCTOR_OK, NULL, "%s is installed", parts[i].name);
        else
            doctor_add(d, DOCTOR_NOTE, "install it, or build mote with its libraries (README.md)",
                       "%s is not installed: %s", parts[i].name, parts[i].without);
    }
}

/* ---- clock and locale ---- */

void doctor_clock(doctor *d)
{
    enum { YEAR_OF_RELEASE = 2026 };
    const time_t now = (time_t)d->machine->now;
    struct tm utc;
    char text[32];
    gmtime_r(&now, &utc);
    strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &utc);
    if (utc.tm_year + 1900 < YEAR_OF_RELEASE)
        doctor_add(d, DOCTOR_PROBLEM, "set the clock: sudo timedatectl set-ntp true",
                   "%s is before the release of this version; downloads fail, because "
                   "certificates seem invalid",
                   text);
    else
        doctor_add(d, DOCTOR_OK, NULL, "%s", text);
}

void doctor_locale(doctor *d)
{
    if (d->machine->utf8)
        doctor_add(d, DOCTOR_OK, NULL, "UTF-8");
    else
        doctor_add(d, DOCTOR_NOTE, "export LANG=C.UTF-8",
                   "the locale is not UTF-8: the chat does not show characters outside of ASCII "
                   "correctly");
}
