// case.h -- cases of kernels: the same launch on a device and by the reference in double, compared. Each
// cases_STEM.c is a program with the cases of the kernels of that stem; its cases_run describes launches.
// The program runs on any device that has the kernels: "cuda" by default, on a GPU or on the stand-in,
// or the one that its first argument names. A second argument leaves out the cases whose names lack it. It knows
// device.h and nothing of CUDA.
//
// A case is a function that fills one kernel_call over arrays that it takes from a `space`, in the host's
// memory. case_check calls it for the reference, and again for the device, where it copies the arrays, puts
// the addresses of the device into the call, and launches it with exactly the workspace that it needs:
//   - once with arrays aligned to 256 bytes, and once with arrays aligned to their elements only, which end
//     where the allocation does (or one element before)
//   - each time twice or more, the workspace filled with other bytes; all launches must give equal bits, but
//     for a call that lets the device add in any order
//   - no byte outside an output may change, and outputs must be within the tolerance (case_compare.c)
#ifndef TRIREME_TESTS_CASE_H
#define TRIREME_TESTS_CASE_H

#include "device/device.h"
#include "device/kernel_needs.h"
#include "device/kernels.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// ---- Arrays

enum { SPACE_ARRAYS = 24, SPACE_FRONT = 256, SPACE_FENCE = 0xa5 };

typedef struct space_array {
    unsigned char *memory, *data; // data points into memory; around it are fences
    size_t total, bytes;          // of memory, and of data
    int64_t count;
    dtype type;
    const char *name;      // NULL: an input
    unsigned char *device; // memory's copy on the device, or NULL
} space_array;

typedef struct space {
    space_array array[SPACE_ARRAYS];
    int used;
    bool odd; // aligned to elements only
} space;

// An array of `count` elements, all bytes 0xff: NaN in every type. With a name it is an output, and
// outputs are compared. Types of whole numbers are compared bit by bit.
// An output of that name is scratch memory: it may be written, and is not compared.
#define SPACE_SCRATCH "scratch"
void *space_array_of(space *s, int64_t count, dtype type, const char *name);
// An array of uniform numbers of mean 0 and variance 1, times `scale`.
void *space_random(space *s, int64_t count, dtype type, float scale, const char *name);
// Whole numbers in [0, below).
int32_t *space_ids(space *s, int64_t count, int32_t below);
// The starts of packed documents of about `mean` tokens each, for `rows` rows; other ones in each sequence.
const int32_t *space_documents(space *s, const kernel_tokens *t, int64_t rows, int64_t mean);
// A copy of a struct, or of a table of structs, aligned to 8 bytes; compared bit by bit if it has a name.
void *space_bytes(space *s, const void *data, size_t bytes, const char *name);
void space_free(space *s);

// ---- Cases

typedef struct case_run case_run;

// Describes one call over arrays of `s`. Calls with the same shape describe the same numbers.
typedef kernel_call (*case_describe)(space *s, const void *shape);

// Checks one call, as above. The text names the shape in messages.
void case_check(case_run *r, case_describe describe, const void *shape, const char *text, ...)
    __attribute__((format(printf, 4, 5)));

// Checks that one sequence of a batch does not depend on the others, nor on their number: `one` describes the
// same arrays as `batch`, and a call on sequence `index` of `sequences`. It writes there the bits that `batch`
// writes, and nothing elsewhere. Outputs have the sequences one after another.
void case_check_sequence(case_run *r, case_describe batch, case_describe one, const void *shape,
                         int sequences, int index, const char *text);

// Runs a call over arrays of the host by the reference, for inputs that another kernel makes.
void case_reference(kernel_call *call);

// From now on the device prepares each call before its launch (device_ops.prepare), as the trainer has it
// do. Libraries compute only what was prepared.
void case_prepare(case_run *r);

// A whole number in [low, high], for shapes at random; equal in every run of the program.
int64_t case_pick(case_run *r, int64_t low, int64_t high);

// What a program of cases defines.
void cases_run(case_run *r);

enum { BEYOND = 256 };

// Called before each launch if the program defines it, with the memory of the workspace, which has BEYOND bytes more than
// the call needs. The stand-in changes its orders.
void case_before_launch(int repetition, kernel_call *call, void *workspace) __attribute__((weak));

// ---- Between the files of the runner

// Compares an output with the reference's. Returns true and sets *worst to the largest error, in units of
// the tolerance; or returns false and fills `text`.
bool case_compare(kernel_kind k, const space_array *want, const space_array *have, double *worst,
                  char *text, size_t bytes);
// Puts the addresses of the device into a call over arrays of s. Returns false where a pointer is none of
// them.
bool case_to_device(kernel_call *call, const space *s);

#endif
