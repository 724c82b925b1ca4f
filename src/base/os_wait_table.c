/* SPDX-License-Identifier: Apache-2.0 */
/*
 * os_wait_table.c - implements os_wait_table.h.
 *
 * The address of a word selects a row. A thread compares the word under the mutex of the row before
 * it sleeps, and the waking thread, which has changed the word, takes the same mutex. So no wake-up
 * is lost between the comparison and the sleep. Two words may share a row: then a thread wakes
 * early, which the contract allows.
 */
#include "base/os_wait_table.h"

#include <pthread.h>

enum { ROWS = 64, WORD_BYTES = 64 /* words of a pool are on lines of their own */ };

static struct wait_row {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
} rows[ROWS];

static pthread_once_t rows_are_ready = PTHREAD_ONCE_INIT;

static void rows_init(void)
{
    for (int i = 0; i < ROWS; i++) {
        pthread_mutex_init(&rows[i].mutex, NULL);
        pthread_cond_init(&rows[i].changed, NULL);
    }
}

static struct wait_row *row_of(const _Atomic uint32_t *word)
{
    pthread_once(&rows_are_ready, rows_init);
    return &rows[(uintptr_t)word / WORD_BYTES % ROWS];
}

void wait_table_wait(_Atomic uint32_t *word, uint32_t seen)
{
    struct wait_row *row = row_of(word);
    pthread_mutex_lock(&row->mutex);
    if (atomic_load(word) == seen)
        pthread_cond_wait(&row->changed, &row->mutex);
    pthread_mutex_unlock(&row->mutex);
}

void wait_table_wake(_Atomic uint32_t *word)
{
    struct wait_row *row = row_of(word);
    pthread_mutex_lock(&row->mutex);
    pthread_cond_broadcast(&row->changed);
    pthread_mutex_unlock(&row->mutex);
}
