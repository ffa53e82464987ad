// tokenizer_unicode.h -- the tables of Unicode that the tokenizer has beside those of PCRE2: white
// space, the general categories, and the characters that are newer than PCRE2's Unicode.
#ifndef TRIREME_DATA_TOKENIZER_UNICODE_H
#define TRIREME_DATA_TOKENIZER_UNICODE_H

#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Unicode's White_Space and its complement, as the inside of a PCRE2 character class. They replace
// PCRE2's \s, which also matches U+180E.
#define UNICODE_WHITE_SPACE                                                                        \
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}"    \
    "\\x{205f}\\x{3000}"
#define UNICODE_NOT_WHITE_SPACE                                                                    \
    "\\x{0}-\\x{8}\\x{e}-\\x{1f}\\x{21}-\\x{84}\\x{86}-\\x{9f}\\x{a1}-\\x{167f}\\x{1681}-"         \
    "\\x{1fff}\\x{200b}-\\x{2027}\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}"        \
    "\\x{3001}-\\x{10ffff}"

// A word character as Rust's `regex` crate defines it: letters, marks, digits, connectors, joiners and alphabetic symbols.
// It is the inside of a class of tokenizer_pattern_open.
#define UNICODE_WORD_CHARACTERS                                                                    \
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{24B6}-\\x{24E9}\\x{1F130}-\\x{1F149}"                    \
    "\\x{1F150}-\\x{1F169}\\x{1F170}-\\x{1F189}\\x{200C}\\x{200D}"

bool unicode_is_white_space(uint32_t character);

// Adds a general category ("L", "Lu", …) to `out` as the inside of a PCRE2 character class. False
// when there is no such category.
bool unicode_add_category(text *out, const char *name, size_t bytes);

// Writes a character as UTF-8. Returns its length.
size_t unicode_write(uint32_t character, char out[4]);
// Reads the first character of valid UTF-8. Sets *bytes to its length.
uint32_t unicode_read(const char *character, size_t *bytes);

#endif
