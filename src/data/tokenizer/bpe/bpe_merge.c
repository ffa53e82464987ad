// bpe_merge.c -- merges the symbols of one word. Encoding calls it for each word that is not in its
// cache. A short word is scanned for its best pair again and again, which is faster than any data
// structure. A long word uses a heap, because a run of a million equal letters is legal text. It
// knows ids and ranks, not bytes.
#include "data/tokenizer/bpe/bpe_merge.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

enum { SHORT_WORD = 48 };
#define NO_SYMBOL UINT32_MAX

void bpe_merger_close(bpe_merger *m)
{
    free(m->before);
    free(m->after);
    free(m->values);
    free(m->heap);
    *m = (bpe_merger){0};
}

static uint64_t value_of(const bpe_pairs *merges, int32_t left, int32_t right)
{
    return bpe_pairs_find(merges, bpe_pair_key(left, right));
}

static size_t merge_short(const bpe_pairs *merges, int32_t *ids, uint32_t *ends, size_t count)
{
    uint64_t values[SHORT_WORD];
    for (size_t i = 0; i + 1 < count; i++) values[i] = value_of(merges, ids[i], ids[i + 1]);
    while (count > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < count; i++) {
            if (values[i] < values[best]) best = i;
        }
        if (values[best] == BPE_NO_PAIR) break;
        ids[best] = (int32_t)(uint32_t)values[best];
        count--;
        memmove(ids + best + 1, ids + best + 2, (count - best - 1) * sizeof *ids);
        memmove(ends + best, ends + best + 1, (count - best) * sizeof *ends);
        memmove(values + best, values + best + 1, (count - best) * sizeof *values);
        if (best > 0) values[best - 1] = value_of(merges, ids[best - 1], ids[best]);
        if (best + 1 < count) values[best] = value_of(merges, ids[best], ids[best + 1]);
    }
    return count;
}

static bool comes_first(bpe_candidate a, bpe_candidate b)
{
    return a.value != b.value ? a.value < b.value : a.position < b.position;
}

static status heap_push(bpe_merger *m, bpe_candidate c, err *e)
{
    status result = OK;
    TRY(alloc_grow(&m->heap, &m->heap_room, m->heap_count + 1, sizeof *m->heap, "a tokenizer", e));
    size_t i = m->heap_count++;
    for (; i > 0 && comes_first(c, m->heap[(i - 1) / 2]); i = (i - 1) / 2)
        m->heap[i] = m->heap[(i - 1) / 2];
    m->heap[i] = c;
done:
    return result;
}

static bpe_candidate heap_pop(bpe_merger *m)
{
    bpe_candidate top = m->heap[0], last = m->heap[--m->heap_count];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= m->heap_count) break;
        if (child + 1 < m->heap_count && comes_first(m->heap[child + 1], m->heap[child])) child++;
        if (!comes_first(m->heap[child], last)) break;
        m->heap[i] = m->heap[child];
        i = child;
    }
    m->heap[i] = last;
    return top;
}

// Updates the pair that starts at symbol `position`, and pushes it to the heap when it has a rank.
static status push_pair(bpe_merger *m, const bpe_pairs *merges, const int32_t *ids,
                        uint32_t position, err *e)
{
    uint32_t next = m->after[position];
    m->values[position] =
        next == NO_SYMBOL ? BPE_NO_PAIR : value_of(merges, ids[position], ids[next]);
    if (m->values[position] == BPE_NO_PAIR) return OK;
    return heap_push(m, (bpe_candidate){m->values[position], position}, e);
}

static status merge_best(bpe_merger *m, const bpe_pairs *merges, int32_t *ids, uint32_t *ends,
                         err *e)
{
    status result = OK;
    bpe_candidate best = heap_pop(m);
    // The pair may have changed or disappeared since it was pushed.
    if (m->values[best.position] != best.value) goto done;
    uint32_t removed = m->after[best.position], next = m->after[removed];
    ids[best.position] = (int32_t)(uint32_t)best.value;
    ends[best.position] = ends[removed];
    m->values[removed] = BPE_NO_PAIR;
    m->after[best.position] = next;
    if (next != NO_SYMBOL) m->before[next] = best.position;
    TRY(push_pair(m, merges, ids, best.position, e));
    if (m->before[best.position] != NO_SYMBOL)
        TRY(push_pair(m, merges, ids, m->before[best.position], e));
done:
    return result;
}

static status merge_long(bpe_merger *m, const bpe_pairs *merges, int32_t *ids, uint32_t *ends,
                         size_t *count, err *e)
{
    status result = OK;
    size_t n = *count;
    if (n >= NO_SYMBOL)
        FAIL(E_USAGE, "a word of %zu bytes without a break; at most 4 GiB are possible", n);
    TRY(alloc_grow(&m->before, &m->before_room, n, sizeof *m->before, "a tokenizer", e));
    TRY(alloc_grow(&m->after, &m->after_room, n, sizeof *m->after, "a tokenizer", e));
    TRY(alloc_grow(&m->values, &m->value_room, n, sizeof *m->values, "a tokenizer", e));
    m->heap_count = 0;
    for (uint32_t i = 0; i < n; i++) {
        m->before[i] = i ? i - 1 : NO_SYMBOL;
        m->after[i] = i + 1 < n ? i + 1 : NO_SYMBOL;
        TRY(push_pair(m, merges, ids, i, e));
    }
    while (m->heap_count > 0) TRY(merge_best(m, merges, ids, ends, e));
    size_t kept = 0;
    for (uint32_t i = 0; i != NO_SYMBOL; i = m->after[i]) {
        ids[kept] = ids[i];
        ends[kept++] = ends[i];
    }
    *count = kept;
done:
    return result;
}

status bpe_merge(bpe_merger *m, const bpe_pairs *merges, int32_t *ids, uint32_t *ends,
                 size_t *count, err *e)
{
    if (*count < 2) return OK;
    if (*count > SHORT_WORD) return merge_long(m, merges, ids, ends, count, e);
    *count = merge_short(merges, ids, ends, *count);
    return OK;
}
