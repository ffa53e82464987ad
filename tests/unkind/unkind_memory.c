// unkind_memory.c -- the pools of unkind_memory.h. Called by unkind_device.c, which locks.
#include "unkind/unkind_memory.h"

#include "base/size.h"
#include "device/device.h"
#include "unkind/unkind_fault.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4096, POISON = 0xff };

static const size_t RANGE = (size_t)1 << 34; // addresses of a pool; they cost no memory

static const char HOST_LINE[] =
    "the host, or device work, used host memory that was released, or beyond its allocation";
static const char GIVEN_LINE[] =
    "device memory was dereferenced at its address: the host must not, and device work only by a "
    "pointer in its arguments";
static const char MEMORY_LINE[] =
    "device work ran beyond an allocation of device memory, or used released memory";

static char *reserve(void)
{
    void *p = mmap(NULL, RANGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

status unkind_pool_open(unkind_pool *p, const char *name, bool is_host, size_t limit, err *e)
{
    status result = OK;
    *p = (unkind_pool){.name = name, .limit = limit ? limit : SIZE_MAX};
    p->given = reserve();
    p->memory = is_host ? p->given : reserve();
    if (!p->given || !p->memory) FAIL(E_FIT, "no addresses for %s memory", name);
    unkind_fault_watch(p->given, RANGE, is_host ? HOST_LINE : GIVEN_LINE);
    if (!is_host) unkind_fault_watch(p->memory, RANGE, MEMORY_LINE);
done:
    return result;
}

void unkind_pool_close(unkind_pool *p)
{
    unkind_fault_forget(p->given);
    unkind_fault_forget(p->memory);
    if (p->memory && p->memory != p->given) munmap(p->memory, RANGE);
    if (p->given) munmap(p->given, RANGE);
    free(p->block);
}

// ---- Blocks

static unkind_block *add_block(unkind_pool *p)
{
    if (p->blocks == p->room) {
        const size_t room = p->room ? 2 * p->room : 64;
        unkind_block *more = realloc(p->block, room * sizeof *more);
        if (!more) return NULL;
        p->block = more;
        p->room = room;
    }
    return &p->block[p->blocks++];
}

status unkind_pool_alloc(unkind_pool *p, size_t bytes, bool zeroed, void **out, err *e)
{
    status result = OK;
    if (bytes > p->limit || p->bytes > p->limit - bytes)
        FAIL(E_FIT, "%s memory: %zu bytes asked for, %zu of %zu are in use", p->name, bytes,
             p->bytes, p->limit);
    const size_t payload = size_align(bytes ? bytes : 1, DEVICE_ALIGN),
                 pages = size_align(payload, PAGE);
    if (pages + PAGE > RANGE - p->used)
        FAIL(E_FIT, "%s memory: the unkind device has no addresses left", p->name);
    const size_t start = p->used + pages - payload;
    if (mprotect(p->memory + p->used, pages, PROT_READ | PROT_WRITE) != 0)
        FAIL(E_FIT, "out of memory: %zu bytes asked for", bytes);
    unkind_block *b = add_block(p);
    if (!b) FAIL(E_FIT, "out of memory for the table of allocations");
    *b = (unkind_block){.start = p->given + start,
                        .bytes = bytes,
                        .first = p->used,
                        .end = p->used + pages + PAGE,
                        .live = true};
    memset(p->memory + start, zeroed ? 0 : POISON, payload);
    p->used = b->end;
    p->bytes += bytes;
    if (p->bytes > p->peak) p->peak = p->bytes;
    *out = b->start;
done:
    return result;
}

bool unkind_pool_holds(const unkind_pool *p, const void *ptr)
{
    const char *byte = ptr;
    return byte >= p->given && byte < p->given + RANGE;
}

// The block, released or not, whose pages hold a pointer into the pool; NULL beyond the last one.
static unkind_block *block_at(unkind_pool *p, const void *ptr)
{
    const size_t offset = (size_t)((const char *)ptr - p->given);
    size_t low = 0, high = p->blocks;
    while (low < high) {
        const size_t mid = (low + high) / 2;
        if (p->block[mid].end <= offset)
            low = mid + 1;
        else
            high = mid;
    }
    return low < p->blocks ? &p->block[low] : NULL;
}

status unkind_pool_release(unkind_pool *p, void *ptr, err *e)
{
    status result = OK;
    unkind_block *b = unkind_pool_holds(p, ptr) ? block_at(p, ptr) : NULL;
    if (!b || !b->live || b->start != ptr)
        FAIL(E_INTERNAL, "release: %p is no live allocation of %s memory", ptr, p->name);
    if (b->reads || b->writes)
        FAIL(E_INTERNAL, "release: work with these %zu bytes of %s memory is pending", b->bytes,
             p->name);
    b->live = false;
    p->bytes -= b->bytes;
    char *first = p->memory + b->first;
    const size_t pages = b->end - b->first;
    // The pages go back to the system, and nobody can use their addresses.
    if (mmap(first, pages, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
             0) == MAP_FAILED)
        FAIL(E_INTERNAL, "release: the system refused to close %zu bytes", pages);
done:
    return result;
}

unkind_block *unkind_pool_find(unkind_pool *p, const void *ptr, size_t bytes, const char *what,
                               err *e)
{
    unkind_block *b = block_at(p, ptr);
    const char *byte = ptr;
    if (!b || byte < b->start || byte > b->start + b->bytes) {
        err_set(e, E_INTERNAL, "%s: %p lies in %s memory, but in no allocation", what, ptr,
                p->name);
        return NULL;
    }
    if (!b->live) {
        err_set(e, E_INTERNAL,
                "%s: %p lies in an allocation of %zu bytes of %s memory that was "
                "released",
                what, ptr, b->bytes, p->name);
        return NULL;
    }
    if (bytes > b->bytes - (size_t)(byte - b->start)) {
        err_set(e, E_INTERNAL,
                "%s: %zu bytes from byte %zu on end beyond an allocation of %zu bytes of %s memory",
                what, bytes, (size_t)(byte - b->start), b->bytes, p->name);
        return NULL;
    }
    return b;
}

void *unkind_pool_translate(const unkind_pool *p, const void *ptr)
{
    return p->memory + ((const char *)ptr - p->given);
}
