// alloc.h -- memory of the heap. Every folder takes it here, so that running out of memory is one
// error with one code (E_MEMORY) and one text: "no memory for the plan (1.20 MiB)".
//
// Memory of devices and memory that ranks share come from device/ and comm/. The owner releases
// heap memory with free().
#ifndef TRIREME_BASE_ALLOC_H
#define TRIREME_BASE_ALLOC_H

#include "base/err.h"

// Each function writes a pointer to *out, which has any pointer type. On failure *out stays as it
// is. `what` completes "no memory for ...". A count of 0 gives a pointer that can be freed.

// [count] items of `size` bytes, not initialized.
status alloc_array(void *out, size_t count, size_t size, const char *what, err *e);
// [count] items of `size` bytes, all zero.
status alloc_zeroed(void *out, size_t count, size_t size, const char *what, err *e);
// [count] items of `size` bytes that start at a multiple of `alignment` (a power of two), not
// initialized.
status alloc_aligned(void *out, size_t alignment, size_t count, size_t size, const char *what,
                     err *e);

// Gives the array *array (NULL at first) room for at least `need` items. *room is its room in
// items, 0 at first, and at least doubles when it grows. On failure the array stays as it is.
status alloc_grow(void *array, size_t *room, size_t need, size_t size, const char *what, err *e);

// Sets the error of an allocation of so many bytes that failed elsewhere, and returns E_MEMORY.
status alloc_failed(size_t bytes, const char *what, err *e);

#endif
