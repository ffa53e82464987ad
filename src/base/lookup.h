// lookup.h -- finds the number of a thing by its key in constant time; the things themselves and
// their keys are the caller's.
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
    lookup_entry *at;
    size_t room, count; // room is 0 or a power of two
} lookup;

// Is the thing of this number the one that is sought? `given` is the caller's.
typedef bool lookup_is(const void *given, int number);

uint64_t lookup_hash(const void *key, size_t bytes);
int lookup_find(const lookup *l, uint64_t hash, lookup_is *is, const void *given); // -1: none
status lookup_add(lookup *l, uint64_t hash, int number, err *e);
void lookup_clear(lookup *l);

#endif
