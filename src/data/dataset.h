// dataset.h -- numbered samples: what a sampler orders and a loader reads. A table of functions.
//
//   shards   sequence k = tokens kL … kL+L of one shard (documents joined); (tokens-1)/L samples
//   blend    several shards with weights: sample k comes from the shard whose achieved share lags
//            its weight most (greedy, deterministic, as Megatron's BlendedDataset); as many samples
//            as all shards together, a shard of too few begins again
//   mock     tokens drawn from (seed, sample number)
//   vectors  a safetensors file with x [samples, features] (F32, F16, BF16, F64) and y: integers
//            [samples] (I32, I64, U8) are classes, -100 ignored; floats [samples] or [samples,
//            targets] are regression targets
#ifndef TRIREME_DATA_DATASET_H
#define TRIREME_DATA_DATASET_H

#include "base/dtype.h"
#include "base/err.h"

#include <stdbool.h>

typedef struct dataset dataset;

// One sample, read into the caller's arrays of the shapes below.
typedef struct dataset_shape {
    int64_t inputs;   // elements a sample: L token ids (I32), or features (F32)
    dtype input_type; // I32 or F32
    int64_t labels;   // L label ids (I32), 1 class (I32), or regression targets (F32)
    dtype label_type; // I32 (class or token id, -100 ignored) or F32 (regression target)
} dataset_shape;

struct dataset {
    dataset_shape shape;
    uint64_t samples; // an epoch's length; 0 with read_own
    int32_t max_id;   // vectors: classes - 1; tokens: -1 when not known
    status (*read)(dataset *d, uint64_t sample, void *inputs, void *labels, err *e); // thread-safe
    // Or NULL. Instead of `read`, with `samples` 0: data that every data-parallel rank has for
    // itself, sample `index` (0, 1, 2 …) of rank `rank` of `ranks`. *ended comes in false; set,
    // this rank has no such sample and none after it. Thread-safe.
    status (*read_own)(dataset *d, int rank, int ranks, uint64_t index, void *inputs, void *labels,
                       bool *ended, err *e);
    void (*close)(dataset *d);
};

typedef struct data_part {
    const char *path;
    double weight;
} data_part;

// Opens by what the parts are: one path "mock", a *.safetensors file, or shard prefixes (weights >
// 0 matter when there are several). vocab: ids must be below it (checked whole at opening for
// shards; E_USAGE); for vectors classes must be below it when it is > 0. seq_len L is for tokens.
// seed is for mock; mock has mock_samples samples.
status dataset_open(const data_part *parts, size_t count, int64_t seq_len, int32_t vocab,
                    uint64_t seed, uint64_t mock_samples, dataset **out, err *e);
void dataset_close(dataset *d); // NULL allowed

#endif
