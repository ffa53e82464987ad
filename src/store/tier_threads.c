// tier_threads.c -- the engine of a tier for systems without io_uring: a few threads call pread and
// pwrite. tier_service.c calls it through tier_engine_ops. It deliberately does not know requests
// or retries, and it returns the disk's errors as numbers.
#define _GNU_SOURCE
#include "store/tier_private.h"

#include "base/alloc.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

enum { WORKERS = 8 };

typedef struct tier_threads {
    tier_engine base;
    int fd;
    unsigned depth;
    pthread_mutex_t lock; // protects all members below
    pthread_cond_t pushed, finished;
    tier_io *todo; // [depth] a ring
    unsigned todo_first, todo_count;
    tier_done *done; // [depth]
    unsigned done_count;
    bool stop;
    pthread_t worker[WORKERS];
    unsigned workers; // that run
} tier_threads;

static void *run_worker(void *arg)
{
    tier_threads *p = arg;
    pthread_mutex_lock(&p->lock);
    for (;;) {
        while (!p->todo_count && !p->stop) pthread_cond_wait(&p->pushed, &p->lock);
        if (!p->todo_count) break;
        const tier_io io = p->todo[p->todo_first];
        p->todo_first = (p->todo_first + 1) % p->depth;
        p->todo_count--;
        pthread_mutex_unlock(&p->lock);
        const ssize_t moved = io.write ? pwrite(p->fd, io.ptr, io.bytes, (off_t)io.offset)
                                       : pread(p->fd, io.ptr, io.bytes, (off_t)io.offset);
        const int why = errno;
        pthread_mutex_lock(&p->lock);
        p->done[p->done_count++] = (tier_done){io.slot, moved < 0 ? -why : moved};
        pthread_cond_signal(&p->finished);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

static status threads_begin(tier_engine *g, err *e)
{
    (void)g, (void)e;
    return OK;
}

static void threads_push(tier_engine *g, const tier_io *io)
{
    tier_threads *p = (tier_threads *)g;
    pthread_mutex_lock(&p->lock);
    p->todo[(p->todo_first + p->todo_count++) % p->depth] = *io;
    pthread_cond_signal(&p->pushed);
    pthread_mutex_unlock(&p->lock);
}

static status threads_submit_and_wait(tier_engine *g, unsigned least, tier_done *done,
                                      unsigned *count, err *e)
{
    tier_threads *p = (tier_threads *)g;
    (void)e;
    pthread_mutex_lock(&p->lock);
    while (p->done_count < least) pthread_cond_wait(&p->finished, &p->lock);
    *count = p->done_count;
    for (unsigned i = 0; i < *count; i++) done[i] = p->done[i];
    p->done_count = 0;
    pthread_mutex_unlock(&p->lock);
    return OK;
}

static void threads_close(tier_engine *g)
{
    tier_threads *p = (tier_threads *)g;
    pthread_mutex_lock(&p->lock);
    p->stop = true;
    pthread_cond_broadcast(&p->pushed);
    pthread_mutex_unlock(&p->lock);
    for (unsigned i = 0; i < p->workers; i++) pthread_join(p->worker[i], NULL);
    pthread_cond_destroy(&p->finished);
    pthread_cond_destroy(&p->pushed);
    pthread_mutex_destroy(&p->lock);
    free(p->done);
    free(p->todo);
    free(p);
}

status tier_threads_open(int fd, unsigned depth, tier_engine **out, err *e)
{
    static const tier_engine_ops ops = {threads_begin, threads_push, threads_submit_and_wait,
                                        threads_close};
    status result = OK;
    tier_threads *p = NULL;
    TRY(alloc_zeroed(&p, 1, sizeof *p, "the threads of a tier", e));
    p->base = (tier_engine){&ops, sizeof *p + depth * (sizeof *p->todo + sizeof *p->done)};
    p->fd = fd;
    p->depth = depth;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->pushed, NULL);
    pthread_cond_init(&p->finished, NULL);
    TRY(alloc_zeroed(&p->todo, depth, sizeof *p->todo, "the threads of a tier", e));
    TRY(alloc_zeroed(&p->done, depth, sizeof *p->done, "the threads of a tier", e));
    const unsigned most = depth < WORKERS ? depth : WORKERS;
    while (p->workers < most && tier_thread_create(&p->worker[p->workers], run_worker, p) == 0)
        p->workers++;
    if (!p->workers) FAIL(E_IO, "cannot start a thread to read and write a file");
    *out = &p->base;
    p = NULL;
done:
    if (p) threads_close(&p->base);
    return result;
}
