// rendezvous.c -- see rendezvous.h. Keys of a store, for split S of group G:
//   comm/groups              how many groups there are, besides that of all ranks
//   comm/G/all               what rank 0 of all ranks tells the others
//   comm/G/S/bytes/R         how long the value of rank R is
//   comm/G/S/part/I           part P of it, where I is P * ranks + R
//   comm/G/S/told/0          how many ranks have read all of these; the last one removes them
//   comm/G/S/rank/R          the color and the key of rank R
//   comm/G/S/color/C         the number of the new group, and what its first rank tells the others
//   comm/G/S/done            how many ranks have read all of these; the last one removes them
// Called by communicators that open or split. It knows no collective.
#include "rendezvous/rendezvous.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/size.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A wait looks for a failure each SLICE_MS. The deadline counts at most COUNTED_MS of each slice,
// because the process may have been stopped. CALL_MS bounds a call that waits for no rank.
enum { SLICE_MS = 50, COUNTED_MS = 100, CALL_MS = 60000 };

typedef struct split_key {
    int color, key;
} split_key;

typedef struct group_value {
    int64_t group;
    char bytes[STORE_VALUE_BYTES - sizeof(int64_t)];
} group_value;

static void name_key(char out[STORE_KEY_BYTES], const comm_rendezvous *r, const char *what, int i)
{
    snprintf(out, STORE_KEY_BYTES, "comm/%" PRId64 "/%" PRId64 "/%s/%d", r->group, r->splits, what,
             i);
}

// Copies the value [bytes] of a key that rank `from` of r sets.
static status get_from(const comm_rendezvous *r, const char *key, int from, void *out, size_t bytes,
                       int64_t deadline_ms, err *e)
{
    size_t length = 0;
    int64_t waited_ns = 0;
    for (;;) {
        err why = {0};
        const int64_t start = clock_ns();
        const status got = comm_store_get(r->store, key, out, bytes, &length, SLICE_MS, &why);
        if (got == OK && length != bytes)
            return err_set(e, E_INTERNAL, "rank %d gave %zu bytes for %s; valid are %zu", from,
                           length, key, bytes);
        if (got == OK) return OK;
        if (got != E_PEER) return err_set(e, got, "%s", why.text);
        if (r->failure && comm_failure_known(r->failure)) return comm_failure_error(r->failure, e);
        waited_ns += size_min(clock_ns() - start, COUNTED_MS * 1000000);
        if (deadline_ms > 0 && waited_ns >= deadline_ms * 1000000)
            return err_set(e, E_PEER, "rank %d of %d did not come within %.3g s", from, r->size,
                           (double)deadline_ms * 1e-3);
    }
}

// Each rank sets its value [bytes] of one length, and gets those of all: all[size], `stride` bytes apart.
static status gather_values(const comm_rendezvous *r, const char *what, int first,
                            const void *value, size_t bytes, size_t stride, int64_t deadline_ms,
                            void *all, err *e)
{
    status result = OK;
    char key[STORE_KEY_BYTES];
    name_key(key, r, what, first + r->rank);
    TRY(comm_store_set(r->store, key, value, bytes, CALL_MS, e));
    for (int rank = 0; rank < r->size; rank++) {
        name_key(key, r, what, first + rank);
        TRY(get_from(r, key, rank, (char *)all + (size_t)rank * stride, bytes, deadline_ms, e));
    }
done:
    return result;
}

// Counts the ranks that are done. *last says that this one is the last of them, and then the count is removed.
static status count_done(const comm_rendezvous *r, const char *what, bool *last, err *e)
{
    status result = OK;
    char key[STORE_KEY_BYTES];
    int64_t done = 0;
    name_key(key, r, what, 0);
    TRY(comm_store_add(r->store, key, 1, &done, CALL_MS, e));
    *last = done >= r->size;
    if (*last) TRY(comm_store_remove(r->store, key, CALL_MS, e));
done:
    return result;
}

// The last rank removes the value, so that the ranks of a world can open a communicator again.
status comm_rendezvous_open(const comm_rendezvous *r, void *value, size_t bytes,
                            int64_t deadline_ms, err *e)
{
    status result = OK;
    char key[STORE_KEY_BYTES];
    bool last = false;
    snprintf(key, sizeof key, "comm/%" PRId64 "/all", r->group);
    if (r->rank == 0)
        TRY(comm_store_set(r->store, key, value, bytes, CALL_MS, e));
    else
        TRY(get_from(r, key, 0, value, bytes, deadline_ms, e));
    TRY(count_done(r, "opened", &last, e));
    if (last) TRY(comm_store_remove(r->store, key, CALL_MS, e));
done:
    return result;
}

static status remove_values(const comm_rendezvous *r, int parts, err *e)
{
    status result = OK;
    char key[STORE_KEY_BYTES];
    bool last = false;
    TRY(count_done(r, "told", &last, e));
    if (!last) return OK;
    for (int rank = 0; rank < r->size; rank++) {
        name_key(key, r, "bytes", rank);
        TRY(comm_store_remove(r->store, key, CALL_MS, e));
        for (int p = 0; p < parts; p++) {
            name_key(key, r, "part", p * r->size + rank);
            TRY(comm_store_remove(r->store, key, CALL_MS, e));
        }
    }
done:
    return result;
}

static size_t longest_of(const uint64_t *lengths, int count)
{
    uint64_t most = 0;
    for (int i = 0; i < count; i++) most = lengths[i] > most ? lengths[i] : most;
    return (size_t)most;
}

// The values travel in parts of one length, which a store can hold.
status comm_rendezvous_all_gather(const comm_rendezvous *r, const void *value, size_t bytes,
                                  int64_t deadline_ms, char **all, size_t *block, err *e)
{
    status result = OK;
    const size_t size = (size_t)r->size;
    const uint64_t length = bytes;
    uint64_t *lengths = NULL;
    char *own = NULL;
    int parts = 0;
    *all = NULL;
    TRY(alloc_array(&lengths, size, sizeof *lengths, "a process group", e));
    TRY(gather_values(r, "bytes", 0, &length, sizeof length, sizeof length, deadline_ms, lengths,
                      e));
    *block = longest_of(lengths, r->size);
    TRY(alloc_zeroed(&own, *block + 1, 1, "a process group", e));
    TRY(alloc_zeroed(all, size, *block + 1, "a process group", e));
    memcpy(own, value, bytes);
    for (size_t at = 0; at < *block; at += STORE_VALUE_BYTES, parts++) {
        const size_t left = *block - at;
        TRY(gather_values(r, "part", parts * r->size, own + at,
                          left < STORE_VALUE_BYTES ? left : STORE_VALUE_BYTES, *block, deadline_ms,
                          *all + at, e));
    }
    TRY(remove_values(r, parts, e));
done:
    free(lengths);
    free(own);
    if (result != OK) {
        free(*all);
        *all = NULL;
    }
    return result;
}

// Fills m with the ranks of the color of r->rank.
static void sort_members(const comm_rendezvous *r, const split_key *keys, comm_members *m)
{
    m->size = 0;
    for (int rank = 0; rank < r->size; rank++) {
        if (keys[rank].color != m->color) continue;
        int i = m->size++;
        for (; i > 0 && keys[m->ranks[i - 1]].key > keys[rank].key; i--)
            m->ranks[i] = m->ranks[i - 1];
        m->ranks[i] = rank;
    }
    for (int i = 0; i < m->size; i++)
        if (m->ranks[i] == r->rank) m->rank = i;
}

status comm_rendezvous_split(comm_rendezvous *r, int color, int key, int64_t deadline_ms,
                             comm_members *out, err *e)
{
    status result = OK;
    char name[STORE_KEY_BYTES];
    const split_key own = {color, key};
    split_key *keys = NULL;
    *out = (comm_members){.color = color};
    r->splits++;
    TRY(alloc_array(&out->ranks, (size_t)r->size, sizeof *out->ranks, "a process group", e));
    TRY(alloc_array(&keys, (size_t)r->size, sizeof *keys, "a process group", e));
    name_key(name, r, "rank", r->rank);
    TRY(comm_store_set(r->store, name, &own, sizeof own, CALL_MS, e));
    for (int rank = 0; rank < r->size; rank++) {
        name_key(name, r, "rank", rank);
        TRY(get_from(r, name, rank, &keys[rank], sizeof *keys, deadline_ms, e));
    }
    sort_members(r, keys, out);
done:
    free(keys);
    if (result != OK) {
        free(out->ranks);
        *out = (comm_members){0};
    }
    return result;
}

// The last rank that is done removes the keys of the split.
static status remove_keys(const comm_rendezvous *r, err *e)
{
    status result = OK;
    char name[STORE_KEY_BYTES];
    bool last = false;
    TRY(count_done(r, "done", &last, e));
    if (!last) return OK;
    for (int rank = 0; rank < r->size; rank++) {
        split_key own;
        name_key(name, r, "rank", rank);
        TRY(get_from(r, name, rank, &own, sizeof own, CALL_MS, e));
        TRY(comm_store_remove(r->store, name, CALL_MS, e));
        name_key(name, r, "color", own.color);
        TRY(comm_store_remove(r->store, name, CALL_MS, e));
    }
done:
    return result;
}

status comm_rendezvous_join(const comm_rendezvous *r, const comm_members *m, void *value,
                            size_t bytes, int64_t deadline_ms, comm_rendezvous *out, err *e)
{
    status result = OK;
    char name[STORE_KEY_BYTES];
    group_value shared = {0};
    const size_t total = offsetof(group_value, bytes) + bytes;
    if (bytes > sizeof shared.bytes)
        FAIL(E_INTERNAL, "a group tells %zu bytes; valid are 0 to %zu", bytes, sizeof shared.bytes);
    name_key(name, r, "color", m->color);
    if (m->rank == 0) {
        TRY(comm_store_add(r->store, "comm/groups", 1, &shared.group, CALL_MS, e));
        memcpy(shared.bytes, value, bytes);
        TRY(comm_store_set(r->store, name, &shared, total, CALL_MS, e));
    } else {
        TRY(get_from(r, name, m->ranks[0], &shared, total, deadline_ms, e));
        memcpy(value, shared.bytes, bytes);
    }
    TRY(remove_keys(r, e));
    *out = (comm_rendezvous){.store = r->store,
                             .failure = r->failure,
                             .group = shared.group,
                             .rank = m->rank,
                             .size = m->size};
done:
    return result;
}
