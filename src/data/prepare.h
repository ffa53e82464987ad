// prepare.h -- text or JSONL to token shards: reads, (trains a tokenizer,) encodes on all threads
// in document order, splits off validation documents.
#ifndef TRIREME_DATA_PREPARE_H
#define TRIREME_DATA_PREPARE_H

#include "data/tokenizer.h"

enum { PREPARE_KEYS_MAX = 16 };

// Which files of a folder are taken: those that one of `include` matches (all when it is empty) and
// none of `exclude`. A pattern is matched as the shell does, with the file's name, or with its path
// below the folder when it has a '/'. A folder that `exclude` matches is not entered. Files that
// are named themselves are always taken.
typedef struct prepare_filter {
    const char *const *include, *const *exclude;
    size_t includes, excludes;
} prepare_filter;

typedef struct prepare_options {
    const char *const *inputs; // files, and folders (all regular files in them, recursively, in
                               // byte order of names; links in them are not followed). *.jsonl and
                               // *.json are JSONL, *.gz of both is read through zlib, anything else
                               // is plain text
    size_t input_count;
    prepare_filter filter;
    bool skip_invalid;            // a record that is not UTF-8, not JSON or lacks a key is skipped
                                  // and counted, not an error
    const char *output_prefix;    // its folder is made when missing
    const char *const *json_keys; // default { "text" }; several keys: one shard each,
                                  // P_KEY_document as Megatron does
    size_t json_key_count;
    const char *document_separator; // NULL: a text file is one document
    const char *tokenizer;          // load this one, or
    int32_t train_bpe;              // train one with this vocabulary (>= 257) on the documents that
                                    // do not go to validation; the inputs are then read twice
    split_pattern pattern;
    const char *save_tokenizer; // where a trained one goes beside P.tokenizer.json; NULL: nowhere
    bool append_eod, megatron_names; // megatron_names: P_text_document.bin
    bool add_special_tokens; // what the tokenizer's post-processor adds to a text (BOS, EOS)
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
    uint64_t invalid_records;
    err first_invalid; // why the first of these was skipped
    int32_t vocab;
    bool has_special_tokens; // the tokenizer has a post-processor that adds some
} prepare_result;

// Writes P.bin, P.idx and the sidecar P.json (sidecar.h), the same for P_valid when it gets a
// document, and P.tokenizer.json with the settings that lay beside a loaded one: all of them, or on
// any failure none, and then files that were there before are untouched. The bytes do not depend on
// the number of workers. With valid_fraction > 0 and no document drawn, P_valid of an earlier run
// is removed. E_USAGE for bad input (names file and line or byte offset), E_IO, E_INTERRUPTED.
status prepare_run(const prepare_options *o, prepare_result *out, err *e);

#endif
