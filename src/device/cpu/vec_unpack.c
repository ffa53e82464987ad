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

VEC_INLINE void unpack_row(const kernel_unpack_nf4_args *p, int64_t row, const nf4_table t,
                           dtype type)
{
    const uint32_t *packed = (const uint32_t *)p->packed + row * nf4_row_words(p->cols);
    const int64_t blocks = p->cols / NF4_BLOCK;
    const nf4_row r = nf4_row_of(packed, blocks);
    for (int64_t b = 0; b < blocks; b++) {
        unsigned char codes[NF4_BLOCK];
        const vf absmax = v_set(nf4_absmax(&r, b));
        spread(r.codes + b * (NF4_BLOCK / 2), codes);
        for (int i = 0; i < NF4_BLOCK; i += VL)
            v_store(p->y, row * p->cols + b * NF4_BLOCK + i, type, look_up(t, codes + i) * absmax);
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
