// tokenizer_normalize.h -- the normalizer: changes text before it is split into words.
#ifndef TRIREME_DATA_TOKENIZER_NORMALIZE_H
#define TRIREME_DATA_TOKENIZER_NORMALIZE_H

#include "base/err.h"
#include "data/tokenizer/tokenizer_span.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tokenizer_normalizer tokenizer_normalizer; // immutable: shared by threads
typedef struct tokenizer_normalizer_workspace tokenizer_normalizer_workspace; // one per thread

// Reads the field normalizer of a tokenizer.json: NFC, Prepend, Replace and Sequence. *out is NULL where the normalizer
// changes nothing. E_USAGE names the field that is broken or not supported.
status tokenizer_normalizer_open(const json_t *normalizer, tokenizer_normalizer **out, err *e);
void tokenizer_normalizer_close(tokenizer_normalizer *n); // NULL allowed
// A hash of the steps; NULL: 0.
uint64_t tokenizer_normalizer_hash(const tokenizer_normalizer *n);
status tokenizer_normalizer_workspace_open(tokenizer_normalizer_workspace **out, err *e);
void tokenizer_normalizer_workspace_close(tokenizer_normalizer_workspace *w); // NULL allowed

// Normalizes valid UTF-8 that is not empty. *out is `in` where n is NULL, else it belongs to the workspace until its next
// use.
status tokenizer_normalizer_run(const tokenizer_normalizer *n, tokenizer_normalizer_workspace *w,
                                const tokenizer_span *in, tokenizer_span *out, err *e);

#endif
