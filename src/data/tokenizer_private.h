// tokenizer_private.h -- what a tokenizer is, for the files that build it and encode with it.
#ifndef TRIREME_DATA_TOKENIZER_PRIVATE_H
#define TRIREME_DATA_TOKENIZER_PRIVATE_H

#include "data/bpe_table.h"
#include "data/tokenizer.h"
#include "data/tokenizer_added.h"
#include "data/tokenizer_split.h"

#include <jansson.h>

// One id. An id without a name is a hole: nothing encodes to it, and it decodes to nothing.
typedef struct token_entry {
    uint32_t name;  // its spelling, number in `names`, + 1; 0 = a hole
    bool added;     // the name is text as it stands, not a spelling of bytes
    bool special;   // decoding may skip it
    size_t at;      // the bytes that it decodes to, in `decoded`
    uint32_t bytes; //
} token_entry;

// A file that lay beside the tokenizer.json and belongs to it (settings, chat template).
typedef struct token_file {
    char *content; // NULL: there was none
    size_t bytes;
} token_file;
enum { TOKEN_FILE_CONFIG, TOKEN_FILES = TOKENIZER_FILES - 1 };
extern const char *const token_file_names[TOKEN_FILES];

// Ids that stand on one side of every text.
enum { SPECIAL_IDS = 32 };
typedef struct special_ids {
    int32_t id[SPECIAL_IDS];
    size_t count;
} special_ids;

struct tokenizer {
    int32_t vocab;
    token_entry *entries; // [vocab]
    bpe_strings names;    // spellings in the vocabulary, and the contents of added tokens
    int32_t *name_ids;    // [names.count]
    size_t name_id_room;
    size_t entry_room, model_names; // the first model_names are the model's own
    text decoded;
    bpe_pairs merges;     // to bpe_merge_value
    int32_t byte_id[256]; // -1: the vocabulary lacks that byte
    int32_t unknown;      // what such a byte becomes, -1: nothing
    bool fuse_unknown;    // a run of them becomes one
    bool whole_words;     // a word that is in the vocabulary is taken without merging
    splitter *split;
    added_set *raw, *normalized; // looked for first, and in what is left
    special_ids before, after;   // of the post-processor
    uint64_t hash;
    char *json; // the file, byte for byte
    size_t json_bytes;
    token_file files[TOKEN_FILES];
    char *end_of_text; // what the settings call eos_token; NULL when they do not
};

// Builds a tokenizer from the text of a tokenizer.json, which is copied. E_USAGE names the field.
status tokenizer_parse(const char *json, size_t bytes, tokenizer **out, err *e);

// The parts of tokenizer_parse: the vocabulary and the merges; the added tokens; what stands around
// a text; the hash, when all others have been read.
status tokenizer_read_model(tokenizer *t, const json_t *model, err *e);
status tokenizer_read_added(tokenizer *t, const json_t *added, err *e);
status tokenizer_read_post(tokenizer *t, const json_t *post, err *e);
void tokenizer_set_hash(tokenizer *t, const json_t *root);

#endif
