// lookup.c -- an open hash table with linear probing, at most half full. model/ finds the names of
// weights with it. It deliberately stores no keys, only hashes and numbers.
#include "base/lookup.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <xxhash.h>

uint64_t lookup_hash(const void *key, size_t bytes)
{
    return XXH3_64bits(key, bytes);
}

int lookup_find(const lookup *l, uint64_t hash, lookup_is *is, const void *given)
{
    for (size_t i = hash; l->room; i++) {
        const lookup_entry *e = &l->entries[i & (l->room - 1)];
        if (e->number < 0) return -1;
        if (e->hash == hash && is(given, e->number)) return e->number;
    }
    return -1;
}

static void put(lookup *l, lookup_entry e)
{
    size_t i = e.hash;
    while (l->entries[i & (l->room - 1)].number >= 0) i++;
    l->entries[i & (l->room - 1)] = e;
}

static status grow(lookup *l, err *e)
{
    status result = OK;
    const lookup old = *l;
    const size_t room = old.room ? 2 * old.room : 64;
    TRY(alloc_array(&l->entries, room, sizeof *l->entries, "a hash table", e));
    l->room = room;
    for (size_t i = 0; i < l->room; i++) l->entries[i] = (lookup_entry){0, -1};
    for (size_t i = 0; i < old.room; i++)
        if (old.entries[i].number >= 0) put(l, old.entries[i]);
    free(old.entries);
done:
    return result;
}

status lookup_add(lookup *l, uint64_t hash, int number, err *e)
{
    status result = OK;
    if (2 * (l->count + 1) > l->room) TRY(grow(l, e));
    put(l, (lookup_entry){hash, number});
    l->count++;
done:
    return result;
}

void lookup_clear(lookup *l)
{
    free(l->entries);
    *l = (lookup){0};
}
