// packing.c -- puts samples into rows of at most `most` tokens. set.c and rows.c call it. It knows lengths only.
//
// bfd takes the samples from the longest to the shortest, and puts each into the row whose free tokens are the fewest
// that suffice; among equal rows, into the one that has had so many free tokens for longest. Rows wait in a queue for
// each number of free tokens. A tree of 64-bit words finds the next number that has a row: its leaves hold a bit for each
// number, and each word above a bit for each word below that is not 0. So a sample takes O(log most), and all samples
// O(n log n). Source: Ding et al. 2024, Fewer Truncations Improve Language Modeling.
#include "data/samples/samples_private.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

enum { LEVELS = 4, WORD_BITS = 64 }; // 64^4 = 2^24 numbers

typedef struct number_set {
    uint64_t *word[LEVELS];
    uint64_t *memory;
} number_set;

static status number_set_open(number_set *s, uint64_t numbers, err *e)
{
    status result = OK;
    uint64_t words[LEVELS], total = 0;
    for (int k = 0; k < LEVELS; k++) {
        numbers = numbers / WORD_BITS + 1;
        words[k] = numbers;
        total += numbers;
    }
    TRY(alloc_zeroed(&s->memory, total, sizeof *s->memory, "the packing of samples", e));
    uint64_t *next = s->memory;
    for (int k = 0; k < LEVELS; k++) {
        s->word[k] = next;
        next += words[k];
    }
done:
    return result;
}

static void number_set_add(number_set *s, uint64_t n)
{
    for (int k = 0; k < LEVELS; k++, n /= WORD_BITS)
        s->word[k][n / WORD_BITS] |= (uint64_t)1 << n % WORD_BITS;
}

static void number_set_remove(number_set *s, uint64_t n)
{
    for (int k = 0; k < LEVELS; k++, n /= WORD_BITS) {
        s->word[k][n / WORD_BITS] &= ~((uint64_t)1 << n % WORD_BITS);
        if (s->word[k][n / WORD_BITS] != 0) return;
    }
}

// Finds the least number of the set that is at least n.
static bool number_set_find(const number_set *s, uint64_t n, uint64_t *out)
{
    for (int k = 0; k < LEVELS; k++) {
        const uint64_t rest = s->word[k][n / WORD_BITS] & UINT64_MAX << n % WORD_BITS;
        if (rest == 0) { // look to the right of this word, a level above
            n = n / WORD_BITS + 1;
            continue;
        }
        n = n / WORD_BITS * WORD_BITS + (uint64_t)__builtin_ctzll(rest);
        while (k-- > 0) n = n * WORD_BITS + (uint64_t)__builtin_ctzll(s->word[k][n]);
        *out = n;
        return true;
    }
    return false;
}

// Rows that wait for a sample, in a queue for each number of free tokens.
typedef struct packing_queues {
    uint32_t *head, *tail; // [most] of each queue; NONE: empty
    uint32_t *next;        // [samples] of a row in its queue
    number_set free;
} packing_queues;
#define NONE UINT32_MAX

static status queues_open(packing_queues *q, int64_t most, size_t samples, err *e)
{
    status result = OK;
    TRY(alloc_array(&q->head, (size_t)most, sizeof *q->head, "the packing of samples", e));
    TRY(alloc_array(&q->tail, (size_t)most, sizeof *q->tail, "the packing of samples", e));
    TRY(alloc_array(&q->next, samples, sizeof *q->next, "the packing of samples", e));
    memset(q->head, 0xff, (size_t)most * sizeof *q->head);
    TRY(number_set_open(&q->free, (uint64_t)most, e));
done:
    return result;
}

static void queues_clear(packing_queues *q)
{
    free(q->head);
    free(q->tail);
    free(q->next);
    free(q->free.memory);
}

static void queues_put(packing_queues *q, uint32_t row, uint64_t space)
{
    q->next[row] = NONE;
    if (q->head[space] == NONE) {
        q->head[space] = row;
        number_set_add(&q->free, space);
    } else {
        q->next[q->tail[space]] = row;
    }
    q->tail[space] = row;
}

static uint32_t queues_take(packing_queues *q, uint64_t space)
{
    const uint32_t row = q->head[space];
    q->head[space] = q->next[row];
    if (q->head[space] == NONE) number_set_remove(&q->free, space);
    return row;
}

// Sorts samples by length, the longest first; equal ones keep their order.
static status sort_by_length(const uint32_t *length, size_t count, int64_t most, uint32_t *order,
                             err *e)
{
    status result = OK;
    uint64_t *first = NULL;
    TRY(alloc_zeroed(&first, (size_t)most + 2, sizeof *first, "the packing of samples", e));
    for (size_t i = 0; i < count; i++) first[most - length[i] + 1]++;
    for (int64_t n = 0; n <= most; n++) first[n + 1] += first[n];
    for (size_t i = 0; i < count; i++) order[first[most - length[i]]++] = (uint32_t)i;
done:
    free(first);
    return result;
}

// Sets row_of[i] for the samples in `order`, and counts the rows.
static status fit_best(const uint32_t *length, size_t count, int64_t most, const uint32_t *order,
                       uint32_t *row_of, size_t *rows, err *e)
{
    status result = OK;
    packing_queues q = {0};
    TRY(queues_open(&q, most, count, e));
    for (size_t i = 0; i < count; i++) {
        const uint64_t need = length[order[i]];
        uint64_t space = (uint64_t)most;
        const bool fits = need < (uint64_t)most && number_set_find(&q.free, need, &space);
        const uint32_t row = fits ? queues_take(&q, space) : (uint32_t)(*rows)++;
        row_of[order[i]] = row;
        if (space > need) queues_put(&q, row, space - need);
    }
done:
    queues_clear(&q);
    return result;
}

static void fit_next(const uint32_t *length, size_t count, int64_t most, uint32_t *row_of,
                     size_t *rows)
{
    uint64_t used = (uint64_t)most;
    for (size_t i = 0; i < count; i++) {
        if (used + length[i] > (uint64_t)most) {
            ++*rows;
            used = 0;
        }
        used += length[i];
        row_of[i] = (uint32_t)(*rows - 1);
    }
}

// Lists the samples of each row, in the order in which they were put there.
static status list_rows(const uint32_t *order, const uint32_t *row_of, size_t count,
                        samples_rows *out, err *e)
{
    status result = OK;
    TRY(alloc_zeroed(&out->first, out->rows + 2, sizeof *out->first, "the packing of samples", e));
    TRY(alloc_array(&out->sample, count, sizeof *out->sample, "the packing of samples", e));
    for (size_t i = 0; i < count; i++) out->first[row_of[i] + 2]++;
    for (size_t r = 0; r < out->rows; r++) out->first[r + 2] += out->first[r + 1];
    for (size_t i = 0; i < count; i++) {
        const uint32_t sample = order ? order[i] : (uint32_t)i;
        out->sample[out->first[row_of[sample] + 1]++] = sample;
    }
done:
    return result;
}

status samples_pack(samples_packing packing, const uint32_t *length, size_t count, int64_t most,
                    samples_rows *out, err *e)
{
    status result = OK;
    uint32_t *order = NULL, *row_of = NULL;
    *out = (samples_rows){0};
    if (count >= NONE) FAIL(E_USAGE, "found %zu samples; valid: below %u", count, (unsigned)NONE);
    TRY(alloc_array(&row_of, count, sizeof *row_of, "the packing of samples", e));
    if (packing == PACKING_BFD) {
        TRY(alloc_array(&order, count, sizeof *order, "the packing of samples", e));
        TRY(sort_by_length(length, count, most, order, e));
        TRY(fit_best(length, count, most, order, row_of, &out->rows, e));
    } else if (packing == PACKING_NEXT_FIT) {
        fit_next(length, count, most, row_of, &out->rows);
    } else {
        for (size_t i = 0; i < count; i++) row_of[i] = (uint32_t)i;
        out->rows = count;
    }
    TRY(list_rows(order, row_of, count, out, e));
done:
    if (result != OK) samples_rows_clear(out);
    free(order);
    free(row_of);
    return result;
}

void samples_rows_clear(samples_rows *r)
{
    free(r->first);
    free(r->sample);
    *r = (samples_rows){0};
}
