// segment.h -- a run of array elements that is sharded over the ranks of a process group. It is plain
// data: plans contain segments, and the segment collectives of comm.h take them.
#ifndef TRIREME_COMM_SEGMENT_H
#define TRIREME_COMM_SEGMENT_H

#include <stdbool.h>
#include <stdint.h>

// A run of consecutive elements that is sharded over the ranks as torch.chunk shards dim 0. Rank r
// holds elements r*shard_count … min((r+1)*shard_count, count)-1 of the run. Its shard may be
// empty. Where the segment is reversed, rank r has the r-th shard from the end, and all shards are of
// equal size.
typedef struct comm_segment {
    int64_t full_offset;  // first element of the run in the full array
    int64_t shard_offset; // first element of the rank's shard in its own array; equal on all ranks
    int64_t count;        // elements of the run
    int64_t shard_count;  // elements of a shard; the last ones may have fewer
    bool reversed;        // the shards lie in the reverse order of the ranks
} comm_segment;

// Number of elements in the shard of rank `rank`. *first is the shard's first element, counted from
// the run's.
static inline int64_t comm_segment_shard(const comm_segment *s, int rank, int64_t *first)
{
    const int64_t begin =
        s->reversed ? s->count - (rank + 1) * s->shard_count : rank * s->shard_count;
    const int64_t left = s->count - begin;
    *first = begin < s->count ? begin : s->count;
    return left < 0 ? 0 : left < s->shard_count ? left : s->shard_count;
}

// A number that tells different lists apart; equal for equal lists, on every rank.
uint64_t comm_segments_hash(const comm_segment *s, int segments);

#endif
