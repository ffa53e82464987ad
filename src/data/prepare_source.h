// prepare_source.h -- the documents of files and folders, one after the other, as raw records.
#ifndef TRIREME_DATA_PREPARE_SOURCE_H
#define TRIREME_DATA_PREPARE_SOURCE_H

#include "data/prepare.h"

// A growing byte string whose growth can fail. Start with {0}, free `at`.
typedef struct byte_buffer {
    char *at;
    size_t bytes, room;
} byte_buffer;
status byte_buffer_reserve(byte_buffer *b, size_t more, err *e);
status byte_buffer_add(byte_buffer *b, const void *from, size_t bytes, err *e);

// One document, or one line of JSONL, and where it came from.
typedef struct record {
    const char *path; // owned by the source
    bool json;
    uint64_t line;       // JSONL: from 1
    uint64_t offset;     // of its first byte in the (uncompressed) file
    uint64_t number;     // of the record over all files, from 0
    size_t first, bytes; // where its bytes are in the buffer it was read into
} record;

typedef struct source source;
// Finds all files. E_USAGE when an input does not exist or a folder holds none.
status source_open(const char *const *inputs, size_t count, const prepare_filter *filter,
                   const char *separator, source **out, err *e);
void source_close(source *s); // NULL allowed
size_t source_files(const source *s);
const char *source_file(const source *s, size_t i);

// Appends the next record's bytes to `into`. *more is false at the end.
status source_next(source *s, byte_buffer *into, record *out, bool *more, err *e);
void source_rewind(source *s);
double source_done(const source *s); // share of all bytes, in [0, 1]

// The texts of a record, one a key, as valid UTF-8. Borrowed from `bytes` and from the parsed line.
typedef struct record_texts {
    document text[PREPARE_KEYS_MAX];
    void *json; // owned
} record_texts;
// E_USAGE with file and line or byte offset: broken JSON, a missing key, another type, bad UTF-8.
// Thread-safe. Call record_release whatever the status.
status record_parse(const record *r, const char *bytes, const char *const *keys, size_t count,
                    record_texts *out, err *e);
void record_release(record_texts *t);

#endif
