// prepare.h -- `data prepare`: text or JSONL to token shards. It reads the inputs, trains a tokenizer
// if asked to, encodes on all threads and writes documents in their order, some of them to a
// validation shard.
#ifndef TRIREME_DATA_PREPARE_H
#define TRIREME_DATA_PREPARE_H

#include "data/samples/samples.h"

enum { PREPARE_KEYS_MAX = 16 };

// Selects files of a folder: those that match one of `include` (all when it is empty) and none of
// `exclude`. A pattern is a shell pattern for the file's name or, when it contains a '/', for its
// path below the folder. A subfolder that matches `exclude` is skipped. The filter does not apply to
// files that an input names directly.
typedef struct prepare_filter {
    const char *const *include, *const *exclude;
    size_t includes, excludes;
} prepare_filter;

typedef struct prepare_options {
    // Files, and folders, whose regular files are read recursively in the byte order of their names;
    // links in a folder are not followed. *.jsonl and *.json are JSONL, any other name is plain
    // text, and zlib reads *.gz of both.
    const char *const *inputs;
    size_t input_count;
    prepare_filter filter;
    // A record that is not UTF-8, not JSON or lacks a key is counted and skipped instead of being an
    // error.
    bool skip_invalid;
    const char *output_prefix; // P; its folder is made when it is missing
    // Keys of a JSONL record; none means { "text" }. Several keys make one shard each,
    // P_KEY_document as in Megatron.
    const char *const *json_keys;
    size_t json_key_count;
    const char *document_separator; // NULL: a plain text file is one document
    const char *tokenizer;          // path of a tokenizer to load; NULL: train one
    // Size of the vocabulary to train (>= 257). Training uses the documents that do not go to
    // validation, and reads the inputs once more.
    int32_t train_bpe;
    tokenizer_builtin pattern;  // of the trained tokenizer
    const char *save_tokenizer; // second path for the trained tokenizer; NULL: none
    bool append_eod;            // the id of the end-of-text token follows every document
    bool megatron_names;        // P_text_document.bin, also with one key
    bool add_special_tokens;    // the tokenizer's post-processor adds its tokens (BOS, EOS)
    // Share of the documents that go to P_valid, chosen by a hash of their number and the seed;
    // 0 means none.
    double valid_fraction;
    uint64_t seed;
    // Lines of JSONL are samples: P.labels says which tokens are predicted. They keep their full length.
    bool sft;
    samples_format format; // of the lines, with sft; as the next one
    chat_train_on train_on;
    int workers;                 // threads; 0 means one per processor
    tokenizer_progress progress; // NULL allowed; also called when writing begins ("encoding")
    void *progress_arg;
    bool (*stopped)(void *arg); // NULL allowed; asked while writing; true ends with E_INTERRUPTED
    void (*log)(void *arg, uint64_t documents, uint64_t bytes); // NULL allowed
    uint64_t log_interval; // documents between two calls of `log`, approximately
    void *log_arg;         // for `stopped` and `log`
} prepare_options;

// Counts over all keys; `bytes` counts UTF-8 text without appended tokens.
typedef struct prepare_result {
    uint64_t labels, valid_labels; // with sft: tokens that are predicted
    samples_splits splits;         // … conversations that became several documents
    uint64_t documents, valid_documents, tokens, valid_tokens, bytes, valid_bytes, empty_documents;
    uint64_t invalid_records; // skipped
    err first_invalid;        // why the first of them was skipped
    int32_t vocab;
    bool has_special_tokens; // the tokenizer has a post-processor that adds tokens
} prepare_result;

// Writes P.bin, P.idx and P.json (sidecar.h), the same for P_valid when a document goes there, and
// P.tokenizer.json with the settings that lay beside a loaded tokenizer. On a failure it writes none
// of them and leaves existing files unchanged. The bytes do not depend on the number of workers.
// The P_valid of an earlier run is removed when valid_fraction > 0 selects no document.
// E_USAGE (names file and line or byte offset), E_IO, E_INTERRUPTED.
status prepare_run(const prepare_options *o, prepare_result *out, err *e);

#endif
