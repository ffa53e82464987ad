// bpe_merge.c -- merges the symbols of one word. Called by encoding for every word that its cache
// does not hold. A short word is scanned for its best pair again and again, which is quicker than
// any structure; a long one (a run of a million equal letters is legal text) uses a heap. Knows
// ids and ranks only, no bytes.
#include "data/bpe_merge.h"

#include <stdlib.h>
#include <string.h>

enum { SHORT_WORD = 48 };
#define NOBODY UINT32_MAX

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

static size_t merge_short(const bpe_pairs *merges, int32_t *ids, size_t count)
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
        memmove(values + best, values + best + 1, (count - best) * sizeof *values);
        if (best > 0) values[best - 1] = value_of(merges, ids[best - 1], ids[best]);
        if (best + 1 < count) values[best] = value_of(merges, ids[best], ids[best + 1]);
    }
    return count;
}

static bool comes_first(bpe_candidate a, bpe_candidate b)
{
    return a.value != b.value ? a.value < b.value : a.at < b.at;
}

static status heap_push(bpe_merger *m, bpe_candidate c, err *e)
{
    status result = OK;
    TRY(bpe_grow(&m->heap, &m->heap_room, m->heap_count + 1, sizeof *m->heap, e));
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

// Looks at the pair that starts at symbol `at`, and offers it for merging when it has a rank.
static status offer(bpe_merger *m, const bpe_pairs *merges, const int32_t *ids, uint32_t at, err *e)
{
    uint32_t next = m->after[at];
    m->values[at] = next == NOBODY ? BPE_NO_PAIR : value_of(merges, ids[at], ids[next]);
    if (m->values[at] == BPE_NO_PAIR) return OK;
    return heap_push(m, (bpe_candidate){m->values[at], at}, e);
}

static status merge_best(bpe_merger *m, const bpe_pairs *merges, int32_t *ids, err *e)
{
    status result = OK;
    bpe_candidate best = heap_pop(m);
    // The pair may have changed, or been swallowed, since it was offered.
    if (m->values[best.at] != best.value) goto done;
    uint32_t gone = m->after[best.at], next = m->after[gone];
    ids[best.at] = (int32_t)(uint32_t)best.value;
    m->values[gone] = BPE_NO_PAIR;
    m->after[best.at] = next;
    if (next != NOBODY) m->before[next] = best.at;
    TRY(offer(m, merges, ids, best.at, e));
    if (m->before[best.at] != NOBODY) TRY(offer(m, merges, ids, m->before[best.at], e));
done:
    return result;
}

static status merge_long(bpe_merger *m, const bpe_pairs *merges, int32_t *ids, size_t *count,
                         err *e)
{
    status result = OK;
    size_t n = *count;
    if (n >= NOBODY)
        FAIL(E_USAGE, "a word of %zu bytes without a break; at most 4 GiB are possible", n);
    TRY(bpe_grow(&m->before, &m->before_room, n, sizeof *m->before, e));
    TRY(bpe_grow(&m->after, &m->after_room, n, sizeof *m->after, e));
    TRY(bpe_grow(&m->values, &m->value_room, n, sizeof *m->values, e));
    m->heap_count = 0;
    for (uint32_t i = 0; i < n; i++) {
        m->before[i] = i ? i - 1 : NOBODY;
        m->after[i] = i + 1 < n ? i + 1 : NOBODY;
        TRY(offer(m, merges, ids, i, e));
    }
    while (m->heap_count > 0) TRY(merge_best(m, merges, ids, e));
    size_t kept = 0;
    for (uint32_t i = 0; i != NOBODY; i = m->after[i]) ids[kept++] = ids[i];
    *count = kept;
done:
    return result;
}

status bpe_merge(bpe_merger *m, const bpe_pairs *merges, int32_t *ids, size_t *count, err *e)
{
    if (*count < 2) return OK;
    if (*count > SHORT_WORD) return merge_long(m, merges, ids, count, e);
    *count = merge_short(merges, ids, *count);
    return OK;
}
