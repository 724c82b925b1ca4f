/* SPDX-License-Identifier: Apache-2.0 */
/*
 * signals_test.c - a signal delivered to another thread interrupts the blocking call of the owner
 * thread and is handled there.
 */
#define _GNU_SOURCE
#include "cli/term/terminal.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka.h needs the headers above */
#include <cmocka.h>

static pthread_t main_thread;
static int stops; /* number of calls of `stop`; -1: one was on another thread */

static void stop(void *with)
{
    (void)with;
    stops = pthread_equal(pthread_self(), main_thread) ? stops + 1 : -1;
}

static void *receive_signal(void *with)
{
    (void)with;
    sigset_t none;
    sigemptyset(&none);
    pthread_sigmask(SIG_SETMASK, &none, NULL); /* the mask of the main thread was inherited */
    pthread_kill(pthread_self(), SIGTERM);
    return NULL;
}

/* The main thread unblocks the signal only inside ppoll(), so it cannot come too early. */
static void test_signal_of_another_thread(void **state)
{
    (void)state;
    pthread_t other;
    sigset_t held, before;
    main_thread = pthread_self();
    interrupt_init();
    interrupt_set_handler(stop, NULL);
    sigemptyset(&held);
    sigaddset(&held, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &held, &before);
    assert_int_equal(pthread_create(&other, NULL, receive_signal, NULL), 0);
    pthread_join(other, NULL);
    assert_int_equal(ppoll(NULL, 0, &(struct timespec){.tv_sec = 20}, &before), -1);
    assert_int_equal(errno, EINTR);
    assert_true(interrupt_pending());
    assert_int_equal(interrupt_exit_code(), 143);
    assert_int_equal(stops, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_signal_of_another_thread)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
