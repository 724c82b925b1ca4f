/* SPDX-License-Identifier: Apache-2.0 */
/* work_lanes.c - see work_lanes.h. */
#include "server/http/work_lanes.h"

#include "base/mem.h"
#include "base/os.h"
#include "base/os_process.h"
#include "server/http/event_loop.h"

#include <uv.h>

enum { LANE_MEDIUM, LANE_LONG, N_LANES };

static const int lane_nice[N_LANES] = {5, 15};
static const double COST_PER_SECOND = 1e6; /* slowest tokenization: about 3 MB/s */

typedef struct work_item {
    work work;
    double deadline;
    struct work_item *next;
    uv_work_t request; /* of the pool */
} work_item;

typedef struct lane {
    work_lanes *of;
    uv_thread_t thread;
    bool started;
    int nice;
    work_item *first; /* ascending deadlines */
    uv_cond_t changed;
} lane;

struct work_lanes {
    uv_loop_t *uv;
    uv_async_t finished_work; /* calls lanes_on_finished() */
    bool open;                /* finished_work is open */
    bool finishing;
    uint32_t n;      /* items of the lanes; event loop thread */
    uv_mutex_t lock; /* of everything below and of the lists of lanes */
    bool stopping;
    work_item *finished;
    lane lanes[N_LANES];
};

/* ---- pool of libuv ---- */

static void pool_run_item(uv_work_t *request)
{
    work_item *item = request->data;
    item->work.run(item->work.with);
}

static void pool_item_done(uv_work_t *request, int status)
{
    (void)status; /* never cancelled */
    work_item *item = request->data;
    item->work.done(item->work.with);
    mem_free(item);
}

/* ---- lanes ---- */

static void lane_main(void *with)
{
    lane *l = with;
    work_lanes *all = l->of;
    os_thread_nice(l->nice);
    uv_mutex_lock(&all->lock);
    for (;;) {
        while (l->first == NULL && !all->stopping)
            uv_cond_wait(&l->changed, &all->lock);
        work_item *item = l->first;
        if (item == NULL)
            break;
        l->first = item->next;
        uv_mutex_unlock(&all->lock);
        item->work.run(item->work.with);
        uv_mutex_lock(&all->lock);
        item->next = all->finished;
        all->finished = item;
        uv_async_send(&all->finished_work);
    }
    uv_mutex_unlock(&all->lock);
}

static void lane_insert(lane *l, work_item *item)
{
    work_item **at = &l->first;
    while (*at != NULL && (*at)->deadline <= item->deadline)
        at = &(*at)->next;
    item->next = *at;
    *at = item;
    uv_cond_signal(&l->changed);
}

static void lanes_close_if_idle(work_lanes *l)
{
    if (!l->finishing || l->n > 0 || !l->open)
        return;
    l->open = false;
    uv_close((uv_handle_t *)&l->finished_work, NULL);
}

static void lanes_on_finished(uv_async_t *handle)
{
    work_lanes *l = handle->data;
    uv_mutex_lock(&l->lock);
    work_item *item = l->finished;
    l->finished = NULL;
    uv_mutex_unlock(&l->lock);
    while (item != NULL) {
        work_item *next = item->next;
        l->n--;
        item->work.done(item->work.with);
        mem_free(item);
        item = next;
    }
    lanes_close_if_idle(l);
}

bool work_lanes_add(work_lanes *l, const work *w)
{
    work_item *item = mem_new(1, sizeof *item);
    if (item == NULL)
        return false;
    item->work = *w;
    item->deadline = os_now() + (double)w->cost / COST_PER_SECOND;
    if (w->cost <= WORK_SHORT) {
        item->request.data = item;
        if (uv_queue_work(l->uv, &item->request, pool_run_item, pool_item_done) == 0)
            return true;
        mem_free(item);
        return false;
    }
    l->n++;
    uv_mutex_lock(&l->lock);
    lane_insert(&l->lanes[w->cost <= WORK_MEDIUM ? LANE_MEDIUM : LANE_LONG], item);
    uv_mutex_unlock(&l->lock);
    return true;
}

void work_lanes_cancel(work_lanes *l, const void *with)
{
    uv_mutex_lock(&l->lock);
    for (int i = 0; i < N_LANES; i++)
        for (work_item **at = &l->lanes[i].first; *at != NULL;) {
            work_item *item = *at;
            if (item->work.with != with) {
                at = &item->next;
                continue;
            }
            *at = item->next;
            item->next = l->finished;
            l->finished = item;
            uv_async_send(&l->finished_work);
        }
    uv_mutex_unlock(&l->lock);
}

/* ---- life cycle ---- */

static int lanes_start(work_lanes *l)
{
    for (int i = 0; i < N_LANES; i++) {
        lane *at = &l->lanes[i];
        at->of = l;
        at->nice = lane_nice[i];
        int failed = uv_cond_init(&at->changed);
        if (failed != 0)
            return failed;
        failed = uv_thread_create(&at->thread, lane_main, at);
        if (failed != 0) {
            uv_cond_destroy(&at->changed);
            return failed;
        }
        at->started = true;
    }
    return 0;
}

mote_status work_lanes_new(work_lanes **out, uv_loop_t *uv, mote_error *err)
{
    *out = NULL;
    work_lanes *l = mem_new(1, sizeof *l);
    if (l == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: worker threads");
    l->uv = uv;
    l->finished_work.data = l;
    if (uv_mutex_init(&l->lock) != 0) {
        mem_free(l);
        return err_set(err, MOTE_E_IO, "cannot create a lock for worker threads");
    }
    *out = l; /* from here on the caller calls stop and free */
    l->open = uv_async_init(uv, &l->finished_work, lanes_on_finished) == 0;
    const int failed = l->open ? lanes_start(l) : UV_ENOMEM;
    if (failed != 0)
        return err_set(err, MOTE_E_IO, "cannot start worker threads: %s", uv_strerror(failed));
    return MOTE_OK;
}

void work_lanes_finish(work_lanes *l)
{
    l->finishing = true;
    lanes_close_if_idle(l);
}

void work_lanes_stop(work_lanes *l)
{
    if (l == NULL)
        return;
    uv_mutex_lock(&l->lock);
    l->stopping = true;
    for (int i = 0; i < N_LANES; i++)
        if (l->lanes[i].started)
            uv_cond_signal(&l->lanes[i].changed);
    uv_mutex_unlock(&l->lock);
    for (int i = 0; i < N_LANES; i++)
        if (l->lanes[i].started) {
            uv_thread_join(&l->lanes[i].thread);
            uv_cond_destroy(&l->lanes[i].changed);
            l->lanes[i].started = false;
        }
}

void work_lanes_free(work_lanes *l)
{
    if (l == NULL)
        return;
    uv_mutex_destroy(&l->lock);
    mem_free(l);
}
