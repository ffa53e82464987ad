// nccl_tree.c -- adds the arrays of ranks in the order of comm.h, on the device. K_REDUCE takes 16 arrays at once. A
// tree over more is a tree over blocks of 16 ranks, because 16 is a power of two; 16-bit types are then added as F32
// and rounded once. Called by nccl_collective.c. It knows no rank's address but that in a workspace:
//
//   [ranks][elements] of the type, where the arrays of other ranks are received
//   [ranks][elements] of F32, where there are more than 16 ranks and the type has 16 bits
#include "comm/nccl/nccl_private.h"

#include "base/size.h"

enum { BLOCK = KERNEL_REDUCE_RANKS, ROOM_ALIGN = 256 };
_Static_assert(NCCL_RANKS == BLOCK * BLOCK, "a tree of blocks has two levels");

static bool is_wide(int ranks, dtype t)
{
    return ranks > BLOCK && (t == BF16 || t == F16);
}

static size_t place_bytes(size_t room, int ranks, dtype t)
{
    return nccl_tree_room(room, ranks, t) * dtype_bytes(t);
}

size_t nccl_tree_room(size_t room, int ranks, dtype t)
{
    const size_t element = dtype_bytes(t) + (is_wide(ranks, t) ? sizeof(float) : 0);
    return room / (size_t)ranks / element / ROOM_ALIGN * ROOM_ALIGN;
}

void *nccl_tree_place(void *work, size_t room, int ranks, dtype t, int r)
{
    return (char *)work + (size_t)r * place_bytes(room, ranks, t);
}

static void reduce(device_stream *on, const void *const *in, int ranks, void *out, size_t count,
                   dtype t, reduce_op op)
{
    kernel_call k = {.kind = K_REDUCE,
                     .u.reduce = {.count = (int64_t)count,
                                  .ranks = ranks,
                                  .outs = 1,
                                  .out[0] = out,
                                  .type = t,
                                  .op = op}};
    for (int r = 0; r < ranks; r++) k.u.reduce.in[r] = in[r];
    device_launch(on, &k);
}

static void convert(device_stream *on, const void *src, dtype from, void *dst, dtype to,
                    size_t count)
{
    const kernel_call k = {
        .kind = K_CONVERT,
        .u.convert = {
            .count = (int64_t)count, .src = src, .src_type = from, .dst = dst, .dst_type = to}};
    device_launch(on, &k);
}

// The sum of a block lies where the first of its arrays lay that may be written; an array alone is its own sum.
static void reduce_blocks(device_stream *on, const void *const *in, int ranks, int own, void *out,
                          size_t count, dtype t, reduce_op op)
{
    const void *sums[BLOCK];
    int blocks = 0;
    for (int first = 0; first < ranks; first += BLOCK) {
        const int members = (int)size_min(BLOCK, ranks - first);
        const int to = first == own ? first + 1 : first;
        sums[blocks] = members == 1 ? in[first] : in[to];
        if (members > 1) reduce(on, in + first, members, (void *)(uintptr_t)in[to], count, t, op);
        blocks++;
    }
    reduce(on, sums, blocks, out, count, t, op);
}

// Each array is converted to its second place, and the sum lies in the first of them.
static void reduce_wide(device_stream *on, const void *const *in, int ranks, void *out, void *work,
                        size_t room, size_t count, dtype t, reduce_op op)
{
    const void *wide[NCCL_RANKS];
    const size_t elements = nccl_tree_room(room, ranks, t);
    float *begin = nccl_tree_place(work, room, ranks, t, ranks);
    for (int r = 0; r < ranks; r++) {
        float *place = begin + (size_t)r * elements;
        convert(on, in[r], t, place, F32, count);
        wide[r] = place;
    }
    reduce_blocks(on, wide, ranks, -1, begin, count, F32, op);
    convert(on, begin, F32, out, t, count);
}

void nccl_tree_reduce(device_stream *on, const void *const *in, int ranks, int own, void *out,
                      void *work, size_t room, size_t count, dtype t, reduce_op op)
{
    if (count == 0) return;
    if (ranks <= BLOCK)
        reduce(on, in, ranks, out, count, t, op);
    else if (is_wide(ranks, t))
        reduce_wide(on, in, ranks, out, work, room, count, t, op);
    else
        reduce_blocks(on, in, ranks, own, out, count, t, op);
}
