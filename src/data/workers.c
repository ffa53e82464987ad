// workers.c -- starts threads, runs one function on each, and joins them. tokens.c, bpe_count.c and
// prepare_encode.c call it. It deliberately does not know the work: the function claims its own
// pieces, so fewer threads than requested only take longer.
#include "data/workers.h"

#include <pthread.h>

enum { WORKERS_MAX = 256 };

typedef struct data_worker {
    pthread_t thread;
    data_workers_fn fn;
    void *arg;
    int number;
} data_worker;

static void *worker_main(void *arg)
{
    data_worker *w = arg;
    w->fn(w->arg, w->number);
    return NULL;
}

void data_workers_run(int count, data_workers_fn fn, void *arg)
{
    data_worker workers[WORKERS_MAX];
    int started = 0;
    if (count > WORKERS_MAX) count = WORKERS_MAX;
    for (int i = 1; i < count; i++) {
        data_worker *w = &workers[started];
        *w = (data_worker){.fn = fn, .arg = arg, .number = i};
        if (pthread_create(&w->thread, NULL, worker_main, w) != 0) break;
        started++;
    }
    fn(arg, 0);
    for (int i = 0; i < started; i++) pthread_join(workers[i].thread, NULL);
}
