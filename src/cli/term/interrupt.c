/* SPDX-License-Identifier: Apache-2.0 */
/* interrupt.c - SIGINT, SIGTERM and SIGHUP; see terminal.h. */
#include "cli/term/terminal.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

/* Only the owner thread and its signal handler use these. So no other thread can be inside the
 * handler while the owner frees the object that `stop_call` uses. */
static pthread_t owner;
static volatile sig_atomic_t received; /* the first signal, 0: none */
static _Atomic(mote_engine *) watched;
static void (*volatile stop_call)(void *with);
static void *volatile stop_with;

static void interrupt_handle(int signal_number)
{
    if (received != 0) {
        term_echo(true);
        _exit(128 + signal_number);
    }
    received = signal_number;
    mote_engine *engine = atomic_load(&watched);
    if (engine != NULL)
        mote_cancel(engine);
    if (stop_call != NULL)
        stop_call(stop_with);
}

/* The kernel delivers the signal to any thread that does not block it. If that is a worker thread,
 * the owner would keep blocking in read(), so the signal is sent on to the owner. */
static void on_signal(int signal_number)
{
    const int saved = errno;
    if (pthread_equal(pthread_self(), owner))
        interrupt_handle(signal_number);
    else
        pthread_kill(owner, signal_number);
    errno = saved;
}

static void interrupt_install(int signal_number)
{
    struct sigaction now, action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    sigemptyset(&action.sa_mask);
    /* No SA_RESTART: a blocking read must end with EINTR. */
    if (sigaction(signal_number, NULL, &now) == 0 && now.sa_handler != SIG_IGN)
        sigaction(signal_number, &action, NULL);
}

void interrupt_init(void)
{
    owner = pthread_self();
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a write above the limit of file sizes fails instead */
    interrupt_install(SIGINT);
    interrupt_install(SIGTERM);
    interrupt_install(SIGHUP); /* a closed terminal still lets running requests finish */
}

bool interrupt_pending(void)
{
    return received != 0;
}

int interrupt_exit_code(void)
{
    return 128 + (received != 0 ? received : SIGINT);
}

void interrupt_set_engine(mote_engine *engine)
{
    atomic_store(&watched, engine);
    /* A signal that came before the store found no engine to cancel. */
    if (engine != NULL && received != 0)
        mote_cancel(engine);
}

void interrupt_set_handler(void (*stop)(void *with), void *with)
{
    stop_call = NULL; /* a signal here must not pair the old function with the new argument */
    stop_with = with;
    stop_call = stop;
}

void interrupt_clear(void)
{
    if (received == SIGINT)
        received = 0;
}
