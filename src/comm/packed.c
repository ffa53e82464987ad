// packed.c -- makes the tables of packed calls over segments, and runs the calls. See packed.h. The
// trainer adds the calls of its schedule; comm.c runs them.
#include "comm/packed.h"

#include "base/alloc.h"
#include "base/size.h"
#include "comm/comm_private.h"
#include "device/kernels.h"

#include <stdlib.h>
#include <string.h>

// A block of elements of any type starts at a multiple of 256 bytes.
enum { BLOCK_ALIGN = 128 };

// Entries of a table for one launch.
typedef struct packed_run {
    int64_t first, segments; // entries
    int64_t count;           // elements
} packed_run;

// The tables for calls that differ in the element type and the stream only.
typedef struct packed_list {
    uint64_t hash;
    comm_call call; // its segments are owned
    int rank, size;
    int64_t block; // elements of a block
    packed_run pack, unpack;
} packed_list;

struct comm_packing {
    packed_list *list; // [count]
    size_t count, room;
    int64_t entries;             // of all tables
    size_t need[STREAMS];        // bytes of a workspace
    const kernel_segment *table; // [entries] device memory
    void *workspace[STREAMS];
    size_t bytes[STREAMS]; // of a workspace that the caller has given
};

status comm_packing_open(comm_packing **out, err *e)
{
    return alloc_zeroed(out, 1, sizeof **out, "packed segments", e);
}

void comm_packing_close(comm_packing *x)
{
    if (!x) return;
    for (size_t i = 0; i < x->count; i++) free((comm_segment *)x->list[i].call.segment);
    free(x->list);
    free(x);
}

static bool gathers(const comm_call *call)
{
    return call->kind == CALL_ALL_GATHER;
}

// ---- Tables

static int64_t largest_shard(const comm_segment *s)
{
    return size_min(s->count, s->shard_count);
}

static int64_t block_of(const comm_segment *s, int segments)
{
    int64_t elements = 0;
    for (int i = 0; i < segments; i++) elements += largest_shard(&s[i]);
    return (int64_t)size_align((uint64_t)elements, BLOCK_ALIGN);
}

// Adds an entry for each segment of which rank r has elements. In the arrays of the call they lie in
// `shard` or at their offsets in `full`, in the workspace in block r. `to` NULL: entries are counted.
static void add_block(packed_run *run, const packed_list *l, int r, bool in_shard, bool packs,
                      kernel_segment *to)
{
    int64_t place = l->block * r;
    for (int i = 0; i < l->call.segments; i++) {
        const comm_segment *s = &l->call.segment[i];
        int64_t first;
        const int64_t count = comm_segment_shard(s, r, &first);
        const int64_t outside = in_shard ? s->shard_offset : s->full_offset + first;
        if (count > 0) {
            if (to)
                to[run->first + run->segments] = (kernel_segment){
                    .count = count, .src = packs ? outside : place, .dst = packs ? place : outside};
            run->segments++;
            run->count += count;
        }
        place += largest_shard(s);
    }
}

// In place, the all_gather of this rank's own shards has nothing to unpack.
static void add_all_blocks(packed_run *run, const packed_list *l, bool packs, kernel_segment *to)
{
    for (int r = 0; r < l->size; r++)
        if (packs || !l->call.in_place || r != l->rank) add_block(run, l, r, false, packs, to);
}

// Makes the tables of a list from entry `first` on; `to` NULL: counts them. Returns the entry after
// them.
static int64_t make_tables(packed_list *l, int64_t first, kernel_segment *to)
{
    const int own = l->rank;
    l->pack = (packed_run){.first = first};
    if (gathers(&l->call))
        add_block(&l->pack, l, own, !l->call.in_place, true, to);
    else
        add_all_blocks(&l->pack, l, true, to);
    l->unpack = (packed_run){.first = first + l->pack.segments};
    if (gathers(&l->call))
        add_all_blocks(&l->unpack, l, false, to);
    else
        add_block(&l->unpack, l, own, !l->call.in_place, false, to);
    return l->unpack.first + l->unpack.segments;
}

static bool same_segments(const comm_segment *a, const comm_segment *b, int segments)
{
    for (int i = 0; i < segments; i++)
        if (a[i].full_offset != b[i].full_offset || a[i].shard_offset != b[i].shard_offset ||
            a[i].count != b[i].count || a[i].shard_count != b[i].shard_count ||
            a[i].reversed != b[i].reversed)
            return false;
    return true;
}

// The list is found by its contents: where the caller's list has changed, there is no table for it.
static const packed_list *find(const comm_packing *x, const comm_call *c, int rank, int size)
{
    const uint64_t hash = comm_segments_hash(c->segment, c->segments);
    for (size_t i = 0; i < x->count; i++) {
        const packed_list *l = &x->list[i];
        if (l->hash == hash && l->call.segments == c->segments && l->rank == rank &&
            l->size == size && l->call.kind == c->kind && l->call.in_place == c->in_place &&
            same_segments(l->call.segment, c->segment, c->segments))
            return l;
    }
    return NULL;
}

static status check_type(dtype t, err *e)
{
    if (t == F32 || t == BF16 || t == F16) return OK;
    return err_set(e, E_INTERNAL, "packed segments of %s: valid are fp32, bf16 and fp16",
                   dtype_name(t));
}

static size_t workspace_bytes(const packed_list *l, dtype t)
{
    return (size_t)l->block * (size_t)l->size * dtype_bytes(t);
}

static status new_list(comm_packing *x, const comm_packed_call *c, err *e)
{
    status result = OK;
    const comm_call *call = &c->call;
    comm_segment *own = NULL;
    TRY(alloc_grow(&x->list, &x->room, x->count + 1, sizeof *x->list, "packed segments", e));
    TRY(alloc_array(&own, (size_t)call->segments, sizeof *own, "packed segments", e));
    memcpy(own, call->segment, (size_t)call->segments * sizeof *own);
    packed_list *l = &x->list[x->count++];
    *l = (packed_list){.hash = comm_segments_hash(own, call->segments),
                       .call = *call,
                       .rank = c->rank,
                       .size = c->size,
                       .block = block_of(own, call->segments)};
    l->call.segment = own;
    x->entries = make_tables(l, x->entries, NULL);
done:
    return result;
}

status comm_packing_add(comm_packing *x, const comm_packed_call *c, err *e)
{
    status result = OK;
    const comm_call *call = &c->call;
    if (call->segments == 0) return OK;
    TRY(check_type(call->type, e));
    if (!find(x, call, c->rank, c->size)) TRY(new_list(x, c, e));
    x->need[c->stream] =
        size_max(x->need[c->stream], workspace_bytes(find(x, call, c->rank, c->size), call->type));
done:
    return result;
}

size_t comm_packing_table_bytes(const comm_packing *x)
{
    return (size_t)x->entries * sizeof *x->table;
}

size_t comm_packing_workspace_bytes(const comm_packing *x, device_stream_kind k)
{
    return x->need[k];
}

status comm_packing_start(comm_packing *x, kernel_segment *table, kernel_segment *host,
                          void *const workspace[STREAMS], const size_t bytes[STREAMS],
                          device_stream *on, err *e)
{
    int64_t entries = 0;
    memset(host, 0, comm_packing_table_bytes(x));
    for (size_t i = 0; i < x->count; i++) entries = make_tables(&x->list[i], entries, host);
    x->table = table;
    memcpy(x->workspace, workspace, sizeof x->workspace);
    memcpy(x->bytes, bytes, sizeof x->bytes);
    on->device->ops->copy(on, table, host, comm_packing_table_bytes(x));
    return on->device->ops->sync(on, e);
}

// ---- Calls

// What a call needs that has been prepared.
typedef struct packed_ready {
    const comm_packing *packing;
    const packed_list *list;
    char *workspace; // [size, block]
    char *own;       // this rank's block
} packed_ready;

static status prepare(const comm *c, const comm_call *call, device_stream_kind k, packed_ready *out,
                      err *e)
{
    status result = OK;
    const comm_packing *x = c->packing;
    const char *name = comm_call_row_of(call->kind)->name, *label = c->label ? c->label : "a group";
    TRY(check_type(call->type, e));
    const packed_list *l = x ? find(x, call, c->rank, c->size) : NULL;
    if (!l)
        FAIL(E_INTERNAL, "%s of %d segments over %s: no segment table was prepared for this list",
             name, call->segments, label);
    const size_t need = workspace_bytes(l, call->type);
    if (need > x->bytes[k])
        FAIL(E_INTERNAL, "%s of %d segments over %s: the workspace has %zu bytes; it needs %zu",
             name, call->segments, label, x->bytes[k], need);
    char *workspace = x->workspace[k];
    *out = (packed_ready){x, l, workspace,
                          workspace + (size_t)l->block * (size_t)c->rank * dtype_bytes(call->type)};
done:
    return result;
}

static void run_table(const packed_ready *x, const packed_run *run, const void *src, void *dst,
                      dtype t, device_stream *on)
{
    kernel_call c = {.kind = K_CONVERT};
    c.u.convert = (kernel_convert_args){.count = run->count,
                                        .src = src,
                                        .dst = dst,
                                        .src_type = t,
                                        .dst_type = t,
                                        .segment = x->packing->table + run->first,
                                        .segments = run->segments};
    if (run->count > 0) device_launch(on, &c);
}

status packed_issue(comm *c, const comm_call *call, device_stream *on, err *e)
{
    status result = OK;
    packed_ready x = {.list = NULL};
    if (call->segments == 0) return OK;
    TRY(prepare(c, call, on->kind, &x, e));
    const bool all = gathers(call);
    const comm_call packed = {.kind = call->kind,
                              .type = call->type,
                              .op = call->op,
                              .count = (size_t)x.list->block,
                              .in = all ? x.own : x.workspace,
                              .out = all ? x.workspace : x.own,
                              .visit = call->visit};
    run_table(&x, &x.list->pack, call->in, x.workspace, call->type, on);
    TRY(comm_issue_part(c, &packed, on, e));
    run_table(&x, &x.list->unpack, x.workspace, call->out, call->type, on);
done:
    return result;
}
