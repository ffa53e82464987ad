// mismatched.h -- the answers of a data set, each after the prompt of another one. KTO estimates the KL divergence of the
// policy from the reference with them. reference.c calls it. It knows no model.
//
// As in TRL, the prompt of an answer is followed by the answer before it among those of `group` samples, and the first
// prompt by the last answer.
#ifndef TRIREME_SESSION_PREFERENCE_MISMATCHED_H
#define TRIREME_SESSION_PREFERENCE_MISMATCHED_H

#include "data/dataset.h"

// An answer of the data set: tokens prompt … begin-1 of the sample are its prompt, begin … end-1 the answer.
typedef struct mismatched_answer {
    uint64_t sample;
    int32_t prompt, begin, end;
} mismatched_answer;

typedef struct mismatched {
    dataset *source; // borrowed; documents (dataset_shape)
    uint64_t group;
    mismatched_answer *answer; // [answers]
    uint64_t *first;           // [samples + 1] those of sample s are first[s] … first[s + 1] - 1
    uint64_t answers;
    size_t room;
} mismatched;

status mismatched_open(dataset *source, uint64_t group, mismatched *out, err *e);
void mismatched_close(mismatched *m); // safe on a zeroed one
// Takes sample 0, 1, …, as its source has read it.
status mismatched_add(mismatched *m, uint64_t sample, const int32_t *inputs, const int32_t *labels,
                      err *e);

// Rows of some of the answers, each after the other prompt; one that is longer than a row loses its end. A data set
// (dataset.h) without numbers behind labels, which the owner closes.
typedef struct mismatched_rows {
    dataset base;
    const mismatched *of;
    uint64_t *answer; // [answers] in the order of rows
    uint64_t answers;
    uint64_t *first; // [base.samples + 1] those of row r are first[r] … first[r + 1] - 1
    int32_t *space;  // a sample of the source; so one thread at a time reads
} mismatched_rows;

// Makes rows of the answers of samples sample[0 … samples-1].
status mismatched_rows_open(const mismatched *m, const uint64_t *sample, uint64_t samples,
                            mismatched_rows **out, err *e);

#endif
