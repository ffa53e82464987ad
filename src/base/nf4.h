// nf4.h -- weights in NF4 (Dettmers et al. 2023), with the bytes of bitsandbytes: blocks of 64 elements of the flattened
// tensor have 4-bit codes and one absmax. Double quantisation keeps the absmax as 8-bit codes, too: absmax minus the
// tensor's mean absmax, in blocks of 256 with a maximum each. Called by train/, which packs frozen weights while it reads
// them, and by the kernel that unpacks them. It knows no files and no devices.
//
// A *packed row* is one row of a matrix with everything that unpacks it. So a matrix may be sharded between any rows, and
// between columns at multiples of a block, and every shard keeps the codes of the full tensor:
//   codes    [blocks][32] bytes: two elements a byte, the first one in the high half
//   mean     F32, of the tensor
//   maxima   [nf4_row_maxima] F32: of the 256-blocks that the row's blocks are in
//   first    1 byte: the place of the row's first block in its 256-block
//   scales   [blocks] bytes: the 8-bit code of each block's absmax
// and then bytes up to a whole word. Words have 4 bytes.
#ifndef TRIREME_BASE_NF4_H
#define TRIREME_BASE_NF4_H

#include "base/target.h"

#include <stdint.h>
#include <string.h>

enum { NF4_BLOCK = 64, NF4_GROUP = 256, NF4_CODES = 16, NF4_SCALE_CODES = 256 };

// The values of the 16 codes.
// clang-format off
#define NF4_VALUES                                                                                 \
    -1.0f, -0.6961928f, -0.52507305f, -0.3949175f, -0.28444138f, -0.18477343f, -0.091050036f, 0.0f, \
    0.0795803f, 0.1609302f, 0.2461123f, 0.33791524f, 0.44070983f, 0.562617f, 0.72295684f, 1.0f

// The values of the 8-bit codes 128 to 254, the signed dynamic map of bitsandbytes. Code 127 is 0, code 255 is 1, and code
// 126 - i is minus code 128 + i.
#define NF4_SCALE_VALUES                                                                           \
    5.5000004e-7f, 3.2500002e-6f, 7.75e-6f, 2.1249998e-5f, 4.375e-5f, 6.625e-5f, 8.875e-5f,        \
    1.5625001e-4f, 2.6875004e-4f, 3.8125002e-4f, 4.9375003e-4f, 6.062501e-4f, 7.1875006e-4f,       \
    8.3125e-4f, 9.437501e-4f, 0.0012812499f, 0.00184375f, 0.00240625f, 0.00296875f, 0.0035312497f, \
    0.00409375f, 0.0046562497f, 0.0052187503f, 0.00578125f, 0.00634375f, 0.00690625f, 0.00746875f, \
    0.00803125f, 0.00859375f, 0.009156249f, 0.00971875f, 0.01140625f, 0.01421875f, 0.01703125f,    \
    0.019843752f, 0.02265625f, 0.02546875f, 0.028281251f, 0.03109375f, 0.03390625f, 0.036718752f,  \
    0.03953125f, 0.042343747f, 0.04515625f, 0.04796875f, 0.05078125f, 0.05359375f, 0.05640625f,    \
    0.059218753f, 0.06203125f, 0.06484375f, 0.067656256f, 0.070468746f, 0.07328125f, 0.07609375f,  \
    0.07890625f, 0.08171876f, 0.08453125f, 0.08734375f, 0.09015625f, 0.092968754f, 0.09578126f,    \
    0.09859375f, 0.107031256f, 0.12109375f, 0.13515624f, 0.14921875f, 0.16328125f, 0.17734376f,    \
    0.19140625f, 0.20546874f, 0.21953125f, 0.23359375f, 0.24765624f, 0.26171875f, 0.27578127f,     \
    0.28984374f, 0.30390626f, 0.31796873f, 0.33203125f, 0.34609374f, 0.36015624f, 0.37421876f,     \
    0.38828123f, 0.40234375f, 0.41640624f, 0.43046874f, 0.44453126f, 0.45859373f, 0.47265625f,     \
    0.4867187f, 0.50078124f, 0.5148437f, 0.5289062f, 0.54296875f, 0.5570313f, 0.5710938f,          \
    0.58515626f, 0.5992187f, 0.61328125f, 0.6273438f, 0.6414063f, 0.65546876f, 0.6695312f,         \
    0.68359375f, 0.6976563f, 0.7117188f, 0.72578126f, 0.7398437f, 0.75390625f, 0.7679688f,         \
    0.78203124f, 0.79609376f, 0.8101562f, 0.82421875f, 0.8382813f, 0.85234374f, 0.86640626f,       \
    0.8804687f, 0.89453125f, 0.9085938f, 0.92265624f, 0.93671876f, 0.9507812f, 0.96484375f,        \
    0.9789063f, 0.99296874f
// clang-format on

// The maxima that a packed row of so many blocks keeps.
ON_DEVICE static inline int64_t nf4_row_maxima(int64_t blocks)
{
    return (blocks + NF4_GROUP - 2) / NF4_GROUP + 1;
}

// The words of a packed row of so many columns, a multiple of NF4_BLOCK.
ON_DEVICE static inline int64_t nf4_row_words(int64_t cols)
{
    const int64_t blocks = cols / NF4_BLOCK;
    return blocks * (NF4_BLOCK / 8) + 1 + nf4_row_maxima(blocks) + (blocks + 1 + 3) / 4;
}

// Where the parts of a packed row begin.
typedef struct nf4_row {
    const unsigned char *codes, *mean, *maxima, *scales;
    int64_t first;
} nf4_row;

ON_DEVICE static inline nf4_row nf4_row_of(const void *packed, int64_t blocks)
{
    nf4_row r;
    r.codes = (const unsigned char *)packed;
    r.mean = r.codes + blocks * (NF4_BLOCK / 2);
    r.maxima = r.mean + sizeof(float);
    r.scales = r.maxima + nf4_row_maxima(blocks) * (int64_t)sizeof(float) + 1;
    r.first = r.scales[-1];
    return r;
}

// Number i of an array of F32, at any address.
ON_DEVICE static inline float nf4_number(const unsigned char *from, int64_t i)
{
    float x;
    memcpy(&x, from + i * (int64_t)sizeof x, sizeof x);
    return x;
}

// The value of an 8-bit code, from the table of NF4_SCALE_VALUES.
ON_DEVICE static inline float nf4_scale_value(const float *table, int code)
{
    return code == 127 ? 0 : code == 255 ? 1 : code > 127 ? table[code - 128] : -table[126 - code];
}

// The absmax of a block whose 8-bit code has the value `scale`: two roundings, to the product and to the sum.
float nf4_scaled(float scale, float maximum, float mean);
float nf4_absmax(const nf4_row *r, int64_t b); // of block b of a row
// The value of an 8-bit code.
float nf4_scale(int code);
// The values of the 16 codes.
extern const float NF4_VALUE[NF4_CODES];

// ---- Quantisation, on the host

// The scales of a tensor after double quantisation.
typedef struct nf4_scales {
    float mean;          // of the absmax of all blocks
    const float *absmax; // [blocks] as measured
    float *maxima;       // [blocks / NF4_GROUP, rounded up]
    unsigned char *code; // [blocks]
    const unsigned char
        *packed; // [blocks][NF4_BLOCK / 2] the codes of the elements; NULL: the elements give them
} nf4_scales;

// The largest magnitude of NF4_BLOCK elements.
float nf4_block_absmax(const float *x);
// The mean of a tensor's absmax, rounded once. (torch's sum rounds to fp32 in an order that depends on the processor and
// its threads: for fp32 weights its mean may have another last bit.)
float nf4_mean(const float *absmax, int64_t blocks);
// Fills maxima and code from absmax and mean.
void nf4_quantize_scales(nf4_scales *s, int64_t blocks);
// The codes of NF4_BLOCK elements whose absmax is known.
void nf4_quantize_block(const float *x, float absmax, unsigned char out[NF4_BLOCK / 2]);
// Packs a row of x [cols], whose first block is block `first` of its tensor; out has nf4_row_words(cols) words. Where the
// scales bring the codes (`packed`), x is not read.
void nf4_pack_row(const float *x, int64_t cols, const nf4_scales *s, int64_t first, void *out);
// out [cols]: a packed row as F32, before any rounding to the compute type.
void nf4_unpack_row(const void *packed, int64_t cols, float *out);
// Quantises a tensor of blocks to NF4 and back, in place, before any rounding to the compute type. s: its arrays.
void nf4_quantize_there_and_back(float *x, int64_t blocks, float *absmax, nf4_scales *s);

#endif
