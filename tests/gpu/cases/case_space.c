// case_space.c -- the arrays of a case: where they lie, and what they hold. case.h says what for. It does
// not know devices; case_to_device only replaces addresses.
#include "case.h"

#include "base/rng.h"
#include "unkind/unkind_pointers.h"

#include <stdlib.h>

enum { ALIGN = 256 };

static space_array *take(space *s, size_t bytes, size_t align, const char *name)
{
    if (s->used == SPACE_ARRAYS) abort();
    space_array *a = &s->array[s->used++];
    size_t room = (bytes + (s->odd ? align : 0) + ALIGN - 1) / ALIGN * ALIGN, offset = 0;
    if (s->odd) {
        // At the end, but never aligned to 16 bytes.
        offset = (room - bytes) / align * align;
        if (offset % 16 == 0) offset = offset >= align ? offset - align : offset + align;
    }
    *a = (space_array){.total = SPACE_FRONT + room, .bytes = bytes, .name = name};
    a->memory = aligned_alloc(ALIGN, a->total);
    if (!a->memory) abort();
    memset(a->memory, SPACE_FENCE, a->total);
    a->data = a->memory + SPACE_FRONT + offset;
    return a;
}

void *space_array_of(space *s, int64_t count, dtype type, const char *name)
{
    const size_t size = dtype_bytes(type);
    space_array *a = take(s, size * (size_t)count, size, name);
    a->count = count;
    a->type = type;
    memset(a->data, 0xff, a->bytes);
    return a->data;
}

void *space_random(space *s, int64_t count, dtype type, float scale, const char *name)
{
    unsigned char *data = space_array_of(s, count, type, name);
    const rng_key key = rng_key_make((uint64_t)s->used, RNG_MOCK, 0, 0);
    for (int64_t i = 0; i < count; i++) {
        const float x = scale * (rng_uniform(rng_word(key, (uint64_t)i)) - 0.5f) * 3.4641016f;
        dtype_convert(data + dtype_bytes(type) * (size_t)i, type, &x, F32, 1);
    }
    return data;
}

int32_t *space_ids(space *s, int64_t count, int32_t below)
{
    int32_t *ids = space_array_of(s, count, I32, NULL);
    const rng_key key = rng_key_make(7, RNG_MOCK, (uint64_t)s->used, 0);
    for (int64_t i = 0; i < count; i++)
        ids[i] = (int32_t)(rng_word(key, (uint64_t)i) % (uint32_t)below);
    return ids;
}

const int32_t *space_documents(space *s, const kernel_tokens *t, int64_t rows, int64_t mean)
{
    int32_t *start = space_array_of(s, t->first_row + rows, I32, NULL);
    for (int64_t r = 0; r < t->first_row + rows; r++) {
        const rng_key key = rng_key_make(19, RNG_MOCK, (uint64_t)(r / t->seq), 0);
        int64_t first = kernel_token_position(t, r % t->seq);
        while (first > 0 && rng_word(key, (uint64_t)first) % (uint32_t)mean != 0) first--;
        start[r] = (int32_t)first;
    }
    return start;
}

void *space_bytes(space *s, const void *data, size_t bytes, const char *name)
{
    space_array *a = take(s, bytes, 8, name);
    a->count = (int64_t)bytes;
    a->type = U8;
    memcpy(a->data, data, bytes);
    return a->data;
}

void space_free(space *s)
{
    for (int i = 0; i < s->used; i++) free(s->array[i].memory);
    s->used = 0;
}

// ---- Addresses

// The address on the device of an address in the host's arrays; NULL: it is in none.
static void *device_address(const space *s, const unsigned char *p)
{
    for (int i = 0; i < s->used; i++) {
        const space_array *a = &s->array[i];
        if (p >= a->memory && p < a->memory + a->total) return a->device + (p - a->memory);
        if (p == a->data) return a->device + (p - a->memory); // an empty array
    }
    return NULL;
}

bool case_to_device(kernel_call *call, const space *s)
{
    for (const size_t *at = unkind_pointers(call->kind); *at; at++) {
        void *p;
        memcpy(&p, (const char *)call + *at, sizeof p);
        if (!p) continue;
        p = device_address(s, p);
        if (!p) return false;
        memcpy((char *)call + *at, &p, sizeof p);
    }
    return true;
}
