// test_controls.cpp -- kernels with one mistake each, which the stand-in must report: by a line that names
// kernel, block, thread and rule, or by other bits under another order of blocks and threads. Beside each
// stands the kernel without the mistake, which gives the same bits under every order.
#include "device/cuda/gpu.h"

#include "child.h"

enum { N = 1024, ORDERS = 3 }; // as many orders as the cases of kernels run (cases/case_run.c)

// ---- Running a kernel

static cuda_context context;
static err failure;
static float *in, *out; // [N], of the device

static void open_device(void)
{
    static float numbers[N];
    cudaStream_t stream;
    for (int i = 0; i < N; i++) numbers[i] = 1.0f / (float)(3 * i + 1);
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CUDA(cudaMalloc((void **)&in, sizeof numbers));
    CUDA(cudaMalloc((void **)&out, sizeof numbers));
    CUDA(cudaMemcpy(in, numbers, sizeof numbers, cudaMemcpyHostToDevice));
    CUDA(cudaMemset(out, 0, sizeof numbers));
    context.stream = stream;
    context.failure = &failure;
}

static void finish(float *results)
{
    CUDA(cudaStreamSynchronize(context.stream));
    CUDA(cudaMemcpy(results, out, N * sizeof(float), cudaMemcpyDeviceToHost));
}

typedef void (*mistaken)(bool mistake);

// Runs a launch under several orders. Returns whether all gave the same bits.
static bool gives_equal_bits(mistaken launch, bool mistake)
{
    float first[N], again[N];
    bool equal = true;
    for (int order = 0; order < ORDERS; order++) {
        open_device();
        stand_in_set_order((uint64_t)order);
        launch(mistake);
        finish(order == 0 ? first : again);
        if (order > 0) equal = equal && memcmp(first, again, sizeof first) == 0;
    }
    return equal;
}

static void expect_other_bits(mistaken launch)
{
    assert_true(gives_equal_bits(launch, false));
    assert_false(gives_equal_bits(launch, true));
}

// ---- Mistakes that change bits

static __global__ void reverse(const float *x, float *y, bool mistake)
{
    float *s = gpu_shared<float>();
    s[threadIdx.x] = x[threadIdx.x];
    if (!mistake) __syncthreads();
    y[threadIdx.x] = s[blockDim.x - 1 - threadIdx.x];
}
static void launch_reverse(bool mistake)
{
    gpu_launch(&context, "reverse", reverse, dim3(1), dim3(128), 128 * sizeof(float), in, out,
               mistake);
}
static void a_missing_barrier_is_noticed(void **)
{
    expect_other_bits(launch_reverse);
}

// The second use of shared memory starts before all threads have ended the first.
static __global__ void use_twice(const float *x, float *y, bool mistake)
{
    float *s = gpu_shared<float>();
    for (int i = 0; i < 2; i++) {
        s[threadIdx.x] = x[threadIdx.x] + (float)i;
        __syncthreads();
        y[i * 128 + (int)threadIdx.x] = s[127 - threadIdx.x];
        if (!mistake) __syncthreads();
    }
}
static void launch_use_twice(bool mistake)
{
    gpu_launch(&context, "use_twice", use_twice, dim3(1), dim3(128), 128 * sizeof(float), in, out,
               mistake);
}
static void a_missing_second_barrier_is_noticed(void **)
{
    expect_other_bits(launch_use_twice);
}

static __global__ void neighbour(const float *x, float *y, bool mistake)
{
    float *s = gpu_shared<float>();
    s[threadIdx.x] = x[threadIdx.x];
    if (!mistake) __syncwarp();
    y[threadIdx.x] = s[threadIdx.x ^ 1];
}
static void launch_neighbour(bool mistake)
{
    gpu_launch(&context, "neighbour", neighbour, dim3(1), dim3(32), 32 * sizeof(float), in, out,
               mistake);
}
static void a_missing_syncwarp_is_noticed(void **)
{
    expect_other_bits(launch_neighbour);
}

// Lane 0 adds 31 numbers of 32: the last is what shared memory held.
static __global__ void unset(const float *x, float *y, bool mistake)
{
    float *s = gpu_shared<float>();
    if (!mistake || threadIdx.x < 31) s[threadIdx.x] = x[threadIdx.x];
    __syncwarp();
    y[threadIdx.x] = s[31 - threadIdx.x];
}
static void launch_unset(bool mistake)
{
    gpu_launch(&context, "unset", unset, dim3(2), dim3(32), 32 * sizeof(float), in, out, mistake);
}
static void shared_memory_that_nobody_set_is_noticed(void **)
{
    expect_other_bits(launch_unset);
}

// The sum of an array that cudaMalloc has just given.
static __global__ void sum_fresh(float *fresh, const float *x, float *y, bool mistake)
{
    const int i = (int)threadIdx.x;
    if (!mistake) fresh[i] = x[i];
    y[i] = fresh[i] + x[i];
}
static float first_of_fresh(bool mistake)
{
    float results[N], *fresh;
    open_device();
    CUDA(cudaMalloc((void **)&fresh, 128 * sizeof(float)));
    gpu_launch(&context, "sum_fresh", sum_fresh, dim3(1), dim3(128), 0, fresh, in, out, mistake);
    finish(results);
    return results[0];
}
static void device_memory_that_nobody_set_is_noticed(void **)
{
    assert_true(first_of_fresh(false) == 2.0f);
    assert_true(isnan(first_of_fresh(true)));
}

static __global__ void copy(const float *x, float *y, bool mistake)
{
    float *s = gpu_shared<float>();
    gpu_copy16(s + 4 * threadIdx.x, x + 4 * threadIdx.x, true);
    gpu_copy_commit();
    if (!mistake) gpu_copy_wait<0>();
    __syncthreads();
    for (int i = 0; i < 4; i++) y[i * 64 + (int)threadIdx.x] = s[255 - (i * 64 + (int)threadIdx.x)];
}
static void launch_copy(bool mistake)
{
    gpu_launch(&context, "copy", copy, dim3(1), dim3(64), 256 * sizeof(float), in, out, mistake);
}
static void a_missing_wait_for_a_copy_is_noticed(void **)
{
    expect_other_bits(launch_copy);
}

// A sum of floats in the order in which blocks run, as atomicAdd of floats would give. The stand-in has no
// such atomicAdd; the mistake stands here for any other way to write it.
static __global__ void sum_in_any_order(const float *x, float *y, bool mistake)
{
    if (threadIdx.x != 0) return;
    if (mistake)
        y[0] += x[blockIdx.x];
    else
        y[blockIdx.x] += x[blockIdx.x];
}
static void launch_sum(bool mistake)
{
    gpu_launch(&context, "sum", sum_in_any_order, dim3(N), dim3(32), 0, in, out, mistake);
}
static void a_sum_in_the_order_of_blocks_is_noticed(void **)
{
    expect_other_bits(launch_sum);
}

// ---- Mistakes that end the process

static void run_to_end(mistaken launch)
{
    float results[N];
    open_device();
    launch(true);
    finish(results);
}

static __global__ void part_of_a_barrier(float *y)
{
    if (threadIdx.x < 40) __syncthreads();
    y[threadIdx.x] = 1;
}
static void launch_part_of_a_barrier(bool)
{
    gpu_launch(&context, "part", part_of_a_barrier, dim3(1), dim3(64), 0, out);
}
static __global__ void two_barriers(float *y)
{
    if (threadIdx.x < 32)
        __syncthreads();
    else
        __syncthreads();
    y[threadIdx.x] = 1;
}
static void launch_two_barriers(bool)
{
    gpu_launch(&context, "two", two_barriers, dim3(1), dim3(64), 0, out);
}
static void part_body(void)
{
    run_to_end(launch_part_of_a_barrier);
}
static void two_barriers_body(void)
{
    run_to_end(launch_two_barriers);
}
static void a_barrier_that_some_threads_miss_is_named(void **)
{
    child_is_ended(
        part_body,
        "kernel part, block (0,0,0), thread (0,0,0): it waits for ever in __syncthreads");
    child_is_ended(two_barriers_body, "wait at different barriers");
}

static __global__ void part_of_a_shuffle(float *y)
{
    float x = 1;
    if (threadIdx.x % 32 != 5) x = __shfl_xor_sync(GPU_ALL_LANES, x, 1);
    y[threadIdx.x] = x;
}
static void launch_part_of_a_shuffle(bool)
{
    gpu_launch(&context, "part", part_of_a_shuffle, dim3(1), dim3(32), 0, out);
}
static __global__ void lane_out_of_mask(float *y)
{
    y[threadIdx.x] = threadIdx.x < 16 ? __shfl_down_sync(0xffffu, 1.0f, 1) : 0;
}
static void launch_lane_out_of_mask(bool)
{
    gpu_launch(&context, "mask", lane_out_of_mask, dim3(1), dim3(32), 0, out);
}
static void shuffle_body(void)
{
    run_to_end(launch_part_of_a_shuffle);
}
static void mask_body(void)
{
    run_to_end(launch_lane_out_of_mask);
}
static void a_shuffle_that_a_lane_misses_is_named(void **)
{
    child_is_ended(shuffle_body, "because thread (5,0,0) has left the kernel");
    child_is_ended(mask_body, "reads lane 16, which is not in its mask 0x0000ffff");
}

static __global__ void no_bounds(const float *x, float *y)
{
    const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    y[i] = x[i];
}
static void launch_no_bounds(bool)
{
    gpu_launch(&context, "no_bounds", no_bounds, dim3(N / 256 + 1), dim3(256), 0, in, out);
}
static void no_bounds_body(void)
{
    run_to_end(launch_no_bounds);
}
static void a_missing_bounds_check_is_named(void **)
{
    child_is_ended(no_bounds_body, "kernel no_bounds, block (4,0,0), thread (");
}

static __global__ void beyond_shared(float *y, int by)
{
    float *s = gpu_shared<float>();
    s[(int)threadIdx.x + by] = 1;
    y[threadIdx.x] = s[threadIdx.x];
}
static void launch_beyond_shared(bool)
{
    gpu_launch(&context, "beyond", beyond_shared, dim3(1), dim3(32), 128, out, 1);
}
// 32 bytes less than a multiple of 128: no page ends there.
static void launch_beyond_some_shared(bool)
{
    gpu_launch(&context, "beyond", beyond_shared, dim3(1), dim3(32), 128 - 32, out, 0);
}
static __global__ void large_struct(float *y)
{
    struct large {
        float x[64];
    };
    y[threadIdx.x] = gpu_shared<large>()->x[0];
}
static void launch_large_struct(bool)
{
    gpu_launch(&context, "large", large_struct, dim3(1), dim3(32), 128, out);
}
static void beyond_body(void)
{
    run_to_end(launch_beyond_shared);
}
static void beyond_some_body(void)
{
    run_to_end(launch_beyond_some_shared);
}
static void large_body(void)
{
    run_to_end(launch_large_struct);
}
static void an_overrun_of_shared_memory_is_named(void **)
{
    child_is_ended(beyond_body,
                   "thread (31,0,0): it reads or writes beyond its 128 bytes of shared memory");
    child_is_ended(beyond_some_body,
                   "a thread of the block wrote beyond its 96 bytes of shared memory");
    child_is_ended(large_body, "asks for 256 bytes of shared memory; the launch gave 128");
}

static __global__ void misaligned(const float *x, float *y)
{
    gpu_store_pack(y + 4 * threadIdx.x, gpu_load_pack(x + 4 * threadIdx.x + 1));
}
static void launch_misaligned(bool)
{
    gpu_launch(&context, "misaligned", misaligned, dim3(1), dim3(32), 0, in, out);
}
static void misaligned_body(void)
{
    run_to_end(launch_misaligned);
}
static void an_address_that_is_not_aligned_is_named(void **)
{
    child_is_ended(misaligned_body, "at an address that is not aligned to the type");
}

static __global__ void endless(float *y)
{
    volatile float frame[1024];
    frame[threadIdx.x] = y[threadIdx.x];
    for (int i = 0; i < 100; i++) frame[i] = frame[i + 1];
    if (frame[0] != -1) endless(y);
    y[threadIdx.x] = frame[0];
}
static void launch_endless(bool)
{
    gpu_launch(&context, "endless", endless, dim3(1), dim3(32), 0, out);
}
static void endless_body(void)
{
    run_to_end(launch_endless);
}
static void a_stack_that_is_too_small_is_named(void **)
{
    child_is_ended(endless_body, "bytes of stack");
}

static __global__ void nothing(float *)
{
}
static void launch_odd_block(bool)
{
    gpu_launch(&context, "nothing", nothing, dim3(1), dim3(33), 0, out);
}
static void odd_block_body(void)
{
    run_to_end(launch_odd_block);
}
static void a_block_that_is_no_multiple_of_a_warp_is_named(void **)
{
    child_is_ended(odd_block_body, "33 threads in x, which is no multiple of 32");
}

int main()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_barrier_that_some_threads_miss_is_named),
        cmocka_unit_test(a_shuffle_that_a_lane_misses_is_named),
        cmocka_unit_test(a_missing_bounds_check_is_named),
        cmocka_unit_test(an_overrun_of_shared_memory_is_named),
        cmocka_unit_test(an_address_that_is_not_aligned_is_named),
        cmocka_unit_test(a_stack_that_is_too_small_is_named),
        cmocka_unit_test(a_block_that_is_no_multiple_of_a_warp_is_named),
        cmocka_unit_test(a_missing_barrier_is_noticed),
        cmocka_unit_test(a_missing_second_barrier_is_noticed),
        cmocka_unit_test(a_missing_syncwarp_is_noticed),
        cmocka_unit_test(shared_memory_that_nobody_set_is_noticed),
        cmocka_unit_test(device_memory_that_nobody_set_is_noticed),
        cmocka_unit_test(a_missing_wait_for_a_copy_is_noticed),
        cmocka_unit_test(a_sum_in_the_order_of_blocks_is_noticed),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
