// threads.c -- runs ranks as threads of this process.
//
// Called by launch.c. A thread cannot be killed: a rank that fails aborts the world, and the others
// end at their next use of a communicator. It does not know what a rank does.
#include "launch/workers.h"

#include "base/alloc.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { STACK_BYTES = 8 << 20 };

typedef struct launch_thread {
    pthread_t thread;
    world *world;
    int rank;
    launch_rank_main fn;
    void *arg;
    int ended; // eventfd that counts the ranks that have ended
    status result;
} launch_thread;

static void *thread_main(void *arg)
{
    launch_thread *t = arg;
    t->result = workers_run_rank(t->world, t->rank, t->fn, t->arg);
    eventfd_write(t->ended, 1);
    return NULL;
}

static status start_all(launch_thread *threads, int ranks, int *started, err *e)
{
    status result = OK;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    for (; *started < ranks; ++*started) {
        launch_thread *t = &threads[*started];
        errno = pthread_create(&t->thread, &attributes, thread_main, t);
        if (errno == 0) continue;
        result = err_errno(e, "cannot start rank %d", *started);
        break;
    }
    pthread_attr_destroy(&attributes);
    return result;
}

static void wait_for_all(int ended, int ranks, launch_terminal *t, world *w)
{
    eventfd_t now = 0;
    for (int left = ranks; left > 0; left -= (int)now) {
        struct pollfd fds[2] = {{.fd = ended, .events = POLLIN}, {.fd = t->fd, .events = POLLIN}};
        now = 0;
        if (poll(fds, 2, -1) <= 0) continue;
        if (fds[1].revents) terminal_read(t, w);
        if (fds[0].revents && eventfd_read(ended, &now) != 0) now = 0;
    }
}

status workers_run_threads(world *w, launch_rank_main fn, void *arg, launch_terminal *t,
                           bool *interrupted, err *e)
{
    status result = OK;
    const int ranks = w->ranks;
    launch_thread *threads = NULL;
    int started = 0;
    TRY(alloc_zeroed(&threads, (size_t)ranks, sizeof *threads, "the list of ranks", e));
    const int ended = eventfd(0, EFD_CLOEXEC);
    if (ended < 0) {
        result = err_errno(e, "cannot watch ranks");
        goto done;
    }
    for (int r = 0; r < ranks; r++)
        threads[r] = (launch_thread){.world = w, .rank = r, .fn = fn, .arg = arg, .ended = ended};
    err why;
    memset(&why, 0, sizeof why);
    result = start_all(threads, ranks, &started, &why);
    if (result != OK) {
        comm_failure_set(w->failure, -1, &why);
        err_set(e, result, "%s", why.text);
    }
    wait_for_all(ended, started, t, w);
    for (int r = 0; r < started; r++) {
        pthread_join(threads[r].thread, NULL);
        if (threads[r].result == E_INTERRUPTED) *interrupted = true;
    }
    close(ended);
done:
    free(threads);
    return result;
}
