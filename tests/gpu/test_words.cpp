// test_words.cpp -- the words of kernels on the stand-in: matrix products against products in plain C,
// fragments and shuffles against their definition, and all of them against what a GPU gave, where
// golden/words.txt is there.
#include "golden/words.h"

#include "child.h"

#include <stdlib.h>

static words_of_lane lanes[32];

// Runs the kernel under an order.
static void run(uint64_t order)
{
    uint32_t source[128], *there;
    words_of_lane *out;
    cudaStream_t stream;
    err failure = {};
    for (int i = 0; i < 128; i++) source[i] = words_source(i);
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CUDA(cudaMalloc((void **)&there, sizeof source));
    CUDA(cudaMalloc((void **)&out, sizeof lanes));
    CUDA(cudaMemcpy(there, source, sizeof source, cudaMemcpyHostToDevice));
    cuda_context x = {};
    x.stream = stream;
    x.failure = &failure;
    stand_in_set_order(order);
    gpu_launch(&x, "words", words_kernel, dim3(1), dim3(32), sizeof(words_shared), out, there);
    CUDA(cudaStreamSynchronize(stream));
    CUDA(cudaMemcpy(lanes, out, sizeof lanes, cudaMemcpyDeviceToHost));
    assert_int_equal(failure.code, OK);
}

static float as_float(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

static void products_are_those_of_plain_c(void **)
{
    run(0);
    for (int row = 0; row < 16; row++) {
        for (int column = 0; column < 8; column++) {
            float sum = 0;
            for (int k = 0; k < 16; k++) sum += words_a(row, k) * words_b(k, column);
            const int lane = row % 8 * 4 + column / 2, i = row / 8 * 2 + column % 2;
            assert_true(as_float(lanes[lane].bf16[i]) == sum + (float)(i + 1));
            assert_true(as_float(lanes[lane].f16[i]) == sum + (float)(4 - i));
        }
    }
}

static void matrices_are_loaded_as_fragments(void **)
{
    run(0);
    for (int lane = 0; lane < 32; lane++) {
        for (int m = 0; m < 4; m++) {
            const uint32_t first = (uint32_t)(m * 64), row = (uint32_t)lane / 4,
                           column = (uint32_t)lane % 4 * 2;
            const uint32_t plain = first + row * 8 + column, turned = first + column * 8 + row;
            assert_int_equal(lanes[lane].loaded[m], plain | (plain + 1) << 16);
            assert_int_equal(lanes[lane].transposed[m], turned | (turned + 8) << 16);
        }
    }
}

static void lanes_exchange_values(void **)
{
    run(0);
    for (int lane = 0; lane < 32; lane++) {
        const uint32_t *s = lanes[lane].shuffled;
        assert_int_equal(s[0], 100 + (lane * 5 + 3) % 32);
        assert_int_equal(s[1], 100 + (lane ^ 13));
        assert_int_equal(s[2], 100 + (lane + 7 < 32 ? lane + 7 : lane));
        assert_int_equal(s[3], 100 + (lane ^ 3));
        assert_int_equal(s[4], 100 + (lane % 8 + 3 < 8 ? lane + 3 : lane));
        assert_int_equal(lanes[lane].ballot, 0x92492492u);
    }
}

static void copies_arrive(void **)
{
    run(0);
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < 4; i++)
            assert_int_equal(lanes[lane].copied[i],
                             lane % 2 ? words_source((31 - lane) * 4 + i) : 0);
}

static void numbers_are_rounded_as_on_the_host(void **)
{
    run(0);
    for (int lane = 0; lane < 32; lane++) {
        const float x = words_number(lane);
        const uint32_t *r = lanes[lane].rounded;
        assert_int_equal(r[0], float_to_bf16(x));
        assert_int_equal(r[2], (uint32_t)float_to_bf16(x) | (uint32_t)float_to_bf16(-x) << 16);
        assert_int_equal(r[3], r[1] | (r[1] ^ 0x8000u) << 16);
        assert_true(as_float(r[1]) == as_float(gpu_float_to_f16(gpu_f16_to_float((uint16_t)r[1]))));
    }
}

static void every_order_gives_the_same(void **)
{
    words_of_lane first[32];
    run(0);
    memcpy(first, lanes, sizeof first);
    for (uint64_t order = 1; order < 8; order++) {
        run(order);
        assert_memory_equal(first, lanes, sizeof first);
    }
}

static void a_gpu_gave_the_same(void **)
{
    const char *path = getenv("TRIREME_WORDS"); // of ./check-gpu, which records them anew
    FILE *f = fopen(path ? path : TESTS_DIR "/gpu/golden/words.txt", "r");
    if (!f) skip();
    run(0);
    for (int lane = 0; lane < 32; lane++) {
        const uint32_t *words = (const uint32_t *)&lanes[lane];
        for (int i = 0; i < WORDS; i++) {
            uint32_t recorded;
            assert_int_equal(fscanf(f, "%x", &recorded), 1);
            if (recorded != words[i])
                fail_msg("lane %d, number %d is %08x, and was %08x on a GPU", lane, i, words[i],
                         recorded);
        }
    }
    fclose(f);
}

int main()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_are_those_of_plain_c),
        cmocka_unit_test(matrices_are_loaded_as_fragments),
        cmocka_unit_test(lanes_exchange_values),
        cmocka_unit_test(copies_arrive),
        cmocka_unit_test(numbers_are_rounded_as_on_the_host),
        cmocka_unit_test(every_order_gives_the_same),
        cmocka_unit_test(a_gpu_gave_the_same),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
