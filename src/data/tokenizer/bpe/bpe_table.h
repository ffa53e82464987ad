// bpe_table.h -- the two hash tables of the byte-pair encoder, both with open addressing: strings to
// consecutive numbers, and pairs of ids to a value.
#ifndef TRIREME_DATA_BPE_TABLE_H
#define TRIREME_DATA_BPE_TABLE_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Distinct strings, numbered 0, 1, 2, … in the order in which they were added. Start with {0}.
typedef struct bpe_span {
    size_t offset; // in bpe_strings.bytes
    size_t bytes;
} bpe_span;
typedef struct bpe_slot {
    uint32_t hash;
    uint32_t number; // of the string + 1; 0 when the slot is free
} bpe_slot;
typedef struct bpe_strings {
    char *bytes; // [used] all strings, each with a zero after it
    size_t used, room;
    bpe_span *spans; // [count]
    size_t count, span_room;
    bpe_slot *slots; // [mask + 1]
    size_t mask;
} bpe_strings;

void bpe_strings_close(bpe_strings *s);
void bpe_strings_empty(bpe_strings *s); // removes the strings, keeps the memory
// The number of a string, or -1.
int64_t bpe_strings_find(const bpe_strings *s, const char *string, size_t bytes);
// Adds a string unless it is there, and sets *number (NULL allowed).
status bpe_strings_add(bpe_strings *s, const char *string, size_t bytes, uint32_t *number, err *e);

// Maps pairs of ids to 64-bit values other than BPE_NO_PAIR. Start with {0}.
#define BPE_NO_PAIR UINT64_MAX
typedef struct bpe_pair {
    uint64_t key;   // of bpe_pair_key
    uint64_t value; // BPE_NO_PAIR when the slot is free
} bpe_pair;
typedef struct bpe_pairs {
    bpe_pair *slots; // [mask + 1]
    size_t count, mask;
} bpe_pairs;

static inline uint64_t bpe_pair_key(int32_t left, int32_t right)
{
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

// The slot, before masking, at which the search for a key starts.
static inline size_t bpe_pair_home(uint64_t key)
{
    key *= 0x9E3779B97F4A7C15u;
    return (size_t)(key ^ key >> 32);
}

void bpe_pairs_close(bpe_pairs *p);
// Sets the value of a new or an existing pair.
status bpe_pairs_set(bpe_pairs *p, uint64_t key, uint64_t value, err *e);

// The value of a pair, or BPE_NO_PAIR. It is inline because encoding spends its time here.
static inline uint64_t bpe_pairs_find(const bpe_pairs *p, uint64_t key)
{
    if (p->count == 0) return BPE_NO_PAIR;
    for (size_t i = bpe_pair_home(key) & p->mask;; i = (i + 1) & p->mask) {
        if (p->slots[i].value == BPE_NO_PAIR || p->slots[i].key == key) return p->slots[i].value;
    }
}

#endif
