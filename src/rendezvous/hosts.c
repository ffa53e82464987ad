// hosts.c -- hosts join in the store, and rank 0 broadcasts what it has decided. See hosts.h. hosts_watch.c carries
// failures. Called by launch/ and by the command whose processes another program has started.
#include "base/alloc.h"
#include "base/clock.h"
#include "base/proc.h"
#include "rendezvous/hosts_private.h"
#include "rendezvous/store_tcp.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

enum { AGAIN_US = 50000, MS_NS = 1000000, MOST_BROADCAST = 1 << 28 };

void comm_hosts_key(const comm_hosts *h, const char *what, int64_t i, char out[STORE_KEY_BYTES])
{
    snprintf(out, STORE_KEY_BYTES, "%016" PRIx64 "/%s/%" PRId64, h->run, what, i);
}

// ---- Failures

size_t comm_hosts_pack(int rank, const err *why, host_failure *out)
{
    *out = (host_failure){.rank = rank, .code = (int32_t)why->code};
    snprintf(out->text, sizeof out->text, "%.*s", (int)sizeof out->text - 1, why->text);
    return sizeof *out - sizeof out->text + strlen(out->text) + 1;
}

static bool is_failure(const world *w, const host_failure *f, size_t bytes)
{
    const size_t header = offsetof(host_failure, text);
    return bytes > header + 1 &&
           memchr(f->text, 0, bytes - header) == f->text + (bytes - header - 1) && f->code > OK &&
           f->code <= E_INTERNAL && f->rank >= -1 && f->rank < w->all_ranks;
}

status comm_hosts_take(world *w, int64_t wait_ms, err *e)
{
    status result = OK;
    char key[STORE_KEY_BYTES];
    host_failure f = {0};
    err why = {.code = OK};
    size_t bytes = 0;
    comm_hosts_key(w->hosts, "failure", 0, key);
    TRY(comm_store_get(w->hosts->store, key, &f, sizeof f, &bytes, wait_ms, e));
    if (is_failure(w, &f, bytes)) {
        err_set(&why, (status)f.code, "%s", f.text);
    } else {
        f.rank = -1;
        err_set(&why, E_PEER, "another host has failed, and the record of its failure is damaged");
    }
    comm_failure_set_described(w->failure, f.rank, &why);
done:
    return result;
}

status comm_hosts_publish(world *w, err *e)
{
    char key[STORE_KEY_BYTES];
    host_failure f, found;
    err why;
    int rank;
    comm_failure_get(w->failure, &rank, &why);
    const size_t bytes = comm_hosts_pack(rank, &why, &f);
    comm_hosts_key(w->hosts, "failure", 0, key);
    return comm_store_compare(w->hosts->store, key, (store_value){0}, (store_value){&f, bytes},
                              &found, sizeof found, NULL, HOSTS_CALL_MS, e);
}

void comm_hosts_fail(world *w)
{
    if (!w->hosts || !w->hosts->store || w->hosts->watches) return;
    if (comm_failure_known(w->failure)) (void)comm_hosts_publish(w, NULL);
}

// Waits until the key has a value, and ends when the run has failed. end_ns 0: for as long as it takes.
static status await(world *w, const char *key, void *out, size_t room, size_t *bytes,
                    int64_t end_ns, err *e)
{
    for (;;) {
        err why = {.code = OK};
        status got = comm_store_get(w->hosts->store, key, out, room, bytes, HOSTS_SLICE_MS, &why);
        if (got == E_PEER && comm_hosts_take(w, 0, &why) == OK)
            return comm_failure_error(w->failure, e);
        if (got != OK && comm_failure_known(w->failure)) return comm_failure_error(w->failure, e);
        if (got == E_PEER && (!end_ns || clock_ns() < end_ns)) continue;
        return got == OK ? OK : err_set(e, got, "%s", why.text);
    }
}

// ---- Rendezvous

status comm_hosts_set_on_disconnect(world *w, const comm_host *own, int64_t silent_ms, err *e)
{
    char key[STORE_KEY_BYTES];
    host_failure f;
    err why = {.code = OK};
    err_set(&why, E_PEER,
            "rank %d (host %s, pid %d) was killed, was stopped or ended before its work was done, "
            "or its host does not answer",
            own->first, own->name, (int)getpid());
    const size_t bytes = comm_hosts_pack(own->first, &why, &f);
    comm_hosts_key(w->hosts, "failure", 0, key);
    return comm_store_tcp_set_on_disconnect(w->hosts->store, key, (store_value){&f, bytes},
                                            silent_ms, e);
}

static status check_host(const world *w, const comm_hosts_options *m, const comm_host *own,
                         const comm_host *h, int first, err *e)
{
    if (!h->name[0] || !memchr(h->name, 0, sizeof h->name) ||
        !memchr(h->version, 0, sizeof h->version))
        return err_set(e, E_USAGE,
                       "the record of the host of rank %d is damaged; valid: one version of "
                       "Trireme on all hosts",
                       first);
    if (strncmp(h->version, own->version, sizeof own->version) != 0)
        return err_set(e, E_USAGE, "host %s has Trireme %s, host %s has %s; valid: one version",
                       h->name, h->version, own->name, m->version);
    if (h->first != first || h->ranks < 1 || h->ranks > w->all_ranks - first)
        return err_set(e, E_USAGE,
                       "host %s has %d ranks from rank %d on, host %s %d from rank %d on, of %d; "
                       "valid: hosts whose ranks follow each other",
                       h->name, h->ranks, h->first, own->name, own->ranks, own->first,
                       w->all_ranks);
    return OK;
}

// Reads the hosts in the order of their ranks. *table has room for as many hosts as ranks.
static status read_table(world *w, const comm_hosts_options *m, const comm_host *own,
                         int64_t end_ns, comm_host_table *table, err *e)
{
    status result = OK;
    char key[STORE_KEY_BYTES];
    table->count = 0;
    for (int next = 0; next < w->all_ranks;) {
        comm_host *h = &table->items[table->count++];
        err why = {.code = OK};
        size_t bytes = 0;
        comm_hosts_key(w->hosts, "host", next, key);
        result = await(w, key, h, sizeof *h, &bytes, end_ns, &why);
        if (result == E_PEER && !comm_failure_known(w->failure))
            FAIL(E_PEER, "the host of rank %d of %d did not come within %.3g s (%s)", next,
                 w->all_ranks, (double)m->deadline_ms * 1e-3, m->run);
        if (result != OK) FAIL(result, "%s", why.text);
        if (bytes != sizeof *h) memset(h, 0, sizeof *h); // no record of a host
        TRY(check_host(w, m, own, h, next, e));
        next += h->ranks;
    }
done:
    return result;
}

static status exchange(world *w, const comm_hosts_options *m, const comm_host *own, int64_t end_ns,
                       comm_host_table *table, err *e)
{
    status result = OK;
    char key[STORE_KEY_BYTES];
    comm_host found;
    comm_hosts_key(w->hosts, "host", own->first, key);
    TRY(comm_store_compare(w->hosts->store, key, (store_value){0}, (store_value){own, sizeof *own},
                           &found, sizeof found, NULL, HOSTS_CALL_MS, e));
    if (memcmp(&found, own, sizeof found) != 0) {
        comm_store_close(w->hosts->store); // that run goes on without this process
        w->hosts->store = NULL;
        FAIL(E_USAGE,
             "hosts %.*s and %s both have rank %d of this run (%s); valid: one process a rank, and "
             "a MASTER_PORT of its own for each run",
             COMM_HOST_BYTES, found.name, own->name, own->first, m->run);
    }
    TRY(comm_hosts_set_on_disconnect(w, own, 0, e));
    TRY(read_table(w, m, own, end_ns, table, e));
done:
    return result;
}

// The store of an earlier run may still listen for a moment: its end is no failure as long as hosts meet.
static status join_store(world *w, const comm_hosts_options *m, const comm_host *own,
                         comm_host_table *table, err *e)
{
    const int64_t end_ns = clock_ns() + m->deadline_ms * MS_NS;
    comm_hosts *h = w->hosts;
    for (;;) {
        err why = {.code = OK};
        const int64_t left_ms = (end_ns - clock_ns()) / MS_NS;
        status got = comm_store_tcp_open(&h->address, &h->secret, left_ms > 0 ? left_ms : 0,
                                         &h->store, &why);
        if (got == OK) got = exchange(w, m, own, end_ns, table, &why);
        if (got == OK) return OK;
        if (got != E_IO || clock_ns() >= end_ns) return err_set(e, got, "%s", why.text);
        comm_store_close(h->store);
        h->store = NULL;
        usleep(AGAIN_US);
    }
}

// In memory that the processes of this host share.
static status take_table(world *w, size_t bytes, comm_host_table **out, err *e)
{
    void *memory = NULL;
    status result = w->arena ? comm_arena_take(w->arena, bytes, true, &memory, e)
                             : alloc_zeroed(&memory, 1, bytes, "the list of hosts", e);
    *out = memory;
    return result;
}

status comm_hosts_join(world *w, const comm_hosts_options *m, err *e)
{
    status result = OK;
    comm_hosts *h = NULL;
    comm_host_table *table = NULL;
    comm_host own = {
        .first = w->first_rank, .ranks = w->ranks, .nonce = clock_ns() ^ ((int64_t)getpid() << 40)};
    TRY(alloc_zeroed(&h, 1, sizeof *h, "the hosts of the run", e));
    *h = (comm_hosts){.address = m->address,
                      .secret = m->secret,
                      .run = XXH3_64bits(m->run, strlen(m->run)),
                      .kept = *m->kept};
    *m->kept = (store_process){.alive = -1};
    w->hosts = h;
    w->secret = m->secret;
    if (w->first != 0) return OK;
    proc_host_name(own.name, sizeof own.name);
    snprintf(own.version, sizeof own.version, "%s", m->version);
    memcpy(w->failure->host, own.name, sizeof own.name);
    TRY(take_table(w, sizeof *table + (size_t)w->all_ranks * sizeof(comm_host), &table, e));
    h->table = table;
    TRY(join_store(w, m, &own, table, e));
done:
    return result;
}

status comm_hosts_enter(world *w, err *e)
{
    comm_hosts *h = w->hosts;
    if (!h) return OK;
    comm_store_close(h->store);
    h->store = NULL;
    if (h->kept.alive >= 0) close(h->kept.alive);
    h->kept = (store_process){.alive = -1};
    return comm_store_tcp_open(&h->address, &h->secret, HOSTS_CALL_MS, &h->store, e);
}

status comm_hosts_clock(world *w, store_clock *out, err *e)
{
    return comm_store_clock(w->hosts ? w->hosts->store : NULL, out, e);
}

const char *comm_hosts_name(const world *w, int rank)
{
    const comm_host_table *t = w->hosts ? w->hosts->table : NULL;
    for (int i = 0; t && i < t->count; i++)
        if (rank >= t->items[i].first && rank < t->items[i].first + t->items[i].ranks)
            return t->items[i].name;
    return NULL;
}

// A host may know itself by a name that is 127.0.1.1 there and another address elsewhere.
bool comm_hosts_on_loopback(const world *w)
{
    const comm_hosts *h = w->hosts;
    bool one_name = true;
    for (int i = 1; h && h->table && i < h->table->count; i++)
        one_name = one_name &&
                   strncmp(h->table->items[i].name, h->table->items[0].name, COMM_HOST_BYTES) == 0;
    return !h || (net_address_is_loopback(&h->address) && one_name);
}

// ---- The broadcast of rank 0

status comm_hosts_broadcast(world *w, const void *data, size_t bytes, err *e)
{
    status result = OK;
    char key[STORE_KEY_BYTES];
    const uint64_t length = bytes;
    for (size_t at = 0, i = 0; at < bytes; at += STORE_VALUE_BYTES, i++) {
        const size_t left = bytes - at;
        comm_hosts_key(w->hosts, "part", (int64_t)i, key);
        TRY(comm_store_set(w->hosts->store, key, (const char *)data + at,
                           left < STORE_VALUE_BYTES ? left : STORE_VALUE_BYTES, HOSTS_CALL_MS, e));
    }
    comm_hosts_key(w->hosts, "bytes", 0, key); // the last: then all parts are there
    TRY(comm_store_set(w->hosts->store, key, &length, sizeof length, HOSTS_CALL_MS, e));
done:
    return result;
}

status comm_hosts_receive(world *w, void **out, size_t *bytes, err *e)
{
    status result = OK;
    char key[STORE_KEY_BYTES], *data = NULL;
    uint64_t length = 0;
    size_t got = 0;
    *out = NULL;
    comm_hosts_key(w->hosts, "bytes", 0, key);
    TRY(await(w, key, &length, sizeof length, &got, 0, e));
    if (got != sizeof length || length > MOST_BROADCAST)
        FAIL(E_IO, "what rank 0 tells is damaged: found %llu bytes; valid are 0 to %d",
             (unsigned long long)length, MOST_BROADCAST);
    *bytes = (size_t)length;
    TRY(alloc_zeroed(&data, 1, *bytes + 1, "what rank 0 tells", e));
    for (size_t at = 0, i = 0; at < *bytes; at += STORE_VALUE_BYTES, i++) {
        comm_hosts_key(w->hosts, "part", (int64_t)i, key);
        const size_t left = *bytes - at, part = left < STORE_VALUE_BYTES ? left : STORE_VALUE_BYTES;
        TRY(await(w, key, data + at, part, &got, 0, e));
        if (got != part)
            FAIL(E_IO, "what rank 0 tells is damaged: part %zu has %zu bytes; valid are %zu", i,
                 got, part);
    }
    *out = data;
    data = NULL;
done:
    free(data);
    return result;
}
