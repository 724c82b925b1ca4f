/* SPDX-License-Identifier: Apache-2.0 */
/* interrupt.c - see interrupt.h. */
#include "cli/term/interrupt.h"

#include "cli/term/terminal.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

/* What follows belongs to one thread and its handler, so that no other one can be in the handler
 * while this one takes apart what `stop` is about. */
static pthread_t owner;
static volatile sig_atomic_t received; /* the first signal, 0: none */
static _Atomic(mote_engine *) watched;
static void (*volatile stop_call)(void *with);
static void *volatile stop_with;

static void obey(int signal_number)
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

/* The system may choose any thread that does not block the signal, and it may be the wrong one: a
 * thread that computes, while the owner waits for a key that nobody presses. */
static void on_signal(int signal_number)
{
    const int kept = errno;
    if (pthread_equal(pthread_self(), owner))
        obey(signal_number);
    else
        pthread_kill(owner, signal_number);
    errno = kept;
}

static void listen_to(int signal_number)
{
    struct sigaction now, wanted;
    memset(&wanted, 0, sizeof wanted);
    wanted.sa_handler = on_signal;
    sigemptyset(&wanted.sa_mask);
    /* No SA_RESTART: a read from a silent terminal must end too. */
    if (sigaction(signal_number, NULL, &now) == 0 && now.sa_handler != SIG_IGN)
        sigaction(signal_number, &wanted, NULL);
}

void interrupt_init(void)
{
    owner = pthread_self();
    signal(SIGPIPE, SIG_IGN);
    listen_to(SIGINT);
    listen_to(SIGTERM);
    listen_to(SIGHUP); /* the terminal is closed: no reason to drop answers that others wait for */
}

bool interrupt_came(void)
{
    return received != 0;
}

int interrupt_exit_code(void)
{
    return 128 + (received != 0 ? received : SIGINT);
}

void interrupt_watch(mote_engine *engine)
{
    atomic_store(&watched, engine);
    /* A signal between the last look and the store found no engine to cancel. */
    if (engine != NULL && received != 0)
        mote_cancel(engine);
}

void interrupt_call(void (*stop)(void *with), void *with)
{
    stop_call = NULL; /* never one function with the other's argument */
    stop_with = with;
    stop_call = stop;
}

void interrupt_forget(void)
{
    if (received == SIGINT)
        received = 0;
}
