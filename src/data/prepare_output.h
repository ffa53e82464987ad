// prepare_output.h -- all that a preparation leaves behind, which appears together or not at all.
#ifndef TRIREME_DATA_PREPARE_OUTPUT_H
#define TRIREME_DATA_PREPARE_OUTPUT_H

#include "data/prepare.h"
#include "data/prepare_source.h"

typedef struct output output;

// Settles all names and changes nothing yet. E_USAGE when an output would replace one of the inputs
// or a folder, or cannot be written where it should be.
status output_open(const prepare_options *o, const source *inputs, output **out, err *e);
// Makes the folder if need be, and the shards of P under temporary names. eod: the id that ends a
// document, -1 for none.
status output_begin(output *w, const tokenizer *t, int32_t eod, err *e);
// Appends a document of `bytes` bytes of text to the shard of key `key`.
status output_add(output *w, bool valid, size_t key, const int32_t *ids, size_t count, size_t bytes,
                  err *e);
// Makes everything durable and visible, the tokenizer's files beside the shards too, and counts it
// in *result.
status output_publish(output *w, const tokenizer *t, prepare_result *result, err *e);
// Frees; what was not published is removed, folders that output_begin made too. NULL allowed.
void output_close(output *w);

#endif
