// tokenizer_added.h -- added tokens ("<|endoftext|>", …): found in the text before it is cut into
// words.
#ifndef TRIREME_DATA_TOKENIZER_ADDED_H
#define TRIREME_DATA_TOKENIZER_ADDED_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct added_token {
    const char *content; // UTF-8, not empty; borrowed for as long as the set lives
    size_t bytes;
    int32_t id;
    bool single_word;    // only where no letter or digit touches it
    bool lstrip, rstrip; // swallows the white space before, after
} added_token;

typedef struct added_set added_set; // immutable: shared by threads

// Copies the tokens (not their contents); no two may have the same content.
status added_set_open(const added_token *tokens, size_t count, added_set **out, err *e);
void added_set_close(added_set *s); // NULL allowed

// Gives the parts of valid UTF-8 to `take`, in order: an added token's id, or id -1 and the text
// between, which is never empty. Of the tokens that start at one place the longest is taken.
typedef status (*added_take)(void *arg, int32_t id, const char *at, size_t bytes, err *e);
status added_set_run(const added_set *s, const char *at, size_t bytes, added_take take, void *arg,
                     err *e);

#endif
