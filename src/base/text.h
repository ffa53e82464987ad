// text.h -- strings: growing buffers, numbers with units, the nearest valid word, UTF-8. Every
// folder calls it.
#ifndef TRIREME_BASE_TEXT_H
#define TRIREME_BASE_TEXT_H

#include "base/err.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

// A growing byte string. It ends with a zero byte as soon as anything has been added. Start with
// {0}. The owner calls text_clear.
//
// Functions that add return nothing. If memory runs out, the text becomes empty and `failed`. It
// then ignores further additions, and `chars` is "". So a text may always be read. A caller that
// returns a text or uses it as a path, a key or a file first calls text_check or text_take.
typedef struct text {
    char *chars;
    size_t bytes;
    size_t room;
    bool failed;
} text;

void text_clear(text *t);
// Marks the text as failed. Callers use it when a source of the text failed.
void text_fail(text *t);
// Returns E_MEMORY if the text failed.
status text_check(const text *t, err *e);
// Moves the characters to *out and clears the text. An empty text gives "". The caller frees *out.
// Returns E_MEMORY if the text failed.
status text_take(text *t, char **out, err *e);
void text_add(text *t, const char *s);
void text_add_bytes(text *t, const void *s, size_t bytes);
void text_addf(text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_addv(text *t, const char *format, va_list args) __attribute__((format(printf, 2, 0)));
// Adds text of a file or a user in a form that is safe on a terminal. It escapes the bytes of
// control characters (also those of Unicode), of line breaks and of invalid UTF-8 as \n, \t, \r or
// \xNN. It does not escape the bytes in `allowed`. All other text stays unchanged.
void text_add_printable(text *t, const char *s, size_t bytes, const char *allowed);
// Adds the shortest decimal, of at least 6 digits where it needs them, that reads back as the same double. YAML
// and JSON read it as a number.
void text_add_number(text *t, double value);
// Adds s as a string of JSON, in quotes. Where s is not UTF-8, bytes above 0x7f become U+FFFD.
void text_add_json(text *t, const char *s);

// Copies s. The caller frees *out.
status text_copy(const char *s, char **out, err *e);

// Returns the candidate with the smallest edit distance to `word`, or NULL if every distance is
// above 1 + length/4. The distance counts insertions, deletions, substitutions and swaps of
// adjacent characters. It ignores case and the difference between '-' and '_'. The result points
// into `candidates`.
const char *text_nearest(const char *word, const char *const *candidates, size_t count);

// Reads a whole number such as "5e8", "64Mi", "10k" or "1_000". It may have an exponent or a suffix
// k M G T (powers of 1000) or Ki Mi Gi Ti (powers of 1024). Returns false if `s` is no such number
// or does not fit in 64 bits.
bool text_to_count(const char *s, int64_t *out);
// Reads a duration such as "30s", "500ms", "2m", "1h" or "1.5" (seconds). *out is in milliseconds.
bool text_to_duration_ms(const char *s, int64_t *out);
bool text_to_double(const char *s, double *out); // false unless all of `s` is one finite number
bool text_to_bool(const char *s, bool *out);     // true, yes, on, 1; false, no, off, 0

// Writes a number of bytes with its unit, as in "1.50 GiB".
void text_bytes(char out[24], double bytes);

// Returns whether s is well-formed UTF-8: no surrogates, no overlong forms, nothing above U+10FFFF.
// If not, *bad_offset is the offset of the first bad byte. bad_offset may be NULL.
bool text_is_utf8(const void *s, size_t bytes, size_t *bad_offset);

// Returns the length of the longest beginning of s that has at most `most` bytes and does not end
// inside a character. Callers use it as the precision of "%.*s" and for buffers of fixed size. A
// byte that is not UTF-8 counts as a character.
size_t text_cut(const char *s, size_t most);
// The two arguments of "%.*s", for at most `most` bytes of s.
#define TEXT_CUT(s, most) (int)text_cut((s), (most)), (s)
// Removes an incomplete character at the end of s. A buffer of fixed size may have truncated it.
void text_trim(char *s);

#endif
