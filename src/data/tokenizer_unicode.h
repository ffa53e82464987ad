// tokenizer_unicode.h -- what the tokenizer knows of Unicode besides PCRE2: white space, the
// general categories, and the characters that are younger than the PCRE2 in use.
#ifndef TRIREME_DATA_TOKENIZER_UNICODE_H
#define TRIREME_DATA_TOKENIZER_UNICODE_H

#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// White_Space of Unicode, and everything else, as the inside of a PCRE2 character class.
// PCRE2's own \s also has U+180E.
#define UNICODE_WHITE_SPACE                                                                        \
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}"    \
    "\\x{205f}\\x{3000}"
#define UNICODE_NOT_WHITE_SPACE                                                                    \
    "\\x{0}-\\x{8}\\x{e}-\\x{1f}\\x{21}-\\x{84}\\x{86}-\\x{9f}\\x{a1}-\\x{167f}\\x{1681}-"         \
    "\\x{1fff}\\x{200b}-\\x{2027}\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}"        \
    "\\x{3001}-\\x{10ffff}"

bool unicode_is_white_space(uint32_t character);

// Adds a general category ("L", "Lu", …) to `out` as the inside of a PCRE2 character class. False
// when there is no such category.
bool unicode_add_category(text *out, const char *name, size_t bytes);

// The character that starts at `at`, in valid UTF-8, and its length.
uint32_t unicode_read(const char *at, size_t *bytes);

#endif
