// cuda_gpus_ask.c -- asks CUDA itself which GPUs there are: on a machine without NVML, with GPUs of several
// kinds, or with GPUs that are divided. CUDA that has started does not survive a fork, so a child process
// asks, and ends. Called by cuda_gpus.c only.
#include "device/cuda/cuda_gpus.h"

#include "base/text.h"
#include "device/cuda/libraries/cuda_library.h"

#include <cuda_runtime_api.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static status check(cudaError_t code, err *e)
{
    int version = 0;
    if (code == cudaSuccess) return OK;
    if (code == cudaErrorInsufficientDriver || code == cudaErrorStubLibrary) {
        const status found =
            cudaDriverGetVersion(&version) == cudaSuccess ? cuda_gpus_check_driver(version, e) : OK;
        if (found != OK) return found;
    }
    return err_set(e, E_USAGE, "the NVIDIA driver does not work: CUDA says: %s",
                   cudaGetErrorString(code));
}

// The memory that is free is known only to a context, which this makes.
static status ask_one(int index, cuda_gpu *out, err *e)
{
    status result = OK;
    struct cudaDeviceProp known;
    size_t free_bytes, total;
    TRY(check(cudaGetDeviceProperties(&known, index), e));
    snprintf(out->name, sizeof out->name, "%.*s", TEXT_CUT(known.name, 90));
    out->major = known.major;
    out->minor = known.minor;
    TRY(check(cudaSetDevice(index), e));
    TRY(check(cudaMemGetInfo(&free_bytes, &total), e));
    out->free_bytes = free_bytes;
    out->utilization = -1;
done:
    return result;
}

static status ask(cuda_gpus *out, err *e)
{
    status result = OK;
    int now = 0;
    const cudaError_t counted = cudaGetDeviceCount(&out->count);
    if (counted == cudaErrorNoDevice) out->count = 0;
    if (counted == cudaErrorNoDevice) goto done;
    TRY(check(counted, e));
    if (out->count > CUDA_MOST_GPUS) out->count = CUDA_MOST_GPUS;
    TRY(check(cudaGetDevice(&now), e));
    for (int i = 0; i < out->count && result == OK; i++) result = ask_one(i, &out->gpu[i], e);
    (void)cudaSetDevice(now);
done:
    (void)cudaGetLastError();
    return result;
}

// ---- The child process

typedef struct answer {
    status result;
    err problem;
    cuda_gpus gpus;
} answer;

static bool move_all(ssize_t (*move)(int, void *, size_t), int file, void *bytes, size_t left)
{
    for (char *p = bytes; left > 0;) {
        const ssize_t moved = move(file, p, left);
        if (moved < 0 && errno == EINTR) continue;
        if (moved <= 0) return false;
        p += moved;
        left -= (size_t)moved;
    }
    return true;
}

static ssize_t write_some(int file, void *bytes, size_t count)
{
    return write(file, bytes, count);
}

static void answer_and_end(int file)
{
    answer a = {.result = OK};
    a.result = ask(&a.gpus, &a.problem);
    _exit(move_all(write_some, file, &a, sizeof a) ? 0 : 1);
}

static status ask_child(cuda_gpus *out, err *e)
{
    status result = OK;
    answer a;
    int file[2] = {-1, -1}, ended;
    if (pipe(file) != 0) return err_errno(e, "a pipe to a process that looks for GPUs");
    const pid_t child = fork();
    if (child < 0) {
        result = err_errno(e, "a process that looks for GPUs");
        goto done;
    }
    if (child == 0) answer_and_end(file[1]);
    close(file[1]);
    file[1] = -1;
    const bool answered = move_all(read, file[0], &a, sizeof a);
    while (waitpid(child, &ended, 0) < 0 && errno == EINTR) continue;
    if (!answered)
        FAIL(E_USAGE, "the NVIDIA driver does not work: a process that looked for GPUs ended");
    *out = a.gpus;
    result = a.result;
    if (result != OK && e) *e = a.problem;
done:
    if (file[0] >= 0) close(file[0]);
    if (file[1] >= 0) close(file[1]);
    return result;
}

status cuda_gpus_ask(cuda_gpus *out, err *e)
{
    *out = (cuda_gpus){.count = 0};
    return cuda_driver_is_open() ? ask(out, e) : ask_child(out, e);
}
