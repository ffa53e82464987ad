// ranks.h -- runs a function on several ranks, which are forked processes or threads, for the tests
// of the communicator. It does without launch/. It also has the numbers that the tests reduce.
#ifndef TESTS_COMM_RANKS_H
#define TESTS_COMM_RANKS_H

#include "comm/recorder.h"
#include "comm/registry.h"
#include "patience.h"
#include "streams.h"

#include <stdio.h>
#include <sys/wait.h>

// The most ranks of a test. A world has no such table.
enum { TEST_RANKS = 640 };

typedef struct test_rank {
    comm *comm;
    device *device;
    device_stream *stream;
    world *world;
    void *arg;
} test_rank;

typedef status (*rank_fn)(const test_rank *s, err *e);

typedef struct workers {
    int ranks;
    bool as_threads, late;
    const char *communicator; // NULL: auto
    rank_fn fn;
    void *arg;
    int records;        // calls of each rank that the flight recorder holds; 0: none
    bool compares;      // each collective is compared before it runs
    const char *prefix; // of the recorder's files, which are written where it is not NULL
    world *world;
    err failure; // the first failure; code OK: none
    status results[TEST_RANKS];
    err errors[TEST_RANKS];
} workers;

typedef struct worker {
    workers *workers;
    int rank;
} worker;

static inline void *worker_main(void *arg)
{
    const worker *r = arg;
    workers *k = r->workers;
    device d = {.ops = k->late ? &test_late_device_ops : &test_device_ops};
    test_rank s = {.device = &d, .world = k->world, .arg = k->arg};
    err *e = &k->errors[r->rank];
    status result = d.ops->stream_open(&d, STREAM_COMM, false, &s.stream, e);
    if (result == OK)
        result = comm_open(k->communicator ? k->communicator : "auto",
                           test_world_options(k->world, r->rank, &d), &s.comm, e);
    if (result == OK) result = k->fn(&s, e);
    if (result != OK) comm_failure_set(k->world->failure, r->rank, e);
    if (s.stream) d.ops->stream_close(s.stream);
    comm_close(s.comm);
    if (result == OK && d.bytes_now != 0)
        result = err_set(e, E_INTERNAL, "%zu bytes are still counted", d.bytes_now);
    k->results[r->rank] = result;
    return NULL;
}

// Runs k->fn on every rank. Fills k->results, and k->errors for threads. A process that was killed
// has the result 128 + signal. Returns the number of ranks that did not return OK.
static inline int workers_run(workers *k)
{
    pthread_t threads[TEST_RANKS];
    pid_t pids[TEST_RANKS];
    worker ranks[TEST_RANKS];
    err e;
    int bad = 0;
    memset(k->results, 0, sizeof k->results);
    memset(k->errors, 0, sizeof k->errors);
    memset(&k->failure, 0, sizeof k->failure);
    if (test_world_open(k->ranks, k->as_threads, &k->world, &e) != OK ||
        comm_recorder_open(k->world, k->records, k->compares, &e) != OK)
        return -1;
    fflush(NULL);
    for (int r = 0; r < k->ranks; r++) {
        ranks[r] = (worker){k, r};
        if (k->as_threads) {
            pthread_create(&threads[r], NULL, worker_main, &ranks[r]);
        } else if ((pids[r] = fork()) == 0) {
            alarm(200);
            worker_main(&ranks[r]);
            if (k->results[r] == E_INTERNAL) fprintf(stderr, "rank %d: %s\n", r, k->errors[r].text);
            fflush(NULL);
            _exit((int)k->results[r]);
        }
    }
    for (int left = k->ranks; left > 0; left--) {
        int how = 0, r = k->ranks - left;
        if (k->as_threads) {
            pthread_join(threads[r], NULL);
        } else {
            const pid_t pid = wait(&how);
            for (r = 0; pids[r] != pid;) r++;
            k->results[r] =
                WIFEXITED(how) ? (status)WEXITSTATUS(how) : (status)(128 + WTERMSIG(how));
            if (WIFSIGNALED(how)) comm_failure_set_lost(k->world->failure, r, pid, how, NULL, "");
        }
        bad += k->results[r] != OK;
        if (k->as_threads && k->results[r] == E_INTERNAL)
            fprintf(stderr, "rank %d: %s\n", r, k->errors[r].text);
    }
    comm_failure_get(k->world->failure, NULL, &k->failure);
    if (k->prefix &&
        comm_recorder_dump(k->world->last_calls.recorder, 0, k->world->ranks, k->prefix, &e) != OK)
        bad = -1;
    world_close(k->world);
    return bad;
}

enum { TEST_PERIOD = 251 }; // elements after which the values of a rank repeat

// Element i of rank `rank`. The numbers are not exact in fp32 sums, so that another order of sums
// gives other bits.
static inline double test_value(int rank, size_t i)
{
    return (double)((i * 2654435761u + (size_t)rank * 40503u) % TEST_PERIOD) / 7.0 - 12.0;
}

// Sets element i of an array of type t.
static inline void test_put(void *p, dtype t, size_t i, double x)
{
    if (t == F32)
        ((float *)p)[i] = (float)x;
    else if (t == BF16)
        ((uint16_t *)p)[i] = float_to_bf16((float)x);
    else if (t == F16)
        ((uint16_t *)p)[i] = float_to_fp16((float)x);
    else if (t == F64)
        ((double *)p)[i] = x;
    else
        ((int64_t *)p)[i] = (int64_t)(x * 1e12);
}

#endif
