// expression.h -- regular expressions on bytes, with PCRE2. rows.c compiles those of the rows, place.c its own.
#ifndef TRIREME_DIAGNOSE_EXPRESSION_H
#define TRIREME_DIAGNOSE_EXPRESSION_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct expression expression;

enum { EXPRESSION_NAME_BYTES = 16, EXPRESSION_GROUPS = 12 };

// A group that took part in a match.
typedef struct expression_group {
    char name[EXPRESSION_NAME_BYTES];
    size_t begin, end; // in the line
} expression_group;

typedef struct expression_match {
    size_t begin, end;
    expression_group group[EXPRESSION_GROUPS];
    int count;
} expression_match;

// E_INTERNAL where it does not compile. The caller closes it.
status expression_open(const char *source, expression **out, err *e);
void expression_close(expression *x); // NULL allowed
// Returns whether it matches in line[bytes]; the effort is bounded, and a line beyond it does not match. `out` may be NULL.
bool expression_find(const expression *x, const char *line, size_t bytes, expression_match *out);

#endif
