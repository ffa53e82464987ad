// cuda_elementwise.cu -- the sum of two tensors, conversion, copies of rows and zeroing on the cuda device.
// cuda_kernels.c calls the host sides.
#include "device/cuda/gpu_each.h"
#include "device/cuda/gpu_pieces.h"

// ---- K_ADD

template <typename T, typename R> struct add_op {
    enum { PACK = each_pack<T, R> };
    struct loaded {
        gpu_pack<R, PACK> a;
        gpu_pack<T, PACK> b;
    };
    const R *a;
    const T *b; // NULL: none
    R *y;
    float alpha, beta;

    __device__ loaded load(int64_t i) const
    {
        loaded l;
        l.a = gpu_load_pack<R, PACK>(a + i);
        if (b) l.b = gpu_load_pack<T, PACK>(b + i);
        return l;
    }
    __device__ R sum(R of_a, T of_b) const
    {
        return gpu_from_float<R>(
            fmaf(alpha, gpu_to_float(of_a), gpu_mul(beta, gpu_to_float(of_b))));
    }
    __device__ R scaled(R of_a) const
    {
        return gpu_from_float<R>(gpu_mul(alpha, gpu_to_float(of_a)));
    }
    __device__ void store(int64_t i, const loaded &l) const
    {
        gpu_pack<R, PACK> out;
        GPU_UNROLL
        for (int k = 0; k < PACK; k++) out.v[k] = b ? sum(l.a.v[k], l.b.v[k]) : scaled(l.a.v[k]);
        gpu_store_pack(y + i, out);
    }
    __device__ void one(int64_t i) const
    {
        y[i] = b ? sum(a[i], b[i]) : scaled(a[i]);
    }
};

// The same with a factor in device memory, which each thread reads once.
template <typename T, typename R> struct scaled_add_op : add_op<T, R> {
    const T *factor;

    __device__ void begin()
    {
        const float f = gpu_to_float(*factor);
        this->alpha = gpu_mul(f, this->alpha), this->beta = gpu_mul(f, this->beta);
    }
};

extern "C" void cuda_add(const cuda_context *x, const void *args)
{
    const kernel_add_args *p = (const kernel_add_args *)args;
    const bool aligned = gpu_is_aligned16(p->a) && gpu_is_aligned16(p->b) && gpu_is_aligned16(p->y);
    gpu_with_residual(p->type, p->residual_fp32, [&](auto type, auto residual) {
        using T = decltype(type);
        using R = decltype(residual);
        const add_op<T, R> op = {(const R *)p->a, (const T *)p->b, (R *)p->y, p->alpha, p->beta};
        const scaled_add_op<T, R> scaled = {op, (const T *)p->factor};
        if (p->factor)
            each_launch(x, "add", scaled, p->count, aligned);
        else
            each_launch(x, "add", op, p->count, aligned);
    });
}

// ---- K_CONVERT

// Elements of equal type keep their bits.
template <typename TO, typename FROM> static __device__ inline TO convert_element(FROM x)
{
    return gpu_from_float<TO>(gpu_to_float(x));
}
template <> __device__ inline float convert_element<float, float>(float x)
{
    return x;
}
template <> __device__ inline gpu_bf16 convert_element<gpu_bf16, gpu_bf16>(gpu_bf16 x)
{
    return x;
}
template <> __device__ inline gpu_f16 convert_element<gpu_f16, gpu_f16>(gpu_f16 x)
{
    return x;
}

template <typename FROM, typename TO, bool ACCUMULATE> struct convert_op {
    enum { PACK = each_pack<FROM, TO> };
    struct loaded {
        gpu_pack<FROM, PACK> from;
        gpu_pack<TO, PACK> old;
    };
    const FROM *src;
    TO *dst;

    __device__ loaded load(int64_t i) const
    {
        loaded l;
        l.from = gpu_load_pack<FROM, PACK>(src + i);
        if (ACCUMULATE) l.old = gpu_load_pack<TO, PACK>(dst + i);
        return l;
    }
    static __device__ TO apply(FROM from, TO old)
    {
        if (!ACCUMULATE) return convert_element<TO>(from);
        return gpu_from_float<TO>(gpu_add(gpu_to_float(old), gpu_to_float(from)));
    }
    __device__ void store(int64_t i, const loaded &l) const
    {
        gpu_pack<TO, PACK> out;
        GPU_UNROLL
        for (int k = 0; k < PACK; k++)
            out.v[k] = apply(l.from.v[k], ACCUMULATE ? l.old.v[k] : TO());
        gpu_store_pack(dst + i, out);
    }
    __device__ void one(int64_t i) const
    {
        dst[i] = apply(src[i], ACCUMULATE ? dst[i] : TO());
    }
};

enum { CONVERT_SHIFT = 13 }; // a block takes so many elements of a segment, as a power of 2

// The table lies in device memory, so the host does not know how the elements of a segment are aligned.
template <typename OP>
__global__ void __launch_bounds__(EACH_THREADS, 4)
    convert_segments_kernel(OP op, const kernel_segment *segment, int64_t segments)
{
    const gpu_piece piece =
        gpu_find_piece(segment, segments, blockIdx.x, [](int64_t) { return (int)CONVERT_SHIFT; });
    if (piece.count == 0) return;
    op.src += segment[piece.segment].src + piece.first;
    op.dst += segment[piece.segment].dst + piece.first;
    const bool aligned = (((uintptr_t)op.src | (uintptr_t)op.dst) & 15) == 0;
    constexpr int tile = (int)EACH_PACKS * (int)EACH_THREADS * (int)OP::PACK;
    for (int first = 0; first < piece.count; first += tile)
        each_tile(op, first, first + tile < piece.count ? first + tile : piece.count, aligned);
}

template <typename FROM, typename TO, bool ACCUMULATE>
static void convert_launch(const cuda_context *x, const kernel_convert_args *p)
{
    const convert_op<FROM, TO, ACCUMULATE> op = {(const FROM *)p->src, (TO *)p->dst};
    if (!p->segment) {
        each_launch(x, "convert", op, p->count,
                    gpu_is_aligned16(p->src) && gpu_is_aligned16(p->dst));
        return;
    }
    const int64_t blocks = gpu_most_pieces(p->count, p->segments, CONVERT_SHIFT);
    gpu_launch(x, "convert", convert_segments_kernel<convert_op<FROM, TO, ACCUMULATE>>,
               dim3((unsigned)blocks), dim3(EACH_THREADS), 0, op, p->segment, p->segments);
}

extern "C" void cuda_convert(const cuda_context *x, const void *args)
{
    const kernel_convert_args *p = (const kernel_convert_args *)args;
    if (p->accumulate) {
        convert_launch<float, float, true>(x, p);
        return;
    }
    gpu_with_type(p->src_type, [&](auto from) {
        gpu_with_type(p->dst_type,
                      [&](auto to) { convert_launch<decltype(from), decltype(to), false>(x, p); });
    });
}

// ---- K_COPY_ROWS

// An element is a UNIT: 16 bytes where every row is aligned so, or one element of the array.
template <typename UNIT> struct copy_rows_op {
    enum { PACK = 1 };
    using loaded = UNIT;
    const UNIT *src;
    UNIT *dst;
    int64_t cols, src_stride, dst_stride; // in units
    kernel_tokens src_rows, dst_rows;

    __device__ loaded load(int64_t i) const
    {
        const int64_t r = gpu_quotient(i, cols);
        return src[gpu_logical_row(src_rows, r) * src_stride + i - r * cols];
    }
    __device__ void store(int64_t i, const loaded &l) const
    {
        const int64_t r = gpu_quotient(i, cols);
        dst[gpu_logical_row(dst_rows, r) * dst_stride + i - r * cols] = l;
    }
    __device__ void one(int64_t i) const
    {
        store(i, load(i));
    }
};

template <typename UNIT>
static void copy_rows_launch(const cuda_context *x, const kernel_copy_rows_args *p)
{
    const int64_t elements = (int64_t)(sizeof(UNIT) / dtype_bytes(p->type));
    const copy_rows_op<UNIT> op = {
        (const UNIT *)p->src,     (UNIT *)p->dst, p->cols / elements, p->src_stride / elements,
        p->dst_stride / elements, p->src_rows,    p->dst_rows};
    each_launch(x, "copy_rows", op, p->rows * op.cols, true);
}

extern "C" void cuda_copy_rows(const cuda_context *x, const void *args)
{
    const kernel_copy_rows_args *p = (const kernel_copy_rows_args *)args;
    const int64_t pack = 16 / (int64_t)dtype_bytes(p->type);
    if (p->cols <= 0) return;
    if (p->cols % pack == 0 && p->src_stride % pack == 0 && p->dst_stride % pack == 0 &&
        gpu_is_aligned16(p->src) && gpu_is_aligned16(p->dst))
        copy_rows_launch<uint4>(x, p);
    else if (p->type == F32)
        copy_rows_launch<uint32_t>(x, p);
    else
        copy_rows_launch<uint16_t>(x, p);
}

// ---- K_FILL

extern "C" void cuda_fill(const cuda_context *x, const void *args)
{
    const kernel_fill_args *p = (const kernel_fill_args *)args;
    if (p->bytes <= 0) return;
    cudaMemsetAsync(p->dst, 0, (size_t)p->bytes, x->stream);
    cuda_check_launch(x, "fill");
}
