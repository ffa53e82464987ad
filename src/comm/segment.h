// segment.h -- a run of array elements that is sharded over the ranks of a process group. It is plain
// data: plans contain segments, and the segment collectives of comm.h take them.
#ifndef TRIREME_COMM_SEGMENT_H
#define TRIREME_COMM_SEGMENT_H

#include <stdint.h>

// The run is sharded as torch.chunk shards dim 0: rank r has elements r * shard_count …
// min((r + 1) * shard_count, count) - 1 of it. A rank's shard may be empty.
typedef struct comm_segment {
    // The run's first element in the full array.
    int64_t full_offset;
    // The first element of a rank's shard in that rank's own array. It is the same on every rank.
    int64_t shard_offset;
    // Elements of the run, and of the largest shard.
    int64_t count, shard_count;
} comm_segment;

// Elements of the run in rank `rank`'s shard; *first is the first of them, counted in the run.
static inline int64_t comm_segment_shard(const comm_segment *s, int rank, int64_t *first)
{
    const int64_t begin = rank * s->shard_count, left = s->count - begin;
    *first = begin < s->count ? begin : s->count;
    return left < 0 ? 0 : left < s->shard_count ? left : s->shard_count;
}

#endif
