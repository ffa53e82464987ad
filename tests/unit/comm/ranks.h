// ranks.h -- for the communicator's tests: ranks as forked processes or threads, without launch/.
#ifndef TESTS_COMM_RANKS_H
#define TESTS_COMM_RANKS_H

#include "comm/world.h"
#include "streams.h"

#include <stdio.h>
#include <sys/wait.h>

typedef struct seat {
    comm *comm;
    device *device;
    device_stream *stream;
    world *world;
    void *arg;
} seat;

typedef status (*rank_fn)(const seat *s, err *e);

typedef struct crew {
    int ranks;
    bool as_threads, late;
    rank_fn fn;
    void *arg;
    world *world;
    status results[WORLD_RANKS];
    err errors[WORLD_RANKS];
} crew;

typedef struct crew_rank {
    crew *crew;
    int rank;
} crew_rank;

static void *crew_rank_main(void *arg)
{
    const crew_rank *r = arg;
    crew *k = r->crew;
    device d = {.ops = k->late ? &test_late_device_ops : &test_device_ops};
    seat s = {.device = &d, .world = k->world, .arg = k->arg};
    err *e = &k->errors[r->rank];
    status result = d.ops->stream_open(&d, STREAM_COMM, &s.stream, e);
    if (result == OK) result = world_attach(k->world, r->rank, &d, &s.comm, e);
    if (result == OK) result = k->fn(&s, e);
    if (result != OK) world_fail(k->world, r->rank, e);
    if (s.stream) d.ops->stream_close(s.stream);
    comm_close(s.comm);
    if (result == OK && d.bytes_now != 0)
        result = err_set(e, E_INTERNAL, "%zu bytes are still counted", d.bytes_now);
    k->results[r->rank] = result;
    return NULL;
}

// Runs k->fn on every rank; fills k->results, and k->errors for threads. A process that was killed
// has result 128 + signal. Returns how many ranks did not return OK.
static int crew_run(crew *k)
{
    pthread_t threads[WORLD_RANKS];
    pid_t pids[WORLD_RANKS];
    crew_rank ranks[WORLD_RANKS];
    err e;
    int bad = 0;
    memset(k->results, 0, sizeof k->results);
    memset(k->errors, 0, sizeof k->errors);
    if (world_open(k->ranks, k->as_threads, &k->world, &e) != OK) return -1;
    fflush(NULL);
    for (int r = 0; r < k->ranks; r++) {
        ranks[r] = (crew_rank){k, r};
        if (k->as_threads) {
            pthread_create(&threads[r], NULL, crew_rank_main, &ranks[r]);
        } else if ((pids[r] = fork()) == 0) {
            alarm(200);
            crew_rank_main(&ranks[r]);
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
            if (WIFSIGNALED(how)) world_lost(k->world, r, pid, how, NULL);
        }
        bad += k->results[r] != OK;
        if (k->as_threads && k->results[r] == E_INTERNAL)
            fprintf(stderr, "rank %d: %s\n", r, k->errors[r].text);
    }
    world_close(k->world);
    return bad;
}

#endif
