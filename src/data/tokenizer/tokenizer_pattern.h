// tokenizer_pattern.h -- one regular expression of a tokenizer.json. PCRE2 runs it with the meaning
// that it has in HuggingFace's tokenizers (Oniguruma).
#ifndef TRIREME_DATA_TOKENIZER_PATTERN_H
#define TRIREME_DATA_TOKENIZER_PATTERN_H

#include "base/err.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>

extern const char tokenizer_pattern_gpt2[];
extern const char tokenizer_pattern_llama3[];

// Rewrites an Oniguruma pattern for PCRE2, so that \s, \d and \p{…} match the same characters.
// E_USAGE for syntax that PCRE2 reads differently or not at all.
status tokenizer_pattern_translate(const char *source, text *out, err *e);
// Appends a pattern that matches exactly `s`.
void tokenizer_pattern_quote(const char *s, text *out);

typedef struct tokenizer_pattern tokenizer_pattern; // immutable: shared by threads
typedef struct tokenizer_pattern_workspace tokenizer_pattern_workspace; // one per thread

// Compiles a pattern in the syntax of a tokenizer.json. E_USAGE when it is broken or not supported.
status tokenizer_pattern_open(const char *source, tokenizer_pattern **out, err *e);
void tokenizer_pattern_close(tokenizer_pattern *p); // NULL allowed
status tokenizer_pattern_workspace_open(tokenizer_pattern_workspace **out, err *e);
void tokenizer_pattern_workspace_close(tokenizer_pattern_workspace *w); // NULL allowed

// Finds the first match at or after byte `from` of valid UTF-8. Sets *found and, for a match,
// [*start, *end). E_USAGE when the match exceeds PCRE2's limits.
status tokenizer_pattern_find(const tokenizer_pattern *p, tokenizer_pattern_workspace *w,
                              const char *string, size_t bytes, size_t from, bool *found,
                              size_t *start, size_t *end, err *e);

#endif
