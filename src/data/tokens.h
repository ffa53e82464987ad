// tokens.h -- Megatron token shards: PREFIX.bin (raw ids) and PREFIX.idx (header, lengths, offsets,
// documents).
//
// The reader maps both files and believes nothing: magic, version, dtype, counts against file sizes
// (overflow-checked), offsets that are the prefix sums of lengths, document boundaries
// non-decreasing from 0 to S. The writer appears by rename, both or none. tokens.c's head explains
// the layout byte by byte.
#ifndef TRIREME_DATA_TOKENS_H
#define TRIREME_DATA_TOKENS_H

#include "base/dtype.h"
#include "base/err.h"

typedef struct tokens tokens;
status tokens_open(const char *prefix, tokens **out,
                   err *e);   // E_USAGE; without or with ".bin"/".idx" at the end
void tokens_close(tokens *t); // NULL allowed
const char *tokens_prefix(const tokens *t);
uint64_t tokens_count(const tokens *t); // all ids in the .bin
uint64_t tokens_documents(const tokens *t);
uint64_t tokens_sequences(const tokens *t);
dtype tokens_dtype(const tokens *t);
// Where document d (< documents) begins and how many tokens it has.
void tokens_document(const tokens *t, uint64_t d, uint64_t *first, uint64_t *length);
// Ids first … first+count-1 as int32 (the range must lie within tokens_count); what does not fit
// int32 (int64 shards) reads as -1. Thread-safe.
void tokens_read(const tokens *t, uint64_t first, size_t count, int32_t *out);
// After reads: E_IO, naming the file, when it was cut off since it was opened.
status tokens_check_whole(const tokens *t, err *e);
// Checks that every id is below vocab; E_USAGE names file, position and id. Reads the whole .bin
// (in parallel).
status tokens_check(const tokens *t, int32_t vocab, err *e);
// Bytes of the text that the tokens stand for, from the sidecar PREFIX.json (sidecar.h) that
// `trireme data prepare` writes; 0 when there is none. E_USAGE when it is broken or belongs to
// other shards.
status tokens_text_bytes(const tokens *t, uint64_t *bytes, err *e);

typedef struct tokens_writer tokens_writer;
status tokens_writer_open(const char *prefix, int32_t vocab, tokens_writer **out,
                          err *e); // U16 when vocab < 65500, else I32
status tokens_writer_document(tokens_writer *w, const int32_t *ids, size_t count, err *e);
uint64_t tokens_writer_count(const tokens_writer *w); // tokens so far
uint64_t tokens_writer_documents(const tokens_writer *w);
// Everything durable under temporary names; no document may follow. What can fail for want of disk
// space has then been done, so that several shards can appear together.
status tokens_writer_seal(tokens_writer *w, err *e);
// Seals if need be, and renames: durable, visible; `w` is gone whatever the status.
status tokens_writer_finish(tokens_writer *w, err *e);
void tokens_writer_abandon(tokens_writer *w); // leaves nothing behind; NULL allowed

#endif
