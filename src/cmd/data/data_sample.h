// data_sample.h -- prints samples and packed sequences for `data inspect`.
#ifndef TRIREME_CMD_DATA_SAMPLE_H
#define TRIREME_CMD_DATA_SAMPLE_H

#include "data/samples/samples.h"

typedef struct data_sample_flags {
    int64_t number, row; // of the sample, of the sequence, from 1; 0: not given
    int64_t seq_len;
    const char *format, *train_on, *packing, *truncate; // words; NULL: the default
} data_sample_flags;

// Prints the sample or the sequence of a file or a shard. With neither: what became of the lines, and the first sample.
status data_sample_print(const data_sample_flags *f, const char *path, const tokenizer *t,
                         bool json, err *e);

// Prints the sentence of conversations that became several samples; nothing where there are none.
void data_print_splits(const samples_splits *s);

#endif
