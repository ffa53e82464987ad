// tokenizer_private.h -- the members of a tokenizer, for the files that build it and encode with it.
#ifndef TRIREME_DATA_TOKENIZER_PRIVATE_H
#define TRIREME_DATA_TOKENIZER_PRIVATE_H

#include "data/tokenizer/bpe/bpe_table.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/tokenizer_added.h"
#include "data/tokenizer/tokenizer_decoder.h"
#include "data/tokenizer/tokenizer_normalize.h"
#include "data/tokenizer/tokenizer_split.h"
#include "data/tokenizer/tokenizer_unigram.h"

#include <jansson.h>

enum {
    TOKENIZER_IDS = 1 << 22
}; // larger than any vocabulary, so that a broken file cannot claim gigabytes

// One id. An id without a name is unused: no text encodes to it, and it decodes to nothing.
typedef struct tokenizer_entry {
    uint32_t name;         // number of its spelling in `names`, + 1; 0: the id is unused
    bool added;            // the name is plain text, not a spelling of bytes
    bool special;          // decoding can skip it
    size_t decoded_offset; // [decoded_offset, + decoded_bytes) of `decoded` is what it decodes to
    uint32_t decoded_bytes;
} tokenizer_entry;

// A file beside tokenizer.json that belongs to it: settings, chat template.
typedef struct tokenizer_side_file {
    char *content; // NULL when there is no such file
    size_t bytes;
} tokenizer_side_file;
enum { TOKENIZER_SIDE_CONFIG, TOKENIZER_SIDE_FILES = TOKENIZER_FILES - 1 };
extern const char *const tokenizer_side_file_names[TOKENIZER_SIDE_FILES];

// Ids that the post-processor adds on one side of every text.
enum { SPECIAL_IDS = 32 };
typedef struct tokenizer_special_ids {
    int32_t id[SPECIAL_IDS];
    size_t count;
} tokenizer_special_ids;

struct tokenizer {
    int32_t vocab;
    tokenizer_entry *entries; // [vocab]
    bpe_strings names;        // spellings of the vocabulary, and contents of added tokens
    int32_t *name_ids;        // [names.count] the id of each name
    size_t name_id_room;
    size_t entry_room;
    size_t model_names;         // the first model_names names are the model's vocabulary
    text decoded;               // the bytes of all entries, one after the other
    tokenizer_unigram *unigram; // NULL: BPE
    bpe_pairs merges;           // values of bpe_merge_value
    // The pairs of characters that are next to each other in a token: no merge joins others, so that a word can be
    // divided between them. Empty where a word is not divided.
    bpe_pairs neighbors;
    bool byte_level;                  // the symbols that merge are bytes, else characters
    bool byte_fallback;               // a character that the vocabulary lacks becomes its bytes
    int32_t byte_id[256];             // -1: the vocabulary lacks that byte
    int32_t unknown;                  // the id of such a byte or character; -1: it is dropped
    bool fuse_unknown;                // adjacent unknown symbols become one id
    bool ignore_merges;               // a word that is in the vocabulary is one token
    tokenizer_normalizer *normalizer; // NULL: it changes nothing
    tokenizer_splitter *split;
    tokenizer_decoder decoder;
    tokenizer_added_set *raw;            // matched first, in the whole text
    tokenizer_added_set *normalized;     // matched in the normalized text between those of `raw`
    text normalized_names;               // their contents
    tokenizer_special_ids before, after; // of the post-processor
    uint64_t hash;
    char *json; // [json_bytes] the file
    size_t json_bytes;
    tokenizer_side_file files[TOKENIZER_SIDE_FILES];
    char *end_of_text; // eos_token of the settings; NULL when they have none
};

// Builds a tokenizer from the text of a tokenizer.json, which it copies. E_USAGE names the field.
status tokenizer_parse(const char *json, size_t bytes, tokenizer **out, err *e);

// The steps of tokenizer_parse.
status tokenizer_check_model(const json_t *model, bool *is_unigram, err *e);
status tokenizer_read_model(tokenizer *t, const json_t *model, err *e); // vocabulary and merges
status tokenizer_read_unigram(tokenizer *t, const json_t *model, err *e);
status tokenizer_read_added(tokenizer *t, const json_t *added, err *e); // added tokens
status tokenizer_read_post(tokenizer *t, const json_t *post, err *e);   // the post-processor
void tokenizer_set_hash(tokenizer *t, const json_t *root);              // the last step

// Gives an id a name. The id must be unused or have that name already.
status tokenizer_add_name(tokenizer *t, const char *name, size_t bytes, int32_t id, bool added,
                          err *e);
// Sets what an id decodes to.
status tokenizer_set_decoded(tokenizer *t, tokenizer_entry *entry, const char *name, size_t bytes,
                             err *e);
// The id of a name of the model's vocabulary; -1: there is none.
int32_t tokenizer_name_id(const tokenizer *t, const char *name, size_t bytes);
const char *tokenizer_name(const tokenizer *t, int32_t id); // of an id that has one
// Spells a byte as the vocabulary does: as a character, or as <0xE4>. Returns the length.
size_t tokenizer_spell_byte(const tokenizer *t, int byte, char out[8]);

#endif
