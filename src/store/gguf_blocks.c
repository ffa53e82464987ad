// gguf_blocks.c -- the kinds of elements of GGUF files: how a block of quantised numbers becomes floats, and back for the
// kinds that Trireme writes. Each function does the arithmetic of gguf's Python package, in its order and in fp32, so that
// the results have the same bits; the build forbids fused multiply-add here.
//
// Formats: ggml's block structures. A scale `d` is fp16. K-quants are blocks of 256 with scales of 16 or 32 elements.
#include "store/gguf.h"

#include <math.h>

enum { SUPER = 256 }; // elements of a K-quant's block

static float half_at(const uint8_t *p)
{
    return fp16_to_float((uint16_t)(p[0] | p[1] << 8));
}

static void put_half(uint8_t *p, float value)
{
    const uint16_t h = float_to_fp16(value);
    p[0] = (uint8_t)h;
    p[1] = (uint8_t)(h >> 8);
}

// ---- Plain numbers

static void read_f32(const uint8_t *b, float *out)
{
    memcpy(out, b, sizeof *out);
}

static void write_f32(const float *in, uint8_t *b)
{
    memcpy(b, in, sizeof *in);
}

static void read_f16(const uint8_t *b, float *out)
{
    *out = half_at(b);
}

static void write_f16(const float *in, uint8_t *b)
{
    put_half(b, *in);
}

static void read_bf16(const uint8_t *b, float *out)
{
    *out = bf16_to_float((uint16_t)(b[0] | b[1] << 8));
}

static void write_bf16(const float *in, uint8_t *b)
{
    const uint16_t h = float_to_bf16(*in);
    b[0] = (uint8_t)h;
    b[1] = (uint8_t)(h >> 8);
}

// ---- Blocks of 32

static void read_q4_0(const uint8_t *b, float *out)
{
    const float d = half_at(b);
    for (int i = 0; i < 16; i++) {
        out[i] = d * (float)((b[2 + i] & 15) - 8);
        out[i + 16] = d * (float)((b[2 + i] >> 4) - 8);
    }
}

static void read_q4_1(const uint8_t *b, float *out)
{
    const float d = half_at(b), m = half_at(b + 2);
    for (int i = 0; i < 16; i++) {
        out[i] = d * (float)(b[4 + i] & 15) + m;
        out[i + 16] = d * (float)(b[4 + i] >> 4) + m;
    }
}

// The fifth bits of 32 elements.
static int fifth(const uint8_t *bits, int i)
{
    return (bits[i / 8] >> i % 8 & 1) << 4;
}

static void read_q5_0(const uint8_t *b, float *out)
{
    const float d = half_at(b);
    for (int i = 0; i < 16; i++) {
        out[i] = d * (float)(((b[6 + i] & 15) | fifth(b + 2, i)) - 16);
        out[i + 16] = d * (float)(((b[6 + i] >> 4) | fifth(b + 2, i + 16)) - 16);
    }
}

static void read_q5_1(const uint8_t *b, float *out)
{
    const float d = half_at(b), m = half_at(b + 2);
    for (int i = 0; i < 16; i++) {
        out[i] = d * (float)((b[8 + i] & 15) | fifth(b + 4, i)) + m;
        out[i + 16] = d * (float)((b[8 + i] >> 4) | fifth(b + 4, i + 16)) + m;
    }
}

static void read_q8_0(const uint8_t *b, float *out)
{
    const float d = half_at(b);
    for (int i = 0; i < 32; i++) out[i] = (float)(int8_t)b[2 + i] * d;
}

static void write_q8_0(const float *in, uint8_t *b)
{
    float most = 0;
    for (int i = 0; i < 32; i++) most = fmaxf(most, fabsf(in[i]));
    const float d = most / 127.0f, inverse = d == 0 ? 0 : 1.0f / d;
    put_half(b, d);
    for (int i = 0; i < 32; i++) b[2 + i] = (uint8_t)(int8_t)roundf(in[i] * inverse);
}

static const int8_t IQ4_VALUES[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                      1,    13,   25,  38,  53,  69,  89,  113};

static void read_iq4_nl(const uint8_t *b, float *out)
{
    const float d = half_at(b);
    for (int i = 0; i < 16; i++) {
        out[i] = d * (float)IQ4_VALUES[b[2 + i] & 15];
        out[i + 16] = d * (float)IQ4_VALUES[b[2 + i] >> 4];
    }
}

// Twice the values of E2M1, so the scale is half of 2^(e - 127).
static void read_mxfp4(const uint8_t *b, float *out)
{
    static const int8_t values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    const uint32_t bits = b[0] < 2 ? UINT32_C(0x00200000) << b[0] : (uint32_t)(b[0] - 1) << 23;
    float d;
    memcpy(&d, &bits, sizeof d);
    for (int i = 0; i < 16; i++) {
        out[i] = d * (float)values[b[1 + i] & 15];
        out[i + 16] = d * (float)values[b[1 + i] >> 4];
    }
}

// ---- Blocks of 256

static void read_q2_k(const uint8_t *b, float *out)
{
    const uint8_t *scales = b, *q = b + 16;
    const float d = half_at(b + 80), least = half_at(b + 82);
    for (int i = 0; i < SUPER; i++) {
        const int s = scales[i / 16];
        const float dl = d * (float)(s & 15), ml = least * (float)(s >> 4);
        out[i] = dl * (float)(q[i / 128 * 32 + i % 32] >> 2 * (i / 32 % 4) & 3) - ml;
    }
}

static void read_q3_k(const uint8_t *b, float *out)
{
    const uint8_t *high = b, *q = b + 32, *scales = b + 96;
    const float d = half_at(b + 108);
    for (int i = 0; i < SUPER; i++) {
        const int k = i / 16;
        const int low = scales[k % 8] >> 4 * (k / 8) & 15,
                  top = scales[8 + k % 4] >> 2 * (k / 4) & 3;
        const float dl = d * (float)((low | top << 4) - 32);
        const int v = q[i / 128 * 32 + i % 32] >> 2 * (i / 32 % 4) & 3;
        out[i] = dl * (float)(v - (high[i % 32] >> i / 32 & 1 ? 0 : 4));
    }
}

// Scale and least value of run k of 8, of 6 bits each in 12 bytes.
static void scale_min(const uint8_t *s, int k, int *scale, int *least)
{
    if (k < 4) {
        *scale = s[k] & 63;
        *least = s[k + 4] & 63;
    } else {
        *scale = (s[k + 4] & 15) | (s[k - 4] >> 2 & 0x30);
        *least = s[k + 4] >> 4 | (s[k] >> 2 & 0x30);
    }
}

// Q4_K and Q5_K: `high` has the fifth bits of Q5_K; NULL: none.
static void read_q45(const uint8_t *b, const uint8_t *high, const uint8_t *q, float *out)
{
    const float d = half_at(b), least = half_at(b + 2);
    for (int k = 0; k < 8; k++) {
        int s, m;
        scale_min(b + 4, k, &s, &m);
        const float dl = d * (float)s, ml = least * (float)m;
        for (int i = 0; i < 32; i++) {
            int v = q[k / 2 * 32 + i] >> 4 * (k % 2) & 15;
            if (high) v |= (high[i] >> k & 1) << 4;
            out[32 * k + i] = dl * (float)v - ml;
        }
    }
}

static void read_q4_k(const uint8_t *b, float *out)
{
    read_q45(b, NULL, b + 16, out);
}

static void read_q5_k(const uint8_t *b, float *out)
{
    read_q45(b, b + 16, b + 48, out);
}

static void read_q6_k(const uint8_t *b, float *out)
{
    const uint8_t *low = b, *high = b + 128;
    const float d = half_at(b + 208);
    for (int i = 0; i < SUPER; i++) {
        const float dl = d * (float)(int8_t)b[192 + i / 16];
        const int half = i / 128, k = i % 128;
        const int v = (low[half * 64 + k % 64] >> 4 * (k / 64) & 15) |
                      (high[half * 32 + k % 32] >> 2 * (k / 32) & 3) << 4;
        out[i] = dl * (float)(v - 32);
    }
}

static void read_iq4_xs(const uint8_t *b, float *out)
{
    const float d = half_at(b);
    const int high = b[2] | b[3] << 8;
    const uint8_t *low = b + 4, *q = b + 8;
    for (int k = 0; k < 8; k++) {
        const int s = (low[k / 2] >> 4 * (k % 2) & 15) | (high >> 2 * k & 3) << 4;
        const float dl = d * (float)(s - 32);
        for (int i = 0; i < 16; i++) {
            out[32 * k + i] = dl * (float)IQ4_VALUES[q[16 * k + i] & 15];
            out[32 * k + i + 16] = dl * (float)IQ4_VALUES[q[16 * k + i] >> 4];
        }
    }
}

// ---- The table

static const gguf_kind KINDS[] = {
    {"F32", GGUF_F32, 1, 4, read_f32, write_f32},
    {"F16", GGUF_F16, 1, 2, read_f16, write_f16},
    {"BF16", GGUF_BF16, 1, 2, read_bf16, write_bf16},
    {"Q8_0", GGUF_Q8_0, 32, 34, read_q8_0, write_q8_0},
    {"Q4_0", 2, 32, 18, read_q4_0, NULL},
    {"Q4_1", 3, 32, 20, read_q4_1, NULL},
    {"Q5_0", 6, 32, 22, read_q5_0, NULL},
    {"Q5_1", 7, 32, 24, read_q5_1, NULL},
    {"Q2_K", 10, SUPER, 84, read_q2_k, NULL},
    {"Q3_K", 11, SUPER, 110, read_q3_k, NULL},
    {"Q4_K", 12, SUPER, 144, read_q4_k, NULL},
    {"Q5_K", 13, SUPER, 176, read_q5_k, NULL},
    {"Q6_K", 14, SUPER, 210, read_q6_k, NULL},
    {"IQ4_NL", 20, 32, 18, read_iq4_nl, NULL},
    {"IQ4_XS", 23, SUPER, 136, read_iq4_xs, NULL},
    {"MXFP4", 39, 32, 17, read_mxfp4, NULL},
};
enum { KIND_COUNT = sizeof KINDS / sizeof *KINDS };

const gguf_kind *gguf_kind_find(uint32_t number)
{
    for (int i = 0; i < KIND_COUNT; i++)
        if (KINDS[i].number == number) return &KINDS[i];
    return NULL;
}

const char *gguf_kind_foreign(uint32_t number)
{
    static const struct {
        uint32_t number;
        const char *word;
    } foreign[] = {{9, "Q8_1"},     {15, "Q8_K"},  {16, "IQ2_XXS"}, {17, "IQ2_XS"},
                   {18, "IQ3_XXS"}, {19, "IQ1_S"}, {21, "IQ3_S"},   {22, "IQ2_S"},
                   {24, "I8"},      {25, "I16"},   {26, "I32"},     {27, "I64"},
                   {28, "F64"},     {29, "IQ1_M"}, {34, "TQ1_0"},   {35, "TQ2_0"}};
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        if (foreign[i].number == number) return foreign[i].word;
    return NULL;
}

void gguf_kinds_describe(text *out)
{
    for (int i = 0; i < KIND_COUNT; i++) text_addf(out, "%s%s", i ? ", " : "", KINDS[i].word);
}

void gguf_dequantize(const gguf_kind *k, const uint8_t *row, int64_t first, int64_t count,
                     float *out)
{
    float block[SUPER];
    const int64_t each = k->elements, end = first + count;
    for (int64_t i = first; i < end;) {
        const uint8_t *b = row + (uint64_t)(i / each) * k->bytes;
        const int64_t skip = i % each, n = each - skip < end - i ? each - skip : end - i;
        if (n == each) {
            k->dequantize(b, out);
        } else {
            k->dequantize(b, block);
            memcpy(out, block + skip, (size_t)n * sizeof *out);
        }
        out += n;
        i += n;
    }
}

void gguf_quantize(const gguf_kind *k, const float *in, int64_t count, uint8_t *out)
{
    for (int64_t i = 0; i < count; i += k->elements, out += k->bytes) k->quantize(in + i, out);
}
