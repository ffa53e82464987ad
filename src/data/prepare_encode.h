// prepare_encode.h -- all records of a source through the tokenizer on all threads, to the output
// in their order.
#ifndef TRIREME_DATA_PREPARE_ENCODE_H
#define TRIREME_DATA_PREPARE_ENCODE_H

#include "data/prepare_output.h"

// Does this record go to validation? By its number and the seed only.
bool prepare_is_valid(const prepare_options *o, uint64_t number);

// eod: the id that ends a document, -1 for none. Counts empty documents in *result.
status encode_all(const prepare_options *o, source *from, const tokenizer *t, int32_t eod,
                  output *to, prepare_result *result, err *e);

#endif
