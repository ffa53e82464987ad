// unkind_sharing.c -- see unkind_sharing.h. An import keeps the address, and lets work of the device use
// it. Flags are host functions that the streams run. Called through device_ops.sharing.
#include "unkind/unkind_sharing.h"

#include "late/late_capture.h"

#include <string.h>
#include <time.h>

enum { POLL_NS = 50000 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unkind_device *opened[UNKIND_PEERS]; // with imports; NULL: free

void unkind_lock(void)
{
    pthread_mutex_lock(&lock);
}

void unkind_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

unkind_pool *unkind_imported_pool(unkind_device *d, const void *p)
{
    for (int i = 0; i < d->peers; i++)
        if (unkind_pool_holds(&d->peer[i]->own, p)) return &d->peer[i]->own;
    return NULL;
}

// ---- Memory. The lock is taken for each call.

typedef struct unkind_handle {
    unkind_device *owner;
    void *ptr;
} unkind_handle;
_Static_assert(sizeof(unkind_handle) <= DEVICE_HANDLE_BYTES, "a handle has room for it");

static status export_memory(device *base, const void *p, device_handle *out, err *e)
{
    unkind_device *d = (unkind_device *)base;
    const unkind_handle h = {d, (void *)(uintptr_t)p};
    status result = OK;
    *out = (device_handle){{0}};
    unkind_lock();
    if (!unkind_pool_holds(&d->own, p))
        result = err_set(e, E_INTERNAL, "export: %p is no memory of this device", p);
    else if (!unkind_pool_find(&d->own, p, 0, "export", e))
        result = E_INTERNAL;
    unkind_unlock();
    memcpy(out->bytes, &h, sizeof h);
    return result;
}

static bool has_imported(const unkind_device *d, const unkind_device *owner)
{
    for (int i = 0; i < d->peers; i++)
        if (d->peer[i] == owner) return true;
    return false;
}

static status add_peer(unkind_device *d, unkind_device *owner, err *e)
{
    int i = 0;
    if (owner == d || has_imported(d, owner)) return OK;
    while (i < UNKIND_PEERS && opened[i] && opened[i] != d) i++;
    if (i == UNKIND_PEERS || d->peers == UNKIND_PEERS)
        return err_set(e, E_IO, "import: more than %d unkind devices", UNKIND_PEERS);
    opened[i] = d;
    d->peer[d->peers++] = owner;
    return OK;
}

static status import_memory(device *base, const device_handle *from, void **out, err *e)
{
    unkind_device *d = (unkind_device *)base;
    unkind_handle h;
    memcpy(&h, from->bytes, sizeof h);
    *out = h.ptr;
    unkind_lock();
    const bool is_new = h.owner != d && !has_imported(d, h.owner);
    const status result = add_peer(d, h.owner, e);
    unkind_unlock();
    // A GPU may refuse to map memory while a recording is under way.
    if (is_new) late_capture_refuse(d->queues.capture, "an import of memory");
    return result;
}

static void close_imports(device *base)
{
    unkind_device *d = (unkind_device *)base;
    unkind_lock();
    d->peers = 0;
    for (int i = 0; i < UNKIND_PEERS; i++)
        if (opened[i] == d) opened[i] = NULL;
    unkind_unlock();
}

void unkind_forget(unkind_device *d)
{
    close_imports(&d->queues.base);
    unkind_lock();
    for (int i = 0; i < UNKIND_PEERS; i++) {
        unkind_device *x = opened[i];
        for (int p = 0; x && p < x->peers; p++)
            if (x->peer[p] == d) x->peer[p] = x->peer[--x->peers];
    }
    unkind_unlock();
}

// ---- Flags

typedef struct flags_arg {
    int count;
    device_flag *flag[DEVICE_FLAGS_AT_ONCE];
} flags_arg;
_Static_assert(sizeof(flags_arg) <= STREAM_ARG_BYTES, "a stream keeps a copy");

static status run_set(void *arg, err *e)
{
    (void)e;
    const flags_arg *x = arg;
    for (int i = 0; i < x->count; i++) atomic_store(&x->flag[i]->is_set, 1);
    return OK;
}

static status run_wait(void *arg, err *e)
{
    (void)e;
    const flags_arg *x = arg;
    const struct timespec poll = {0, POLL_NS};
    for (int i = 0; i < x->count; i++) {
        while (!atomic_load(&x->flag[i]->is_set) && !atomic_load(&x->flag[i]->is_released))
            nanosleep(&poll, NULL);
        atomic_store(&x->flag[i]->is_set, 0);
    }
    return OK;
}

static void issue(device_stream *s, device_stream_fn fn, device_flag *const *flags, int count)
{
    flags_arg x = {.count = count};
    if (count > 0) memcpy(x.flag, flags, (size_t)count * sizeof *flags);
    late_call(s, fn, &x, sizeof x);
}

static void set_flags(device_stream *s, device_flag *const *flags, int count)
{
    issue(s, run_set, flags, count);
}

static void wait_flags(device_stream *s, device_flag *const *flags, int count)
{
    issue(s, run_wait, flags, count);
}

// Any memory of the host serves.
static status open_flags(device *d, void *memory, size_t bytes, err *e)
{
    (void)d, (void)memory, (void)bytes, (void)e;
    return OK;
}

static void close_flags(device *d, void *memory, bool is_last)
{
    (void)d, (void)memory, (void)is_last;
}

// Memory is given back at once: an import is an address, not a mapping.
static void free_exported(device *d)
{
    (void)d;
}

const device_sharing UNKIND_SHARING = {.export_memory = export_memory,
                                       .import_memory = import_memory,
                                       .close_imports = close_imports,
                                       .free_exported = free_exported,
                                       .open_flags = open_flags,
                                       .close_flags = close_flags,
                                       .set_flags = set_flags,
                                       .wait_flags = wait_flags};
