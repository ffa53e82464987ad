// unkind_memory.h -- a pool of memory for the unkind device. Every allocation has pages of its own,
// ends where they end (rounded to DEVICE_ALIGN), and is followed by a page that nobody may touch. The
// addresses of released memory are not used again. The caller locks. It knows no streams.
#ifndef TRIREME_TESTS_UNKIND_UNKIND_MEMORY_H
#define TRIREME_TESTS_UNKIND_UNKIND_MEMORY_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct unkind_block {
    char *start; // as the pool handed it out
    size_t bytes;
    size_t first, end; // of its pages and the page after them, from the start of the pool
    bool live;
    int reads, writes; // pending work that reads it, and that may write it
} unkind_block;

typedef struct unkind_pool {
    const char *name;
    char *given;  // the addresses that are handed out
    char *memory; // where the memory is; the same as `given` where the host may use it
    size_t used;  // bytes of addresses so far
    size_t limit, bytes, peak;
    unkind_block *block; // [blocks], by address
    size_t blocks, room;
} unkind_pool;

// `name` is for messages. limit 0: none.
status unkind_pool_open(unkind_pool *p, const char *name, bool is_host, size_t limit, err *e);
void unkind_pool_close(unkind_pool *p);

// E_FIT beyond the limit. The memory holds 0xff, or zeros.
status unkind_pool_alloc(unkind_pool *p, size_t bytes, bool zeroed, void **out, err *e);
// E_INTERNAL when ptr is no live allocation, or when work with it is pending.
status unkind_pool_release(unkind_pool *p, void *ptr, err *e);

bool unkind_pool_holds(const unkind_pool *p, const void *ptr);
// The live block of a pointer that the pool holds, with `bytes` bytes from it on. NULL and E_INTERNAL,
// with a line that starts with `what`, where there are not so many.
unkind_block *unkind_pool_find(unkind_pool *p, const void *ptr, size_t bytes, const char *what,
                               err *e);
// Where the memory of a pointer that the pool holds is.
void *unkind_pool_translate(const unkind_pool *p, const void *ptr);

#endif
