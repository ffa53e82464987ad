// prepare_output.h -- all that a preparation leaves behind, which appears together or not at all.
#ifndef TRIREME_DATA_PREPARE_OUTPUT_H
#define TRIREME_DATA_PREPARE_OUTPUT_H

#include "data/prepare.h"
#include "data/prepare_source.h"

typedef struct output output;

// Settles all names and changes nothing yet. E_USAGE when an output would replace one of the inputs
// or a folder, or cannot be written where it should be. tokenizer: the file's path, for the
// sidecars; where a trained one will be written.
status output_open(const prepare_options *o, const source *inputs, const char *tokenizer,
                   output **out, err *e);
// Makes the folder if need be, and the shards of P under temporary names.
status output_begin(output *w, int32_t vocab, err *e);
// Appends a document of `bytes` bytes of text to the shard of key `key`.
status output_add(output *w, bool valid, size_t key, const int32_t *ids, size_t count, size_t bytes,
                  err *e);
// Makes everything durable and visible, and counts it in *result. trained: NULL when loaded.
status output_publish(output *w, const tokenizer *trained, prepare_result *result, err *e);
// Frees; what was not published is removed, folders that output_begin made too. NULL allowed.
void output_close(output *w);

#endif
