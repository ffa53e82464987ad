// runtime.h -- what the stand-in of the CUDA runtime offers to the stand-ins of kernels (gpu_stand_in.h), of
// cuBLASLt and of cuDNN, and to tests. Sources of the cuda device do not include it. C and C++ read it.
//
// Work that is issued to a stream waits in a queue. A host thread that waits (for a stream, an event or a
// device, by a blocking copy, or by a query) executes queues itself, in an order that is legal and
// inconvenient. Work that nobody waits for runs after about 20 ms on a thread of the stand-in. At most
// one piece of work executes at a time, on any thread; device memory is inaccessible while none does.
//
// The environment chooses what the process sees, at its first call:
//   TRIREME_STAND_IN_DEVICES  devices of the machine, 0 to 16; default 2 (CUDA_VISIBLE_DEVICES hides some)
//   TRIREME_STAND_IN_BYTES    memory of each; default 2 GiB
//   TRIREME_STAND_IN_SEED     of the order of work; default 0. seed % 3: 0 what the host waits for runs
//                             last, 1 only what it needs runs, 2 anything that may
//   TRIREME_STAND_IN_DRIVER   "none": no driver; "old": one that is too old; "mismatch": one whose
//                             library does not fit the kernel's module
//   TRIREME_STAND_IN_ARCH     compute capability, 80, 89 (99 KiB of shared memory a block) or 90; default 90
//   TRIREME_STAND_IN_NAME     of the devices; default "Stand-in GPU"
//   TRIREME_STAND_IN_PEERS    1: a copy between two devices changes a byte; default 0
//
// A broken rule that CUDA reports is reported with CUDA's error. A broken rule that CUDA does not notice
// ends the process with one line on stderr, "cuda stand-in: CALL: …", and exit status 1:
//   - asynchronous copies from or to pageable memory of the host; copies and memsets beyond an allocation,
//     from or to freed memory, or between overlapping ranges
//   - the host writes to the source of a copy that is pending (the target holds poison until it ran)
//   - the host dereferences device memory; a kernel runs beyond an allocation, uses freed memory, or
//     memory of a device whose peer access is not enabled
//   - bytes beside an allocation changed (found when it is freed)
//   - memory is freed that another process has open
#ifndef TRIREME_STAND_IN_RUNTIME_H
#define TRIREME_STAND_IN_RUNTIME_H

#include <cuda_runtime_api.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// A kernel or a library's call, ready to run. `run` is called once for each execution: never, once, or
// many times if a graph recorded it. `release`, if not NULL, is called when it will not run again.
typedef struct stand_in_work {
    const char *name; // for messages; copied
    void (*run)(void *state);
    void (*release)(void *state);
    void *state;
    // Of work that goes on in steps, while other work waits for it; else NULL. `ready` says whether `run` can make a step,
    // and `ended` whether it has made the last one. `ready` is called with the queues locked, and reads no device memory.
    bool (*ready)(void *state);
    bool (*ended)(void *state);
} stand_in_work;

// Issues work to a stream, or records it if the stream is being captured. On an error the work is
// released at once. The calling thread's current device must be the stream's.
cudaError_t stand_in_issue(cudaStream_t stream, stand_in_work work);

// As stand_in_issue, for a kernel: checks the shape of the launch first, as CUDA does. The result is also
// what the next cudaGetLastError returns. `func` is the kernel's address as cudaFuncSetAttribute got it.
cudaError_t stand_in_launch(const void *func, dim3 grid, dim3 block, size_t shared_bytes,
                            cudaStream_t stream, stand_in_work work);

// What a library does that loads the code of a kernel when it is first launched: a call that CUDA refuses
// while the thread captures, unless the capture or the thread is in the relaxed mode.
cudaError_t stand_in_unsafe_call(void);

// Calls `observe` before each piece of work, with its name and the priority that it runs with. NULL: no more. Of the process.
typedef void (*stand_in_observer)(const char *name, int priority);
void stand_in_set_observer(stand_in_observer observe);

// Called by work that runs and waits for memory that other work writes: other streams, devices, threads
// and processes go on. Called on the stack on which `run` was called, not on a fiber's.
void stand_in_pause(void);

// The next number of a sequence that TRIREME_STAND_IN_SEED fixes; stand_in_seed returns the seed.
uint64_t stand_in_random(void);
uint64_t stand_in_seed(void);

// Ends the process with one line, "cuda stand-in: …".
void stand_in_die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

// Checks that [p, p + bytes) lies in one live allocation that the device of the running work (or, if none
// runs, the thread's current device) may use; else ends the process: "WHAT: …". For library calls.
void stand_in_check_range(const char *what, const void *p, size_t bytes);

// Sets what a message says about the place of a fault in the work that this thread runs: `where` writes a
// text such as "kernel norm, block (1,0,0), thread (3,0,0)". It is called in a signal handler. NULL: only
// the work's name is printed. Of the process.
typedef void (*stand_in_where)(char *text, size_t room);
void stand_in_set_where(stand_in_where where);

// Returns true and ends nothing if `address` is none of the stand-in's; else ends the process with the line
// for it. The stand-in's own SIGSEGV and SIGBUS handler calls it; a handler that replaces that one must, too.
bool stand_in_fault(const void *address);

// Installs the handler of SIGSEGV and SIGBUS, with an alternate stack for the calling thread. The stand-in
// calls it before it runs work.
void stand_in_watch_faults(void);

#ifdef __cplusplus
}
#endif

#endif
