// prepare.h -- text or JSONL to token shards: reads, (trains a tokenizer,) encodes on all threads
// in document order, splits off validation documents.
#ifndef TRIREME_DATA_PREPARE_H
#define TRIREME_DATA_PREPARE_H

#include "data/tokenizer.h"

typedef struct prepare_options {
    const char *const *inputs; // files; *.jsonl / *.json is JSONL, *.gz is read through zlib,
                               // anything else plain text
    size_t input_count;
    const char *output_prefix;
    const char *const *json_keys; // default { "text" }; several keys: one shard each,
                                  // P_KEY_document as Megatron does
    size_t json_key_count;
    const char *document_separator; // NULL: a text file is one document
    const char *tokenizer;          // load this one, or
    int32_t train_bpe;              // train one with this vocabulary (> 0)
    split_pattern pattern;
    const char *save_tokenizer;      // NULL: beside the shards as P.tokenizer.json when trained
    bool append_eod, megatron_names; // megatron_names: P_text_document.bin
    double valid_fraction; // of documents (chosen by hash of their number and seed), to P_valid; 0
                           // = none
    uint64_t seed;
    int workers; // 0 = all
    tokenizer_progress progress;
    void *progress_arg;
} prepare_options;

typedef struct prepare_result {
    uint64_t documents, valid_documents, tokens, valid_tokens, bytes, valid_bytes, empty_documents;
    int32_t vocab;
} prepare_result;

// E_USAGE for bad input (names file and line or byte offset); nothing is left behind then.
status prepare_run(const prepare_options *o, prepare_result *out, err *e);

#endif
