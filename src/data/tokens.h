// tokens.h -- Megatron token shards: PREFIX.bin holds the ids and PREFIX.idx the index of sequences
// and documents. The head of tokens.c describes both files byte by byte.
//
// The reader maps both files and checks the whole index before it uses a value. The writer makes both
// files visible together by renames.
#ifndef TRIREME_DATA_TOKENS_H
#define TRIREME_DATA_TOKENS_H

#include "base/dtype.h"
#include "base/err.h"

typedef struct tokens tokens;
// Opens a shard; `prefix` may end in .bin or .idx. The owner calls tokens_close. E_USAGE names the
// file and the field that is broken.
status tokens_open(const char *prefix, tokens **out, err *e);
void tokens_close(tokens *t); // NULL allowed
const char *tokens_prefix(const tokens *t);
uint64_t tokens_count(const tokens *t); // ids in the .bin
uint64_t tokens_documents(const tokens *t);
uint64_t tokens_sequences(const tokens *t);
dtype tokens_dtype(const tokens *t);
// The first token of document d (< documents) and its number of tokens.
void tokens_document(const tokens *t, uint64_t d, uint64_t *first, uint64_t *length);
// The same of sequence s (< sequences); a document has one sequence or more.
void tokens_sequence(const tokens *t, uint64_t s, uint64_t *first, uint64_t *length);
// Copies ids [first, first + count) to out [count]. The range must lie within tokens_count. An int64
// id that does not fit int32 becomes -1. Thread-safe.
void tokens_read(const tokens *t, uint64_t first, size_t count, int32_t *out);
// The caller calls it after it has read tokens. E_IO names the file when it was truncated after it
// was opened.
status tokens_check_whole(const tokens *t, err *e);
// Reads the whole .bin on several threads and checks that every id is below `vocab`. E_USAGE names
// file, position and id.
status tokens_check(const tokens *t, int32_t vocab, err *e);
// The bytes of text that the tokens encode, from the sidecar PREFIX.json (sidecar.h); 0 when there is
// no sidecar. E_USAGE when it is broken or belongs to another shard.
status tokens_text_bytes(const tokens *t, uint64_t *bytes, err *e);

typedef struct tokens_writer tokens_writer;
// Ids are U16 when vocab < 65500, else I32, as in Megatron. Ends with tokens_writer_finish or
// tokens_writer_abandon.
status tokens_writer_open(const char *prefix, int32_t vocab, tokens_writer **out, err *e);
// Appends a document, ids [count]. E_USAGE when an id is not in [0, vocab).
status tokens_writer_document(tokens_writer *w, const int32_t *ids, size_t count, err *e);
uint64_t tokens_writer_count(const tokens_writer *w); // tokens so far
uint64_t tokens_writer_documents(const tokens_writer *w);
// Makes both files durable under their temporary names; no document may follow. After it the disk
// cannot be full any more, so a caller seals several shards before it makes the first one visible.
status tokens_writer_seal(tokens_writer *w, err *e);
// Seals if that was not done, and renames both files. Frees `w` whatever the status.
status tokens_writer_finish(tokens_writer *w, err *e);
void tokens_writer_abandon(tokens_writer *w); // removes the temporary files; NULL allowed

#endif
