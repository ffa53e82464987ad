// tokenizer_pattern.h -- one regular expression of a tokenizer.json, run by PCRE2 with the meaning
// that it has in HuggingFace's tokenizers (Oniguruma).
#ifndef TRIREME_DATA_TOKENIZER_PATTERN_H
#define TRIREME_DATA_TOKENIZER_PATTERN_H

#include "base/err.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>

extern const char pattern_gpt2[];
extern const char pattern_llama3[];

// Rewrites an Oniguruma pattern for PCRE2: \s, \d and \p{…} get Oniguruma's members. E_USAGE for
// what has another meaning there, or none.
status pattern_translate(const char *source, text *out, err *e);
// A pattern that matches exactly `s`.
void pattern_quote(const char *s, text *out);

typedef struct pattern pattern;           // immutable: shared by threads
typedef struct pattern_work pattern_work; // one per thread

// Compiles a pattern as it stands in the file. E_USAGE when it is broken or not supported.
status pattern_open(const char *source, pattern **out, err *e);
void pattern_close(pattern *p); // NULL allowed
status pattern_work_open(pattern_work **out, err *e);
void pattern_work_close(pattern_work *w); // NULL allowed

// The first match at or after `from` in valid UTF-8. *found says whether there is one. E_USAGE when
// the text is too hard for the pattern.
status pattern_find(const pattern *p, pattern_work *w, const char *at, size_t bytes, size_t from,
                    bool *found, size_t *start, size_t *end, err *e);

#endif
