// prepare.h -- text or JSONL to token shards: reads, (trains a tokenizer,) encodes on all threads
// in document order, splits off validation documents.
#ifndef TRIREME_DATA_PREPARE_H
#define TRIREME_DATA_PREPARE_H

#include "data/tokenizer.h"

enum { PREPARE_KEYS_MAX = 16 };

typedef struct prepare_options {
    const char *const *inputs; // files, and folders (all regular files in them, recursively, in
                               // byte order of names; links in them are not followed). *.jsonl and
                               // *.json are JSONL, *.gz of both is read through zlib, anything else
                               // is plain text
    size_t input_count;
    const char *output_prefix;    // its folder is made when missing
    const char *const *json_keys; // default { "text" }; several keys: one shard each,
                                  // P_KEY_document as Megatron does
    size_t json_key_count;
    const char *document_separator; // NULL: a text file is one document
    const char *tokenizer;          // load this one, or
    int32_t train_bpe;              // train one with this vocabulary (>= 257) on the documents that
                                    // do not go to validation; the inputs are then read twice
    split_pattern pattern;
    const char *save_tokenizer;      // where a trained one goes; NULL: P.tokenizer.json
    bool append_eod, megatron_names; // megatron_names: P_text_document.bin
    double valid_fraction; // of documents (chosen by hash of their number and seed), to P_valid; 0
                           // = none
    uint64_t seed;
    int workers;                 // 0 = all
    tokenizer_progress progress; // NULL allowed; also says when writing begins ("encoding")
    void *progress_arg;
    bool (*stopped)(void *arg); // NULL allowed; asked now and then once writing has begun, true:
                                // E_INTERRUPTED
    void (*log)(void *arg, uint64_t documents, uint64_t bytes); // NULL allowed; every log_interval
                                                                // documents, about
    uint64_t log_interval;
    void *log_arg; // of stopped and log
} prepare_options;

// Sums over all keys. bytes: of UTF-8 text, without anything appended.
typedef struct prepare_result {
    uint64_t documents, valid_documents, tokens, valid_tokens, bytes, valid_bytes, empty_documents;
    int32_t vocab;
} prepare_result;

// Writes P.bin, P.idx and the sidecar P.json (sidecar.h), the same for P_valid when it gets a
// document, and the tokenizer when trained: all of them, or on any failure none, and then files
// that were there before are untouched. The bytes do not depend on the number of workers. With
// valid_fraction > 0 and no document drawn, P_valid of an earlier run is removed.
// E_USAGE for bad input (names file and line or byte offset), E_IO, E_INTERRUPTED.
status prepare_run(const prepare_options *o, prepare_result *out, err *e);

#endif
