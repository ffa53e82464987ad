// store_page.c -- a store in memory that the ranks of one machine share: a table of keys with chains
// by hash, under one lock. See store.h.
//
// Opened by world_open. It does not know what keys mean. A change prepares its entry beside the table
// and then makes it visible with one store (a link, or the index of the valid value). So a rank that
// dies at any place leaves a valid table, in which at most one free entry is lost. A rank that waits
// for a key sleeps on the doorbell of the key's chain, and takes the lock only to look.
#include "rendezvous/store.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "rendezvous/doorbell.h"
#include "rendezvous/lock.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

typedef struct page_value {
    uint32_t bytes;
    char data[STORE_VALUE_BYTES];
} page_value;

typedef struct page_entry {
    _Atomic int next;  // 1 + the index of the next entry of its chain, or of the free ones; 0: none
    _Atomic int valid; // which of the values is its value
    char key[STORE_KEY_BYTES];
    page_value values[2];
} page_entry;

typedef struct page_chain {
    _Atomic int first; // 1 + the index of an entry; 0: none
    doorbell changes;
} page_chain;

// It lies in memory that the ranks share.
typedef struct store_page {
    int most; // entries, and chains
    comm_lock lock;
    _Atomic int fresh;   // entries from here on were never used
    _Atomic int free;    // 1 + the index of an entry that was removed; 0: none
    page_entry *entries; // [most]
    page_chain chains[]; // [most]
} store_page;

// A process's view of the store.
typedef struct page_store {
    comm_store base;
    store_page *page;
} page_store;

static store_page *page_of(comm_store *s)
{
    return ((page_store *)s)->page;
}

// FNV-1a.
static page_chain *chain_of(store_page *p, const char *key)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (; *key; key++) hash = (hash ^ (unsigned char)*key) * 0x100000001b3u;
    return &p->chains[(hash ^ hash >> 32) % (uint64_t)p->most];
}

static status lock(store_page *p, const char *key, int64_t deadline_ms, err *e)
{
    if (comm_lock_take(&p->lock, deadline_ms)) return OK;
    return err_set(e, E_PEER, "key %s of a store: another rank kept the store for %lld ms", key,
                   (long long)deadline_ms);
}

// Returns the link to the entry of the key. The link is 0 where the key has no value.
static _Atomic int *find(store_page *p, const char *key)
{
    _Atomic int *link = &chain_of(p, key)->first;
    while (*link && strcmp(p->entries[*link - 1].key, key) != 0) link = &p->entries[*link - 1].next;
    return link;
}

static const page_value *value_of(const page_entry *entry)
{
    return &entry->values[entry->valid];
}

// Takes an entry that is in no chain. Returns 1 + its index, or 0 when there is none.
static int take_entry(store_page *p)
{
    const int taken = p->free;
    if (taken) {
        p->free = p->entries[taken - 1].next;
        return taken;
    }
    return p->fresh < p->most ? ++p->fresh : 0;
}

// Gives the key a value, under the lock.
static status put(store_page *p, const char *key, const void *value, size_t bytes, err *e)
{
    _Atomic int *link = find(p, key);
    const int index = *link ? *link : take_entry(p);
    if (!index)
        return err_set(e, E_FIT, "key %s of a store: it is full; valid are up to %d keys", key,
                       p->most);
    page_entry *entry = &p->entries[index - 1];
    page_value *next = &entry->values[!entry->valid];
    next->bytes = (uint32_t)bytes;
    if (bytes) memcpy(next->data, value, bytes);
    if (!*link) {
        strcpy(entry->key, key);
        entry->next = 0;
    }
    entry->valid = !entry->valid;
    *link = index; // this store adds the key where it is new
    page_chain *chain = chain_of(p, key);
    doorbell_ring(&chain->changes, doorbell_read(&chain->changes) + 1);
    return OK;
}

static status page_set(comm_store *s, const char *key, const void *value, size_t bytes,
                       int64_t deadline_ms, err *e)
{
    status result = OK;
    store_page *p = page_of(s);
    TRY(lock(p, key, deadline_ms, e));
    result = put(p, key, value, bytes, e);
    comm_lock_give(&p->lock);
done:
    return result;
}

// Takes the lock when the key has a value, and sets *out to it. The caller gives the lock.
static status await(store_page *p, const char *key, const page_value **out, int64_t deadline_ms,
                    err *e)
{
    status result = OK;
    page_chain *chain = chain_of(p, key);
    const int64_t end = clock_ns() + deadline_ms * 1000000;
    for (;;) {
        const int64_t left_ms = (end - clock_ns() + 999999) / 1000000;
        const uint32_t seen = doorbell_read(&chain->changes);
        TRY(lock(p, key, left_ms > 0 ? left_ms : 0, e));
        const int index = *find(p, key);
        if (index) {
            *out = value_of(&p->entries[index - 1]);
            return OK;
        }
        comm_lock_give(&p->lock);
        if (left_ms <= 0)
            FAIL(E_PEER, "key %s of a store: no rank set it within %lld ms", key,
                 (long long)deadline_ms);
        const _Atomic int64_t wait_ms = left_ms;
        doorbell_wait(&chain->changes, seen, NULL, &(doorbell_limits){.timeout_ms = &wait_ms});
    }
done:
    return result;
}

// Copies a value, under the lock. E_USAGE where the reader has no room for it.
static status copy(const char *key, const page_value *value, void *out, size_t room, size_t *bytes,
                   err *e)
{
    *bytes = value ? value->bytes : 0;
    if (*bytes > room)
        return err_set(e, E_USAGE,
                       "key %s of a store: its value has %zu bytes, the reader has room for %zu",
                       key, *bytes, room);
    if (*bytes) memcpy(out, value->data, *bytes);
    return OK;
}

static status page_get(comm_store *s, const char *key, void *out, size_t room, size_t *bytes,
                       int64_t deadline_ms, err *e)
{
    status result = OK;
    store_page *p = page_of(s);
    const page_value *value = NULL;
    TRY(await(p, key, &value, deadline_ms, e));
    result = copy(key, value, out, room, bytes, e);
    comm_lock_give(&p->lock);
done:
    return result;
}

static status page_wait(comm_store *s, const char *key, int64_t deadline_ms, err *e)
{
    status result = OK;
    store_page *p = page_of(s);
    const page_value *value = NULL;
    TRY(await(p, key, &value, deadline_ms, e));
    comm_lock_give(&p->lock);
done:
    return result;
}

// The value of the key, under the lock; NULL: none.
static const page_value *valid_value(store_page *p, const char *key)
{
    const int index = *find(p, key);
    return index ? value_of(&p->entries[index - 1]) : NULL;
}

static status page_add(comm_store *s, const char *key, int64_t amount, int64_t *sum,
                       int64_t deadline_ms, err *e)
{
    status result = OK;
    store_page *p = page_of(s);
    int64_t number = 0;
    TRY(lock(p, key, deadline_ms, e));
    const page_value *old = valid_value(p, key);
    if (old && old->bytes != sizeof number) {
        result = err_set(e, E_USAGE, "key %s of a store: its value of %u bytes is no number", key,
                         old->bytes);
    } else {
        if (old) memcpy(&number, old->data, sizeof number);
        number = (int64_t)((uint64_t)number + (uint64_t)amount);
        result = put(p, key, &number, sizeof number, e);
        *sum = number;
    }
    comm_lock_give(&p->lock);
done:
    return result;
}

static status page_remove(comm_store *s, const char *key, int64_t deadline_ms, err *e)
{
    status result = OK;
    store_page *p = page_of(s);
    TRY(lock(p, key, deadline_ms, e));
    _Atomic int *link = find(p, key);
    const int index = *link;
    if (index) {
        page_entry *entry = &p->entries[index - 1];
        *link = entry->next; // this store removes the key
        entry->next = p->free;
        p->free = index;
    }
    comm_lock_give(&p->lock);
done:
    return result;
}

static status page_compare(comm_store *s, const char *key, store_value expected, store_value value,
                           void *out, size_t room, size_t *bytes, int64_t deadline_ms, err *e)
{
    status result = OK;
    store_page *p = page_of(s);
    TRY(lock(p, key, deadline_ms, e));
    const page_value *old = valid_value(p, key);
    const size_t had = old ? old->bytes : 0;
    if (had == expected.bytes && (had == 0 || memcmp(old->data, expected.data, had) == 0))
        result = put(p, key, value.data, value.bytes, e);
    if (result == OK) result = copy(key, valid_value(p, key), out, room, bytes, e);
    comm_lock_give(&p->lock);
done:
    return result;
}

static void page_close(comm_store *s)
{
    free(s);
}

static const comm_store_ops page_ops = {
    .name = "page",
    .close = page_close,
    .set = page_set,
    .get = page_get,
    .wait = page_wait,
    .add = page_add,
    .remove = page_remove,
    .compare = page_compare,
};

size_t comm_store_page_bytes(int keys)
{
    return sizeof(store_page) + (size_t)keys * (sizeof(page_chain) + sizeof(page_entry));
}

status comm_store_page_make(void *memory, int keys, err *e)
{
    store_page *p = memory;
    p->most = keys;
    p->entries = (page_entry *)(p->chains + keys);
    return comm_lock_init(&p->lock, e);
}

status comm_store_page_open(void *memory, comm_store **out, err *e)
{
    status result = OK;
    page_store *s = NULL;
    *out = NULL;
    TRY(alloc_zeroed(&s, 1, sizeof *s, "a store", e));
    *s = (page_store){.base.ops = &page_ops, .page = memory};
    *out = &s->base;
done:
    return result;
}
