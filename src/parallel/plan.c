// plan.c -- assigns blocks to stages, describes each parameter in a row, and counts bytes. See plan.h.
// plan_groups.c makes the parameter groups, plan_buckets.c the buckets and arrays, and
// plan_redistribute.c the collectives.
#include "parallel/plan_private.h"

#include "base/alloc.h"
#include "base/nf4.h"
#include "base/size.h"

#include <stdlib.h>
#include <string.h>

static const char WHAT[] = "the plan";

// Shard `index` of `shards` of a run of rows, as torch.chunk divides it.
static plan_shard shard_of(plan_shard run, int64_t shards, int64_t index)
{
    const int64_t each = size_ceil_div(run.count, shards),
                  begin = size_min(each * index, run.count);
    return (plan_shard){run.first + begin, size_min(each, run.count - begin)};
}

plan_shard plan_local_shard(const plan *p, const plan_row *r, plan_layout l, const int coord[AXES])
{
    const plan_group *g = &p->group[r->group];
    const mesh *m = &p->o.mesh;
    plan_shard s = {0, r->rows};
    if (l == LAYOUT_POST_FORWARD && g->keeps_post_forward_shards) {
        const int ranks = p->o.strategy.reshard_after_forward;
        s = shard_of(s, ranks, mesh_group_index(m, coord, g->axes[LEVEL_INNER]) % ranks);
    }
    for (int i = 0; i < POLICY_LEVELS; i++)
        if (plan_layout_shards(l, (policy_level)i))
            s = shard_of(s, mesh_group_size(m, g->axes[i]), mesh_group_index(m, coord, g->axes[i]));
    const int64_t width = plan_row_width(p, r, l);
    return (plan_shard){s.first * width, s.count * width};
}

int64_t plan_row_width(const plan *p, const plan_row *r, plan_layout l)
{
    const bool packed = p->group[r->group].o.storage == STORAGE_NF4 && l != LAYOUT_FULL;
    return packed ? nf4_row_words(r->cols) : r->cols;
}

bool plan_has_block(const plan *p, int block)
{
    return plan_stage_of(p, block) == p->coord[AXIS_PP];
}

bool plan_reads_batches(const plan *p)
{
    return p->o.batches_everywhere || plan_has_block(p, 0) || plan_has_block(p, p->o.blocks - 1);
}

// The position of a bucket among those of a block of this stage; -1: the block does not use it.
static int position_of(const plan *p, int block, int bucket)
{
    for (int i = p->blocks.first_use[block]; i < p->blocks.first_use[block + 1]; i++)
        if (p->blocks.used_bucket[i] == bucket) return i;
    return -1;
}

bool plan_block_uses(const plan *p, int block, int bucket)
{
    return position_of(p, block, bucket) >= 0;
}

unsigned plan_block_writes(const plan *p, int block, int bucket)
{
    const int i = position_of(p, block, bucket);
    return i < 0 ? COMPUTES_NOTHING : p->blocks.writes[i];
}

bool plan_reduces_micro_batches(const plan *p, const plan_group *g)
{
    return p->o.micros > 1 && g->gradient != LAYOUT_FULL;
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
    unsigned writes;             // the passes of this stage that compute its gradient
} plan_users;

// The passes of the block that compute the gradient of a use.
static unsigned writes_of(const plan *p, const plan_use *u)
{
    const unsigned backward = COMPUTES_DGRAD | COMPUTES_WGRAD;
    if (u->writes) return u->writes;
    return u->block == p->o.blocks - 1 ? backward | COMPUTES_FORWARD : backward;
}

static void add_user(const plan *p, plan_users *u, const plan_use *use)
{
    const int block = use->block;
    const int stage = plan_stage_of(p, block), end = p->o.mesh.size[AXIS_PP] - 1;
    if (u->first_stage < 0 || stage < u->first_stage) u->first_stage = stage;
    if (stage > u->last_stage) u->last_stage = stage;
    u->between = u->between || (stage > 0 && stage < end);
    if (stage != p->coord[AXIS_PP]) return;
    if (u->first_block < 0 || block < u->first_block) u->first_block = block;
    if (block > u->last_block) u->last_block = block;
    u->writes |= writes_of(p, use);
}

// Notes the rows that the parameter shares with other ranks, of which the first one counts them.
static status share_rows(plan *p, plan_row *r, const plan_param *q, err *e)
{
    r->shared = r->count;
    if (q->shared.ranks < 2) return OK;
    if (p->o.strategy.hook.kind == HOOK_POWERSGD)
        return err_set(e, E_USAGE,
                       "parallel.hook powersgd: %d ranks of parallel.%s have the same rows of %s, "
                       "which it would not keep equal; valid: another hook, or at most as many "
                       "ranks as key-value heads",
                       q->shared.ranks, axis_name(mesh_first_axis(q->sharded)), q->name);
    if (p->shared_ranks && p->shared_ranks != q->shared.ranks)
        return err_set(e, E_USAGE,
                       "parallel.%s: %d ranks share a head of keys and values of %s, and %d one of "
                       "another layer; valid: at most the key-value heads of each layer",
                       axis_name(mesh_first_axis(q->sharded)), q->shared.ranks, q->name,
                       p->shared_ranks);
    p->shared_over = mesh_axes_in_use(&p->o.mesh, q->sharded);
    p->shared_ranks = q->shared.ranks;
    r->shared = q->shared.first_row * r->cols;
    if (plan_group_index(p, GROUP_SHARED) > 0 && r->counted) r->counted = r->shared;
    return OK;
}

static status fill_row(plan *p, int i, const plan_param *q, plan_users u, err *e)
{
    plan_row *r = &p->row[i];
    const mesh_axes group = plan_group_axes(&p->group[q->group]);
    *r = (plan_row){.name = q->name,
                    .rows = q->rows,
                    .cols = q->cols,
                    .count = q->rows * q->cols,
                    .bucket = -1,
                    .stage = u.first_stage,
                    .tied_grad = -1,
                    .tied_shard = -1,
                    .writes = u.writes,
                    .block = u.first_block,
                    .last_block = u.last_block,
                    .group = q->group,
                    .decays = q->decays,
                    .partial = q->partial & ~group,
                    .copies = mesh_axes_in_use(
                        &p->o.mesh, AXES_ALL & ~(group | q->sharded | MESH_AXIS(AXIS_PP))),
                    .tied = u.first_stage != u.last_stage};
    if (p->group[q->group].o.storage == STORAGE_NF4 && q->cols % NF4_BLOCK != 0)
        return err_set(e, E_USAGE,
                       "model.storage: nf4 keeps blocks of %d elements together, but a rank has "
                       "rows of %lld of %s; "
                       "valid: auto, or a parallel.tp that divides the rows into blocks",
                       NF4_BLOCK, (long long)q->cols, q->name);
    if (q->sharded & group)
        return err_set(e, E_INTERNAL,
                       "parameter %s is sharded over the process groups of its group", q->name);
    if (r->tied && u.between)
        return err_set(
            e, E_USAGE,
            "parameter %s is shared by blocks on stages %d to %d; valid: on one stage, or on "
            "the first and the last",
            q->name, u.first_stage, u.last_stage);
    const bool counts = mesh_group_index(&p->o.mesh, p->coord, r->copies) == 0 &&
                        (!r->tied || p->coord[AXIS_PP] == u.first_stage);
    r->counted = counts ? r->count : 0;
    if (u.first_block >= 0) p->order[p->local_rows++] = i;
    return share_rows(p, r, q, e);
}

static status fill_rows(plan *p, const plan_param *params, err *e)
{
    status result = OK;
    plan_users *u = NULL;
    TRY(alloc_zeroed(&u, (size_t)p->rows, sizeof *u, WHAT, e));
    for (int i = 0; i < p->rows; i++) u[i] = (plan_users){-1, -1, -1, -1, false, 0};
    for (int i = 0; i < p->o.uses; i++) add_user(p, &u[p->o.use[i].param], &p->o.use[i]);
    for (int i = 0; i < p->rows; i++) TRY(fill_row(p, i, &params[i], u[i], e));
done:
    free(u);
    return result;
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

static void mark_writes(plan *p)
{
    for (int i = 0; i < p->o.uses; i++) {
        const plan_use *u = &p->o.use[i];
        if (!plan_has_block(p, u->block)) continue;
        p->blocks.writes[position_of(p, u->block, p->row[u->param].bucket)] |=
            (unsigned char)writes_of(p, u);
    }
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
    mark_writes(p);
    return OK;
}

// Adds a bucket's bytes of one array to its category in the memory where they lie, and to its tier where
// that is not the device.
static void count_array(plan *p, int bucket, plan_array a)
{
    static const plan_category category[PLAN_ARRAYS] = {
        [ARRAY_WEIGHTS] = BYTES_WEIGHTS,     [ARRAY_POST_FORWARD] = BYTES_WEIGHTS,
        [ARRAY_GRADIENTS] = BYTES_GRADIENTS, [ARRAY_MASTER] = BYTES_MASTER,
        [ARRAY_M] = BYTES_OPTIMIZER,         [ARRAY_V] = BYTES_OPTIMIZER,
        [ARRAY_AVERAGE] = BYTES_OPTIMIZER};
    const memory_tier tier = a == ARRAY_POST_FORWARD
                                 ? TIER_DEVICE
                                 : plan_group_of(p, bucket)->o.tier[plan_array_state(a)];
    const memory_tier_row *row = memory_tier_row_of(tier, p->o.strategy.offload.host_is_apart);
    const uint64_t bytes =
        row->swapped ? plan_bucket_bytes(p, bucket, a) : plan_placed_bytes(p, bucket, a);
    if (row->kind == KIND_DEVICE) p->bytes[category[a]] += bytes;
    if (row->kind == KIND_HOST) p->host_bytes[category[a]] += bytes;
    if (tier != TIER_DEVICE) p->tier_bytes[tier] += bytes;
}

static void count_bytes(plan *p)
{
    for (int k = 0; k < p->buckets; k++)
        for (int a = 0; a < PLAN_ARRAYS; a++) count_array(p, k, (plan_array)a);
    p->bytes[BYTES_GRADIENTS] += (uint64_t)(4 * p->tied_grads);
}

static status make(plan *p, const plan_param *params, err *e)
{
    status result = OK;
    TRY(assign_blocks(p, e));
    TRY(fill_rows(p, params, e));
    TRY(plan_make_buckets(p, e));
    TRY(mark_uses(p, e));
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
    mesh_coords(&o->mesh, o->rank, p->coord);
    TRY(alloc_zeroed(&p->row, (size_t)count, sizeof *p->row, WHAT, e));
    TRY(alloc_zeroed(&p->order, (size_t)count, sizeof *p->order, WHAT, e));
    TRY(alloc_zeroed(&p->bucket, (size_t)count, sizeof *p->bucket, WHAT, e));
    plan_blocks *b = &p->blocks;
    TRY(alloc_zeroed(&b->chunk, (size_t)o->blocks, sizeof *b->chunk, WHAT, e));
    TRY(alloc_zeroed(&b->first_use, (size_t)o->blocks + 1, sizeof *b->first_use, WHAT, e));
    TRY(alloc_zeroed(&b->used_bucket, (size_t)o->uses, sizeof *b->used_bucket, WHAT, e));
    TRY(alloc_zeroed(&b->writes, (size_t)o->uses, sizeof *b->writes, WHAT, e));
    TRY(alloc_zeroed(&b->input_grad_in_place, (size_t)o->blocks, sizeof *b->input_grad_in_place,
                     WHAT, e));
    for (int i = 0; o->input_grad_in_place && i < o->blocks; i++)
        b->input_grad_in_place[i] = o->input_grad_in_place[i];
    TRY(plan_make_groups(p, &o->strategy, e));
    TRY(make(p, params, e));
    p->o.strategy.pipeline.chunk_blocks = NULL, p->o.cost = NULL, p->o.use = NULL; // the caller's
    p->o.input_grad_in_place = NULL, p->o.group = NULL;
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
    free(p->group);
    free(p->chunk_first);
    free(p->row);
    free(p->order);
    free(p->blocks.chunk);
    free(p->blocks.first_use);
    free(p->blocks.used_bucket);
    free(p->blocks.writes);
    free(p->blocks.input_grad_in_place);
    free(p->bucket);
    free(p);
}

static uint64_t sum_of(const uint64_t bytes[CATEGORIES])
{
    uint64_t sum = 0;
    for (int c = 0; c < CATEGORIES; c++) sum = size_add(sum, bytes[c]);
    return sum;
}

uint64_t plan_bytes(const plan *p)
{
    return sum_of(p->bytes);
}

uint64_t plan_host_bytes(const plan *p)
{
    return sum_of(p->host_bytes);
}
