// tape_nccl.c -- see tape_nccl.h. It calls NCCL through the cuda device, as the communicator nccl does.
#include "tape_nccl.h"

#include "device/collectives.h"
#include "device/cuda/libraries/cuda_nccl_abi.h"
#include "device/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 1000, BYTES = COUNT * 8 };

struct tape_nccl {
    device *device;
    const device_collectives *library;
    device_stream *stream;
    device_clique *clique;
    void *in, *out; // of the device
};

static status settle(const tape_nccl *n, err *e)
{
    status result = OK;
    for (bool done = false; result == OK && !done;) result = n->library->poll(n->clique, &done, e);
    return result;
}

static status open_all(tape_nccl *n, err *e)
{
    status result = OK;
    device_clique_id id;
    int version;
    TRY(device_open("cuda", NULL, &n->device, e));
    n->library = n->device->ops->collectives;
    TRY(n->library->open(n->device, &version, e));
    TRY(n->library->make_id(n->device, &id, e));
    TRY(n->library->join(n->device, &id, 0, 1, &n->clique, e));
    TRY(settle(n, e));
    TRY(n->device->ops->stream_open(n->device, STREAM_COMM, false, &n->stream, e));
    TRY(device_alloc(n->device, MEMORY_DEVICE, BYTES, &n->in, e));
    TRY(device_alloc(n->device, MEMORY_DEVICE, BYTES, &n->out, e));
done:
    return result;
}

void tape_nccl_close(tape_nccl *n)
{
    if (!n) return;
    if (n->stream) n->device->ops->stream_close(n->stream);
    if (n->clique) n->library->close(n->clique);
    if (n->device) {
        device_release(n->device, MEMORY_DEVICE, n->in, BYTES);
        device_release(n->device, MEMORY_DEVICE, n->out, BYTES);
    }
    device_close(n->device);
    free(n);
}

static bool find_type(unsigned code, dtype *out)
{
    static const ncclDataType_t codes[] = {
        [F32] = ncclFloat32, [BF16] = ncclBfloat16, [F16] = ncclFloat16,
        [F64] = ncclFloat64, [I64] = ncclInt64,     [U8] = ncclUint8};
    for (dtype t = F32; t <= U8; t++)
        if (t != I32 && (unsigned)codes[t] == code) {
            *out = t;
            return true;
        }
    return false;
}

static status issue(const tape_nccl *n, unsigned call, const device_collective *x, err *e)
{
    const device_collectives *l = n->library;
    const size_t bytes = x->count * dtype_bytes(x->type);
    const device_message m[2] = {{.buf = n->in, .bytes = bytes},
                                 {.buf = n->out, .bytes = bytes, .receives = true}};
    switch (call) {
    case 0:
        return l->all_reduce(n->clique, x, n->stream, e);
    case 1:
        return l->reduce_scatter(n->clique, x, n->stream, e);
    case 2:
        return l->all_gather(n->clique, x, n->stream, e);
    case 3:
        return l->broadcast(n->clique, x, n->stream, e);
    default:
        return l->exchange(n->clique, m, 2, n->stream, e);
    }
}

status tape_nccl_replay(tape_nccl **n, const char *line, err *e)
{
    status result = OK;
    unsigned call, type, op;
    int in_place;
    char given[BYTES], got[BYTES];
    device_collective x = {.count = COUNT};
    if (sscanf(line, "nccl call=%u type=%u op=%u in_place=%d", &call, &type, &op, &in_place) != 4 ||
        call > 4 || !find_type(type, &x.type))
        FAIL(E_INTERNAL, "a line of NCCL cannot be read");
    if (!*n) {
        *n = calloc(1, sizeof **n);
        if (!*n) FAIL(E_MEMORY, "no memory");
        TRY(open_all(*n, e));
    }
    x.in = (*n)->in;
    x.out = in_place ? (*n)->in : (*n)->out;
    x.op = op == ncclMax ? REDUCE_MAX : op == ncclMin ? REDUCE_MIN : REDUCE_SUM;
    const size_t bytes = COUNT * dtype_bytes(x.type);
    for (size_t i = 0; i < bytes; i++) given[i] = (char)(i % 61);
    TRY(device_upload((*n)->stream, (*n)->in, given, bytes, e));
    TRY(issue(*n, call, &x, e));
    TRY(settle(*n, e));
    TRY(device_download((*n)->stream, got, x.out, bytes, e));
    if (memcmp(got, given, bytes) != 0) FAIL(E_INTERNAL, "NCCL gives other numbers");
done:
    return result;
}
