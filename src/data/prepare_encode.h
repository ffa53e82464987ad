// prepare_encode.h -- encodes all records of a source on several threads and adds them to the output
// in their order.
#ifndef TRIREME_DATA_PREPARE_ENCODE_H
#define TRIREME_DATA_PREPARE_ENCODE_H

#include "data/prepare_output.h"

// Returns whether this record belongs to validation. Depends on its number and the seed only.
bool prepare_is_validation(const prepare_options *o, uint64_t number);

// Encodes every record. `eod` is the id that ends a document, or -1. Counts empty documents and
// skipped records in *result.
status prepare_encode(const prepare_options *o, prepare_source *from, const tokenizer *t,
                      int32_t eod, prepare_output *to, prepare_result *result, err *e);

#endif
