// convert.h -- models in the formats of other programs: a clean HuggingFace folder, an adapter folder of PEFT, a GGUF file
// of llama.cpp; and such files as folders that Trireme trains from. The command checkpoint calls it, before any rank. It
// knows no run.
//
// Every result appears under its name by one rename when it is complete and durable. Nothing is overwritten unless the
// caller says so.
#ifndef TRIREME_CONVERT_CONVERT_H
#define TRIREME_CONVERT_CONVERT_H

#include "base/dtype.h"
#include "base/text.h"

#include <stdbool.h>

// The weights to which an adapter is added.
typedef enum convert_base {
    CONVERT_ONTO_TRAINED, // those that it was trained on, as far as its folder says; else as stored
    CONVERT_ONTO_STORED,  // as the base's folder holds them
    CONVERT_ONTO_NF4,     // their NF4 form, unpacked
} convert_base;

typedef struct convert_options {
    const char *from;     // a folder with config.json, or a GGUF file
    const char *adapter;  // a folder; it is added to the weights of `from`; NULL: none
    convert_base onto;    // with an adapter
    bool average;         // weights go out as their moving averages (optimizer.ema)
    const char *out;      // what is made
    const char *type;     // of the weights: a word; NULL: as they are
    uint64_t shard_bytes; // most bytes of a file of weights; 0: HuggingFace's 5 GB
    bool overwrite;
} convert_options;

// What was made, for the command to print.
typedef struct convert_result {
    char *out; // owned
    uint64_t tensors, bytes;
    char kind[40]; // of the weights: "bf16", "Q8_0"
    text warnings; // lines
    text notes;    // lines
} convert_result;
void convert_result_clear(convert_result *r);

// The words of `type` for folders and for GGUF files, ended by NULL.
extern const char *const CONVERT_FOLDER_TYPES[], *const CONVERT_GGUF_TYPES[];

// Each function clears *r first. E_USAGE names what is wrong with the input or with `type`; then nothing is left behind.

// A folder of a model, or of an adapter, to a folder without what Trireme adds: weights cast and divided into files, all
// files of the tokenizer and the template byte for byte, generation_config.json with the ids at which text ends.
status convert_to_folder(const convert_options *o, convert_result *r, err *e);
// A folder of a model to a GGUF file.
status convert_to_gguf(const convert_options *o, convert_result *r, err *e);
// The folder of an adapter, `adapter`, to a GGUF file that llama.cpp adds to that of the base, `from`.
status convert_adapter_to_gguf(const convert_options *o, convert_result *r, err *e);
// A GGUF file to a folder, with its tokenizer and template.
status convert_from_gguf(const convert_options *o, convert_result *r, err *e);

#endif
