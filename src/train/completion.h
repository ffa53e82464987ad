// completion.h -- text as it is generated, token by token: cut before a stop string, and handed out
// in whole UTF-8 characters.
#ifndef TRIREME_TRAIN_COMPLETION_H
#define TRIREME_TRAIN_COMPLETION_H

#include "base/text.h"

// Start with {.stop = …, .stops = …}; owner calls completion_clear.
typedef struct completion {
    const char *const *stop; // stop strings, none of them empty; borrowed
    size_t stops;
    text bytes;        // of all tokens so far; once stopped, up to the stop string
    size_t given;      // how many of them were handed out
    const char *found; // the stop string that ended the text; NULL: none so far
} completion;

// Adds the bytes of a token. What no stop string can begin with any more, and is a whole character,
// is appended to *shown. Bytes that are no UTF-8 become U+FFFD. When a stop string is found (also
// over several tokens), c->found is set and everything before it is handed out.
void completion_add(completion *c, const char *bytes, size_t count, text *shown);
// No token follows: hands out what was held back.
void completion_end(completion *c, text *shown);
void completion_clear(completion *c);

#endif
