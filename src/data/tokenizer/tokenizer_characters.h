// tokenizer_characters.h -- what a character is to the normalizers and pre-tokenizers of HuggingFace's tokenizers, whose tables
// are of several versions of Unicode. utf8proc, of Unicode 15 or newer, is the base.
#ifndef TRIREME_DATA_TOKENIZER_CHARACTERS_H
#define TRIREME_DATA_TOKENIZER_CHARACTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Returns whether a character is a mark, or has a decomposition, and is newer than Unicode 9, by whose tables HuggingFace's
// tokenizers normalize: there it is no mark, changes places with none, joins no character and stays what it is.
bool unicode_is_new(uint32_t character);
// Returns whether a character is a mark of Unicode 9.
bool unicode_is_mark(uint32_t character);
// The small letter or letters of a character by the tables of Rust (Unicode 17). Returns their number, 1 or 2.
size_t unicode_lower(uint32_t character, uint32_t out[2]);
// Returns whether a character is punctuation as HuggingFace's Punctuation has it: of Unicode 8, and the signs of ASCII.
bool unicode_is_punctuation(uint32_t character);
// What a character is within a cluster, which people take for one character.
typedef enum unicode_cluster_kind {
    CLUSTER_PLAIN,
    CLUSTER_EXTENDS,  // it belongs to the character before it
    CLUSTER_PREPENDS, // it belongs to the character after it
    CLUSTER_BREAKS    // a control character: it belongs to none
} unicode_cluster_kind;
unicode_cluster_kind unicode_cluster(uint32_t character);

#endif
