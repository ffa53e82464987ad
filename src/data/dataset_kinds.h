// dataset_kinds.h -- the kinds of dataset, one opener a file. Only dataset.c includes it beside
// them.
#ifndef TRIREME_DATA_DATASET_KINDS_H
#define TRIREME_DATA_DATASET_KINDS_H

#include "data/dataset.h"

// One shard, or a blend of up to 255.
status dataset_open_shards(const data_part *parts, size_t count, int64_t seq_len, int32_t vocab,
                           dataset **out, err *e);
status dataset_open_vectors(const char *path, int32_t vocab, dataset **out, err *e);
status dataset_open_mock(int64_t seq_len, int32_t vocab, uint64_t seed, uint64_t samples,
                         dataset **out, err *e);

#endif
