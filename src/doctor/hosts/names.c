// names.c -- see names.h. A thread asks, and whoever of the two ends last frees what they share.
#include "doctor/hosts/names.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/proc.h"
#include "base/text.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct lookup {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int count, done;
    bool is_left; // the caller waits no longer
    char **names;
    host_lookup *found;
} lookup;

static void lookup_free(lookup *l)
{
    for (int i = 0; l->names && i < l->count; i++) free(l->names[i]);
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->mutex);
    free(l->names);
    free(l->found);
    free(l);
}

static void *look_up(void *arg)
{
    lookup *l = arg;
    bool is_left = false;
    for (int i = 0; i < l->count && !is_left; i++) {
        net_address a;
        const bool found = net_address_resolve(l->names[i], 0, &a, NULL) == OK;
        pthread_mutex_lock(&l->mutex);
        l->found[i] =
            (host_lookup){.found = found, .is_loopback = found && net_address_is_loopback(&a)};
        l->done = i + 1;
        is_left = l->is_left;
        pthread_cond_signal(&l->changed);
        pthread_mutex_unlock(&l->mutex);
    }
    if (is_left) lookup_free(l);
    return NULL;
}

static status open_lookup(const char *const *names, int count, lookup **out, err *e)
{
    status result = OK;
    lookup *l = NULL;
    pthread_condattr_t attributes;
    TRY(alloc_zeroed(&l, 1, sizeof *l, "names of hosts", e));
    l->count = count;
    pthread_mutex_init(&l->mutex, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&l->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    TRY(alloc_zeroed(&l->names, (size_t)count, sizeof *l->names, "names of hosts", e));
    TRY(alloc_zeroed(&l->found, (size_t)count, sizeof *l->found, "names of hosts", e));
    for (int i = 0; i < count; i++) TRY(text_copy(names[i], &l->names[i], e));
    *out = l;
    l = NULL;
done:
    if (l) lookup_free(l);
    return result;
}

status host_names_look_up(const char *const *names, int count, int64_t timeout_ms, host_lookup *out,
                          err *e)
{
    status result = OK;
    lookup *l = NULL;
    pthread_t thread;
    sigset_t before;
    const int64_t end_ns = clock_ns() + timeout_ms * 1000000;
    const struct timespec end = {.tv_sec = end_ns / 1000000000, .tv_nsec = end_ns % 1000000000};
    TRY(open_lookup(names, count, &l, e));
    proc_block_signals(&before);
    const int started = pthread_create(&thread, NULL, look_up, l);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (started != 0) {
        lookup_free(l);
        FAIL(E_IO, "cannot start a thread that looks names up");
    }
    pthread_mutex_lock(&l->mutex);
    while (l->done < count && pthread_cond_timedwait(&l->changed, &l->mutex, &end) == 0) {
    }
    memcpy(out, l->found, (size_t)count * sizeof *out);
    const bool is_done = l->done == count;
    l->is_left = !is_done;
    pthread_mutex_unlock(&l->mutex);
    if (!is_done) {
        pthread_detach(thread);
        goto done;
    }
    pthread_join(thread, NULL);
    lookup_free(l);
done:
    return result;
}
