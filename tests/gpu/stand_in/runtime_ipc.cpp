// runtime_ipc.cc -- device memory of another process in the CUDA runtime's stand-in. A handle names the file of
// the other process's device, which is found in /proc, and a page of it that says what the allocation is.
#include "runtime_state.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

namespace stand_in
{

struct handle {
    uint32_t magic;
    int32_t pid, fd;
    uint64_t offset, page_bytes, id; // of the shared page; without it; as in the shared page
};
static_assert(sizeof(handle) <= CUDA_IPC_HANDLE_SIZE, "a handle has its size");

static const uint32_t MAGIC = 0x57a4d1d0;

static cudaError_t fill_handle(cudaIpcMemHandle_t *out, const void *p)
{
    const block *b = find_block(p);
    if (!b || !b->live || b->kind != block_kind::DEVICE) return cudaErrorInvalidValue;
    // CUDA gives the handle of the whole allocation, and the reader gets another address than he thinks.
    if (b->start != p)
        stand_in_die("cudaIpcGetMemHandle: %p is byte %td of an allocation; only its base has a "
                     "handle",
                     p, (const char *)p - b->start);
    const handle h = {MAGIC,     the().pid,     the().devices[b->device].pool.fd,
                      b->offset, b->page_bytes, b->shared->id};
    memset(out, 0, sizeof *out);
    memcpy(out, &h, sizeof h);
    return cudaSuccess;
}

static int open_file(const handle &h)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", h.pid, h.fd);
    return open(path, O_RDWR | O_CLOEXEC);
}

static bool add_opener(shared_page *page)
{
    for (int32_t &place : page->openers) {
        int32_t nobody = 0;
        const int32_t pid = __atomic_load_n(&place, __ATOMIC_ACQUIRE);
        if (pid && kill(pid, 0) != 0 && errno == ESRCH) // it ended without a close
            __atomic_compare_exchange_n(&place, (int32_t *)&pid, 0, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE);
        if (__atomic_compare_exchange_n(&place, &nobody, the().pid, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE))
            return true;
    }
    return false;
}

static void remove_opener(shared_page *page)
{
    for (int32_t &place : page->openers) {
        int32_t own = the().pid;
        if (__atomic_compare_exchange_n(&place, &own, 0, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            return;
    }
}

// Maps the allocation at an address for running work, and at its alias.
static cudaError_t map_block(const handle &h, int fd, void **out)
{
    const size_t bytes = h.page_bytes + PAGE;
    char *alias =
        (char *)mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)h.offset);
    if (alias == MAP_FAILED) return cudaErrorMapBufferObjectFailed;
    shared_page *page = (shared_page *)alias;
    char *pages = (char *)MAP_FAILED;
    if (page->id == h.id && !page->freed) {
        // One page more at both ends, for nobody.
        pages = (char *)mmap(nullptr, bytes + PAGE, PROT_NONE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (pages != MAP_FAILED)
            pages = (char *)mmap(pages + PAGE, h.page_bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, fd,
                                 (off_t)(h.offset + PAGE));
    }
    if (pages == MAP_FAILED || !add_opener(page)) {
        munmap(alias, bytes);
        return cudaErrorMapBufferObjectFailed;
    }
    block b = {};
    b.kind = block_kind::IMPORT;
    b.bytes = page->bytes;
    b.pages = pages;
    b.page_bytes = h.page_bytes;
    b.start = pages + (page->start - h.offset - PAGE);
    b.alias = alias + (page->start - h.offset);
    b.device = current_device();
    b.live = true;
    b.opened = 1;
    b.shared = page;
    add_block(b);
    *out = b.start;
    return cudaSuccess;
}

static cudaError_t open_handle(const cudaIpcMemHandle_t &in, void **out)
{
    handle h;
    memcpy(&h, &in, sizeof h);
    if (h.magic != MAGIC) return cudaErrorInvalidValue;
    if (h.pid == the().pid) return cudaErrorDeviceUninitialized;
    for (auto &entry : the().blocks) {
        block &b = entry.second;
        if (!b.live || b.kind != block_kind::IMPORT || b.shared->id != h.id) continue;
        if (b.device != current_device()) return cudaErrorInvalidValue;
        b.opened++;
        *out = b.start;
        return cudaSuccess;
    }
    const int fd = open_file(h);
    if (fd < 0) return cudaErrorMapBufferObjectFailed; // the process has ended
    const cudaError_t error = map_block(h, fd, out);
    close(fd);
    return error;
}

static cudaError_t close_block(block &b)
{
    if (--b.opened) return cudaSuccess;
    remove_opener(b.shared);
    munmap(b.shared, b.page_bytes + PAGE);
    b.shared = nullptr;
    end_block(b);
    mmap(b.pages, b.page_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
         -1, 0);
    return cudaSuccess;
}

} // namespace stand_in

using namespace stand_in;

#define ENTER                                                                                      \
    guard g(the().mutex);                                                                          \
    cudaError_t error;                                                                             \
    if (!begin(&error)) return report(error);                                                      \
    if ((error = check_unsafe_call())) return report(error)

extern "C" {

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *out, void *p)
{
    ENTER;
    return report(out ? fill_handle(out, p) : cudaErrorInvalidValue);
}

cudaError_t cudaIpcOpenMemHandle(void **out, cudaIpcMemHandle_t in, unsigned flags)
{
    ENTER;
    if (!out || flags != cudaIpcMemLazyEnablePeerAccess) return report(cudaErrorInvalidValue);
    return report(open_handle(in, out));
}

cudaError_t cudaIpcCloseMemHandle(void *p)
{
    ENTER;
    block *b = find_block(p);
    if (!b || !b->live || b->kind != block_kind::IMPORT || b->start != p)
        return report(cudaErrorInvalidValue);
    return report(close_block(*b));
}
}
