// runtime_memory.cc -- device memory of the CUDA runtime's stand-in. Each device has a range of addresses
// that is mapped twice from one file: at the addresses that cudaMalloc gives, which only running work may
// use, and at an alias for the stand-in itself. An allocation ends at a page that is never accessible.
// Addresses are not used again before the whole range was.
#include "runtime_state.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

namespace stand_in
{

static const size_t RANGE = (size_t)1 << 36; // addresses of a device; they cost no memory

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

static bool open_pool(pool &p)
{
    if (p.base) return true;
    p.fd = memfd_create("stand-in device memory", MFD_CLOEXEC);
    if (p.fd < 0 || ftruncate(p.fd, (off_t)RANGE) != 0) return false;
    void *base = mmap(nullptr, RANGE, PROT_NONE, MAP_SHARED | MAP_NORESERVE, p.fd, 0);
    void *alias = mmap(nullptr, RANGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, p.fd, 0);
    if (base == MAP_FAILED || alias == MAP_FAILED) return false;
    // A dump of the process would hold the ranges.
    madvise(base, RANGE, MADV_DONTDUMP);
    madvise(alias, RANGE, MADV_DONTDUMP);
    p.base = (char *)base;
    p.alias = (char *)alias;
    return true;
}

uint64_t next_random()
{
    uint64_t z = the().random += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

block *find_block(const void *ptr)
{
    auto after = the().blocks.upper_bound((uintptr_t)ptr);
    if (after == the().blocks.begin()) return nullptr;
    block &b = std::prev(after)->second;
    return (const char *)ptr < b.pages + b.page_bytes ? &b : nullptr;
}

void add_block(const block &b)
{
    process &p = the();
    block &own = p.blocks[(uintptr_t)b.pages] = b;
    p.usable.push_back(&own);
    p.blocks_now++;
}

void end_block(block &b)
{
    b.live = false;
    std::erase(the().usable, &b);
    the().blocks_now++;
}

cudaError_t add_device_block(int index, size_t bytes, void **out)
{
    device &d = the().devices[index];
    const size_t payload = round_up(bytes, ALIGN), pages = round_up(payload, PAGE);
    if (payload < bytes || pages < payload || payload > the().limit - d.used)
        return cudaErrorMemoryAllocation;
    if (!open_pool(d.pool)) return cudaErrorMemoryAllocation;
    if (pages + 2 * PAGE > RANGE - d.pool.used)
        stand_in_die("cudaMalloc: the device has no addresses left, after %zu bytes", d.pool.used);
    const size_t offset = d.pool.used; // of the shared page; then the pages; then a page for nobody
    block b = {};
    b.kind = block_kind::DEVICE;
    b.bytes = bytes;
    b.pages = d.pool.base + offset + PAGE;
    b.page_bytes = pages;
    b.start = b.pages + pages - payload;
    b.alias = d.pool.alias + (b.start - d.pool.base);
    b.device = index;
    b.live = true;
    b.offset = offset;
    b.shared = (shared_page *)(d.pool.alias + offset);
    memset(d.pool.alias + offset + PAGE, POISON, pages);
    b.shared->id = next_random() ^ (uint64_t)now_ns() << 20 ^ (uint64_t)getpid();
    b.shared->bytes = bytes;
    b.shared->start = offset + PAGE + pages - payload;
    d.pool.used += pages + 2 * PAGE;
    d.used += payload;
    add_block(b);
    *out = b.start;
    return cudaSuccess;
}

// The bytes of the pages beside the allocation still hold poison.
static void check_margins(const char *call, const block &b)
{
    const char *pages = b.alias - (b.start - b.pages);
    for (size_t i = 0; i < b.page_bytes; i++) {
        const char *p = pages + i;
        if (p == b.alias) i += b.bytes, p += b.bytes;
        if (i >= b.page_bytes) break;
        if ((unsigned char)*p != POISON)
            stand_in_die("%s: byte %td of an allocation of %zu bytes was written", call,
                         p - b.alias, b.bytes);
    }
}

// False for a process that has ended, also while its parent has not asked for its status.
static bool is_running(int32_t pid)
{
    char path[32], text[512] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *f = fopen(path, "r");
    if (!f) return false;
    const size_t bytes = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    const char *name_end = bytes ? strrchr(text, ')') : nullptr; // then a space, and the state
    return name_end && name_end[1] && name_end[2] != 'Z' && name_end[2] != 'X';
}

static cudaError_t free_device_block(block &b)
{
    check_margins("cudaFree", b);
    for (int32_t pid : b.shared->openers)
        if (pid && is_running(pid))
            stand_in_die("cudaFree: process %d has the allocation of %zu bytes open by "
                         "cudaIpcOpenMemHandle",
                         pid, b.bytes);
    end_block(b);
    b.shared->freed = 1;
    device &d = the().devices[b.device];
    d.used -= round_up(b.bytes, ALIGN);
    mprotect(b.pages, b.page_bytes, PROT_NONE);
    // The page in front stays: a process that still has the handle reads there that it is too late.
    fallocate(d.pool.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)(b.offset + PAGE),
              (off_t)b.page_bytes);
    return cudaSuccess;
}

bool is_visible_to(const block &b, int index)
{
    if (!b.live) return false;
    if (b.kind == block_kind::PINNED || b.kind == block_kind::REGISTERED) return true;
    return b.device == index ||
           (b.kind == block_kind::DEVICE && the().devices[index].peers.count(b.device));
}

static const char *kind_name(const block &b)
{
    return b.kind == block_kind::DEVICE   ? "device memory"
           : b.kind == block_kind::IMPORT ? "memory of another process"
                                          : "pinned memory";
}

char *usable(const char *call, const void *ptr, size_t bytes)
{
    const block *b = find_block(ptr);
    if (!b) {
        for (const device &d : the().devices)
            if (d.pool.base && (const char *)ptr >= d.pool.base &&
                (const char *)ptr < d.pool.base + RANGE)
                stand_in_die("%s: %p is no address of an allocation", call, ptr);
        return (char *)ptr;
    }
    const ptrdiff_t offset = (const char *)ptr - b->start;
    if (!b->live)
        stand_in_die("%s: %p lies in an allocation of %zu bytes of %s that was freed", call, ptr,
                     b->bytes, kind_name(*b));
    if (offset < 0 || (size_t)offset > b->bytes || bytes > b->bytes - (size_t)offset)
        stand_in_die("%s: bytes %td to %td of an allocation of %zu bytes of %s", call, offset,
                     offset + (ptrdiff_t)bytes, b->bytes, kind_name(*b));
    return b->alias + offset;
}

} // namespace stand_in

using namespace stand_in;

extern "C" {

uint64_t stand_in_random(void)
{
    guard g(the().mutex);
    cudaError_t ignored;
    begin(&ignored);
    return next_random();
}

void stand_in_check_range(const char *what, const void *p, size_t bytes)
{
    guard g(the().mutex);
    usable(what, p, bytes);
    const block *b = find_block(p);
    const int index = the().open_for >= 0 && running_name() ? the().open_for : current_device();
    if (!b) stand_in_die("%s: %p is pageable memory of the host", what, p);
    if (!is_visible_to(*b, index))
        stand_in_die("%s: %p is memory of device %d, to which device %d has no access", what, p,
                     b->device, index);
}

cudaError_t cudaMalloc(void **out, size_t bytes)
{
    guard g(the().mutex);
    cudaError_t error;
    if (!begin(&error)) return report(error);
    if (!out) return report(cudaErrorInvalidValue);
    if ((error = check_unsafe_call())) return report(error);
    *out = nullptr;
    if (!bytes) return cudaSuccess;
    stand_in_watch_faults();
    return report(add_device_block(current_device(), bytes, out));
}

cudaError_t cudaFree(void *p)
{
    guard g(the().mutex);
    cudaError_t error;
    if (!begin(&error)) return report(error);
    if (!p) return cudaSuccess;
    if ((error = check_unsafe_call())) return report(error);
    block *b = find_block(p);
    if (!b || !b->live || b->kind != block_kind::DEVICE || b->start != p)
        return report(cudaErrorInvalidValue);
    return report(free_device_block(*b));
}

cudaError_t cudaMemGetInfo(size_t *free, size_t *total)
{
    guard g(the().mutex);
    cudaError_t error;
    if (!begin(&error)) return report(error);
    if (!free || !total) return report(cudaErrorInvalidValue);
    *total = the().limit;
    *free = the().limit - the().devices[current_device()].used;
    return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *out, const void *p)
{
    guard g(the().mutex);
    cudaError_t error;
    if (!begin(&error)) return report(error);
    if (!out) return report(cudaErrorInvalidValue);
    const block *b = find_block(p);
    *out = cudaPointerAttributes();
    if (!b || !b->live) {
        out->type = cudaMemoryTypeUnregistered;
        out->device = -2; // cudaInvalidDeviceId
        out->hostPointer = (void *)p;
        return cudaSuccess;
    }
    out->device = b->device;
    out->devicePointer = (void *)p;
    out->type = is_pinned(b) ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
    if (is_pinned(b)) out->hostPointer = (void *)p;
    return cudaSuccess;
}
}
