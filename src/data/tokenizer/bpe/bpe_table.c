// bpe_table.c -- the hash tables of the byte-pair encoder. Loading (spellings, merges), encoding
// (merges, the cache of words) and training (words, pairs) use them. It does not know tokens.
#include "data/tokenizer/bpe/bpe_table.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { FIRST_SLOTS = 1024 };

void bpe_strings_close(bpe_strings *s)
{
    free(s->bytes);
    free(s->spans);
    free(s->slots);
    *s = (bpe_strings){0};
}

void bpe_strings_empty(bpe_strings *s)
{
    s->used = s->count = 0;
    if (s->slots) memset(s->slots, 0, (s->mask + 1) * sizeof *s->slots);
}

static uint32_t hash_of(const char *string, size_t bytes, size_t *home)
{
    uint64_t hash = XXH3_64bits(string, bytes);
    *home = (size_t)hash;
    return (uint32_t)(hash >> 32);
}

// The slot that holds the string, or the free slot for it.
static bpe_slot *slot_of(const bpe_strings *s, const char *string, size_t bytes, size_t home,
                         uint32_t hash)
{
    for (size_t i = home & s->mask;; i = (i + 1) & s->mask) {
        bpe_slot *slot = &s->slots[i];
        if (slot->number == 0) return slot;
        if (slot->hash != hash) continue;
        const bpe_span *span = &s->spans[slot->number - 1];
        if (span->bytes == bytes && memcmp(s->bytes + span->offset, string, bytes) == 0)
            return slot;
    }
}

int64_t bpe_strings_find(const bpe_strings *s, const char *string, size_t bytes)
{
    if (s->count == 0) return -1;
    size_t home;
    uint32_t hash = hash_of(string, bytes, &home);
    return (int64_t)slot_of(s, string, bytes, home, hash)->number - 1;
}

// Doubles the slots. At most half of them are in use, so that a search ends soon.
static status strings_rehash(bpe_strings *s, err *e)
{
    size_t slots = s->slots ? (s->mask + 1) * 2 : FIRST_SLOTS;
    bpe_slot *fresh;
    const status result = alloc_zeroed(&fresh, slots, sizeof *fresh, "a table of strings", e);
    if (result != OK) return result;
    free(s->slots);
    s->slots = fresh;
    s->mask = slots - 1;
    for (size_t n = 0; n < s->count; n++) {
        const char *string = s->bytes + s->spans[n].offset;
        size_t home;
        uint32_t hash = hash_of(string, s->spans[n].bytes, &home);
        *slot_of(s, string, s->spans[n].bytes, home, hash) = (bpe_slot){hash, (uint32_t)n + 1};
    }
    return OK;
}

status bpe_strings_add(bpe_strings *s, const char *string, size_t bytes, uint32_t *number, err *e)
{
    status result = OK;
    if (!s->slots || s->count * 2 > s->mask) TRY(strings_rehash(s, e));
    size_t home;
    uint32_t hash = hash_of(string, bytes, &home);
    bpe_slot *slot = slot_of(s, string, bytes, home, hash);
    if (slot->number == 0) {
        if (s->count >= UINT32_MAX - 1) FAIL(E_IO, "too many different words");
        TRY(alloc_grow(&s->spans, &s->span_room, s->count + 1, sizeof *s->spans, "a tokenizer", e));
        TRY(alloc_grow(&s->bytes, &s->room, s->used + bytes + 1, 1, "a tokenizer", e));
        s->spans[s->count] = (bpe_span){s->used, bytes};
        memcpy(s->bytes + s->used, string, bytes);
        s->bytes[s->used + bytes] = 0;
        s->used += bytes + 1;
        *slot = (bpe_slot){hash, (uint32_t)++s->count};
    }
    if (number) *number = slot->number - 1;
done:
    return result;
}

void bpe_pairs_close(bpe_pairs *p)
{
    free(p->slots);
    *p = (bpe_pairs){0};
}

static bpe_pair *pair_slot(const bpe_pairs *p, uint64_t key)
{
    size_t i = bpe_pair_home(key) & p->mask;
    while (p->slots[i].value != BPE_NO_PAIR && p->slots[i].key != key) i = (i + 1) & p->mask;
    return &p->slots[i];
}

static status pairs_rehash(bpe_pairs *p, err *e)
{
    bpe_pairs grown = {.count = p->count, .mask = p->slots ? p->mask * 2 + 1 : FIRST_SLOTS - 1};
    const status result =
        alloc_array(&grown.slots, grown.mask + 1, sizeof *grown.slots, "a table of pairs", e);
    if (result != OK) return result;
    memset(grown.slots, 0xff, (grown.mask + 1) * sizeof *grown.slots); // every value BPE_NO_PAIR
    for (size_t i = 0; p->slots && i <= p->mask; i++) {
        if (p->slots[i].value != BPE_NO_PAIR) *pair_slot(&grown, p->slots[i].key) = p->slots[i];
    }
    free(p->slots);
    *p = grown;
    return OK;
}

status bpe_pairs_set(bpe_pairs *p, uint64_t key, uint64_t value, err *e)
{
    status result = OK;
    if (!p->slots || p->count * 2 > p->mask) TRY(pairs_rehash(p, e));
    bpe_pair *slot = pair_slot(p, key);
    if (slot->value == BPE_NO_PAIR) p->count++;
    *slot = (bpe_pair){key, value};
done:
    return result;
}
