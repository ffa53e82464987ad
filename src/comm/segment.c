// segment.c -- tells lists of segments apart. See segment.h. Called by the communicators, which compare
// the lists of all ranks, and by packed.c, which finds the tables of a list.
#include "comm/segment.h"

// FNV-1a over 64-bit words, with the upper 32 bits folded in.
static uint64_t hash_word(uint64_t hash, int64_t word)
{
    hash = (hash ^ (uint64_t)word) * 0x100000001b3u;
    return hash ^ hash >> 32;
}

uint64_t comm_segments_hash(const comm_segment *s, int segments)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (int i = 0; i < segments; i++) {
        hash = hash_word(hash, s[i].full_offset);
        hash = hash_word(hash, s[i].shard_offset);
        hash = hash_word(hash, s[i].count);
        hash = hash_word(hash, s[i].shard_count);
        if (s[i].reversed) hash = hash_word(hash, 1);
    }
    return hash;
}
