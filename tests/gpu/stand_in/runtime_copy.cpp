// runtime_copy.cc -- copies and memsets of the CUDA runtime's stand-in. A copy is checked when it is issued
// and again when it runs. From a copy from pinned memory on, the host must leave the source alone; from a
// copy to pinned memory on, the target holds poison until the copy runs.
#include "runtime_state.h"

#include <string.h>

namespace stand_in
{

static uint64_t hash_bytes(const char *p, size_t bytes)
{
    uint64_t h = 0x2545f4914f6cdd1du ^ bytes;
    for (; bytes >= 8; p += 8, bytes -= 8) {
        uint64_t v;
        memcpy(&v, p, 8);
        h = (h ^ v) * 0x9e3779b97f4a7c15u;
        h ^= h >> 32;
    }
    for (; bytes; p++, bytes--) h = (h ^ (unsigned char)*p) * 0x9e3779b97f4a7c15u;
    return h | 1;
}

static bool overlap(const void *a, size_t a_bytes, const void *b, size_t b_bytes)
{
    return (const char *)a < (const char *)b + b_bytes &&
           (const char *)b < (const char *)a + a_bytes;
}

// True if `o` may write the range (or, with reads, read it). Kernels know only mapped memory.
static bool uses(const op &o, const void *p, size_t bytes, bool reads)
{
    switch (o.kind) {
    case op_kind::COPY:
        return reads ? overlap(o.src, o.bytes, p, bytes) : overlap(o.dst, o.bytes, p, bytes);
    case op_kind::SET:
        return !reads && overlap(o.dst, o.bytes, p, bytes);
    case op_kind::HOST:
        return true;
    case op_kind::GRAPH:
        for (const graph_node &n : *o.run->nodes)
            if (uses(n.op, p, bytes, reads)) return true;
        return false;
    default:
        return false;
    }
}

static bool is_used_by_pending_work(const void *p, size_t bytes, bool reads)
{
    for (const CUstream_st *s : the().streams)
        for (const item &i : s->items)
            if (uses(i.op, p, bytes, reads)) return true;
    return false;
}

uint64_t hash_source(const op &o)
{
    if (o.kind != op_kind::COPY || !o.bytes) return 0;
    const block *b = find_block(o.src);
    if (!is_pinned(b) || b->mapped) return 0;
    if (is_used_by_pending_work(o.src, o.bytes, false)) return 0;
    return hash_bytes((const char *)o.src, o.bytes);
}

static void poison_target(const op &o)
{
    const block *b = find_block(o.dst);
    if (!is_pinned(b) || b->mapped || !o.bytes) return;
    if (is_used_by_pending_work(o.dst, o.bytes, true)) return;
    if (is_used_by_pending_work(o.dst, o.bytes, false)) return;
    memset(o.dst, POISON, o.bytes);
}

static bool is_on_device(const block *b)
{
    return b && b->live && (b->kind == block_kind::DEVICE || b->kind == block_kind::IMPORT);
}

// A machine that copies wrongly between its devices: one byte of each such copy changes.
static void spoil_peer_copy(const op &o, char *dst)
{
    const block *from = find_block(o.src), *to = find_block(o.dst);
    if (the().spoils_peers && is_on_device(from) && is_on_device(to) && from->device != to->device)
        dst[o.bytes / 2] ^= 1;
}

void run_copy(const op &o, uint64_t source_hash)
{
    if (!o.bytes) return;
    char *dst = usable(o.call, o.dst, o.bytes);
    const char *src = usable(o.call, o.src, o.bytes);
    if (source_hash && hash_bytes(src, o.bytes) != source_hash)
        stand_in_die(
            "%s: the host wrote to the source of the copy, %zu bytes at %p, before the copy "
            "ran",
            o.call, o.bytes, o.src);
    memcpy(dst, src, o.bytes);
    spoil_peer_copy(o, dst);
}

void run_set(const op &o)
{
    if (o.bytes) memset(usable(o.call, o.dst, o.bytes), (int)o.value, o.bytes);
}

// Whether the kind of the copy says the truth about the addresses. cudaMemcpyDefault does.
static bool is_direction(cudaMemcpyKind kind, bool from_device, bool to_device)
{
    switch (kind) {
    case cudaMemcpyHostToHost:
        return !from_device && !to_device;
    case cudaMemcpyHostToDevice:
        return !from_device && to_device;
    case cudaMemcpyDeviceToHost:
        return from_device && !to_device;
    case cudaMemcpyDeviceToDevice:
        return from_device && to_device;
    default:
        return true;
    }
}

static cudaError_t check_copy(const op &o, cudaMemcpyKind kind)
{
    if ((unsigned)kind > cudaMemcpyDefault) return cudaErrorInvalidMemcpyDirection;
    usable(o.call, o.dst, o.bytes);
    usable(o.call, o.src, o.bytes);
    if (!is_direction(kind, is_on_device(find_block(o.src)), is_on_device(find_block(o.dst))))
        return cudaErrorInvalidValue;
    if (overlap(o.dst, o.bytes, o.src, o.bytes))
        stand_in_die("%s: source and target overlap: %zu bytes from %p to %p", o.call, o.bytes,
                     o.src, o.dst);
    return cudaSuccess;
}

static void check_not_pageable(const op &o, const void *p)
{
    if (!find_block(p))
        stand_in_die("%s: %p is pageable memory of the host; CUDA would not copy %zu bytes "
                     "asynchronously",
                     o.call, p, o.bytes);
}

static op copy_op(const char *call, void *dst, const void *src, size_t bytes)
{
    op o = {};
    o.kind = op_kind::COPY;
    o.call = call;
    o.dst = dst;
    o.src = src;
    o.bytes = bytes;
    return o;
}

static cudaError_t copy_async(guard &g, const op &checked, cudaMemcpyKind kind, cudaStream_t stream)
{
    cudaError_t error;
    op o = checked;
    CUstream_st *s = stream_of(stream, &error);
    if (!s) return error;
    if (!o.bytes) return cudaSuccess;
    if ((error = check_copy(o, kind))) return error;
    check_not_pageable(o, o.src);
    check_not_pageable(o, o.dst);
    if (!s->capture) {
        o.source_hash = hash_source(o);
        poison_target(o);
    }
    return issue(g, s, o);
}

// The blocking calls use the legacy stream.
static cudaError_t run_blocking(guard &g, const op &o)
{
    if (cudaError_t error = check_unsafe_call()) return error;
    CUstream_st *s = null_stream(current_device());
    if (cudaError_t error = issue(g, s, o)) return error;
    await(g, {{s, s->issued}});
    return cudaSuccess;
}

static op set_op(const char *call, void *dst, int value, size_t bytes)
{
    op o = {};
    o.kind = op_kind::SET;
    o.call = call;
    o.dst = dst;
    o.value = (uint32_t)value;
    o.bytes = bytes;
    return o;
}

static cudaError_t check_set(const op &o)
{
    usable(o.call, o.dst, o.bytes);
    return find_block(o.dst) ? cudaSuccess : cudaErrorInvalidValue;
}

} // namespace stand_in

using namespace stand_in;

#define ENTER                                                                                      \
    guard g(the().mutex);                                                                          \
    cudaError_t error;                                                                             \
    if (!begin(&error)) return report(error)

extern "C" {

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    ENTER;
    return report(copy_async(g, copy_op("cudaMemcpyAsync", dst, src, bytes), kind, stream));
}

cudaError_t cudaMemcpyPeerAsync(void *dst, int dst_device, const void *src, int src_device,
                                size_t bytes, cudaStream_t stream)
{
    ENTER;
    const int count = (int)the().devices.size();
    if (dst_device < 0 || dst_device >= count || src_device < 0 || src_device >= count)
        return report(cudaErrorInvalidDevice);
    const block *to = find_block(dst), *from = find_block(src);
    if (bytes && (!is_on_device(to) || !is_on_device(from) || to->device != dst_device ||
                  from->device != src_device))
        return report(cudaErrorInvalidValue);
    return report(copy_async(g, copy_op("cudaMemcpyPeerAsync", dst, src, bytes),
                             cudaMemcpyDeviceToDevice, stream));
}

cudaError_t cudaMemcpy(void *dst, const void *src, size_t bytes, cudaMemcpyKind kind)
{
    ENTER;
    if (!bytes) return cudaSuccess;
    const op o = copy_op("cudaMemcpy", dst, src, bytes);
    if ((error = check_copy(o, kind))) return report(error);
    return report(run_blocking(g, o));
}

cudaError_t cudaMemsetAsync(void *dst, int value, size_t bytes, cudaStream_t stream)
{
    ENTER;
    CUstream_st *s = stream_of(stream, &error);
    if (!s) return report(error);
    if (!bytes) return cudaSuccess;
    const op o = set_op("cudaMemsetAsync", dst, value, bytes);
    if ((error = check_set(o))) return report(error);
    return report(issue(g, s, o));
}

cudaError_t cudaMemset(void *dst, int value, size_t bytes)
{
    ENTER;
    if (!bytes) return cudaSuccess;
    const op o = set_op("cudaMemset", dst, value, bytes);
    if ((error = check_set(o))) return report(error);
    return report(run_blocking(g, o));
}
}
