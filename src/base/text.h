// text.h -- strings: growing buffers, numbers with units, "did you mean".
#ifndef TRIREME_BASE_TEXT_H
#define TRIREME_BASE_TEXT_H

#include "base/err.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

// A growing byte string, always zero-terminated once anything was added. Start with {0}.
// The owner calls text_clear.
//
// Functions that add return nothing. When memory lacks, the text becomes empty and `failed`: it
// takes no more, and `chars` is "". So a text may always be read, but a text that becomes a
// result (a path, a key, a file, what a caller receives) is first checked with text_check or handed
// over with text_take.
typedef struct text {
    char *chars;
    size_t bytes;
    size_t room;
    bool failed;
} text;

void text_clear(text *t);
// Makes the text one that failed, where something that it is made of failed.
void text_fail(text *t);
// E_MEMORY when the text failed.
status text_check(const text *t, err *e);
// Hands the characters over to *out, owned by the caller ("" for an empty text), and clears the
// text. E_MEMORY when the text failed.
status text_take(text *t, char **out, err *e);
void text_add(text *t, const char *s);
void text_add_bytes(text *t, const void *s, size_t bytes);
void text_addf(text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_addv(text *t, const char *format, va_list args) __attribute__((format(printf, 2, 0)));
// Adds text that may come from a file or a user as a terminal can show it without harm: control
// characters (also those of Unicode) and line breaks but the bytes of `allowed` become \n, \t, \r
// or \xNN, one for each byte, and so do bytes that are not UTF-8. All else stays as it is.
void text_add_printable(text *t, const char *s, size_t bytes, const char *allowed);

// A copy of s that the caller frees.
status text_copy(const char *s, char **out, err *e);

// The candidate nearest to `word` by edit distance (insertions, deletions, substitutions and swaps
// of neighbours; case and '-' against '_' ignored), or NULL when none is near enough to be meant
// (distance > 1 + length/4). Borrowed from `candidates`.
const char *text_nearest(const char *word, const char *const *candidates, size_t count);

// "5e8", "64Mi", "10k", "1_000": whole numbers with an exponent or a suffix k M G T (powers of
// 1000) or Ki Mi Gi Ti (1024). False when `s` is not one, is not whole, or does not fit.
bool text_to_count(const char *s, int64_t *out);
// "30s", "500ms", "2m", "1h", plain seconds "1.5". Result in milliseconds.
bool text_to_duration_ms(const char *s, int64_t *out);
bool text_to_double(const char *s, double *out); // the whole string, finite
bool text_to_bool(const char *s, bool *out);     // true false yes no on off 1 0

// "1.50 GiB"; `out` has room for 24 bytes.
void text_bytes(char out[24], double bytes);

// Is this well-formed UTF-8 (no surrogates, no overlong forms, <= U+10FFFF)? On failure *bad_at is
// the offset of the first bad byte.
bool text_is_utf8(const void *s, size_t bytes, size_t *bad_at);

// How many bytes of s, at most `most`, end with a whole character. For messages of fixed size, and
// as the precision of "%.*s". Where s is no UTF-8, bytes are characters.
size_t text_cut(const char *s, size_t most);
// The two arguments of a "%.*s" that is cut so.
#define TEXT_CUT(s, most) (int)text_cut((s), (most)), (s)
// Cuts off a character at the end of s that is not whole: s was cut by its size.
void text_trim(char *s);

#endif
