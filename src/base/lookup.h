// lookup.h -- a hash table that finds an item's number by its key in constant time. The caller
// stores the items and their keys; the table stores hashes and numbers only.
#ifndef TRIREME_BASE_LOOKUP_H
#define TRIREME_BASE_LOOKUP_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct lookup_entry {
    uint64_t hash;
    int number; // -1: empty
} lookup_entry;

// An open hash table. Start with {0}. The owner calls lookup_clear.
typedef struct lookup {
    lookup_entry *entries;
    size_t room, count; // room is 0 or a power of two
} lookup;

// Returns whether item `number` has the wanted key. `given` is the caller's argument of
// lookup_find.
typedef bool lookup_is(const void *given, int number);

uint64_t lookup_hash(const void *key, size_t bytes);
// Returns the number of the item for which `is` is true, or -1.
int lookup_find(const lookup *l, uint64_t hash, lookup_is *is, const void *given);
status lookup_add(lookup *l, uint64_t hash, int number, err *e);
void lookup_clear(lookup *l);

#endif
