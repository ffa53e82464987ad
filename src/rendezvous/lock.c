// lock.c -- a robust mutex of the C library, shared between processes. The kernel marks it when its
// holder dies.
//
// Called by arena.c and store_page.c. It does not know what the lock protects.
#include "rendezvous/lock.h"

#include "base/clock.h"
#include "base/size.h"

#include <errno.h>
#include <sched.h>
#include <time.h>

// The deadline counts at most COUNTED_NS from try to try, because the process may have been stopped.
enum { YIELDS = 200, COUNTED_NS = 100 * 1000 * 1000 };

status comm_lock_init(comm_lock *l, err *e)
{
    pthread_mutexattr_t shared;
    pthread_mutexattr_init(&shared);
    pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&shared, PTHREAD_MUTEX_ROBUST);
    errno = pthread_mutex_init(&l->mutex, &shared);
    const status result = errno == 0 ? OK : err_errno(e, "cannot make a lock that ranks share");
    pthread_mutexattr_destroy(&shared);
    return result;
}

bool comm_lock_take(comm_lock *l, int64_t deadline_ms)
{
    const struct timespec pause = {0, 100 * 1000};
    int64_t waited_ns = 0, last = clock_ns();
    for (int tries = 0;; tries++) {
        const int got = pthread_mutex_trylock(&l->mutex);
        if (got == EOWNERDEAD) pthread_mutex_consistent(&l->mutex);
        if (got == 0 || got == EOWNERDEAD) return true;
        const int64_t now = clock_ns();
        waited_ns += size_min(now - last, COUNTED_NS);
        last = now;
        if (deadline_ms >= 0 && waited_ns >= deadline_ms * 1000000) return false;
        if (tries < YIELDS)
            sched_yield();
        else
            nanosleep(&pause, NULL);
    }
}

void comm_lock_give(comm_lock *l)
{
    pthread_mutex_unlock(&l->mutex);
}
