// prepare_output.h -- all files that a preparation writes. They appear together or not at all.
#ifndef TRIREME_DATA_PREPARE_OUTPUT_H
#define TRIREME_DATA_PREPARE_OUTPUT_H

#include "data/prepare.h"
#include "data/prepare_source.h"

typedef struct prepare_output prepare_output;

// Chooses all names and changes no file. E_USAGE when an output would replace an input or a folder,
// or its folder cannot be written. The owner calls prepare_output_close.
status prepare_output_open(const prepare_options *o, const prepare_source *inputs,
                           prepare_output **out, err *e);
// Makes the folder if it is missing, and the shards under temporary names. `eod` is the id that ends
// a document, or -1.
status prepare_output_begin(prepare_output *w, const tokenizer *t, int32_t eod, err *e);
// Appends a document, which encodes `bytes` bytes of text, to the shard of key `key`.
status prepare_output_add(prepare_output *w, bool valid, size_t key, const int32_t *ids,
                          size_t count, size_t bytes, err *e);
// The same for a document of samples: trained [count] says which tokens are predicted.
status prepare_output_add_sample(prepare_output *w, bool valid, const int32_t *ids,
                                 const bool *trained, size_t count, double weight, bool of_pair,
                                 err *e);
// Makes all files durable and then visible, the tokenizer's files too. Adds the counts to *result.
status prepare_output_publish(prepare_output *w, const tokenizer *t, prepare_result *result,
                              err *e);
// Frees `w`. Removes temporary files and, unless the output was published, the folders that
// prepare_output_begin made. NULL allowed.
void prepare_output_close(prepare_output *w);

#endif
