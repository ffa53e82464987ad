// workers.h -- runs one function on several threads and waits for all of them. The function claims
// pieces of the work itself, through an atomic counter, so that the result does not depend on the
// number of threads.
#ifndef TRIREME_DATA_WORKERS_H
#define TRIREME_DATA_WORKERS_H

// `worker` is 0 on the calling thread and 1, 2, … on the others.
typedef void (*data_workers_fn)(void *arg, int worker);

// Calls fn(arg, w) on up to `count` threads and returns when all calls have returned. Where the
// system grants fewer threads, fewer workers run; worker 0 always runs.
void data_workers_run(int count, data_workers_fn fn, void *arg);

#endif
