// stand_in_shared.cpp -- the shared memory of a block, and asynchronous copies into it.
#include "stand_in_engine.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

constexpr size_t CANARY_BYTES = 256;
constexpr unsigned char CANARY = 0xa5;

static size_t page()
{
    return (size_t)sysconf(_SC_PAGESIZE);
}
static size_t room()
{
    return (STAND_IN_SHARED_BYTES + CANARY_BYTES + page() - 1) / page() * page();
}

unsigned char *engine_shared_open()
{
    void *p =
        mmap(nullptr, page() + room() + page(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED ||
        mprotect((unsigned char *)p + page(), room(), PROT_READ | PROT_WRITE) != 0)
        stand_in_broken("the machine has no memory for the shared memory of a block");
    return (unsigned char *)p + page() + room();
}

size_t engine_shared_guard()
{
    return page();
}

void engine_shared_close(unsigned char *end)
{
    munmap(end - room() - page(), page() + room() + page());
}

void engine_shared_poison(engine *x)
{
    // Numbers that spoil what they reach: NaN, or large ones, of any type.
    memset(x->shared - CANARY_BYTES, CANARY, (size_t)(x->shared_end - x->shared) + CANARY_BYTES);
    memset(x->shared, x->late_copies ? 0xff : 0x7b, x->launch->shared_bytes);
}

static void check_canary(const engine *x, const unsigned char *from, const unsigned char *to,
                         const char *where)
{
    for (const unsigned char *p = from; p < to; p++)
        if (*p != CANARY)
            stand_in_broken("a thread of the block wrote %s its %zu bytes of shared memory", where,
                            x->launch->shared_bytes);
}

void engine_shared_check(engine *x)
{
    check_canary(x, x->shared - CANARY_BYTES, x->shared, "before");
    check_canary(x, x->shared + x->launch->shared_bytes, x->shared_end, "beyond");
}

void *stand_in_shared(size_t bytes)
{
    const engine *x = engine_now;
    if (bytes > x->launch->shared_bytes)
        stand_in_broken("asks for %zu bytes of shared memory; the launch gave %zu", bytes,
                        x->launch->shared_bytes);
    return x->shared;
}

// ---- Copies

static void do_copy(const pending_copy *c)
{
    if (c->valid)
        memcpy(c->to, c->from, 16);
    else
        memset(c->to, 0, 16);
}

void stand_in_copy16(void *to, const void *from, bool valid)
{
    engine *x = engine_now;
    fiber *f = &x->fibers[(size_t)x->running];
    auto *p = (unsigned char *)to;
    if ((uintptr_t)to % 16 != 0 || (uintptr_t)from % 16 != 0)
        stand_in_broken("gpu_copy16 has an address that is not aligned to 16 bytes");
    if (p < x->shared || p + 16 > x->shared + x->launch->shared_bytes)
        stand_in_broken("gpu_copy16 writes outside the %zu bytes of shared memory",
                        x->launch->shared_bytes);
    const pending_copy c = {to, from, valid};
    (void)*(const volatile unsigned char *)
        from; // it must be readable, also where the copy is not valid
    (void)((const volatile unsigned char *)from)[15];
    if (!x->late_copies) {
        do_copy(&c);
        return;
    }
    memset(to, 0xff, 16);
    f->copies.push_back(c);
}

void stand_in_copy_commit()
{
    engine *x = engine_now;
    fiber *f = &x->fibers[(size_t)x->running];
    f->groups.push_back(f->copies.size());
}

void stand_in_copy_wait(int groups)
{
    engine *x = engine_now;
    fiber *f = &x->fibers[(size_t)x->running];
    if ((int)f->groups.size() <= groups) return;
    const size_t finished = f->groups.size() - (size_t)groups, copies = f->groups[finished - 1];
    for (size_t i = 0; i < copies; i++) do_copy(&f->copies[i]);
    f->copies.erase(f->copies.begin(), f->copies.begin() + (long)copies);
    f->groups.erase(f->groups.begin(), f->groups.begin() + (long)finished);
    for (size_t &end : f->groups) end -= copies;
}
