// memory.h -- the memory of one template or one rendering: blocks that are freed together, with a limit. Every file of
// this folder takes its memory here, so no error path has anything to free.
#ifndef TRIREME_JINJA_MEMORY_H
#define TRIREME_JINJA_MEMORY_H

#include "base/err.h"

#include <stddef.h>

typedef struct jinja_block {
    struct jinja_block *before;
    size_t used, room;
    _Alignas(16) char bytes[];
} jinja_block;

// {.most = limit} is empty memory.
typedef struct jinja_memory {
    jinja_block *last;
    size_t bytes, most; // of all blocks
} jinja_memory;

// Gives bytes, aligned to 16 and zero. `out` is the address of a pointer of any type. E_USAGE when the limit is reached.
status jinja_take(jinja_memory *m, void *out, size_t bytes, err *e);
// Copies `count` bytes and adds a zero byte.
status jinja_take_copy(jinja_memory *m, const char *chars, size_t count, char **out, err *e);
void jinja_memory_clear(jinja_memory *m);

#endif
