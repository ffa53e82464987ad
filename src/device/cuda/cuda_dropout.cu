// cuda_dropout.cu -- dropout on the cuda device, with the sum that adds its result to the residual.
// cuda_kernels.c calls the host side. The random words are those of the logical elements, four to a counter
// of the generator, and each counter is drawn once.
#include "device/cuda/gpu_each.h"

enum { DROPOUT_WORDS = 4 }; // of a counter

// x [rows, cols] of FROM, y of TO. With ADDS, y = residual + dropped, and TO is the residual's type. The
// result of the dropout is rounded to T.
template <typename T, typename FROM, typename TO, bool ADDS> struct dropout_base {
    const FROM *x;
    const TO *residual;
    TO *y;
    int64_t cols, first_col, full_cols;
    kernel_tokens row_tokens;
    kernel_draw draw;
    float p, scale;
    kernel_draw_key draw_key; // of draw; known after begin

    __device__ void begin()
    {
        draw_key = kernel_draw_read(&draw);
    }
    // Element i, whose random word is given.
    __device__ TO apply(FROM from, TO old, uint32_t word) const
    {
        const float rounded = gpu_to_float(gpu_from_float<T>(gpu_to_float(from)));
        const float dropped = rng_uniform(word) >= p ? gpu_mul(rounded, scale) : 0.0f;
        if (!ADDS) return gpu_from_float<TO>(dropped);
        return gpu_from_float<TO>(
            gpu_add(gpu_to_float(old), gpu_to_float(gpu_from_float<T>(dropped))));
    }
    // The number of the random word of column 0 of row r.
    __device__ uint64_t first_word(int64_t r) const
    {
        return (draw_key.row0 + (uint64_t)gpu_logical_row(row_tokens, r)) * (uint64_t)full_cols +
               (uint64_t)first_col;
    }
};

// cols, first_col and full_cols are multiples of PACK, so the words of a pack are those of PACK / 4 counters.
template <typename T, typename FROM, typename TO, bool ADDS>
struct dropout_op : dropout_base<T, FROM, TO, ADDS> {
    enum { PACK = each_pack<FROM, TO> };
    struct loaded {
        gpu_pack<FROM, PACK> from;
        gpu_pack<TO, PACK> old;
    };

    __device__ loaded load(int64_t i) const
    {
        loaded l;
        l.from = gpu_load_pack<FROM, PACK>(this->x + i);
        if (ADDS) l.old = gpu_load_pack<TO, PACK>(this->residual + i);
        return l;
    }
    __device__ void store(int64_t i, const loaded &l) const
    {
        const int64_t r = gpu_quotient(i, this->cols);
        const uint64_t counter =
            (this->first_word(r) + (uint64_t)(i - r * this->cols)) / DROPOUT_WORDS;
        gpu_pack<TO, PACK> out;
        GPU_UNROLL
        for (int c = 0; c < PACK / DROPOUT_WORDS; c++) {
            uint32_t words[DROPOUT_WORDS];
            rng_philox(this->draw_key.key, counter + (uint64_t)c, words);
            GPU_UNROLL
            for (int w = 0; w < DROPOUT_WORDS; w++) {
                const int k = c * DROPOUT_WORDS + w;
                out.v[k] = this->apply(l.from.v[k], ADDS ? l.old.v[k] : TO(), words[w]);
            }
        }
        gpu_store_pack(this->y + i, out);
    }
    __device__ void one(int64_t) const
    {
    } // counts are multiples of PACK
};

// Any cols and any address: element i of the op is counter i % counters of row i / counters, of which some
// words may belong to the rows beside it.
template <typename T, typename FROM, typename TO, bool ADDS>
struct dropout_counter_op : dropout_base<T, FROM, TO, ADDS> {
    enum { PACK = 1 };
    struct loaded {
    };
    int64_t counters; // that the words of a row may touch

    __device__ loaded load(int64_t) const
    {
        return {};
    }
    __device__ void store(int64_t i, const loaded &) const
    {
        this->one(i);
    }
    __device__ void one(int64_t i) const
    {
        const int64_t r = gpu_quotient(i, counters);
        const uint64_t first = this->first_word(r);
        const uint64_t counter = first / DROPOUT_WORDS + (uint64_t)(i - r * counters);
        uint32_t words[DROPOUT_WORDS];
        rng_philox(this->draw_key.key, counter, words);
        GPU_UNROLL
        for (int w = 0; w < DROPOUT_WORDS; w++) {
            // Below column 0 the difference is a huge number.
            const uint64_t column = counter * DROPOUT_WORDS + (uint64_t)w - first;
            if (column >= (uint64_t)this->cols) continue;
            const int64_t k = r * this->cols + (int64_t)column;
            this->y[k] = this->apply(this->x[k], ADDS ? this->residual[k] : TO(), words[w]);
        }
    }
};

template <typename T, typename FROM, typename TO, bool ADDS>
static void dropout_launch(const cuda_context *x, const kernel_dropout_args *p)
{
    const dropout_base<T, FROM, TO, ADDS> base = {(const FROM *)p->x,
                                                  (const TO *)p->residual,
                                                  (TO *)p->y,
                                                  p->cols,
                                                  p->first_col,
                                                  p->full_cols ? p->full_cols : p->cols,
                                                  p->row_tokens,
                                                  p->draw,
                                                  p->p,
                                                  1 / (1 - p->p)};
    if (p->cols % 8 == 0 && p->first_col % 8 == 0 && base.full_cols % 8 == 0 &&
        gpu_is_aligned16(p->x) && gpu_is_aligned16(p->residual) && gpu_is_aligned16(p->y)) {
        each_launch(x, "dropout", dropout_op<T, FROM, TO, ADDS>{base}, p->rows * p->cols, true);
        return;
    }
    const int64_t counters = p->cols / DROPOUT_WORDS + 2;
    each_launch(x, "dropout", dropout_counter_op<T, FROM, TO, ADDS>{base, counters},
                p->rows * counters, true);
}

extern "C" void cuda_dropout(const cuda_context *x, const void *args)
{
    const kernel_dropout_args *p = (const kernel_dropout_args *)args;
    if (p->cols <= 0) return;
    gpu_with_residual(p->type, p->residual_fp32, [&](auto type, auto residual) {
        using T = decltype(type);
        using R = decltype(residual);
        if (p->residual)
            dropout_launch<T, T, R, true>(x, p);
        else
            dropout_launch<T, R, T, false>(x, p);
    });
}
