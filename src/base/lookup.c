// lookup.c -- an open hash table with linear probing, at most half full. Called where names or keys
// of a model are found again. Deliberately knows no keys: it has hashes and numbers.
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
        const lookup_entry *e = &l->at[i & (l->room - 1)];
        if (e->number < 0) return -1;
        if (e->hash == hash && is(given, e->number)) return e->number;
    }
    return -1;
}

static void put(lookup *l, lookup_entry e)
{
    size_t i = e.hash;
    while (l->at[i & (l->room - 1)].number >= 0) i++;
    l->at[i & (l->room - 1)] = e;
}

static status grow(lookup *l, err *e)
{
    status result = OK;
    const lookup old = *l;
    const size_t room = old.room ? 2 * old.room : 64;
    TRY(alloc_array(&l->at, room, sizeof *l->at, "a hash table", e));
    l->room = room;
    for (size_t i = 0; i < l->room; i++) l->at[i] = (lookup_entry){0, -1};
    for (size_t i = 0; i < old.room; i++)
        if (old.at[i].number >= 0) put(l, old.at[i]);
    free(old.at);
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
    free(l->at);
    *l = (lookup){0};
}
