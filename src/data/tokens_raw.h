// tokens_raw.h -- converts token ids in one .bin file without an index, as llm.c and nanoGPT write
// them, to a shard.
//
//   llm.c     OFFSET  SIZE  FIELD (little-endian)
//             0       4     magic: 20240520 for u16 ids, 20240801 for u32 ids
//             4       4     version; not checked
//             8       4     number of ids, u32; must equal the ids in the file
//             12      1012  not used
//             1024    rest  ids
//   nanoGPT   the file is nothing but u16 ids
#ifndef TRIREME_DATA_TOKENS_RAW_H
#define TRIREME_DATA_TOKENS_RAW_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct tokens_raw_options {
    const char *path, *output_prefix;
    int id_bytes;               // 2 or 4; 0: as llm.c's header says, without a header 2
    int64_t eod;                // the id that ends a document; -1: the file has no documents
    bool (*stopped)(void *arg); // NULL allowed; asked while writing; true ends with E_INTERRUPTED
    void *stopped_arg;
} tokens_raw_options;

typedef struct tokens_raw_result {
    uint64_t tokens, documents;
    int32_t highest; // id
    bool llm_c;      // the file has llm.c's header
} tokens_raw_result;

// Writes P.bin and P.idx, both or none. Removes an old sidecar P.json and writes no new one, because
// the tokenizer is not known. Without documents, each 2^20 ids become one. E_USAGE names what is
// wrong with the file.
status tokens_raw_convert(const tokens_raw_options *o, tokens_raw_result *out, err *e);

// For an error that says PREFIX.idx is missing: appends which format PREFIX.bin seems to have and how
// to convert it. Leaves the error unchanged when there is no such .bin.
void tokens_raw_hint(const char *bin_path, err *e);

#endif
