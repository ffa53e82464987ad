// vec_rope.c -- vector form of the rotary position embedding, in place. The cosines and sines of a
// row are separated once and used for all its heads.
#include "device/cpu/vec.h"

// Lanes 0, 2, 4, … and 1, 3, 5, … of the pair a, b.
VEC_INLINE void unzip(vf a, vf b, vf *even, vf *odd)
{
#if VEC_BYTES == 64
    vi lanes = _mm512_slli_epi32(v_iota(), 1);
    *even = _mm512_permutex2var_ps(a, lanes, b);
    *odd = _mm512_permutex2var_ps(a, lanes | v_set_int(1), b);
#else
    __m256d first = _mm256_castps_pd(_mm256_shuffle_ps(a, b, 0x88));
    __m256d second = _mm256_castps_pd(_mm256_shuffle_ps(a, b, 0xdd));
    *even = _mm256_castpd_ps(_mm256_permute4x64_pd(first, 0xd8));
    *odd = _mm256_castpd_ps(_mm256_permute4x64_pd(second, 0xd8));
#endif
}

VEC_INLINE void rotate_rows(const kernel_rope_args *p, int64_t first, int64_t last, dtype type)
{
    int64_t half = p->rot / 2;
    for (int64_t r = first; r < last; r++) {
        const float *angles = p->table + kernel_document_position(&p->row_tokens, r) * half * 2;
#define ROTATE(i, n)                                                                               \
    do {                                                                                           \
        vf cosine, sine;                                                                           \
        unzip(v_load_n(angles, 2 * i, 2 * (n), F32),                                               \
              v_load_n(angles, 2 * i + VL, 2 * (n)-VL, F32), &cosine, &sine);                      \
        if (p->inverse) sine = -sine;                                                              \
        for (int64_t h = 0; h < p->heads; h++) {                                                   \
            int64_t offset = r * p->stride + h * p->head_dim + i;                                  \
            vf low = v_load_n(p->x, offset, n, type),                                              \
               high = v_load_n(p->x, offset + half, n, type);                                      \
            v_store_n(p->x, offset, n, type, low *cosine - high * sine);                           \
            v_store_n(p->x, offset + half, n, type, high * cosine + low * sine);                   \
        }                                                                                          \
    } while (0)
        V_EACH(i, 0, half, ROTATE);
#undef ROTATE
    }
}

// The same where pairs are neighbours. A vector has the pairs of VL / 2 angles.
VEC_INLINE void rotate_neighbours(const kernel_rope_args *p, int64_t first, int64_t last,
                                  dtype type)
{
    // Of each pair, one lane takes away its neighbour times the sine.
    vi odd = v_iota() & v_set_int(1);
    vi minus = V_OP(slli_epi32)(odd ^ v_set_int(p->inverse ? 0 : 1), 31);
    for (int64_t r = first; r < last; r++) {
        const float *angles = p->table + kernel_document_position(&p->row_tokens, r) * p->rot;
#define ROTATE(i, n)                                                                               \
    do {                                                                                           \
        vf both = v_load_n(angles, i, n, F32);                                                     \
        vf cosine = V_OP(moveldup_ps)(both);                                                       \
        vf sine = v_as_float(v_as_int(V_OP(movehdup_ps)(both)) ^ minus);                           \
        for (int64_t h = 0; h < p->heads; h++) {                                                   \
            int64_t offset = r * p->stride + h * p->head_dim + i;                                  \
            vf x = v_load_n(p->x, offset, n, type);                                                \
            v_store_n(p->x, offset, n, type, x *cosine + V_OP(permute_ps)(x, 0xb1) * sine);        \
        }                                                                                          \
    } while (0)
        V_EACH(i, 0, p->rot, ROTATE);
#undef ROTATE
    }
}

static void rope_part(const cpu_context *x, const void *args, int64_t first, int64_t last,
                      int thread)
{
    (void)x, (void)thread;
    const kernel_rope_args *p = args;
#define HALVES(type)     rotate_rows(p, first, last, type)
#define NEIGHBOURS(type) rotate_neighbours(p, first, last, type)
    if (p->interleaved)
        V_BY_TYPE(p->type, NEIGHBOURS);
    else
        V_BY_TYPE(p->type, HALVES);
#undef HALVES
#undef NEIGHBOURS
}

void VEC(rope)(const cpu_context *x, const void *args)
{
    const kernel_rope_args *p = args;
    VEC(share)(x, p, p->rows, vec_grain(p->heads * p->rot), rope_part);
}
