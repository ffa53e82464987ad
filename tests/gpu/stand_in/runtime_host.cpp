// runtime_host.cc -- pinned host memory of the CUDA runtime's stand-in. Memory from cudaHostAlloc holds
// poison, ends at a page that is never accessible, and is never used again; registered memory is the
// caller's.
#include "runtime_state.h"

#include <string.h>
#include <sys/mman.h>

namespace stand_in
{

bool is_pinned(const block *b)
{
    return b && b->live && (b->kind == block_kind::PINNED || b->kind == block_kind::REGISTERED);
}

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

static cudaError_t add_pinned(size_t bytes, unsigned flags, void **out)
{
    const size_t payload = round_up(bytes, ALIGN), pages = round_up(payload, PAGE);
    char *p = (char *)mmap(nullptr, pages + 2 * PAGE, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return cudaErrorMemoryAllocation;
    if (mprotect(p + PAGE, pages, PROT_READ | PROT_WRITE) != 0) {
        munmap(p, pages + 2 * PAGE);
        return cudaErrorMemoryAllocation;
    }
    block b = {};
    b.kind = block_kind::PINNED;
    b.bytes = bytes;
    b.pages = p + PAGE;
    b.page_bytes = pages;
    b.start = b.alias = b.pages + pages - payload;
    b.device = current_device();
    b.live = true;
    b.mapped = flags & cudaHostAllocMapped;
    memset(b.pages, POISON, pages);
    the().blocks[(uintptr_t)b.pages] = b;
    *out = b.start;
    return cudaSuccess;
}

static cudaError_t check_host_call(guard &)
{
    cudaError_t error;
    if (!begin(&error)) return error;
    return check_unsafe_call();
}

// True if a live block has bytes in the range.
static bool overlaps(const char *start, size_t bytes)
{
    for (const auto &entry : the().blocks) {
        const block &b = entry.second;
        if (b.live && start < b.start + b.bytes && b.start < start + bytes) return true;
    }
    return false;
}

} // namespace stand_in

using namespace stand_in;

extern "C" {

cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned flags)
{
    guard g(the().mutex);
    if (cudaError_t error = check_host_call(g)) return report(error);
    if (!out || flags > 7) return report(cudaErrorInvalidValue);
    *out = nullptr;
    stand_in_watch_faults();
    return bytes ? report(add_pinned(bytes, flags, out)) : cudaSuccess;
}

cudaError_t cudaMallocHost(void **out, size_t bytes)
{
    return cudaHostAlloc(out, bytes, cudaHostAllocDefault);
}

cudaError_t cudaFreeHost(void *p)
{
    guard g(the().mutex);
    if (!p) return cudaSuccess;
    if (cudaError_t error = check_host_call(g)) return report(error);
    block *b = find_block(p);
    if (!b || !b->live || b->kind != block_kind::PINNED || b->start != p)
        return report(cudaErrorInvalidValue);
    for (const char *c = b->pages; c < b->pages + b->page_bytes; c++) {
        if (c == b->start) c += b->bytes;
        if (c < b->pages + b->page_bytes && (unsigned char)*c != POISON)
            stand_in_die("cudaFreeHost: byte %td of an allocation of %zu bytes was written",
                         c - b->start, b->bytes);
    }
    b->live = false;
    // The pages go back to the system; the addresses stay taken, so that a late use is a fault.
    mmap(b->pages, b->page_bytes, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    return cudaSuccess;
}

cudaError_t cudaHostRegister(void *p, size_t bytes, unsigned flags)
{
    guard g(the().mutex);
    if (cudaError_t error = check_host_call(g)) return report(error);
    if (!p || !bytes || flags > 15) return report(cudaErrorInvalidValue);
    if (overlaps((char *)p, bytes)) return report(cudaErrorHostMemoryAlreadyRegistered);
    block b = {};
    b.kind = block_kind::REGISTERED;
    b.bytes = b.page_bytes = bytes;
    b.pages = b.start = b.alias = (char *)p;
    b.device = current_device();
    b.live = true;
    b.mapped = flags & cudaHostRegisterMapped;
    the().blocks[(uintptr_t)p] = b;
    return cudaSuccess;
}

cudaError_t cudaHostUnregister(void *p)
{
    guard g(the().mutex);
    if (cudaError_t error = check_host_call(g)) return report(error);
    block *b = find_block(p);
    if (!b || !b->live || b->kind != block_kind::REGISTERED || b->start != p)
        return report(cudaErrorHostMemoryNotRegistered);
    the().blocks.erase((uintptr_t)p);
    return cudaSuccess;
}

cudaError_t cudaHostGetDevicePointer(void **out, void *p, unsigned flags)
{
    guard g(the().mutex);
    cudaError_t error;
    if (!begin(&error)) return report(error);
    block *b = find_block(p);
    if (!out || flags || !is_pinned(b)) return report(cudaErrorInvalidValue);
    b->mapped = true;
    *out = p;
    return cudaSuccess;
}
}
