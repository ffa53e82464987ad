// labelled.h -- makes PREFIX.labels beside a token shard: which tokens are predicted, and the weight of each document.
// The head of labelled.c describes the file. `data prepare --sft` calls it. It keeps a bit a token in memory.
#ifndef TRIREME_DATA_SAMPLES_LABELLED_H
#define TRIREME_DATA_SAMPLES_LABELLED_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct samples_labels samples_labels;
status samples_labels_open(samples_labels **out, err *e);
void samples_labels_close(samples_labels *l); // NULL allowed
// Adds a document, trained [count]. All documents are of pairs, or none is.
status samples_labels_add(samples_labels *l, const bool *trained, size_t count, double weight,
                          bool of_pair, err *e);
// Writes all labels, durably.
status samples_labels_write(const samples_labels *l, const char *path, err *e);

#endif
