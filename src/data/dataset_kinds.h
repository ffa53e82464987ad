// dataset_kinds.h -- opens each kind of dataset; one .c file per kind. Only dataset.c and these files
// include it.
#ifndef TRIREME_DATA_DATASET_KINDS_H
#define TRIREME_DATA_DATASET_KINDS_H

#include "data/dataset.h"

// Opens one shard, or a blend of up to 255.
status dataset_open_shards(const dataset_source *sources, size_t count, int64_t seq_len,
                           int32_t vocab, dataset **out, err *e);
status dataset_open_vectors(const char *path, int32_t vocab, dataset **out, err *e);
status dataset_open_mock(int64_t seq_len, int32_t vocab, uint64_t seed, uint64_t samples,
                         dataset **out, err *e);

#endif
