// The order of sums: a sum over groups of adjacent ranks, followed by a sum over the groups, gives
// the bits of one flat sum. Another order gives other bits.
#include "ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { COUNT = 5000, LARGEST = 100000 };

typedef struct shape {
    int outer, inner;
} shape;

static float value(int rank, size_t i)
{
    const uint32_t mixed = ((uint32_t)i * 2654435761u) ^ ((uint32_t)rank * 2246822519u);
    return (float)((double)(mixed % 200003u) / 7.0 - 14000.0);
}

static status sum(const test_rank *s, comm *c, void *x, size_t count, dtype t, err *e)
{
    const status result = comm_all_reduce(c, x, count, t, REDUCE_SUM, s->stream, e);
    return result == OK ? s->device->ops->sync(s->stream, e) : result;
}

static void fill(void *x, int rank, size_t count, dtype t)
{
    for (size_t i = 0; i < count; i++)
        if (t == F64)
            ((double *)x)[i] = (double)value(rank, i) / 3.0;
        else
            ((float *)x)[i] = value(rank, i);
}

static status both_ways(const test_rank *s, comm *inner, comm *outer, size_t count, dtype t, err *e)
{
    status result = OK;
    const size_t bytes = count * dtype_bytes(t);
    void *flat = malloc(bytes), *nested = malloc(bytes);
    fill(flat, s->comm->rank, count, t);
    fill(nested, s->comm->rank, count, t);
    TRY(sum(s, s->comm, flat, count, t, e));
    TRY(sum(s, inner, nested, count, t, e));
    TRY(sum(s, outer, nested, count, t, e));
    if (memcmp(flat, nested, bytes) != 0)
        FAIL(E_INTERNAL, "%d x %d, %zu %s: the bits differ", outer->size, inner->size, count,
             dtype_name(t));
done:
    free(flat);
    free(nested);
    return result;
}

// Counts the results for which the order 0, 1, 2, … gives other bits. It is the control of the
// test: if that order gave the same bits everywhere, the equality above would show nothing.
static status linear_differs(const test_rank *s, int *out, err *e)
{
    status result = OK;
    float *x = malloc(COUNT * sizeof *x);
    fill(x, s->comm->rank, COUNT, F32);
    TRY(sum(s, s->comm, x, COUNT, F32, e));
    *out = 0;
    for (size_t i = 0; i < COUNT; i++) {
        float linear = value(0, i);
        for (int r = 1; r < s->comm->size; r++) linear += value(r, i);
        *out += memcmp(&linear, &x[i], sizeof linear) != 0;
    }
done:
    free(x);
    return result;
}

static status nested_equals_flat(const test_rank *s, err *e)
{
    status result = OK;
    const shape *m = s->arg;
    const int rank = s->comm->rank;
    comm *inner = NULL, *outer = NULL;
    int differ = 0;
    TRY(comm_split(s->comm, rank / m->inner, rank, &inner, e));
    TRY(comm_split(s->comm, rank % m->inner, rank, &outer, e));
    TRY(both_ways(s, inner, outer, 1, F32, e));
    TRY(both_ways(s, inner, outer, COUNT, F32, e));
    TRY(both_ways(s, inner, outer, LARGEST, F32, e));
    TRY(both_ways(s, inner, outer, COUNT, F64, e));
    TRY(linear_differs(s, &differ, e));
    if (differ < COUNT / 10) FAIL(E_INTERNAL, "in rank order only %d results differ", differ);
done:
    comm_close(inner);
    comm_close(outer);
    return result;
}

static void test_a_nested_sum_has_the_bits_of_a_flat_one(void **state)
{
    (void)state;
    const shape shapes[] = {{2, 2}, {4, 2}, {2, 4}, {3, 2}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        shape m = shapes[i];
        alarm(200);
        workers k = {.ranks = m.outer * m.inner, .fn = nested_equals_flat, .arg = &m};
        assert_int_equal(workers_run(&k), 0);
    }
}

// Groups whose size is no power of two give other bits, so the test above can fail.
static status three_inside(const test_rank *s, err *e)
{
    const int rank = s->comm->rank;
    comm *inner = NULL, *outer = NULL;
    status result = comm_split(s->comm, rank / 3, rank, &inner, e);
    if (result == OK) result = comm_split(s->comm, rank % 3, rank, &outer, e);
    if (result == OK) {
        result = both_ways(s, inner, outer, COUNT, F32, e);
        if (result == E_INTERNAL && strstr(e->text, "the bits differ"))
            result = OK;
        else if (result == OK)
            result = E_USAGE;
    }
    comm_close(inner);
    comm_close(outer);
    return result;
}

static void test_groups_of_three_have_other_bits(void **state)
{
    (void)state;
    alarm(200);
    workers k = {.ranks = 6, .fn = three_inside};
    assert_int_equal(workers_run(&k), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_nested_sum_has_the_bits_of_a_flat_one),
        cmocka_unit_test(test_groups_of_three_have_other_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
