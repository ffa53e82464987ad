// segments.c -- makes the segment tables from the plan. See segments.h. Called by trainer.c, and by
// the instructions that launch kernels with a table.
#include "train/segments.h"

#include "base/alloc.h"
#include "base/size.h"
#include "comm/packed.h"
#include "optim/clip.h"
#include "parallel/calls.h"
#include "parallel/instructions.h"
#include "train/trainer_private.h"

struct trainer_segments {
    kernel_segment *segment; // of all tables, device memory
    kernel_segment *host;    // the same on the host; NULL where no update runs there
    segment_run *run;        // of all tables, on the host
    int *first_run;          // [SEGMENT_TABLES][buckets] and the end
    comm_packing *packing;   // NULL: communicators need no workspace
};

// Tables that are being made. The arrays are NULL while segments and runs are counted.
typedef struct segments_builder {
    const plan *p;
    kernel_segment *host; // [segments]
    const kernel_segment *device;
    segment_run *run; // [runs]
    int *first_run;
    int64_t segments;
    int runs;
} segments_builder;

static void start_run(segments_builder *b, int group)
{
    if (b->run) b->run[b->runs] = (segment_run){.segment = b->device + b->segments, .group = group};
    b->runs++;
}

static void add_segment(segments_builder *b, kernel_segment s)
{
    if (s.count == 0) return;
    if (b->run) {
        b->host[b->segments] = s;
        b->run[b->runs - 1].segments++;
        b->run[b->runs - 1].count += s.count;
    }
    b->segments++;
}

// ---- Shards of full arrays

static void add_shards(segments_builder *b, int bucket, plan_layout l)
{
    const plan *p = b->p;
    const plan_bucket *x = &p->bucket[bucket];
    start_run(b, x->group);
    for (int i = x->first_row; i < x->first_row + x->rows; i++) {
        const plan_row *r = &p->row[p->order[i]];
        const plan_shard s = plan_local_shard(p, r, l, p->coord);
        add_segment(b, (kernel_segment){.count = s.count,
                                        .src = r->offset[LAYOUT_FULL] + s.first,
                                        .dst = r->offset[l]});
    }
}

static void add_gradient_shards(segments_builder *b, int bucket)
{
    const plan_group *g = plan_group_of(b->p, bucket);
    if (g->gradient_slots) add_shards(b, bucket, plan_gradient_layout(g));
}

static void add_post_forward_shards(segments_builder *b, int bucket)
{
    const plan_group *g = plan_group_of(b->p, bucket);
    if (g->keeps_post_forward_shards) add_shards(b, bucket, LAYOUT_POST_FORWARD);
}

// ---- Squares and update

// Rows first … last-1 of plan->order that are one segment: their shards are contiguous in every array
// of the update, and their settings are equal.
typedef struct segments_row_run {
    int first, last;
} segments_row_run;

// Whether this rank's shards have the same layout in every array of the update.
static bool same_layouts(const plan_group *g)
{
    return plan_gradient_layout(g) == g->optimizer && g->weight == g->optimizer;
}

// Does this rank count all of both rows, or nothing of both?
static bool counts_alike(const plan_row *a, const plan_row *b)
{
    return (a->counted == a->count && b->counted == b->count) ||
           (a->counted == 0 && b->counted == 0);
}

// Advances *run to the next run of a bucket. Returns false when there is none. Start with run->last
// at the bucket's first row.
static bool next_run(const plan *p, int bucket, segments_row_run *run)
{
    const plan_bucket *b = &p->bucket[bucket];
    const plan_group *g = plan_group_of(p, bucket);
    const int end = b->first_row + b->rows;
    run->first = run->last;
    if (run->first >= end) return false;
    const plan_row *a = &p->row[p->order[run->first]];
    for (run->last = run->first + 1; run->last < end && same_layouts(g); run->last++) {
        const plan_row *r = &p->row[p->order[run->last]],
                       *before = &p->row[p->order[run->last - 1]];
        const int64_t end_before = before->offset[g->optimizer] +
                                   plan_local_shard(p, before, g->optimizer, p->coord).count;
        // In a state slot, the gaps between rows hold data of another bucket.
        if (r->offset[g->optimizer] != end_before) break;
        if (r->group != a->group || r->decays != a->decays || !counts_alike(a, r)) break;
    }
    return true;
}

// The first element of the optimizer's shard of row r, relative to the start of its bucket in an
// array of layout l.
static int64_t shard_offset(const plan *p, const plan_row *r, plan_layout l)
{
    const plan_layout optimizer = p->group[r->group].optimizer;
    return r->offset[l] + plan_local_shard(p, r, optimizer, p->coord).first -
           plan_local_shard(p, r, l, p->coord).first;
}

// Elements of a run, from its first row's shard to the end of its last row's.
static int64_t run_count(const plan *p, const segments_row_run *run)
{
    const plan_row *a = &p->row[p->order[run->first]], *b = &p->row[p->order[run->last - 1]];
    const plan_layout l = p->group[a->group].optimizer;
    return b->offset[l] - a->offset[l] + plan_local_shard(p, b, l, p->coord).count;
}

// The elements of the run that this rank counts in the norm. A row of which it counts a part is a run.
static int64_t counted_elements(const plan *p, const segments_row_run *run)
{
    const plan_row *r = &p->row[p->order[run->first]];
    const plan_shard s = plan_local_shard(p, r, p->group[r->group].optimizer, p->coord);
    if (r->counted == r->count) return run_count(p, run);
    return size_max(size_min(r->counted - s.first, s.count), 0);
}

// Of rows that several ranks have in full, this rank counts its share. `group`: the only one whose rows
// are taken; -1: all are.
static void add_squares_of(segments_builder *b, int bucket, int group)
{
    const plan *p = b->p;
    const plan_group *g = plan_group_of(p, bucket);
    segments_row_run run = {.last = p->bucket[bucket].first_row};
    int index, of;
    clip_share(p, g, &index, &of);
    start_run(b, group < 0 ? p->bucket[bucket].group : group);
    while (next_run(p, bucket, &run)) {
        const plan_row *r = &p->row[p->order[run.first]];
        if (group >= 0 && r->group != group) continue;
        const int64_t count = counted_elements(p, &run), from = count * index / of,
                      to = count * (index + 1) / of;
        if (count > 0)
            add_segment(
                b, (kernel_segment){.count = to - from,
                                    .src = shard_offset(p, r, plan_gradient_layout(g)) + from});
    }
}

static void add_squares(segments_builder *b, int bucket)
{
    if (!plan_group_of(b->p, bucket)->o.frozen) add_squares_of(b, bucket, -1);
}

static void add_group_squares(segments_builder *b, int bucket)
{
    const plan *p = b->p;
    const int owner = p->bucket[bucket].group;
    if (!p->o.norm_groups || p->group[owner].o.frozen) return;
    for (int i = 0; i < p->groups; i++)
        if (p->group[i].representative == owner) add_squares_of(b, bucket, i);
}

static void add_group_updates(segments_builder *b, int bucket, int group)
{
    const plan *p = b->p;
    const plan_group *g = plan_group_of(p, bucket);
    segments_row_run run = {.last = p->bucket[bucket].first_row};
    bool started = false;
    while (next_run(p, bucket, &run)) {
        const plan_row *r = &p->row[p->order[run.first]];
        if (r->group != group) continue;
        if (!started) start_run(b, group);
        started = true;
        add_segment(b, (kernel_segment){.count = run_count(p, &run),
                                        .src = shard_offset(p, r, plan_gradient_layout(g)),
                                        .dst = shard_offset(p, r, g->weight),
                                        .state = shard_offset(p, r, g->optimizer),
                                        .decays = r->decays});
    }
}

// The groups of a bucket's parameters differ in settings, such as the learning rate.
static void add_updates(segments_builder *b, int bucket)
{
    if (plan_group_of(b->p, bucket)->o.frozen) return;
    for (int i = 0; i < b->p->groups; i++) add_group_updates(b, bucket, i);
}

// ---- All tables

static void add_tables(segments_builder *b)
{
    static void (*const add[SEGMENT_TABLES])(segments_builder *, int) = {
        [SEGMENTS_GRADIENT_SHARDS] = add_gradient_shards,
        [SEGMENTS_POST_FORWARD_SHARDS] = add_post_forward_shards,
        [SEGMENTS_SQUARES] = add_squares,
        [SEGMENTS_GROUP_SQUARES] = add_group_squares,
        [SEGMENTS_UPDATE] = add_updates,
    };
    int i = 0;
    for (int k = 0; k < SEGMENT_TABLES; k++)
        for (int bucket = 0; bucket < b->p->buckets; bucket++) {
            if (b->run) b->first_run[i++] = b->runs;
            add[k](b, bucket);
        }
    if (b->run) b->first_run[i] = b->runs;
}

// Makes the tables on the host, then copies them to the device.
static status write_tables(trainer *t, size_t bytes, err *e)
{
    status result = OK;
    const trainer_segments *x = t->segments;
    segments_builder b = {
        .p = t->plan, .device = x->segment, .run = x->run, .first_run = x->first_run};
    TRY(alloc_zeroed(&b.host, bytes, 1, "the trainer", e));
    add_tables(&b);
    if (x->host) memcpy(x->host, b.host, bytes);
    TRY(device_upload(trainer_stream(t, STREAM_COPY), x->segment, b.host, bytes, e));
done:
    free(b.host);
    return result;
}

// ---- Packed shards

// Adds the calls over segments of a list. Calls that are equal share a table.
static status add_packed_calls(const trainer *t, const schedule *s, comm_packing *to, err *e)
{
    status result = OK;
    for (int i = 0; i < s->count; i++) {
        const schedule_instr *x = &s->instr[i];
        for (const schedule_call *c = s->call + x->first_call, *end = c + x->calls; c < end; c++)
            if (c->call.segment)
                TRY(comm_packing_add(
                    to,
                    &(comm_packed_call){.call = c->call,
                                        .rank = plan_group_index(t->plan, c->group),
                                        .size = plan_group_ranks(t->plan, c->group),
                                        .stream = instr_row_of(x->kind)->stream},
                    e));
    }
done:
    return result;
}

// The tables and workspaces of communicators that pack shards. The device copies the tables from `host`.
static status allocate_packing(trainer *t, err *e)
{
    status result = OK;
    trainer_segments *x = t->segments;
    kernel_segment *table = NULL, *host = NULL;
    void *workspace[STREAMS] = {NULL};
    size_t bytes[STREAMS];
    if (!t->plan->o.strategy.packs_shards) return OK;
    if (!x->packing) {
        TRY(comm_packing_open(&x->packing, e));
        TRY(add_packed_calls(t, &t->schedule, x->packing, e));
        TRY(add_packed_calls(t, &t->forward, x->packing, e));
    }
    const size_t table_bytes = comm_packing_table_bytes(x->packing);
    TRY(memory_take(t->memory, BYTES_KERNELS, FROM_DEVICE, table_bytes, &table, e));
    TRY(memory_take(t->memory, BYTES_KERNELS, FROM_HOST, table_bytes, &host, e));
    for (int k = 0; k < STREAMS; k++) {
        bytes[k] = comm_packing_workspace_bytes(x->packing, (device_stream_kind)k);
        TRY(memory_take(t->memory, BYTES_BUFFERS, FROM_SHARED, bytes[k], &workspace[k], e));
    }
    if (memory_is_counting(t->memory) || table_bytes == 0) return OK;
    TRY(comm_packing_start(x->packing, table, host, workspace, bytes,
                           trainer_stream(t, STREAM_COPY), e));
    groups_set_packing(t->groups, x->packing);
done:
    return result;
}

status segments_allocate(trainer *t, err *e)
{
    status result = OK;
    segments_builder b = {.p = t->plan};
    TRY(trainer_object(&t->segments, sizeof *t->segments, e));
    trainer_segments *x = t->segments;
    add_tables(&b);
    const size_t bytes = (size_t)b.segments * sizeof *x->segment,
                 buckets = (size_t)t->plan->buckets;
    TRY(memory_take(t->memory, BYTES_KERNELS, FROM_DEVICE, bytes, &x->segment, e));
    if (plan_updates_on_host(t->plan))
        TRY(memory_take(t->memory, BYTES_KERNELS, FROM_HOST, bytes, &x->host, e));
    TRY(memory_table(t->memory, (size_t)b.runs + 1, sizeof *x->run, &x->run, e));
    TRY(memory_table(t->memory, SEGMENT_TABLES * buckets + 1, sizeof *x->first_run, &x->first_run,
                     e));
    if (!memory_is_counting(t->memory)) TRY(write_tables(t, bytes, e));
    TRY(allocate_packing(t, e));
done:
    return result;
}

void segments_close(trainer *t)
{
    if (t->segments) comm_packing_close(t->segments->packing);
    free(t->segments);
}

segment_runs segments_of(const trainer *t, segment_table k, int bucket)
{
    const trainer_segments *x = t->segments;
    const int *first = &x->first_run[(int)k * t->plan->buckets + bucket];
    return (segment_runs){.items = x->run + first[0], .count = first[1] - first[0]};
}

const kernel_segment *segments_on_host(const trainer *t, const segment_run *run)
{
    return t->segments->host + (run->segment - t->segments->segment);
}
