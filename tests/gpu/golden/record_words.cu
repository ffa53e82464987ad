// record_words.cu -- records on a GPU what golden/words.h says, as text on standard output:
//   build/tests/gpu/gpu_record_words > tests/gpu/golden/words.txt
// One line for each lane, of numbers in base 16. test_words.cpp compares the stand-in with them.
#include "words.h"

#include <stdio.h>

// The program has no device around it, so it says itself what a launch found.
void cuda_check_launch(const cuda_context *, const char *what)
{
    const cudaError_t error = cudaGetLastError();
    if (error != cudaSuccess) fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
}

// Its kernel needs little shared memory.
void cuda_allow_shared(const void *, size_t)
{
}

int main()
{
    static words_of_lane lanes[32];
    uint32_t source[128], *there = nullptr;
    words_of_lane *out = nullptr;
    cuda_context x = {};
    for (int i = 0; i < 128; i++) source[i] = words_source(i);
    if (cudaMalloc((void **)&there, sizeof source) || cudaMalloc((void **)&out, sizeof lanes) ||
        cudaMemcpy(there, source, sizeof source, cudaMemcpyHostToDevice)) {
        fprintf(stderr, "gpu_record_words: %s\n", cudaGetErrorString(cudaGetLastError()));
        return 1;
    }
    gpu_launch(&x, "words", words_kernel, dim3(1), dim3(32), sizeof(words_shared), out, there);
    const cudaError_t error = cudaMemcpy(lanes, out, sizeof lanes, cudaMemcpyDeviceToHost);
    if (error != cudaSuccess) {
        fprintf(stderr, "gpu_record_words: %s\n", cudaGetErrorString(error));
        return 1;
    }
    for (int lane = 0; lane < 32; lane++) {
        const uint32_t *words = (const uint32_t *)&lanes[lane];
        for (int i = 0; i < WORDS; i++) printf("%08x%c", words[i], i == WORDS - 1 ? '\n' : ' ');
    }
    return 0;
}
