// unicode.h -- characters as Python's strings know them: white space, letters, case, what repr prints. It knows UTF-8
// that is well formed, and nothing of templates. Case is that of single characters, with ß as SS.
#ifndef TRIREME_JINJA_UNICODE_H
#define TRIREME_JINJA_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Reads the character at the beginning of s [bytes], bytes >= 1. Returns its bytes.
size_t jinja_decode(const char *s, size_t bytes, uint32_t *c);
// Writes a character. Returns its bytes, at most 4.
size_t jinja_encode(uint32_t c, char *out);
// The number of characters of s.
size_t jinja_count(const char *s, size_t bytes);

bool jinja_is_space(uint32_t c);
bool jinja_is_alpha(uint32_t c);
bool jinja_is_digit(uint32_t c);
bool jinja_is_alnum(uint32_t c);
bool jinja_is_upper(uint32_t c);
bool jinja_is_lower(uint32_t c);
bool jinja_is_printable(uint32_t c); // repr does not escape it

typedef enum jinja_case { CASE_LOWER, CASE_UPPER, CASE_TITLE } jinja_case;
// Changes the case of a character. Returns the number of characters in `out`.
size_t jinja_change_case(uint32_t c, jinja_case to, uint32_t out[2]);

#endif
