// dataset.h -- numbered samples that a sampler orders and a loader reads: a table of functions.
//
//   shards    sample k is the tokens kL … kL+L of one token shard, whose documents are joined; a
//             shard has (tokens - 1) / L samples
//   blend     several shards with weights; sample k comes from the shard whose share so far lags its
//             weight most (deterministic, as Megatron's BlendedDataset); a blend has as many samples
//             as its shards together, and a shard that runs out begins again
//   mock      tokens drawn from (seed, sample number)
//   vectors   a safetensors file with x [samples, features] (F32, F16, BF16 or F64) and y. Integers
//             y [samples] (I32, I64, U8) are classes, and -100 is ignored. Floats y [samples] or
//             y [samples, targets] are regression targets.
#ifndef TRIREME_DATA_DATASET_H
#define TRIREME_DATA_DATASET_H

#include "base/dtype.h"
#include "base/err.h"

#include <stdbool.h>

typedef struct dataset dataset;

// The shape of one sample in the caller's arrays.
typedef struct dataset_shape {
    int64_t inputs;   // elements per sample: L token ids (I32), or features (F32)
    dtype input_type; // I32 or F32
    int64_t labels;   // elements per sample: L token ids (I32), 1 class (I32), or targets (F32)
    dtype label_type; // I32 (class or token id, -100 is ignored) or F32 (regression target)
    // A sample is documents one after the other, which do not see each other. inputs is then 2L: L token ids,
    // and for each token the position 0 … L-1 of the sample at which its document begins. The label of the
    // token before such a start is -100.
    bool documents;
    // Some labels may be -100. Where samples are documents, they may be in any case.
    bool unlabelled;
    // Numbers of each token (F32) behind the labels: `labels` is then followed by extras arrays of L numbers. 0: none;
    // 1: the weight of the token's loss; 2, of preference losses: the reference's log-probability of the token's document
    // is the sum of both.
    int extras;
} dataset_shape;

// A label with this bit is of the prompt of a chosen answer, which preference losses of two parts count apart from the
// answer (kernel_preference_parts).
#define PROMPT_LABEL ((int32_t)0x40000000)

// The elements, of 4 bytes, of a sample's labels and of the numbers behind them.
static inline int64_t dataset_label_elements(const dataset_shape *s)
{
    return (1 + s->extras) * s->labels;
}

struct dataset {
    dataset_shape shape;
    uint64_t samples; // of an epoch; 0 with read_own
    int32_t max_id;   // vectors: classes - 1; tokens: -1, because it is not known
    uint64_t
        memory; // bytes of the process that hold samples; those of mapped files are not counted
    // Reads one sample: inputs [shape.inputs], labels [dataset_label_elements]. Thread-safe.
    status (*read)(dataset *d, uint64_t sample, void *inputs, void *labels, err *e);
    // NULL, or the function that replaces `read` for data that each data-parallel rank has for
    // itself; `samples` is 0 then. It reads sample `index` (0, 1, 2, …) of rank `rank` of `ranks`.
    // *ended is false before the call; the function sets it when the rank has no such sample and
    // none after it. Thread-safe.
    status (*read_own)(dataset *d, int rank, int ranks, uint64_t index, void *inputs, void *labels,
                       bool *ended, err *e);
    // NULL, or the function behind dataset_order_as_megatron.
    status (*order_as_megatron)(dataset *d, uint64_t seed, uint64_t samples, err *e);
    void (*close)(dataset *d);
};

// One entry of the job file's list of data.
typedef struct dataset_source {
    const char *path;
    double
        weight; // its share of a blend, relative to the others; of samples (samples/samples.h) its copies
    // Of a shard: the documents from share `from` to share `to` of all, 0 <= from < to <= 1; `to` 0: all documents. The
    // first and the last are rounded as Megatron-LM rounds those of its splits.
    double from, to;
    int format; // of JSONL, a samples_format; 0: the format of all
} dataset_source;

// Opens the kind of dataset that the sources name: the single path "mock", a *.safetensors file, or
// prefixes of token shards (weights must be > 0 when there are several).
//   seq_len        L; for tokens
//   vocab          ids must be below it, and opening reads whole shards to check that; classes of
//                  vectors must be below it when it is > 0
//   seed           for mock
//   mock_samples   number of samples of mock
// The owner calls dataset_close. E_USAGE names the path and what is wrong.
status dataset_open(const dataset_source *sources, size_t count, int64_t seq_len, int32_t vocab,
                    uint64_t seed, uint64_t mock_samples, dataset **out, err *e);
void dataset_close(dataset *d); // NULL allowed

// Puts the samples of token shards in the order of Megatron-LM's GPTDataset (megatron_order.h), and of its BlendedDataset
// for several, for a run of `samples` samples. The data set has at least so many samples after it. No sample may have been read. E_USAGE for
// other data, and for a seed above 2^32 - 1.
status dataset_order_as_megatron(dataset *d, uint64_t seed, uint64_t samples, err *e);

// Checks where documents begin: start [count] is the second half of a sample's inputs. A document begins at
// position 0, and at each later position the same one goes on, or another one begins. E_USAGE names the
// position.
status dataset_check_starts(const int32_t *start, int64_t count, err *e);

#endif
