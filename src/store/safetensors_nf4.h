// safetensors_nf4.h -- weights that bitsandbytes has quantised to NF4, as transformers saves them: beside the codes of a
// tensor NAME, a folder has NAME.absmax, NAME.quant_map, with double quantisation NAME.nested_absmax and
// NAME.nested_quant_map, and a JSON object in NAME.quant_state.bitsandbytes__nf4. safetensors_open_weights shows the six as
// one tensor. train/ packs rows of the same bytes (base/nf4.h), and model/ reads the values.
#ifndef TRIREME_STORE_SAFETENSORS_NF4_H
#define TRIREME_STORE_SAFETENSORS_NF4_H

#include "base/nf4.h"
#include "store/safetensors.h"

// How the elements of a tensor follow from its codes. Pointers are into the map and may be unaligned.
struct safetensors_nf4 {
    int64_t count, block;       // elements, and those of a block
    const unsigned char *codes; // two elements a byte, the first one in the high half
    float value[NF4_CODES];
    const unsigned char *absmax; // [blocks] of F32, or 8-bit codes
    bool nested;                 // absmax are codes: the next members tell what they mean
    int64_t group;               // blocks that share a maximum
    float scale[NF4_SCALE_CODES], mean;
    const unsigned char *maxima; // [groups] of F32
};

// Replaces the tensors of each quantised tensor by one. Names of the tensors have their final form. E_USAGE names what is
// quantised in another way, and tensors that do not fit together.
status safetensors_nf4_join(safetensors *s, err *e);
// Elements first … first + count-1 of a quantised tensor, before they are rounded to its type.
void safetensors_nf4_read(const safetensors_nf4 *q, int64_t first, int64_t count, float *out);
// Returns whether packed rows can hold the tensor as it is: it is quantised, in blocks of NF4_BLOCK and groups of
// NF4_GROUP, with the values of base/nf4.h.
bool safetensors_nf4_fits(const safetensors_tensor *t);

#endif
