// plan.c -- assigns blocks to stages and parameters to buckets, lays both out in flat arrays of
// every layout, and counts their bytes. See plan.h. plan_redistribute.c adds the collectives.
#include "parallel/plan_private.h"

#include "base/alloc.h"
#include "base/size.h"

#include <stdlib.h>
#include <string.h>

static const char WHAT[] = "the plan";

// The first bucket that backward completes is small, as DDP's is, so that the first reduction
// starts early.
enum { FIRST_BUCKET_BYTES = 1 << 20 };

const plan_dp_axis PLAN_DP_AXIS[PLAN_DP_AXES] = {{AXIS_DP_SHARD, LAYOUT_DP_SHARD},
                                                 {AXIS_DP_REPLICATE, LAYOUT_DP_REPLICATE}};

bool plan_layout_shards(plan_layout l, axis a)
{
    for (int i = 0; i < PLAN_DP_AXES; i++)
        if (PLAN_DP_AXIS[i].axis == a) return (l & PLAN_DP_AXIS[i].layout) != 0;
    return false;
}

static int64_t round_up(int64_t n, int64_t to)
{
    return (int64_t)size_align((uint64_t)n, (uint64_t)to);
}

// Shard `index` of `shards` of a run of rows, as torch.chunk divides it.
static plan_shard shard_of(plan_shard run, int64_t shards, int64_t index)
{
    const int64_t each = size_ceil_div(run.count, shards),
                  begin = size_min(each * index, run.count);
    return (plan_shard){run.first + begin, size_min(each, run.count - begin)};
}

plan_shard plan_local_shard(const plan *p, const plan_row *r, plan_layout l, const int coord[AXES])
{
    plan_shard s = {0, r->rows};
    if (l == LAYOUT_POST_FORWARD && p->keeps_post_forward_shards)
        s = shard_of(s, p->o.strategy.reshard_after_forward,
                     coord[AXIS_DP_SHARD] % p->o.strategy.reshard_after_forward);
    for (int i = 0; i < PLAN_DP_AXES; i++) {
        const axis a = PLAN_DP_AXIS[i].axis;
        if (plan_layout_shards(l, a)) s = shard_of(s, p->o.mesh.size[a], coord[a]);
    }
    return (plan_shard){s.first * r->cols, s.count * r->cols};
}

// Elements of the largest rank's shard, so that offsets are the same on every rank.
static int64_t shard_capacity(const plan *p, const plan_row *r, plan_layout l)
{
    int64_t rows = r->rows;
    if (l == LAYOUT_POST_FORWARD && p->keeps_post_forward_shards)
        rows = size_ceil_div(rows, p->o.strategy.reshard_after_forward);
    for (int i = 0; i < PLAN_DP_AXES; i++) {
        const axis a = PLAN_DP_AXIS[i].axis;
        if (plan_layout_shards(l, a)) rows = size_ceil_div(rows, p->o.mesh.size[a]);
    }
    return rows * r->cols;
}

bool plan_has_block(const plan *p, int block)
{
    return plan_stage_of(p, block) == p->coord[AXIS_PP];
}

bool plan_block_uses(const plan *p, int block, int bucket)
{
    const plan_buckets l = plan_buckets_of(p, block);
    for (int i = 0; i < l.count; i++)
        if (l.items[i] == bucket) return true;
    return false;
}

bool plan_ties_stages(const plan *p)
{
    for (int i = 0; i < p->rows; i++)
        if (p->row[i].tied) return true;
    return false;
}

bool plan_bucket_is_tied(const plan *p, int bucket)
{
    const plan_bucket *b = &p->bucket[bucket];
    for (int i = b->first_row; i < b->first_row + b->rows; i++)
        if (p->row[p->order[i]].tied) return true;
    return false;
}

static plan_layout layout_of(placement outer, placement inner)
{
    return (plan_layout)((inner == SHARD ? LAYOUT_DP_SHARD : 0) |
                         (outer == SHARD ? LAYOUT_DP_REPLICATE : 0));
}

static status check_tiers(const plan *p, err *e)
{
    const plan_options *o = &p->o;
    if (o->strategy.offload.tier[PLAN_WEIGHTS] == TIER_FILE && p->weight != p->optimizer)
        return err_set(e, E_USAGE,
                       "parallel.offload.weights: file needs weights that are sharded as the "
                       "optimizer's state is; valid: parallel.dp zero3, or device");
    if (o->strategy.offload.tier[PLAN_GRADIENTS] == TIER_FILE && o->micros > 1 &&
        o->strategy.no_sync == NO_SYNC_FALSE)
        return err_set(e, E_USAGE,
                       "parallel.offload.gradients: file cannot be added to in every micro-batch; "
                       "valid: parallel.no_sync true, one micro-batch a step, or device");
    if (o->strategy.offload.tier[PLAN_GRADIENTS] == TIER_FILE && p->gradient != LAYOUT_FULL &&
        p->gradient != p->optimizer)
        return err_set(
            e, E_USAGE,
            "parallel.offload.gradients: file needs gradients that are unsharded, or sharded "
            "as the optimizer's state is; valid: one policy for both axes, or device");
    return OK;
}

static status check_reshard(plan *p, err *e)
{
    const int k = p->o.strategy.reshard_after_forward, shards = p->o.mesh.size[AXIS_DP_SHARD];
    if (k < 2 || !(p->weight & LAYOUT_DP_SHARD)) return OK;
    if (shards % k)
        return err_set(e, E_USAGE,
                       "parallel.reshard_after_forward: groups of %d do not divide the %d ranks of "
                       "dp_shard; valid: true, false, or a divisor",
                       k, shards);
    // A group of all ranks would keep the shards that the ranks have anyway.
    p->keeps_post_forward_shards = k < shards;
    return OK;
}

static void choose_layouts(plan *p)
{
    const plan_options *o = &p->o;
    p->policy = o->micros > 1 && o->strategy.no_sync == NO_SYNC_TRUE
                    ? policies_no_sync(o->strategy.dp)
                    : o->strategy.dp;
    // The inner axis is summed before the outer one, also where only the outer one shards.
    if (o->micros == 1 && p->policy.outer.gradient == SHARD &&
        p->policy.inner.optimizer == REPLICATE)
        p->policy.inner.gradient = REPLICATE;
    // An axis of one rank shards nothing, whatever its policy says.
    const policy unsharded = {"", REPLICATE, PARTIAL, REPLICATE};
    policy outer = o->mesh.size[AXIS_DP_REPLICATE] > 1 ? p->policy.outer : unsharded,
           inner = o->mesh.size[AXIS_DP_SHARD] > 1 ? p->policy.inner : unsharded;
    p->weight = layout_of(outer.weight, inner.weight);
    p->gradient = layout_of(outer.gradient, inner.gradient);
    p->optimizer = layout_of(outer.optimizer, inner.optimizer);
    p->weight_slots =
        p->weight != LAYOUT_FULL || o->strategy.offload.tier[PLAN_WEIGHTS] == TIER_FILE;
    p->gradient_slots =
        p->gradient != LAYOUT_FULL || o->strategy.offload.tier[PLAN_GRADIENTS] == TIER_FILE;
}

// parallel.split may leave out the first and the last block (embedding and loss).
static status take_split(plan *p, err *e)
{
    const int *const split = p->o.strategy.pipeline.chunk_blocks;
    int sum = 0, blocks = p->o.blocks;
    for (int k = 0; k < p->chunks; k++) sum += split[k];
    if (sum != blocks && sum != blocks - 2)
        return err_set(
            e, E_USAGE,
            "parallel.split: %d blocks in all; valid: %d, or %d without the first and the "
            "last block",
            sum, blocks, blocks - 2);
    for (int k = 0; k < p->chunks; k++) p->chunk_first[k + 1] = p->chunk_first[k] + split[k];
    if (sum == blocks) return OK;
    for (int k = 1; k < p->chunks; k++) p->chunk_first[k]++;
    p->chunk_first[p->chunks] = blocks;
    return OK;
}

static status choose_chunks(plan *p, err *e)
{
    const int stages = p->o.mesh.size[AXIS_PP];
    const strategy_pipeline *const pipeline = &p->o.strategy.pipeline;
    p->chunks = pipeline->virtual_stages > 1 ? stages * pipeline->virtual_stages : stages;
    const status result =
        alloc_zeroed(&p->chunk_first, (size_t)p->chunks + 1, sizeof *p->chunk_first, WHAT, e);
    if (result != OK) return result;
    if (p->chunks == 1) {
        p->chunk_first[1] = p->o.blocks;
        return OK;
    }
    if (pipeline->chunk_blocks) return take_split(p, e);
    return pipeline_split(p->o.cost, p->o.blocks, p->chunks, p->chunk_first, e);
}

static status assign_blocks(plan *p, err *e)
{
    status result = OK;
    TRY(choose_chunks(p, e));
    for (int k = 0; k < p->chunks; k++)
        for (int b = p->chunk_first[k]; b < p->chunk_first[k + 1]; b++) p->blocks.chunk[b] = k;
done:
    return result;
}

// Where one parameter is used.
typedef struct plan_users {
    int first_stage, last_stage; // of all stages; -1: none
    int first_block, last_block; // of this stage; -1: none
    bool between;                // a stage other than the first and the last uses it
} plan_users;

static void add_user(const plan *p, plan_users *u, int block)
{
    const int stage = plan_stage_of(p, block), end = p->o.mesh.size[AXIS_PP] - 1;
    if (u->first_stage < 0 || stage < u->first_stage) u->first_stage = stage;
    if (stage > u->last_stage) u->last_stage = stage;
    u->between = u->between || (stage > 0 && stage < end);
    if (stage != p->coord[AXIS_PP]) return;
    if (u->first_block < 0 || block < u->first_block) u->first_block = block;
    if (block > u->last_block) u->last_block = block;
}

static status fill_row(plan *p, int i, const plan_param *q, plan_users u, err *e)
{
    plan_row *r = &p->row[i];
    *r = (plan_row){.name = q->name,
                    .rows = q->rows,
                    .cols = q->cols,
                    .count = q->rows * q->cols,
                    .bucket = -1,
                    .stage = u.first_stage,
                    .tied_grad = -1,
                    .block = u.first_block,
                    .last_block = u.last_block,
                    .decays = q->is_matrix || p->o.decay_all,
                    .tp_partial = q->tp_partial,
                    .tied = u.first_stage != u.last_stage};
    if (r->tied && u.between)
        return err_set(
            e, E_USAGE,
            "parameter %s is shared by blocks on stages %d to %d; valid: on one stage, or on "
            "the first and the last",
            q->name, u.first_stage, u.last_stage);
    r->counted = (q->tp_sharded || p->coord[AXIS_TP] == 0) &&
                 (!r->tied || p->coord[AXIS_PP] == u.first_stage);
    if (u.first_block >= 0) p->order[p->local_rows++] = i;
    return OK;
}

static status fill_rows(plan *p, const plan_param *params, err *e)
{
    status result = OK;
    plan_users *u = NULL;
    TRY(alloc_zeroed(&u, (size_t)p->rows, sizeof *u, WHAT, e));
    for (int i = 0; i < p->rows; i++) u[i] = (plan_users){-1, -1, -1, -1, false};
    for (int i = 0; i < p->o.uses; i++) add_user(p, &u[p->o.use[i].param], p->o.use[i].block);
    for (int i = 0; i < p->rows; i++) TRY(fill_row(p, i, &params[i], u[i], e));
done:
    free(u);
    return result;
}

typedef struct plan_sort_key {
    int block, row;
} plan_sort_key;

static int compare_rows(const void *a, const void *b)
{
    const plan_sort_key *x = a, *y = b;
    return x->block != y->block ? (x->block > y->block) - (x->block < y->block)
                                : (x->row > y->row) - (x->row < y->row);
}

// Orders the rows of this stage by the first block that uses them here. plan_make got them in the
// order of the first block of any stage.
static status sort_rows(plan *p, err *e)
{
    plan_sort_key *all = NULL;
    const status result = alloc_array(&all, (size_t)p->local_rows, sizeof *all, WHAT, e);
    if (result != OK) return result;
    for (int i = 0; i < p->local_rows; i++)
        all[i] = (plan_sort_key){p->row[p->order[i]].block, p->order[i]};
    qsort(all, (size_t)p->local_rows, sizeof *all, compare_rows);
    for (int i = 0; i < p->local_rows; i++) p->order[i] = all[i].row;
    free(all);
    return OK;
}

static bool uses_files(const plan *p)
{
    for (int t = 0; t < PLAN_STATES; t++)
        if (p->o.strategy.offload.tier[t] == TIER_FILE) return true;
    return false;
}

// Fills buckets from the last block to the first, the order in which backward completes gradients.
// The first one is small; the others end at the size limit. Where weights are unsharded for use or
// state is in files, a bucket is one block, so that slots are small.
static status fill_buckets(plan *p, err *e)
{
    int64_t bytes = 0;
    int64_t limit = size_min(FIRST_BUCKET_BYTES, p->o.strategy.bucket_bytes);
    const bool one_block = p->weight_slots || uses_files(p);
    char *starts = NULL;
    const status result = alloc_zeroed(&starts, (size_t)p->local_rows, 1, WHAT, e);
    if (result != OK) return result;
    for (int i = p->local_rows - 1; i >= 0; i--) {
        bytes += 4 * p->row[p->order[i]].count;
        bool block_starts = i == 0 || p->row[p->order[i - 1]].block != p->row[p->order[i]].block;
        if (!block_starts || (i > 0 && bytes < limit && !one_block)) continue;
        starts[i] = 1;
        bytes = 0;
        limit = p->o.strategy.bucket_bytes;
    }
    for (int i = 0; i < p->local_rows; i++) {
        plan_row *r = &p->row[p->order[i]];
        if (starts[i])
            p->bucket[p->buckets++] = (plan_bucket){.first_row = i, .first_block = r->block};
        plan_bucket *b = &p->bucket[p->buckets - 1];
        b->rows++;
        b->last_block = r->block;
        r->bucket = p->buckets - 1;
    }
    free(starts);
    return OK;
}

static int compare_ints(const void *a, const void *b)
{
    const int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

// Sorts one block's buckets and drops duplicates; returns how many are left.
static int sort_unique(int *buckets, int count)
{
    int unique = 0;
    qsort(buckets, (size_t)count, sizeof *buckets, compare_ints);
    for (int i = 0; i < count; i++)
        if (unique == 0 || buckets[i] != buckets[unique - 1]) buckets[unique++] = buckets[i];
    return unique;
}

static status mark_uses(plan *p, err *e)
{
    const int blocks = p->o.blocks;
    int *fill = NULL, total = 0;
    const status result = alloc_zeroed(&fill, (size_t)blocks, sizeof *fill, WHAT, e);
    if (result != OK) return result;
    for (int i = 0; i < p->o.uses; i++)
        if (plan_has_block(p, p->o.use[i].block)) p->blocks.first_use[p->o.use[i].block + 1]++;
    for (int b = 0; b < blocks; b++) p->blocks.first_use[b + 1] += p->blocks.first_use[b];
    for (int i = 0; i < p->o.uses; i++) {
        const int b = p->o.use[i].block;
        if (plan_has_block(p, b))
            p->blocks.used_bucket[p->blocks.first_use[b] + fill[b]++] =
                p->row[p->o.use[i].param].bucket;
    }
    for (int b = 0; b < blocks; b++) {
        int *from = p->blocks.used_bucket + p->blocks.first_use[b];
        const int count = sort_unique(from, fill[b]);
        memmove(p->blocks.used_bucket + total, from, (size_t)count * sizeof *from);
        p->blocks.first_use[b] = total;
        total += count;
    }
    p->blocks.first_use[blocks] = total;
    free(fill);
    return OK;
}

static void lay_out(plan *p, plan_layout l)
{
    int64_t offset = 0;
    for (int k = 0; k < p->buckets; k++) {
        plan_bucket *b = &p->bucket[k];
        b->first[l] = offset;
        for (int i = 0; i < b->rows; i++) {
            plan_row *r = &p->row[p->order[b->first_row + i]];
            r->offset[l] = offset;
            offset = round_up(offset + shard_capacity(p, r, l), BUCKET_ALIGN);
        }
        offset = round_up(offset, uses_files(p) ? FILE_ALIGN : BUCKET_ALIGN);
        b->count[l] = offset - b->first[l];
    }
    p->elements[l] = offset;
}

// A parameter that two blocks of this stage use gets an array for the gradients of its second use.
// Each use is summed over micro-batches by itself, as on two stages, so the sum of both has the
// same bits on one stage and on two.
static void lay_out_tied_grads(plan *p)
{
    if (p->o.strategy.no_sync == NO_SYNC_FALSE || p->o.micros == 1) return;
    for (int i = 0; i < p->local_rows; i++) {
        plan_row *r = &p->row[p->order[i]];
        if (r->block == r->last_block) continue;
        r->tied_grad = p->tied_grads;
        p->tied_grads = round_up(p->tied_grads + r->count, BUCKET_ALIGN);
    }
}

static void count_state(plan *p, plan_state what, plan_category c, int64_t bytes)
{
    if (p->o.strategy.offload.tier[what] == TIER_FILE)
        p->tier_bytes[TIER_FILE] += (uint64_t)bytes;
    else
        p->bytes[c] += (uint64_t)bytes;
    if (p->o.strategy.offload.tier[what] == TIER_HOST) p->tier_bytes[TIER_HOST] += (uint64_t)bytes;
}

static void count_bytes(plan *p)
{
    const plan_options *o = &p->o;
    const int64_t states = p->elements[p->optimizer];
    count_state(p, PLAN_WEIGHTS, BYTES_WEIGHTS,
                p->elements[p->weight] * (int64_t)dtype_bytes(o->compute));
    if (p->keeps_post_forward_shards)
        p->bytes[BYTES_WEIGHTS] +=
            (uint64_t)p->elements[LAYOUT_POST_FORWARD] * dtype_bytes(o->compute);
    if (o->compute != F32) count_state(p, PLAN_OPTIMIZER_STATE, BYTES_MASTER, 4 * states);
    count_state(p, PLAN_GRADIENTS, BYTES_GRADIENTS, 4 * p->elements[p->gradient]);
    p->bytes[BYTES_GRADIENTS] += (uint64_t)(4 * p->tied_grads);
    count_state(p, PLAN_OPTIMIZER_STATE, BYTES_OPTIMIZER, 4 * states * o->state_tensors);
}

static status make(plan *p, const plan_param *params, err *e)
{
    status result = OK;
    TRY(policies_check(&p->o.strategy.dp, e));
    choose_layouts(p);
    TRY(check_tiers(p, e));
    TRY(check_reshard(p, e));
    TRY(assign_blocks(p, e));
    TRY(fill_rows(p, params, e));
    TRY(sort_rows(p, e));
    TRY(fill_buckets(p, e));
    TRY(mark_uses(p, e));
    for (int l = 0; l < LAYOUTS; l++) lay_out(p, (plan_layout)l);
    lay_out_tied_grads(p);
    TRY(plan_make_redistributions(p, e));
    count_bytes(p);
done:
    return result;
}

status plan_make(const plan_options *o, const plan_param *params, int count, plan **out, err *e)
{
    status result = OK;
    plan *p = NULL;
    TRY(alloc_zeroed(&p, 1, sizeof *p, WHAT, e));
    p->o = *o;
    p->o.strategy = strategy_resolve(&o->strategy, &o->mesh);
    p->rows = count;
    for (int a = 0; a < AXES; a++) p->coord[a] = mesh_coord(&o->mesh, o->rank, (axis)a);
    TRY(alloc_zeroed(&p->row, (size_t)count, sizeof *p->row, WHAT, e));
    TRY(alloc_zeroed(&p->order, (size_t)count, sizeof *p->order, WHAT, e));
    TRY(alloc_zeroed(&p->bucket, (size_t)count, sizeof *p->bucket, WHAT, e));
    plan_blocks *b = &p->blocks;
    TRY(alloc_zeroed(&b->chunk, (size_t)o->blocks, sizeof *b->chunk, WHAT, e));
    TRY(alloc_zeroed(&b->first_use, (size_t)o->blocks + 1, sizeof *b->first_use, WHAT, e));
    TRY(alloc_zeroed(&b->used_bucket, (size_t)o->uses, sizeof *b->used_bucket, WHAT, e));
    TRY(alloc_zeroed(&b->input_grad_in_place, (size_t)o->blocks, sizeof *b->input_grad_in_place,
                     WHAT, e));
    for (int i = 0; o->input_grad_in_place && i < o->blocks; i++)
        b->input_grad_in_place[i] = o->input_grad_in_place[i];
    TRY(make(p, params, e));
    p->o.strategy.pipeline.chunk_blocks = NULL, p->o.cost = NULL, p->o.use = NULL; // the caller's
    p->o.input_grad_in_place = NULL;
    *out = p;
    p = NULL;
done:
    plan_free(p);
    return result;
}

void plan_free(plan *p)
{
    if (!p) return;
    plan_free_redistributions(p);
    free(p->chunk_first);
    free(p->row);
    free(p->order);
    free(p->blocks.chunk);
    free(p->blocks.first_use);
    free(p->blocks.used_bucket);
    free(p->blocks.input_grad_in_place);
    free(p->bucket);
    free(p);
}

uint64_t plan_bytes(const plan *p)
{
    uint64_t sum = 0;
    for (int c = 0; c < CATEGORIES; c++) sum = size_add(sum, p->bytes[c]);
    return sum;
}
