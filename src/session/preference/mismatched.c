// mismatched.c -- see mismatched.h.
#include "session/preference/mismatched.h"

#include "base/alloc.h"
#include "device/kernels.h"

#include <stdlib.h>
#include <string.h>

static const char WHAT[] = "the mismatched answers";

// ---- The answers

status mismatched_open(dataset *source, uint64_t group, mismatched *out, err *e)
{
    *out = (mismatched){.source = source, .group = group};
    return alloc_zeroed(&out->first, source->samples + 1, sizeof *out->first, WHAT, e);
}

void mismatched_close(mismatched *m)
{
    free(m->answer);
    free(m->first);
    *m = (mismatched){.source = NULL};
}

status mismatched_add(mismatched *m, uint64_t sample, const int32_t *inputs, const int32_t *labels,
                      err *e)
{
    status result = OK;
    const int32_t length = (int32_t)m->source->shape.labels, *start = inputs + length;
    for (int32_t i = 0, end; i < length; i = end) {
        int32_t begin = i;
        for (end = i + 1; end < length && start[end] != end; end++) {
        }
        while (begin < end && labels[begin] == IGNORED_LABEL) begin++;
        if (begin == end) continue; // padding, or the document that a labelled completion lacks
        TRY(alloc_grow(&m->answer, &m->room, m->answers + 1, sizeof *m->answer, WHAT, e));
        m->answer[m->answers++] =
            (mismatched_answer){.sample = sample, .prompt = i, .begin = begin + 1, .end = end};
    }
    m->first[sample + 1] = m->answers;
done:
    return result;
}

// The answer that follows the prompt of answer `number`.
static const mismatched_answer *other_of(const mismatched *m, uint64_t number)
{
    const uint64_t sample = m->answer[number].sample / m->group * m->group,
                   next = sample + m->group, samples = m->source->samples;
    const uint64_t end = m->first[next < samples ? next : samples];
    return &m->answer[number > m->first[sample] ? number - 1 : end - 1];
}

static int64_t tokens_of(const mismatched *m, uint64_t number)
{
    const mismatched_answer *own = &m->answer[number], *other = other_of(m, number);
    const int64_t tokens = own->begin - own->prompt + other->end - other->begin,
                  most = m->source->shape.labels;
    return tokens < most ? tokens : most;
}

// ---- Rows

static status rows_read(dataset *base, uint64_t row, void *inputs, void *labels, err *e)
{
    status result = OK;
    const mismatched_rows *r = (const mismatched_rows *)base;
    const mismatched *m = r->of;
    const int64_t length = base->shape.labels;
    int32_t *ids = inputs, *start = ids + length, *out = labels;
    const int32_t *from = r->space, *label = from + 2 * length;
    int64_t at = 0;
    for (int64_t i = 0; i < length; i++) ids[i] = 0, out[i] = IGNORED_LABEL;
    for (uint64_t k = r->first[row]; k < r->first[row + 1]; k++) {
        const mismatched_answer *own = &m->answer[r->answer[k]], *other = other_of(m, r->answer[k]);
        const int64_t prompt = own->begin - own->prompt, tokens = tokens_of(m, r->answer[k]);
        TRY(m->source->read(m->source, own->sample, r->space, r->space + 2 * length, e));
        memcpy(ids + at, from + own->prompt, (size_t)prompt * sizeof *ids);
        TRY(m->source->read(m->source, other->sample, r->space, r->space + 2 * length, e));
        memcpy(ids + at + prompt, from + other->begin, (size_t)(tokens - prompt) * sizeof *ids);
        memcpy(out + at + prompt - 1, label + other->begin - 1,
               (size_t)(tokens - prompt) * sizeof *out);
        for (int64_t i = at; i < at + tokens; i++) start[i] = (int32_t)at;
        at += tokens;
    }
    for (int64_t i = at; i < length; i++) start[i] = (int32_t)at; // padding
done:
    return result;
}

static void rows_close(dataset *base)
{
    mismatched_rows *r = (mismatched_rows *)base;
    free(r->answer);
    free(r->first);
    free(r->space);
    free(r);
}

// Fills rows one after the other.
static void fill_rows(mismatched_rows *r, const uint64_t *sample, uint64_t samples)
{
    const mismatched *m = r->of;
    int64_t left = 0;
    for (uint64_t i = 0; i < samples; i++)
        for (uint64_t k = m->first[sample[i]]; k < m->first[sample[i] + 1]; k++) {
            const int64_t tokens = tokens_of(m, k);
            if (tokens > left) {
                r->first[r->base.samples++] = r->answers;
                left = r->base.shape.labels;
            }
            left -= tokens;
            r->answer[r->answers++] = k;
        }
    r->first[r->base.samples] = r->answers;
}

status mismatched_rows_open(const mismatched *m, const uint64_t *sample, uint64_t samples,
                            mismatched_rows **out, err *e)
{
    status result = OK;
    mismatched_rows *r = NULL;
    uint64_t answers = 0;
    for (uint64_t i = 0; i < samples; i++) answers += m->first[sample[i] + 1] - m->first[sample[i]];
    TRY(alloc_zeroed(&r, 1, sizeof *r, WHAT, e));
    r->base = (dataset){.shape = m->source->shape, .read = rows_read, .close = rows_close};
    r->of = m;
    TRY(alloc_array(&r->answer, answers, sizeof *r->answer, WHAT, e));
    TRY(alloc_zeroed(&r->first, answers + 1, sizeof *r->first, WHAT, e));
    TRY(alloc_array(&r->space, 3 * (size_t)m->source->shape.labels, sizeof *r->space, WHAT, e));
    fill_rows(r, sample, samples);
    *out = r;
    r = NULL;
done:
    if (r) rows_close(&r->base);
    return result;
}
