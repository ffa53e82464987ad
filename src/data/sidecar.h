// sidecar.h -- PREFIX.json beside a token shard holds the facts that PREFIX.idx cannot. `data
// prepare` writes it; evaluation (bits per byte) and `data inspect` read it. A shard may have none.
//
//   KEY                  TYPE     VALUE
//   tokens               integer  ids in PREFIX.bin; must equal the shard's
//   documents            integer  documents in PREFIX.idx; must equal the shard's
//   text_bytes           integer  bytes of UTF-8 text that the tokens encode
//   vocab                integer  size of the tokenizer's vocabulary, at most 2^31 - 1
//   append_eod           boolean  every document ends with the id `eod`
//   eod                  integer  that id, below vocab; absent when there is none
//   add_special_tokens   boolean  the tokenizer's post-processor was applied to every document
//   tokenizer            string   file name of the tokenizer's copy in the sidecar's folder
//   tokenizer_hash       string   tokenizer_hash() as 16 hexadecimal digits
//
// The file is one JSON object. The integers up to `vocab` are required and must not be negative.
// Sidecars of earlier versions lack eod and tokenizer_hash, and may name the tokenizer by an absolute
// path. Both files can move to another folder together, because only the name is stored.
#ifndef TRIREME_DATA_SIDECAR_H
#define TRIREME_DATA_SIDECAR_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct sidecar {
    uint64_t tokens, documents, text_bytes;
    int32_t vocab;
    bool append_eod;
    int32_t eod; // -1 when there is none or it is not known
    bool add_special_tokens;
    uint64_t tokenizer_hash; // 0 when it is not known
    char *tokenizer;         // owned; after reading a path from the current folder; NULL allowed
} sidecar;

// Writes the sidecar to `path` (a temporary name), durably. The tokenizer must lie in the same
// folder; only its file name is stored.
status sidecar_write(const char *path, const sidecar *s, err *e);

// Reads PREFIX.json; the prefix may end in .bin or .idx. When the file does not exist, *found is
// false and *out is unchanged. The owner calls sidecar_clear. E_USAGE when the file is broken.
status sidecar_read(const char *prefix, sidecar *out, bool *found, err *e);
void sidecar_clear(sidecar *s);

#endif
