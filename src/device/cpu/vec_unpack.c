// vec_unpack.c -- vector form of the kernel that unpacks NF4 rows. The values of the 16 codes lie in one or two registers,
// in which a permutation looks them up.
#include "base/nf4.h"
#include "device/cpu/vec.h"

// The 4-bit codes of NF4_BLOCK elements as bytes, in the order of the elements.
VEC_INLINE void spread(const unsigned char *from, unsigned char codes[NF4_BLOCK])
{
    const __m128i low = _mm_set1_epi8(15);
    for (int i = 0; i < NF4_BLOCK / 32; i++) {
        const __m128i x = _mm_loadu_si128((const __m128i *)(const void *)(from + 16 * i)),
                      first = _mm_and_si128(_mm_srli_epi16(x, 4), low),
                      second = _mm_and_si128(x, low);
        _mm_storeu_si128((__m128i *)(void *)(codes + 32 * i), _mm_unpacklo_epi8(first, second));
        _mm_storeu_si128((__m128i *)(void *)(codes + 32 * i + 16),
                         _mm_unpackhi_epi8(first, second));
    }
}

#if VEC_BYTES == 64
typedef vf nf4_table[1];
VEC_INLINE vf look_up(const nf4_table t, const unsigned char *codes)
{
    return _mm512_permutexvar_ps(
        _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)codes)), t[0]);
}
#else
typedef vf nf4_table[2];
VEC_INLINE vf look_up(const nf4_table t, const unsigned char *codes)
{
    const vi code = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)codes));
    // Bit 3 of a code chooses the half; as the sign bit it is a mask.
    return v_pick((vf)_mm256_slli_epi32(code, 28), _mm256_permutevar8x32_ps(t[1], code),
                  _mm256_permutevar8x32_ps(t[0], code));
}
#endif

// NF4_BLOCK elements in F32.
VEC_INLINE void unpack_block(const nf4_table t, vf absmax, const unsigned char *codes, float *y)
{
    for (int i = 0; i < NF4_BLOCK; i += VL) v_store(y, i, F32, look_up(t, codes + i) * absmax);
}

// NF4_BLOCK elements in a 16-bit type. A block has 16 values at most: they are rounded once, and then looked up byte by byte.
VEC_INLINE void unpack_narrow(const nf4_table t, vf absmax, const unsigned char *codes, uint16_t *y,
                              dtype type)
{
    uint16_t value[NF4_CODES];
    for (int i = 0; i < NF4_CODES / VL; i++) v_store(value, i * VL, type, t[i] * absmax);
    const __m128i a = _mm_loadu_si128((const __m128i *)(const void *)value),
                  b = _mm_loadu_si128((const __m128i *)(const void *)(value + 8)),
                  byte = _mm_set1_epi16(255),
                  low = _mm_packus_epi16(_mm_and_si128(a, byte), _mm_and_si128(b, byte)),
                  high = _mm_packus_epi16(_mm_srli_epi16(a, 8), _mm_srli_epi16(b, 8));
    for (int i = 0; i < NF4_BLOCK; i += 16) {
        const __m128i code = _mm_loadu_si128((const __m128i *)(const void *)(codes + i)),
                      l = _mm_shuffle_epi8(low, code), h = _mm_shuffle_epi8(high, code);
        _mm_storeu_si128((__m128i *)(void *)(y + i), _mm_unpacklo_epi8(l, h));
        _mm_storeu_si128((__m128i *)(void *)(y + i + 8), _mm_unpackhi_epi8(l, h));
    }
}

VEC_INLINE void unpack_row(const kernel_unpack_nf4_args *p, int64_t row, const nf4_table t,
                           dtype type)
{
    const uint32_t *packed = (const uint32_t *)p->packed + row * nf4_row_words(p->cols);
    const int64_t blocks = p->cols / NF4_BLOCK;
    const nf4_row r = nf4_row_of(packed, blocks);
    for (int64_t b = 0; b < blocks; b++) {
        unsigned char codes[NF4_BLOCK];
        const vf absmax = v_set(nf4_absmax(&r, b));
        void *y = vec_at(p->y, row * p->cols + b * NF4_BLOCK, type);
        spread(r.codes + b * (NF4_BLOCK / 2), codes);
        if (type == F32)
            unpack_block(t, absmax, codes, y);
        else
            unpack_narrow(t, absmax, codes, y, type);
    }
}

static void unpack_part(const cpu_context *x, const void *args, int64_t first, int64_t last,
                        int thread)
{
    (void)x, (void)thread;
    const kernel_unpack_nf4_args *p = args;
    nf4_table t;
    memcpy(t, NF4_VALUE, sizeof t);
#define UNPACK(type)                                                                               \
    for (int64_t row = first; row < last; row++) unpack_row(p, row, t, type)
    V_BY_TYPE(p->type, UNPACK);
#undef UNPACK
}

void VEC(unpack_nf4)(const cpu_context *x, const void *args)
{
    const kernel_unpack_nf4_args *p = args;
    VEC(share)(x, p, p->rows, vec_grain(p->cols), unpack_part);
}
