// tokens_raw.h -- token ids in one .bin file without an index, as llm.c and nanoGPT write them, and
// their conversion to a shard.
//
//   llm.c     a header of 256 int32 (magic 20240520: uint16 ids; 20240801: uint32 ids; then version
//             and number of ids), then the ids
//   nanoGPT   nothing but the ids, uint16
#ifndef TRIREME_DATA_TOKENS_RAW_H
#define TRIREME_DATA_TOKENS_RAW_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct raw_options {
    const char *path, *output_prefix;
    int id_bytes;               // 2 or 4; 0: as the header says, else 2
    int64_t eod;                // a document ends behind this id; -1: there are no documents
    bool (*stopped)(void *arg); // asked now and then; true: E_INTERRUPTED
    void *stopped_arg;
} raw_options;

typedef struct raw_result {
    uint64_t tokens, documents;
    int32_t highest; // id
    bool llm_c;      // there was its header
} raw_result;

// Writes P.bin and P.idx, both or none. There is no sidecar: nobody says which tokenizer it was. An
// old one of P is removed. Without documents the ids are cut every 2^20. E_USAGE names what is
// wrong with the file.
status raw_tokens_convert(const raw_options *o, raw_result *out, err *e);

// Appends to an error that PREFIX.idx is missing what PREFIX.bin looks like, and what to do with
// it. Nothing when there is no such .bin.
void raw_tokens_hint(const char *bin_path, err *e);

#endif
