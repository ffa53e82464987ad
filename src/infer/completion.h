// completion.h -- generated text, which grows token by token. It ends before a stop string, and it
// is handed out in complete UTF-8 characters.
#ifndef TRIREME_INFER_COMPLETION_H
#define TRIREME_INFER_COMPLETION_H

#include "base/text.h"

// Start with {.stop = …, .stops = …}; owner calls completion_clear.
typedef struct completion {
    const char *const *stop; // stop strings, none of them empty; borrowed
    size_t stops;
    text bytes;   // bytes of all tokens so far; after a stop string was found, the bytes before it
    size_t given; // bytes that were handed out
    const char *found; // the stop string that ended the text; NULL: none so far
} completion;

// Adds the bytes of a token. Appends to *shown the complete characters that cannot belong to a stop
// string. Bytes that are not UTF-8 become U+FFFD. When a stop string is found (also across tokens),
// sets c->found and appends everything before it.
void completion_add(completion *c, const char *bytes, size_t count, text *shown);
// Says that no token follows: appends the rest to *shown.
void completion_end(completion *c, text *shown);
void completion_clear(completion *c);

#endif
