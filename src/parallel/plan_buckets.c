// plan_buckets.c -- divides the parameters of a stage into buckets, and gives every bucket its place in
// the arrays or on the tier of its state. Called by plan_make.
#include "parallel/plan_private.h"

#include "base/alloc.h"
#include "base/size.h"

#include <stdlib.h>

static const char WHAT[] = "the plan";

// The first bucket that backward completes is small, as DDP's is, so that the first reduction
// starts early.
enum { FIRST_BUCKET_BYTES = 1 << 20 };

typedef struct plan_sort_key {
    int group, passes, block, row;
} plan_sort_key;

static int compare_rows(const void *a, const void *b)
{
    const plan_sort_key *x = a, *y = b;
    if (x->group != y->group) return (x->group > y->group) - (x->group < y->group);
    if (x->passes != y->passes) return (x->passes > y->passes) - (x->passes < y->passes);
    return x->block != y->block ? (x->block > y->block) - (x->block < y->block)
                                : (x->row > y->row) - (x->row < y->row);
}

// The group whose buckets hold the row.
static int bucket_group(const plan *p, const plan_row *r)
{
    return p->group[r->group].representative;
}

static const plan_group *group_of(const plan *p, const plan_row *r)
{
    return &p->group[bucket_group(p, r)];
}

// Whether the second use of the row on this stage is reduced by itself, as on two stages. PowerSGD factors
// the sum of both uses.
static bool splits_uses(const plan *p, const plan_row *r)
{
    const plan_group *g = group_of(p, r);
    return r->block != r->last_block && !g->o.frozen && plan_reduces_micro_batches(p, g) &&
           p->o.strategy.hook.kind != HOOK_POWERSGD;
}

// Whether a bucket must be complete after one pass of one model chunk. Between two passes of a micro-batch
// a stage of a pipeline runs passes of others. A bucket that waited for the second pass would take in the
// gradients of later micro-batches before it is reduced.
static bool ends_with_pass(const plan *p, const plan_group *g)
{
    return p->o.mesh.size[AXIS_PP] > 1 && !g->o.frozen && plan_reduces_micro_batches(p, g);
}

// Rows of a bucket have an equal number: where gradients are reduced after each micro-batch, the same
// passes compute theirs.
static int passes_of(const plan *p, const plan_row *r)
{
    const int second_use = splits_uses(p, r) ? r->last_block + 1 : 0;
    return second_use * COMPUTES + (ends_with_pass(p, group_of(p, r)) ? (int)r->writes : 0);
}

// Orders the rows of this stage by group, by the passes that compute their gradients, and by the first block
// that uses them here. plan_make got them in the order of the first block of any stage.
static status sort_rows(plan *p, err *e)
{
    plan_sort_key *all = NULL;
    const status result = alloc_array(&all, (size_t)p->local_rows, sizeof *all, WHAT, e);
    if (result != OK) return result;
    for (int i = 0; i < p->local_rows; i++) {
        const plan_row *r = &p->row[p->order[i]];
        all[i] = (plan_sort_key){bucket_group(p, r), passes_of(p, r), r->block, p->order[i]};
    }
    qsort(all, (size_t)p->local_rows, sizeof *all, compare_rows);
    for (int i = 0; i < p->local_rows; i++) p->order[i] = all[i].row;
    free(all);
    return OK;
}

static bool swaps_any(const plan_group *g)
{
    bool any = false;
    for (int k = 0; k < PLAN_STATES; k++) any = any || plan_is_swapped(g, (plan_state)k);
    return any;
}

// Elements of which the size of a group's buckets is a multiple.
static int64_t bucket_align(const plan_group *g)
{
    bool files = false;
    for (int k = 0; k < PLAN_STATES; k++) files = files || g->o.tier[k] == TIER_FILE;
    return files ? FILE_ALIGN : swaps_any(g) ? SWAP_ALIGN : BUCKET_ALIGN;
}

// Whether a bucket must start between two rows of a group, which follow each other.
static bool must_start(const plan *p, const plan_row *before, const plan_row *r)
{
    const bool same_chunk = plan_chunk_of(p, before->block) == plan_chunk_of(p, r->block);
    return passes_of(p, before) != passes_of(p, r) ||
           (ends_with_pass(p, group_of(p, r)) && !same_chunk);
}

// Marks the rows at which a bucket starts. Fills the buckets of each group from the last block to the
// first, the order in which backward completes gradients. The first one is small; the others end at
// the size limit. Where weights are unsharded for use or state is swapped, a bucket is one block, so
// that slots are small.
static void mark_starts(const plan *p, char *starts)
{
    const int64_t most = p->o.strategy.bucket_bytes, first = size_min(FIRST_BUCKET_BYTES, most);
    int64_t bytes = 0, limit = first;
    for (int i = p->local_rows - 1; i >= 0; i--) {
        const plan_row *r = &p->row[p->order[i]], *before = i ? &p->row[p->order[i - 1]] : NULL;
        const plan_group *g = &p->group[bucket_group(p, r)];
        const bool group_starts = !before || bucket_group(p, before) != bucket_group(p, r),
                   splits = !group_starts && must_start(p, before, r),
                   block_starts = group_starts || splits || before->block != r->block;
        bytes += 4 * r->count;
        if (!block_starts) continue;
        if (!group_starts && !splits && bytes < limit && !g->weight_slots && !swaps_any(g))
            continue;
        starts[i] = 1;
        bytes = 0;
        limit = group_starts ? first : most;
    }
}

static status fill_buckets(plan *p, err *e)
{
    char *starts = NULL;
    const status result = alloc_zeroed(&starts, (size_t)p->local_rows, 1, WHAT, e);
    if (result != OK) return result;
    mark_starts(p, starts);
    for (int i = 0; i < p->local_rows; i++) {
        plan_row *r = &p->row[p->order[i]];
        plan_group *g = &p->group[bucket_group(p, r)];
        if (starts[i]) {
            if (g->buckets++ == 0) g->first_bucket = p->buckets;
            p->bucket[p->buckets++] =
                (plan_bucket){.group = bucket_group(p, r),
                              .first_row = i,
                              .first_block = r->block,
                              .second_use = splits_uses(p, r) ? r->last_block : -1};
        }
        plan_bucket *b = &p->bucket[p->buckets - 1];
        b->rows++;
        b->last_block = r->block;
        r->bucket = p->buckets - 1;
    }
    free(starts);
    return OK;
}

// ---- Layouts

static int64_t round_up(int64_t n, int64_t to)
{
    return (int64_t)size_align((uint64_t)n, (uint64_t)to);
}

// Elements of the largest rank's shard, so that offsets are the same on every rank.
static int64_t shard_capacity(const plan *p, const plan_group *g, const plan_row *r, plan_layout l)
{
    int64_t rows = r->rows;
    if (l == LAYOUT_POST_FORWARD && g->keeps_post_forward_shards)
        rows = size_ceil_div(rows, p->o.strategy.reshard_after_forward);
    for (int i = 0; i < POLICY_LEVELS; i++)
        if (plan_layout_shards(l, (policy_level)i))
            rows = size_ceil_div(rows, mesh_group_size(&p->o.mesh, g->axes[i]));
    return rows * plan_row_width(p, r, l);
}

static void lay_out(plan *p, plan_bucket *b, plan_layout l)
{
    const plan_group *g = &p->group[b->group];
    int64_t offset = 0;
    for (int i = 0; i < b->rows; i++) {
        plan_row *r = &p->row[p->order[b->first_row + i]];
        r->offset[l] = offset;
        offset = round_up(offset + shard_capacity(p, g, r, l), BUCKET_ALIGN);
    }
    b->count[l] = round_up(offset, bucket_align(g));
}

// Places the bucket after the ones before it, in the arrays or on the tier of its state.
static void place(plan *p, int bucket)
{
    plan_bucket *b = &p->bucket[bucket];
    const plan_group *g = &p->group[b->group];
    for (int t = 0; t < PLAN_STATES; t++) {
        size_t *const bytes = &p->swap_bytes[g->o.tier[t]][t];
        b->swap_start[t] = *bytes;
        *bytes += plan_bucket_swap_bytes(p, bucket, (plan_state)t);
    }
    for (int a = 0; a < PLAN_ARRAYS; a++) {
        b->start[a] = p->array_bytes[a];
        if (a != ARRAY_POST_FORWARD && plan_is_swapped(g, plan_array_state((plan_array)a)))
            continue;
        p->array_bytes[a] += plan_placed_bytes(p, bucket, (plan_array)a);
    }
}

// A parameter that two blocks of this stage use gets an array for the gradients of its second use.
// Each use is summed over micro-batches by itself, as on two stages, so the sum of both has the
// same bits on one stage and on two. Where each micro-batch is reduced, the array has shards only; rows
// of a bucket lie in it as in the bucket.
static void lay_out_tied_grads(plan *p)
{
    for (int i = 0; i < p->local_rows; i++) {
        plan_row *r = &p->row[p->order[i]];
        const plan_group *g = group_of(p, r);
        int64_t count = 0;
        if (r->block == r->last_block || p->o.micros == 1 || g->o.frozen) continue;
        if (g->gradient == LAYOUT_FULL) {
            r->tied_grad = p->tied_grads;
            count = r->count;
        } else if (splits_uses(p, r)) {
            r->tied_shard = p->tied_grads;
            count = shard_capacity(p, g, r, g->gradient);
        }
        p->tied_grads = round_up(p->tied_grads + count, BUCKET_ALIGN);
    }
}

status plan_make_buckets(plan *p, err *e)
{
    status result = OK;
    TRY(sort_rows(p, e));
    TRY(fill_buckets(p, e));
    for (int k = 0; k < p->buckets; k++) {
        for (int l = 0; l < LAYOUTS; l++) lay_out(p, &p->bucket[k], (plan_layout)l);
        place(p, k);
    }
    lay_out_tied_grads(p);
done:
    return result;
}

size_t plan_bucket_bytes(const plan *p, int bucket, plan_array a)
{
    const plan_group *g = plan_group_of(p, bucket);
    if (!plan_group_has(g, a)) return 0;
    return (size_t)p->bucket[bucket].count[plan_array_layout(g, a)] *
           dtype_bytes(plan_array_type(g, a));
}

size_t plan_packed_start(const plan *p, int bucket)
{
    return (size_t)p->bucket[bucket].count[LAYOUT_FULL] *
           dtype_bytes(plan_group_of(p, bucket)->o.compute);
}

int64_t plan_weight_slot(const plan *p, int bucket)
{
    const plan_group *g = plan_group_of(p, bucket);
    const plan_bucket *b = &p->bucket[bucket];
    if (g->redistribute.unshard.layout != LAYOUT_PACKED || g->weight == LAYOUT_PACKED)
        return b->count[LAYOUT_FULL];
    const int64_t packed = b->count[LAYOUT_PACKED] * (int64_t)sizeof(float);
    return b->count[LAYOUT_FULL] + size_ceil_div(packed, (int64_t)dtype_bytes(g->o.compute));
}

size_t plan_placed_bytes(const plan *p, int bucket, plan_array a)
{
    return size_align(plan_bucket_bytes(p, bucket, a), BUCKET_START_BYTES);
}

size_t plan_bucket_swap_bytes(const plan *p, int bucket, plan_state what)
{
    size_t bytes = 0;
    if (!plan_is_swapped(plan_group_of(p, bucket), what)) return 0;
    for (int a = 0; a < PLAN_ARRAYS; a++)
        if (a != ARRAY_POST_FORWARD && plan_array_state((plan_array)a) == what)
            bytes += plan_bucket_bytes(p, bucket, (plan_array)a);
    return bytes;
}
