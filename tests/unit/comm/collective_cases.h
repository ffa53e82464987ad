// collective_cases.h -- what the tests of communicators run on each rank: every collective, against plain
// loops, bit for bit.
#ifndef TESTS_COMM_COLLECTIVE_CASES_H
#define TESTS_COMM_COLLECTIVE_CASES_H

#include "ranks.h"

enum { PRIVATE, SHARED, MIXED, REGIONS };

static const size_t COUNTS[] = {0, 1, 3, 1000, 65537};
static const dtype TYPES[] = {F32, BF16, F16, F64, I64};

static double get(const void *p, dtype t, size_t i)
{
    switch (t) {
    case F32:
        return ((const float *)p)[i];
    case BF16:
        return bf16_to_float(((const uint16_t *)p)[i]);
    case F16:
        return fp16_to_float(((const uint16_t *)p)[i]);
    default:
        return ((const double *)p)[i];
    }
}

// Fills the rest of `bytes` with repetitions of the first `period` bytes.
static void repeat(void *p, size_t period, size_t bytes)
{
    for (size_t have = period; have < bytes; have *= 2)
        memcpy((char *)p + have, p, have < bytes - have ? have : bytes - have);
}

// Fills p with the elements of rank `rank`.
static void fill(void *p, dtype t, int rank, size_t count)
{
    const size_t element = dtype_bytes(t);
    for (size_t i = 0; i < count && i < TEST_PERIOD; i++) test_put(p, t, i, test_value(rank, i));
    repeat(p, element * TEST_PERIOD, element * count);
}

// Where comm.h divides a range of ranks: after the largest power of two below its length.
static int middle(int low, int high)
{
    int half = 1;
    while (half * 2 < high - low) half *= 2;
    return low + half;
}

static int64_t expect_integer(comm_reduce_op op, int low, int high, size_t i)
{
    if (high - low == 1) {
        int64_t x = 0;
        test_put(&x, I64, 0, test_value(low, i));
        return x;
    }
    const int64_t x = expect_integer(op, low, middle(low, high), i);
    const int64_t y = expect_integer(op, middle(low, high), high, i);
    return op == REDUCE_SUM ? x + y : (op == REDUCE_MAX ? y > x : y < x) ? y : x;
}

static double expect_real(dtype t, comm_reduce_op op, int low, int high, size_t i)
{
    if (high - low == 1) {
        uint64_t x = 0;
        test_put(&x, t, 0, test_value(low, i));
        return get(&x, t, 0);
    }
    const double x = expect_real(t, op, low, middle(low, high), i);
    const double y = expect_real(t, op, middle(low, high), high, i);
    if (op == REDUCE_SUM) return t == F64 ? x + y : (double)((float)x + (float)y);
    return (op == REDUCE_MAX ? y > x : y < x) ? y : x;
}

// Writes the reduction of element i over `size` ranks to out.
static void expect(void *out, dtype t, comm_reduce_op op, int size, size_t i)
{
    if (t == I64)
        *(int64_t *)out = expect_integer(op, 0, size, i);
    else
        test_put(out, t, 0, expect_real(t, op, 0, size, i));
}

static bool in_shared(const test_rank *s, int place)
{
    return place == SHARED || (place == MIXED && s->comm->rank % 2 == 0);
}

static status buffer(const test_rank *s, int place, size_t bytes, void **out, err *e)
{
    if (in_shared(s, place)) return comm_alloc(s->comm, s->device, bytes, out, e);
    *out = malloc(bytes + 1);
    return *out ? OK : err_set(e, E_FIT, "no memory");
}

static void buffer_free(const test_rank *s, int place, void *p, size_t bytes)
{
    if (in_shared(s, place))
        comm_release(s->comm, s->device, p, bytes);
    else
        free(p);
}

static status check(const test_rank *s, const char *what, const void *got, dtype t,
                    comm_reduce_op op, size_t first, size_t count, err *e)
{
    const size_t element = dtype_bytes(t), period = element * TEST_PERIOD, bytes = element * count;
    const char *x = got;
    size_t same = 0; // elements
    while (same < count && same < TEST_PERIOD) {
        uint64_t want = 0;
        expect(&want, t, op, s->comm->size, first + same);
        if (memcmp(x + same * element, &want, element) != 0) break;
        same++;
    }
    if (same == TEST_PERIOD && memcmp(x + period, x, bytes - period) == 0) same = count;
    if (same == count) return OK;
    while (same >= TEST_PERIOD &&
           memcmp(x + same * element, x + same * element - period, element) == 0)
        same++;
    return err_set(e, E_INTERNAL, "%s of %zu %s, op %d: element %zu differs", what, count,
                   dtype_name(t), (int)op, same);
}

static status one_all_reduce(const test_rank *s, int place, size_t count, dtype t,
                             comm_reduce_op op, err *e)
{
    status result = OK;
    const size_t bytes = count * dtype_bytes(t);
    void *x = NULL;
    TRY(buffer(s, place, bytes, &x, e));
    fill(x, t, s->comm->rank, count);
    TRY(comm_all_reduce(s->comm, x, count, t, op, s->stream, e));
    TRY(s->device->ops->sync(s->stream, e));
    TRY(check(s, "all_reduce", x, t, op, 0, count, e));
done:
    buffer_free(s, place, x, bytes);
    return result;
}

static status one_reduce_scatter(const test_rank *s, int place, size_t shard_count, dtype t,
                                 comm_reduce_op op, bool in_place, err *e)
{
    status result = OK;
    const size_t full = shard_count * (size_t)s->comm->size, bytes = full * dtype_bytes(t);
    const size_t first = shard_count * (size_t)s->comm->rank;
    void *in = NULL, *out = NULL;
    TRY(buffer(s, place, bytes, &in, e));
    TRY(buffer(s, PRIVATE, shard_count * dtype_bytes(t), &out, e));
    void *to = in_place ? (char *)in + first * dtype_bytes(t) : out;
    fill(in, t, s->comm->rank, full);
    TRY(comm_reduce_scatter(s->comm, in, to, shard_count, t, op, s->stream, e));
    TRY(s->device->ops->sync(s->stream, e));
    TRY(check(s, "reduce_scatter", to, t, op, first, shard_count, e));
done:
    buffer_free(s, place, in, bytes);
    free(out);
    return result;
}

static status one_all_gather(const test_rank *s, int place, size_t shard_count, dtype t,
                             bool in_place, err *e)
{
    status result = OK;
    const size_t shard_bytes = shard_count * dtype_bytes(t),
                 bytes = shard_bytes * (size_t)s->comm->size;
    void *in = NULL, *out = NULL, *want = malloc(shard_bytes + 1);
    TRY(buffer(s, place, bytes, &out, e));
    TRY(buffer(s, place, shard_bytes, &in, e));
    void *from = in_place ? (char *)out + shard_bytes * (size_t)s->comm->rank : in;
    fill(from, t, s->comm->rank, shard_count);
    TRY(comm_all_gather(s->comm, from, out, shard_count, t, s->stream, e));
    TRY(s->device->ops->sync(s->stream, e));
    for (int r = 0; r < s->comm->size; r++) {
        fill(want, t, r, shard_count);
        if (memcmp((char *)out + shard_bytes * (size_t)r, want, shard_bytes) != 0)
            FAIL(E_INTERNAL, "all_gather of %zu: shard %d differs", shard_count, r);
    }
done:
    buffer_free(s, place, in, shard_bytes);
    buffer_free(s, place, out, bytes);
    free(want);
    return result;
}

static status one_broadcast(const test_rank *s, int place, size_t count, int root, err *e)
{
    status result = OK;
    void *x = NULL, *want = malloc(count * 4 + 1);
    TRY(buffer(s, place, count * 4, &x, e));
    fill(x, F32, s->comm->rank, count);
    TRY(comm_broadcast(s->comm, x, count * 4, root, s->stream, e));
    TRY(s->device->ops->sync(s->stream, e));
    fill(want, F32, root, count);
    if (memcmp(x, want, count * 4) != 0) FAIL(E_INTERNAL, "broadcast of %zu differs", count);
done:
    buffer_free(s, place, x, count * 4);
    free(want);
    return result;
}

// The elements of a shard from rank `from` to rank `to` are those of no other one.
static void fill_shard(void *p, size_t first, int from, int to, size_t count)
{
    float *x = (float *)p + first;
    for (size_t i = 0; i < count && i < TEST_PERIOD; i++)
        x[i] = (float)(test_value(from, i) + 1000 * to);
    repeat(x, sizeof *x * TEST_PERIOD, sizeof *x * count);
}

// What rank `from` has for rank `to`: nothing in between, too.
static size_t uneven(int from, int to, size_t count)
{
    return count * (size_t)((from + 2 * to) % 4) / 3;
}

static status one_all_to_all(const test_rank *s, int place, size_t count, bool counts, err *e)
{
    status result = OK;
    const int rank = s->comm->rank, size = s->comm->size;
    const size_t bytes = (size_t)size * count * 4 + 4;
    size_t in_counts[TEST_RANKS], out_counts[TEST_RANKS], sent = 0, received = 0;
    void *in = NULL, *out = NULL, *want = calloc(1, bytes);
    TRY(buffer(s, place, bytes, &in, e));
    TRY(buffer(s, place, bytes, &out, e));
    memset(out, 0, bytes);
    for (int r = 0; r < size; r++) {
        in_counts[r] = counts ? uneven(rank, r, count) : count;
        out_counts[r] = counts ? uneven(r, rank, count) : count;
        fill_shard(in, sent, rank, r, in_counts[r]);
        fill_shard(want, received, r, rank, out_counts[r]);
        sent += in_counts[r];
        received += out_counts[r];
    }
    const comm_call call = {CALL_ALL_TO_ALL,
                            .type = F32,
                            .count = counts ? 0 : count,
                            .in = in,
                            .out = out,
                            .in_counts = counts ? in_counts : NULL,
                            .out_counts = counts ? out_counts : NULL};
    TRY(comm_issue(s->comm, &call, s->stream, e));
    TRY(s->device->ops->sync(s->stream, e));
    if (memcmp(out, want, bytes) != 0) FAIL(E_INTERNAL, "all_to_all of %zu differs", count);
done:
    buffer_free(s, place, in, bytes);
    buffer_free(s, place, out, bytes);
    free(want);
    return result;
}

// A gather, or a scatter, of shards from or to rank `root`.
static status one_with_root(const test_rank *s, int place, comm_call_kind kind, size_t count,
                            int root, bool in_place, err *e)
{
    status result = OK;
    const bool is_root = s->comm->rank == root, gathers = kind == CALL_GATHER;
    const size_t shard = count * 4, bytes = shard * (size_t)s->comm->size;
    void *one = NULL, *all = NULL, *want = malloc(bytes + 1);
    TRY(buffer(s, place, bytes, &all, e));
    TRY(buffer(s, PRIVATE, shard, &one, e));
    void *own = is_root && in_place ? (char *)all + shard * (size_t)root : one;
    for (int r = 0; r < s->comm->size; r++) {
        fill_shard(want, (size_t)r * count, r, root, count);
        if (is_root && !gathers) fill_shard(all, (size_t)r * count, r, root, count);
    }
    if (gathers) fill_shard(own, 0, s->comm->rank, root, count);
    const comm_call call = {kind,
                            .type = F32,
                            .peer = root,
                            .count = count,
                            .in = gathers ? own : all,
                            .out = gathers ? all : own};
    TRY(comm_issue(s->comm, &call, s->stream, e));
    TRY(s->device->ops->sync(s->stream, e));
    const bool same = gathers
                          ? !is_root || memcmp(all, want, bytes) == 0
                          : memcmp(own, (char *)want + shard * (size_t)s->comm->rank, shard) == 0;
    if (!same) FAIL(E_INTERNAL, "%s of %zu differs", comm_call_row_of(kind)->name, count);
done:
    buffer_free(s, place, all, bytes);
    free(one);
    free(want);
    return result;
}

static status made_of_messages(const test_rank *s, int place, size_t count, err *e)
{
    status result = OK;
    const int last = s->comm->size - 1;
    TRY(one_all_to_all(s, place, count, false, e));
    TRY(one_all_to_all(s, place, count, true, e));
    TRY(one_with_root(s, place, CALL_GATHER, count, last, false, e));
    TRY(one_with_root(s, place, CALL_GATHER, count, 0, true, e));
    TRY(one_with_root(s, place, CALL_SCATTER, count, last, true, e));
    TRY(one_with_root(s, place, CALL_SCATTER, count, 0, false, e));
done:
    return result;
}

static inline status everything(const test_rank *s, err *e)
{
    status result = OK;
    for (int place = 0; place < REGIONS; place++) {
        for (size_t c = 0; c < sizeof COUNTS / sizeof *COUNTS; c++) {
            const size_t n = COUNTS[c];
            for (size_t t = 0; t < sizeof TYPES / sizeof *TYPES; t++) {
                if (n > 10000 && t > 1) break; // the other types differ in arithmetic only
                const comm_reduce_op op = (comm_reduce_op)((c + t) % 3);
                TRY(one_all_reduce(s, place, n, TYPES[t], REDUCE_SUM, e));
                TRY(one_all_reduce(s, place, n, TYPES[t], op, e));
                TRY(one_reduce_scatter(s, place, n / 3 + n % 3, TYPES[t], op, false, e));
                TRY(one_reduce_scatter(s, place, n / 3, TYPES[t], REDUCE_SUM, true, e));
            }
            TRY(one_all_gather(s, place, n / 2, BF16, true, e));
            TRY(one_all_gather(s, place, n, F32, false, e));
            TRY(one_broadcast(s, place, n, s->comm->size - 1, e));
            TRY(one_broadcast(s, place, n, 0, e));
            TRY(made_of_messages(s, place, n, e));
            TRY(comm_barrier(s->comm, e));
        }
    }
done:
    return result;
}

// Arrays larger than the staging areas take several chunks. The last one has an odd size.
static status large(const test_rank *s, err *e)
{
    status result = OK;
    for (int place = 0; place < REGIONS; place++) {
        TRY(one_all_reduce(s, place, 400001, F32, REDUCE_SUM, e));
        TRY(one_reduce_scatter(s, place, 150001, BF16, REDUCE_SUM, true, e));
        TRY(one_all_gather(s, place, 150001, F32, true, e));
        TRY(one_broadcast(s, place, 300001, 1, e));
    }
    TRY(made_of_messages(s, PRIVATE, 300001, e)); // longer than what a send buffers
done:
    return result;
}

static inline status nan_wins(const test_rank *s, err *e)
{
    status result = OK;
    float x[4] = {1, 2, 3, 4};
    if (s->comm->rank == 1) memcpy(&x[2], &(uint32_t){0x7fc00000u}, 4);
    TRY(comm_all_reduce(s->comm, x, 4, F32, REDUCE_MAX, s->stream, e));
    TRY(s->device->ops->sync(s->stream, e));
    if (x[2] == x[2] || x[1] != 2) FAIL(E_INTERNAL, "the maximum hides a NaN");
done:
    return result;
}

#endif
