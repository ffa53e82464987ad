// vec_kernels.c -- the table of the vector kernels of one level of instructions, the division of
// their work over the team, and random numbers on vectors. Called by cpu_kernels_fill. K_MATMUL is
// not in the table, because cpu_matmul.c chooses how a product is computed.
#include "device/cpu/cpu_team.h"
#include "device/cpu/vec.h"

void VEC(kernels_fill)(cpu_kernels *k)
{
    cpu_kernel *run = k->run;
    run[K_BIAS_GRAD] = VEC(bias_grad);
    run[K_EMBEDDING] = VEC(embedding);
    run[K_EMBEDDING_GRAD] = VEC(embedding_grad);
    run[K_NORM] = VEC(norm);
    run[K_NORM_GRAD] = VEC(norm_grad);
    run[K_QK_NORM] = VEC(qk_norm);
    run[K_QK_NORM_SUMS] = VEC(qk_norm_sums);
    run[K_QK_NORM_GRAD] = VEC(qk_norm_grad);
    run[K_VALUE_NORM] = VEC(value_norm);
    run[K_VALUE_NORM_GRAD] = VEC(value_norm_grad);
    run[K_ROPE] = VEC(rope);
    run[K_ATTENTION] = VEC(attention);
    run[K_ATTENTION_GRAD] = VEC(attention_grad);
    run[K_CAUSAL_CONV] = VEC(causal_conv);
    run[K_CAUSAL_CONV_GRAD] = VEC(causal_conv_grad);
    run[K_DELTA_RULE] = VEC(delta_rule);
    run[K_DELTA_RULE_GRAD] = VEC(delta_rule_grad);
    run[K_GATE] = VEC(gate);
    run[K_GATE_GRAD] = VEC(gate_grad);
    run[K_ACTIVATION] = VEC(activation);
    run[K_ACTIVATION_GRAD] = VEC(activation_grad);
    run[K_GLU] = VEC(glu);
    run[K_GLU_GRAD] = VEC(glu_grad);
    run[K_XIELU] = VEC(xielu);
    run[K_XIELU_GRAD] = VEC(xielu_grad);
    run[K_ADD] = VEC(add);
    run[K_DROPOUT] = VEC(dropout);
    run[K_INIT] = VEC(init);
    run[K_CROSS_ENTROPY] = VEC(cross_entropy);
    run[K_CROSS_ENTROPY_STATS] = VEC(cross_entropy_stats);
    run[K_SQUARE_ERROR] = VEC(square_error);
    run[K_SUM_SQUARES] = VEC(sum_squares);
    run[K_UPDATE] = VEC(update);
    run[K_CONVERT] = VEC(convert);
    run[K_UNPACK_NF4] = VEC(unpack_nf4);
    run[K_COPY_ROWS] = VEC(copy_rows);
    run[K_FILL] = VEC(fill);
    run[K_DIGEST] = VEC(digest);
    run[K_ORTHOGONALIZE] = VEC(orthogonalize);
}

// A kernel's work: `count` items, divided into grains, and the grains into pieces for the team.
typedef struct vec_shared_work {
    const cpu_context *x;
    const void *args;
    int64_t count, grain, grains, pieces;
    vec_part part;
} vec_shared_work;

static void run_piece(const void *arg, int64_t piece, int thread)
{
    const vec_shared_work *w = arg;
    int64_t first = w->grains * piece / w->pieces * w->grain;
    int64_t last = size_min(w->grains * (piece + 1) / w->pieces * w->grain, w->count);
    w->part(w->x, w->args, first, last, thread);
}

void VEC(share)(const cpu_context *x, const void *args, int64_t count, int64_t grain, vec_part part)
{
    enum { PIECES = 4 }; // for each thread, to balance threads of unequal speed
    int64_t grains = size_ceil_div(count, grain);
    if (count <= 0) return;
    if (grains == 1 || x->threads == 1) {
        part(x, args, 0, count, 0);
        return;
    }
    vec_shared_work w = {x,   args, count, grain, grains, size_min(grains, PIECES * x->threads),
                         part};
    cpu_team_run(x->team, w.pieces, run_piece, &w);
}

// The low and the high 32 bits of the products of a and the constant m.
VEC_INLINE void multiply(vu a, uint32_t m, vu *low, vu *high)
{
    vi by = v_set_int((int32_t)m);
    vq even = (vq)V_OP(mul_epu32)((vi)a, by), odd = (vq)V_OP(mul_epu32)((vi)((vq)a >> 32), by);
    const vq lower = (vq){} + 0xffffffffu;
    *low = (vu)((even & lower) | (odd << 32));
    *high = (vu)((even >> 32) | (odd & ~lower));
}

// rng_philox for the counters first … first+VL-1: out[4 l + w] is word w of counter l.
VEC_INLINE void philox(rng_key key, uint64_t first, uint32_t *out)
{
    uint32_t low[VL], high[VL];
    for (int l = 0; l < VL; l++) {
        low[l] = (uint32_t)(first + (uint64_t)l);
        high[l] = (uint32_t)((first + (uint64_t)l) >> 32);
    }
    vu c[4] = {(vu) * (vi_any *)low, (vu) * (vi_any *)high};
    uint32_t k0 = key.k[0], k1 = key.k[1];
    for (int round = 0; round < 10; round++) {
        vu low0, high0, low1, high1;
        multiply(c[0], 0xD2511F53u, &low0, &high0);
        multiply(c[2], 0xCD9E8D57u, &low1, &high1);
        c[0] = high1 ^ c[1] ^ k0;
        c[2] = high0 ^ c[3] ^ k1;
        c[1] = low1;
        c[3] = low0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    for (int l = 0; l < VL; l++)
        for (int w = 0; w < 4; w++) out[4 * l + w] = c[w][l];
}

const uint32_t *VEC(random)(rng_key key, uint64_t index0, int64_t n, uint32_t *scratch)
{
    int64_t skip = (int64_t)(index0 % 4);
    for (int64_t i = 0; i < n + skip; i += 4 * VL)
        philox(key, index0 / 4 + (uint64_t)i / 4, scratch + i);
    return scratch + skip;
}
