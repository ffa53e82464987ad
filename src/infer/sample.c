// sample.c -- draws the next token from logits, as a pure function. Called by `trireme generate`.
#include "base/alloc.h"
#include "base/rng.h"
#include "infer/decoder.h"

#include <math.h>
#include <stdlib.h>

typedef struct sample_choice {
    double weight;
    int32_t id;
} sample_choice;

static int by_weight(const void *a, const void *b)
{
    const sample_choice *x = a, *y = b;
    if (x->weight != y->weight) return x->weight < y->weight ? 1 : -1;
    return (x->id > y->id) - (x->id < y->id);
}

static int32_t most_likely(const float *logits, int64_t vocab)
{
    int32_t best = 0;
    for (int64_t i = 1; i < vocab; i++)
        if (logits[i] > logits[best]) best = (int32_t)i;
    return best;
}

// Returns how many of the choices, which are sorted by likelihood, remain after top_k and then
// top_p. *total is the sum of their weights.
static int64_t keep_likely(const sample_choice *c, int64_t vocab, int64_t top_k, double top_p,
                           double *total)
{
    int64_t kept = top_k > 0 && top_k < vocab ? top_k : vocab;
    double sum = 0, part = 0;
    for (int64_t i = 0; i < kept; i++) sum += c[i].weight;
    *total = sum;
    if (top_p <= 0 || top_p >= 1) return kept;
    for (int64_t i = 0; i < kept; i++) {
        part += c[i].weight;
        if (part < top_p * sum) continue;
        *total = part;
        return i + 1;
    }
    return kept;
}

status sample_token(const float *logits, int64_t vocab, const sample_options *o, uint64_t position,
                    int32_t *out, err *e)
{
    int32_t best = *out = most_likely(logits, vocab);
    if (o->temperature <= 0) return OK;
    sample_choice *c;
    const status result = alloc_array(&c, (size_t)vocab, sizeof *c, "the choices of a token", e);
    if (result != OK) return result;
    for (int64_t i = 0; i < vocab; i++)
        c[i] = (sample_choice){exp(((double)logits[i] - (double)logits[best]) / o->temperature),
                               (int32_t)i};
    qsort(c, (size_t)vocab, sizeof *c, by_weight);
    double total;
    int64_t kept = keep_likely(c, vocab, o->top_k, o->top_p, &total);
    double left =
        (double)rng_uniform(rng_word(rng_key_make(o->seed, RNG_SAMPLE, o->stream, 0), position)) *
        total;
    *out = c[kept - 1].id;
    for (int64_t i = 0; i < kept; i++) {
        left -= c[i].weight;
        if (left >= 0) continue;
        *out = c[i].id;
        break;
    }
    free(c);
    return OK;
}
