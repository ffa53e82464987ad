// nf4.c -- quantises weights to NF4 and unpacks rows of them. See nf4.h. It follows the arithmetic of bitsandbytes' CPU
// back end step by step, because its bytes depend on every rounding.
#include "base/nf4.h"

#include <math.h>
#include <stdbool.h>

const float NF4_VALUE[NF4_CODES] = {NF4_VALUES};
static const float SCALE_VALUE[] = {NF4_SCALE_VALUES};

float nf4_scale(int code)
{
    return nf4_scale_value(SCALE_VALUE, code);
}

// A product that the compiler joins with no sum: the bytes depend on its rounding.
static float product_of(float a, float b)
{
    const volatile float product = a * b;
    return product;
}

float nf4_scaled(float scale, float maximum, float mean)
{
    return product_of(scale, maximum) + mean;
}

float nf4_absmax(const nf4_row *r, int64_t b)
{
    const float maximum = nf4_number(r->maxima, (r->first + b) / NF4_GROUP);
    return nf4_scaled(nf4_scale(r->scales[b]), maximum, nf4_number(r->mean, 0));
}

float nf4_block_absmax(const float *x)
{
    float most = 0;
    for (int i = 0; i < NF4_BLOCK; i++) most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    return most;
}

float nf4_mean(const float *absmax, int64_t blocks)
{
    double sum = 0;
    for (int64_t i = 0; i < blocks; i++) sum += (double)absmax[i];
    return (float)(sum / (double)blocks);
}

// The code whose value is nearest to x, after x is rounded to one of 65536 numbers from -1 to 1: bitsandbytes looks codes up
// in a table of these.
static unsigned char scale_code(float x)
{
    enum { STEPS = 65535 };
    const int step = (int)(product_of(x + 1, STEPS * 0.5f) + 0.5f);
    const float rounded = product_of((float)step, 2.0f / STEPS) - 1;
    int low = 0,
        high = NF4_SCALE_CODES - 1; // the values of low and of those below it are not above x
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (nf4_scale(middle) <= rounded)
            low = middle;
        else
            high = middle;
    }
    const bool above = fabsf(nf4_scale(high) - rounded) < fabsf(rounded - nf4_scale(low));
    return (unsigned char)(above ? high : low);
}

void nf4_quantize_scales(nf4_scales *s, int64_t blocks)
{
    for (int64_t from = 0; from < blocks; from += NF4_GROUP) {
        const int64_t end = from + NF4_GROUP < blocks ? from + NF4_GROUP : blocks;
        float most = 0;
        for (int64_t i = from; i < end; i++) {
            const float x = fabsf(s->absmax[i] - s->mean);
            most = x > most ? x : most;
        }
        const float inverse = most > 0 ? 1 / most : 0;
        s->maxima[from / NF4_GROUP] = most;
        for (int64_t i = from; i < end; i++)
            s->code[i] = most > 0 ? scale_code((s->absmax[i] - s->mean) * inverse) : 0;
    }
}

void nf4_quantize_block(const float *x, float absmax, unsigned char out[NF4_BLOCK / 2])
{
    const float inverse = 1 / (absmax > 1e-38f ? absmax : 1e-38f);
    int32_t code[NF4_BLOCK] = {0};
    float scaled[NF4_BLOCK];
    for (int i = 0; i < NF4_BLOCK; i++) scaled[i] = x[i] * inverse;
    // The code is the number of midpoints of neighbouring values that lie below x.
    for (int k = 0; k + 1 < NF4_CODES; k++) {
        const float middle = (NF4_VALUE[k] + NF4_VALUE[k + 1]) / 2;
        for (int i = 0; i < NF4_BLOCK; i++) code[i] += scaled[i] > middle;
    }
    for (int i = 0; i < NF4_BLOCK / 2; i++)
        out[i] = (unsigned char)(code[2 * i] << 4 | code[2 * i + 1]);
}

void nf4_pack_row(const float *x, int64_t cols, const nf4_scales *s, int64_t first, void *out)
{
    const int64_t blocks = cols / NF4_BLOCK, group = first / NF4_GROUP,
                  last = (first + blocks - 1) / NF4_GROUP;
    memset(out, 0, (size_t)nf4_row_words(cols) * 4);
    const nf4_row at = nf4_row_of(out, blocks);
    unsigned char *to = out;
    if (s->packed)
        memcpy(to, s->packed + first * (NF4_BLOCK / 2), (size_t)blocks * (NF4_BLOCK / 2));
    for (int64_t b = 0; b < blocks && !s->packed; b++)
        nf4_quantize_block(x + b * NF4_BLOCK, s->absmax[first + b], to + b * (NF4_BLOCK / 2));
    memcpy(to + (at.mean - to), &s->mean, sizeof s->mean);
    memcpy(to + (at.maxima - to), s->maxima + group, (size_t)(last - group + 1) * sizeof(float));
    to += at.scales - to;
    to[-1] = (unsigned char)(first % NF4_GROUP);
    memcpy(to, s->code + first, (size_t)blocks);
}

static void unpack_block(const unsigned char *code, float absmax, float *out)
{
    for (int i = 0; i < NF4_BLOCK; i++)
        out[i] = NF4_VALUE[i % 2 ? code[i / 2] & 15 : code[i / 2] >> 4] * absmax;
}

void nf4_unpack_row(const void *packed, int64_t cols, float *out)
{
    const int64_t blocks = cols / NF4_BLOCK;
    const nf4_row r = nf4_row_of(packed, blocks);
    for (int64_t b = 0; b < blocks; b++)
        unpack_block(r.codes + b * (NF4_BLOCK / 2), nf4_absmax(&r, b), out + b * NF4_BLOCK);
}

void nf4_quantize_there_and_back(float *x, int64_t blocks, float *absmax, nf4_scales *s)
{
    for (int64_t b = 0; b < blocks; b++) absmax[b] = nf4_block_absmax(x + b * NF4_BLOCK);
    s->absmax = absmax;
    s->mean = nf4_mean(absmax, blocks);
    nf4_quantize_scales(s, blocks);
    for (int64_t b = 0; b < blocks; b++) {
        unsigned char code[NF4_BLOCK / 2];
        nf4_quantize_block(x + b * NF4_BLOCK, absmax[b], code);
        unpack_block(code, nf4_scaled(nf4_scale(s->code[b]), s->maxima[b / NF4_GROUP], s->mean),
                     x + b * NF4_BLOCK);
    }
}
