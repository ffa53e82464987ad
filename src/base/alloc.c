// alloc.c -- the heap as alloc.h describes it. Called by every folder. Deliberately knows nothing
// of devices or of budgets.
#include "base/alloc.h"

#include "base/size.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

status alloc_failed(size_t bytes, const char *what, err *e)
{
    char shown[24];
    text_bytes(shown, (double)bytes);
    return err_set(e, E_MEMORY, "no memory for %s (%s)", what, shown);
}

// *out may have any pointer type, so that it is written as bytes.
static status give(void *out, void *p, size_t bytes, const char *what, err *e)
{
    if (!p) return alloc_failed(bytes, what, e);
    memcpy(out, &p, sizeof p);
    return OK;
}

// At least one byte, so that NULL means failure alone.
static size_t bytes_of(size_t count, size_t size)
{
    const size_t bytes = size_mul(count, size);
    return bytes ? bytes : 1;
}

status alloc_array(void *out, size_t count, size_t size, const char *what, err *e)
{
    const size_t bytes = bytes_of(count, size);
    return give(out, size_fits(bytes) ? malloc(bytes) : NULL, bytes, what, e);
}

status alloc_zeroed(void *out, size_t count, size_t size, const char *what, err *e)
{
    const size_t bytes = bytes_of(count, size);
    return give(out, size_fits(bytes) ? calloc(1, bytes) : NULL, bytes, what, e);
}

status alloc_aligned(void *out, size_t alignment, size_t count, size_t size, const char *what,
                     err *e)
{
    const size_t bytes = size_align(bytes_of(count, size), alignment);
    return give(out, size_fits(bytes) ? aligned_alloc(alignment, bytes) : NULL, bytes, what, e);
}

status alloc_grow(void *array, size_t *room, size_t need, size_t size, const char *what, err *e)
{
    enum { FIRST_ROOM = 16 };
    void *old;
    if (need <= *room) return OK;
    size_t items = size_mul(*room, 2);
    if (items < FIRST_ROOM) items = FIRST_ROOM;
    if (items < need) items = need;
    const size_t bytes = bytes_of(items, size);
    memcpy(&old, array, sizeof old);
    const status result =
        give(array, size_fits(bytes) ? realloc(old, bytes) : NULL, bytes, what, e);
    if (result == OK) *room = items;
    return result;
}
