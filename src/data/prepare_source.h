// prepare_source.h -- reads files and folders as a sequence of raw records.
#ifndef TRIREME_DATA_PREPARE_SOURCE_H
#define TRIREME_DATA_PREPARE_SOURCE_H

#include "data/prepare.h"

// A growing byte string that reports a failed allocation. Start with {0}; the owner frees `data`.
typedef struct prepare_buffer {
    char *data;
    size_t bytes, room;
} prepare_buffer;
status prepare_buffer_reserve(prepare_buffer *b, size_t more, err *e);
status prepare_buffer_add(prepare_buffer *b, const void *from, size_t bytes, err *e);

// One plain text document or one line of JSONL, and its origin.
typedef struct prepare_record {
    const char *path; // owned by the source
    bool json;
    uint64_t line;       // of JSONL, from 1
    uint64_t offset;     // of its first byte in the uncompressed file
    uint64_t number;     // over all files, from 0
    size_t first, bytes; // its bytes in the buffer that it was read into
} prepare_record;

typedef struct prepare_source prepare_source;
// Lists all files. E_USAGE when an input does not exist or a folder has no file.
status prepare_source_open(const char *const *inputs, size_t count, const prepare_filter *filter,
                           const char *separator, prepare_source **out, err *e);
void prepare_source_close(prepare_source *s); // NULL allowed
size_t prepare_source_files(const prepare_source *s);
const char *prepare_source_file(const prepare_source *s, size_t i);

// Appends the bytes of the next record to `into`. *more is false after the last record.
status prepare_source_next(prepare_source *s, prepare_buffer *into, prepare_record *out, bool *more,
                           err *e);
void prepare_source_rewind(prepare_source *s);       // to the first record of the first file
double prepare_source_done(const prepare_source *s); // share of all bytes that is read, in [0, 1]

// The texts of a record, one per key, valid UTF-8. They point into the record's bytes or into `json`.
typedef struct prepare_texts {
    tokenizer_document text[PREPARE_KEYS_MAX];
    void *json; // the parsed line, owned
} prepare_texts;
// Parses a record. The caller calls prepare_texts_release whatever the status. Thread-safe.
// E_USAGE names file and line or byte offset: broken JSON, a key that is missing or no string, bad
// UTF-8.
status prepare_parse(const prepare_record *r, const char *bytes, const char *const *keys,
                     size_t count, prepare_texts *out, err *e);
void prepare_texts_release(prepare_texts *t);

#endif
