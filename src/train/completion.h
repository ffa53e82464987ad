// completion.h -- generated text, which grows token by token. It ends before a stop string, and it is handed
// out in complete UTF-8 characters.
#ifndef TRIREME_TRAIN_COMPLETION_H
#define TRIREME_TRAIN_COMPLETION_H

#include "base/text.h"

// Start with {.stop = …, .stops = …}; owner calls completion_clear.
typedef struct completion {
    const char *const *stop; // stop strings, none of them empty; borrowed
    size_t stops;
    text bytes;        // of all tokens so far; once stopped, up to the stop string
    size_t given;      // bytes that were handed out
    const char *found; // the stop string that ended the text; NULL: none so far
} completion;

// Adds the bytes of a token. Complete characters that cannot belong to a stop string are appended to *shown.
// Bytes that are not UTF-8 become U+FFFD. When a stop string is found (also across tokens), c->found
// is set and everything before it is handed out.
void completion_add(completion *c, const char *bytes, size_t count, text *shown);
// No token follows: hands out the rest.
void completion_end(completion *c, text *shown);
void completion_clear(completion *c);

#endif
