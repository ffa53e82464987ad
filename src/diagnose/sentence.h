// sentence.h -- the sentence of a cause with the values of a line, and lines of a log made fit to print.
#ifndef TRIREME_DIAGNOSE_SENTENCE_H
#define TRIREME_DIAGNOSE_SENTENCE_H

#include "base/text.h"
#include "diagnose/expression.h"

// Adds `form`, in which {name} stands for a group of the match in `line`. What stands in brackets is left out where one of
// its groups did not match.
void sentence_add(text *out, const char *form, const char *line, const expression_match *m);
// Adds the part of line[bytes] around [begin, end), at most `most` bytes of it, with "..." where it was cut.
void sentence_add_line(text *out, const char *line, size_t bytes, size_t begin, size_t end,
                       size_t most);

#endif
