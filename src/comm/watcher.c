// watcher.c -- the thread of a rank that looks at its communicators. See watcher.h. Called by the communicators p2p
// and nccl.
#include "comm/watcher.h"

#include "base/clock.h"
#include "base/size.h"

#include <time.h>

// A look counts at most COUNTED_NS of the time since the last one, because the process may be stopped.
enum { LOOK_NS = 2000000, COUNTED_NS = 100000000 };

static void *watch(void *arg)
{
    comm_watcher *w = arg;
    int64_t last = clock_ns();
    pthread_mutex_lock(&w->lock);
    while (!w->closing) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += LOOK_NS;
        if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
        pthread_cond_timedwait(&w->changed, &w->lock, &until);
        const int64_t now = clock_ns();
        w->look(w->arg, size_min(now - last, COUNTED_NS));
        last = now;
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

status comm_watcher_start(comm_watcher *w, const char *name, comm_look look, void *arg, err *e)
{
    pthread_condattr_t monotonic;
    w->look = look;
    w->arg = arg;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    w->runs = pthread_create(&w->thread, NULL, watch, w) == 0;
    if (w->runs) return OK;
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->changed);
    return err_set(e, E_FIT, "communicator %s: the system gives no thread", name);
}

void comm_watcher_stop(comm_watcher *w)
{
    if (!w->runs) return;
    pthread_mutex_lock(&w->lock);
    w->closing = true;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->changed);
    w->runs = false;
}
