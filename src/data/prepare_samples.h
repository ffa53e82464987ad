// prepare_samples.h -- encodes lines of JSONL as samples, with labels, and adds them to the output in their order.
#ifndef TRIREME_DATA_PREPARE_SAMPLES_H
#define TRIREME_DATA_PREPARE_SAMPLES_H

#include "data/prepare_output.h"

// Encodes every line of the source's files. Adds the labels to *result.
status prepare_samples(const prepare_options *o, const prepare_source *from, const tokenizer *t,
                       prepare_output *to, prepare_result *result, err *e);

#endif
