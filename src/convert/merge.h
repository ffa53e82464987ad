// merge.h -- private to convert/: the tensors of a folder as they go out, one at a time: as they are, with an adapter added,
// or their moving averages.
#ifndef TRIREME_CONVERT_MERGE_H
#define TRIREME_CONVERT_MERGE_H

#include "convert/average.h"
#include "convert/convert.h"
#include "model/adapter.h"

typedef struct convert_merge {
    const safetensors *base;
    model_adapter *adapter;
    model_merge *merge;       // NULL: there is no adapter
    bool onto_nf4;            // it is added to the NF4 form of the base
    convert_average *average; // NULL: weights go out, not their averages
    float *value;             // the tensor that was read last
    size_t value_room, last;
    safetensors_tensor
        tensor;       // its description; the base's own where the adapter does not change it
    uint64_t changed; // tensors
    double largest;   // difference of an element
} convert_merge;

// Opens the adapter or the averages that the options ask for. The base and m are borrowed; m NULL: the base is an adapter,
// which goes out as it is. The owner calls convert_merge_close.
status convert_merge_open(const convert_options *o, const model *m, const safetensors *base,
                          convert_merge *x, err *e);
void convert_merge_close(convert_merge *x);
// Finds tensor i of the base, merged. *out is valid until the next call. Each tensor is read in one run of calls.
status convert_merge_find(convert_merge *x, size_t i, const safetensors_tensor **out, err *e);
// The folder with the tokenizer: that of the adapter where it has one.
const char *convert_tokenizer_folder(const convert_options *o);
// Appends a line about what changed.
void convert_merge_describe(const convert_merge *x, const convert_options *o, text *out);

#endif
