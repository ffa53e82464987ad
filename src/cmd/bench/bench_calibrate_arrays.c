// bench_calibrate_arrays.c -- see bench_calibrate_arrays.h. Called by bench_calibrate_calls.c.
#include "cmd/bench/bench_calibrate_arrays.h"

#include "base/alloc.h"
#include "base/size.h"

#include <stdlib.h>

enum { FIGURE_BYTES = 256 };

static const size_t SIZES[BENCH_CALLS_SIZES] = {8,        64,      1 << 10, 8 << 10,
                                                64 << 10, 1 << 20, 8 << 20, BENCH_CALLS_MOST};

// Every rank has as much of each segment, so that the payload is the array.
static void fill(bench_calls_array *a, size_t bytes, size_t ranks)
{
    const size_t elements = bytes / dtype_bytes(F32), shard = elements / ranks;
    *a = (bench_calls_array){.type = F64, .bytes = bytes, .count = bytes / dtype_bytes(F64)};
    if (shard == 0) return;
    a->segments = (int)size_min(BENCH_SEGMENTS, shard);
    const size_t each = shard / (size_t)a->segments;
    a->type = F32;
    a->shard = each * (size_t)a->segments;
    a->count = a->shard * ranks;
    a->bytes = a->count * dtype_bytes(F32);
    for (int i = 0; i < a->segments; i++)
        a->segment[i] = (comm_segment){.full_offset = (int64_t)(each * ranks) * i,
                                       .shard_offset = (int64_t)each * i,
                                       .count = (int64_t)(each * ranks),
                                       .shard_count = (int64_t)each};
}

static status open_memory(const bench_calls *x, bench_arrays *a, err *e)
{
    status result = OK;
    const size_t each = size_align(x->most_bytes, DEVICE_ALIGN);
    a->block_bytes = 2 * each + FIGURE_BYTES;
    TRY(comm_alloc(x->comm, x->device, a->block_bytes, &a->block, e));
    a->memory = a->block;
    a->other = a->memory + each;
    a->figures = a->other + each;
    for (int i = 0; i < BENCH_CALLS_SIZES && SIZES[i] <= x->most_bytes; i++)
        fill(&a->array[a->sizes++], SIZES[i], (size_t)x->comm->size);
done:
    return result;
}

static status add_calls(const bench_calls *x, const bench_calls_array *a, comm_packing *to, err *e)
{
    status result = OK;
    static const comm_call_kind kinds[] = {CALL_REDUCE_SCATTER, CALL_ALL_GATHER};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds && a->segments; k++) {
        const comm_packed_call c = {.call = {.kind = kinds[k],
                                             .type = a->type,
                                             .segment = a->segment,
                                             .segments = a->segments,
                                             .in_place = true},
                                    .rank = x->comm->rank,
                                    .size = x->comm->size,
                                    .stream = STREAM_COMM};
        TRY(comm_packing_add(to, &c, e));
    }
done:
    return result;
}

static status open_packing(const bench_calls *x, device_stream *on, bench_arrays *a, err *e)
{
    status result = OK;
    kernel_segment *host = NULL;
    TRY(comm_packing_open(&a->packing, e));
    for (int i = 0; i < a->sizes; i++) TRY(add_calls(x, &a->array[i], a->packing, e));
    a->table_bytes = comm_packing_table_bytes(a->packing);
    a->workspace_bytes = comm_packing_workspace_bytes(a->packing, STREAM_COMM);
    if (a->table_bytes == 0) goto done;
    TRY(alloc_array(&host, a->table_bytes, 1, "a table of segments", e));
    TRY(device_alloc(x->device, MEMORY_DEVICE, a->table_bytes, &a->table, e));
    TRY(comm_alloc(x->comm, x->device, a->workspace_bytes, &a->workspace, e));
    void *workspace[STREAMS] = {[STREAM_COMM] = a->workspace};
    const size_t bytes[STREAMS] = {[STREAM_COMM] = a->workspace_bytes};
    TRY(comm_packing_start(a->packing, a->table, host, workspace, bytes, on, e));
    comm_set_packing(x->comm, a->packing);
done:
    free(host);
    return result;
}

status bench_arrays_open(const bench_calls *x, device_stream *on, bench_arrays *out, err *e)
{
    status result = OK;
    *out = (bench_arrays){.sizes = 0};
    TRY(open_memory(x, out, e));
    if (x->comm->can.needs_workspace) TRY(open_packing(x, on, out, e));
    TRY(comm_share(x->comm, e));
done:
    return result;
}

void bench_arrays_close(const bench_calls *x, bench_arrays *a)
{
    if (a->packing) comm_set_packing(x->comm, NULL);
    comm_packing_close(a->packing);
    if (a->workspace) comm_release(x->comm, x->device, a->workspace, a->workspace_bytes);
    if (a->table) device_release(x->device, MEMORY_DEVICE, a->table, a->table_bytes);
    if (a->block) comm_release(x->comm, x->device, a->block, a->block_bytes);
}
