/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pull_client.h - the parent's side of mote-pull: settings from the environment, start, events.
 *
 * The library has no HTTP client. The process with the network has no model, and the process with
 * the model has no network.
 */
#ifndef MOTE_PULL_PULL_CLIENT_H
#define MOTE_PULL_PULL_CLIENT_H

#include "pull/pull_request.h"

#include <sys/types.h>

/* ---- settings ---- */

/* Text of a request that comes from files or is put together. */
typedef struct pull_settings {
    char cache[PULL_PATH_BYTES];
    char state[PULL_PATH_BYTES];
    char token[1024];
    char proxy[1024];
} pull_settings;

/* The variable that forbids the network: HF_HUB_OFFLINE, TRANSFORMERS_OFFLINE or MOTE_NO_NETWORK.
 * NULL: none is set. */
const char *pull_offline(void);

/* Sets cache, state, endpoint, token and the hub it is for, proxies, certificates and timeout from the environment, as
 * huggingface_hub reads it. Fields that are already set stay. MOTE_E_FORMAT: a variable with a
 * value that is not valid. MOTE_E_ARG: no cache directory, or a
 * token file that cannot be read. `settings` must outlive the request. */
mote_status pull_settings_read(pull_settings *settings, pull_request *r, mote_error *err);

/* Reads a token from a file: outer blanks and line ends are removed. */
mote_status pull_token_read(char *token, size_t room, const char *path, mote_error *err);

/* ---- the process ---- */

typedef struct pull_client {
    pid_t pid;
    int fd; /* events; -1: closed */
    strbuf buffer;
    size_t used; /* bytes of the buffer that were returned */
} pull_client;

/* The path of mote-pull: next to this program, or in ../libexec/mote; with MOTE_ONE_FILE this program.
 * false: not installed. */
bool pull_client_program(char *out, size_t room);

/* Starts mote-pull and sends the request. */
mote_status pull_client_start(pull_client *c, const pull_request *r, mote_error *err);
/* Waits for the next event. *line: without the newline, valid until the next call. false with
 * *interrupted: none has come so far; look for signals and call again. false: no more events. */
bool pull_client_next(pull_client *c, str *line, bool *interrupted);
/* Ends the process, if it runs, and returns its exit code: 128 + signal if one killed it. */
int pull_client_end(pull_client *c, int signal_number);

/* ---- for a process that cannot start others later ---- */

/* A process that starts mote-pull on request. The server starts it before it enters its sandbox. */
typedef struct pull_spawner {
    pid_t pid;
    int control;
} pull_spawner;

/* `settings`: of all requests; without a model. The process keeps them, so the caller need not. */
mote_status pull_spawner_start(pull_spawner *s, const pull_request *settings, mote_error *err);
/* Starts mote-pull with a request (pull_request_put_model). *fd: its events; closing it ends the
 * pull. */
mote_status pull_spawner_pull(pull_spawner *s, str request, int *fd, mote_error *err);
/* Ends the process and all pulls. Does nothing if it was not started: pid is 0. */
void pull_spawner_stop(pull_spawner *s);

#endif
