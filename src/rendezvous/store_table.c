// store_table.c -- see store_table.h. The keys are in a balanced tree of libc (tsearch). An entry lives as
// long as it has a value or somebody waits for it.
#define _GNU_SOURCE // tdestroy
#include "rendezvous/store_table.h"

#include "base/alloc.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

typedef struct store_entry {
    char key[STORE_KEY_BYTES]; // first: the tree compares entries by it
    void *data;                // [bytes]; owned
    size_t bytes;
    bool has_value;
    store_waiter *waiters;
} store_entry;

struct store_table {
    void *tree;
    int keys, most;
};

static int compare(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void release(void *entry)
{
    free(((store_entry *)entry)->data);
    free(entry);
}

status store_table_open(int keys, store_table **out, err *e)
{
    status result = OK;
    store_table *t = NULL;
    TRY(alloc_zeroed(&t, 1, sizeof *t, "a store", e));
    t->most = keys;
    *out = t;
done:
    return result;
}

void store_table_close(store_table *t)
{
    if (!t) return;
    tdestroy(t->tree, release);
    free(t);
}

static store_entry *find(store_table *t, const char *key)
{
    void *node = tfind(key, &t->tree, compare);
    return node ? *(store_entry **)node : NULL;
}

static status find_or_add(store_table *t, const char *key, store_entry **out, err *e)
{
    status result = OK;
    store_entry *added = NULL;
    *out = find(t, key);
    if (*out) return OK;
    if (t->keys == t->most)
        FAIL(E_FIT, "key %s of a store: it is full; valid are up to %d keys", key, t->most);
    TRY(alloc_zeroed(&added, 1, sizeof *added, "a key of a store", e));
    strcpy(added->key, key);
    if (!tsearch(added, &t->tree, compare)) {
        free(added);
        return alloc_failed(sizeof *added, "a key of a store", e);
    }
    t->keys++;
    *out = added;
done:
    return result;
}

static void drop_unused(store_table *t, store_entry *entry)
{
    if (entry->has_value || entry->waiters) return;
    tdelete(entry, &t->tree, compare);
    t->keys--;
    release(entry);
}

bool store_table_get(store_table *t, const char *key, store_value *out)
{
    const store_entry *entry = find(t, key);
    if (!entry || !entry->has_value) return false;
    *out = (store_value){entry->data, entry->bytes};
    return true;
}

status store_table_set(store_table *t, const char *key, store_value v, store_waiter **woken, err *e)
{
    status result = OK;
    store_entry *entry = NULL;
    void *copy = NULL;
    *woken = NULL;
    TRY(alloc_array(&copy, v.bytes, 1, "a value of a store", e));
    if (v.bytes) memcpy(copy, v.data, v.bytes);
    TRY(find_or_add(t, key, &entry, e));
    free(entry->data);
    entry->data = copy;
    entry->bytes = v.bytes;
    entry->has_value = true;
    copy = NULL;
    *woken = entry->waiters;
    entry->waiters = NULL;
    for (store_waiter *w = *woken; w; w = w->next) w->link = NULL, w->entry = NULL;
done:
    free(copy);
    return result;
}

void store_table_remove(store_table *t, const char *key)
{
    store_entry *entry = find(t, key);
    if (!entry) return;
    entry->has_value = false;
    drop_unused(t, entry);
}

status store_table_wait(store_table *t, const char *key, store_waiter *w, err *e)
{
    status result = OK;
    store_entry *entry = NULL;
    TRY(find_or_add(t, key, &entry, e));
    *w = (store_waiter){.next = entry->waiters, .link = &entry->waiters, .entry = entry};
    if (w->next) w->next->link = &w->next;
    entry->waiters = w;
done:
    return result;
}

void store_table_leave(store_table *t, store_waiter *w)
{
    if (!w->link) return;
    *w->link = w->next;
    if (w->next) w->next->link = w->link;
    w->link = NULL;
    drop_unused(t, w->entry);
}
