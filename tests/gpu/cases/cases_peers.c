// cases_peers.c -- cases of K_REDUCE: arrays of 1 to 16 ranks, which become one on one rank or, in place, on
// all. The bits are those of the tree, so arrays are compared as bytes.
#include "case.h"

typedef struct shape {
    int64_t count;
    dtype type;
    reduce_op op;
    int ranks;
    bool in_place;
} shape;

enum { MOST = 70001 };

static void fill(void *p, const shape *h, int rank)
{
    for (int64_t i = 0; i < h->count; i++) {
        const uint64_t mixed = (uint64_t)i * 2654435761u + (uint64_t)rank * 40503u;
        const double x = (double)(mixed % 2003u) / 7.0 - 100.0;
        if (h->type == F32)
            ((float *)p)[i] = (float)x;
        else if (h->type == BF16)
            ((uint16_t *)p)[i] = float_to_bf16((float)x);
        else if (h->type == F16)
            ((uint16_t *)p)[i] = float_to_fp16((float)x);
        else if (h->type == F64)
            ((double *)p)[i] = x;
        else
            ((int64_t *)p)[i] = (int64_t)(x * 1e12);
    }
}

static kernel_call describe(space *s, const void *args)
{
    static double numbers[MOST];
    const shape *h = args;
    const size_t bytes = (size_t)h->count * dtype_bytes(h->type);
    kernel_call c = {.kind = K_REDUCE,
                     .u.reduce = {.count = h->count,
                                  .ranks = h->ranks,
                                  .outs = h->in_place ? h->ranks : 1,
                                  .type = h->type,
                                  .op = h->op}};
    for (int r = 0; r < h->ranks; r++) {
        fill(numbers, h, r);
        void *array = space_bytes(s, numbers, bytes, h->in_place ? "array" : NULL);
        c.u.reduce.in[r] = array;
        if (h->in_place) c.u.reduce.out[r] = array;
    }
    memset(numbers, 0, bytes);
    if (!h->in_place) c.u.reduce.out[0] = space_bytes(s, numbers, bytes, "out");
    return c;
}

static void check(case_run *r, shape h)
{
    case_check(r, describe, &h, "reduce %s of %lld %s, %d ranks%s", reduce_op_name(h.op),
               (long long)h.count, dtype_name(h.type), h.ranks, h.in_place ? ", in place" : "");
}

void cases_run(case_run *r)
{
    static const int64_t counts[] = {0, 1, 7, 33, 256, 4099};
    static const dtype types[] = {F32, BF16, F16, F64, I64};
    for (int ranks = 1; ranks <= KERNEL_REDUCE_RANKS; ranks++)
        for (int t = 0; t < 5; t++) {
            const int64_t count = counts[(ranks + t) % 6];
            const reduce_op op = (reduce_op)((ranks + 2 * t) % 3);
            check(r, (shape){count, types[t], op, ranks, false});
            check(r, (shape){count + 64, types[t], REDUCE_SUM, ranks, true});
        }
    for (int t = 0; t < 5; t++) check(r, (shape){MOST, types[t], REDUCE_SUM, 2, true});
    for (int i = 0; i < 6; i++)
        check(r, (shape){case_pick(r, 1, 9000), types[i % 5], (reduce_op)(i % 3),
                         (int)case_pick(r, 2, 16), i % 2});
}
