// rows.h -- the patterns of all causes, made ready for reading: their literals as one automaton, their expressions
// compiled. diagnose.c asks it which causes a line shows.
#ifndef TRIREME_DIAGNOSE_ROWS_H
#define TRIREME_DIAGNOSE_ROWS_H

#include "diagnose/cause.h"
#include "diagnose/expression.h"

typedef struct rows rows;

enum { ROWS_HITS = 8 };

// A cause that a line shows. Of several patterns of one cause, the first that matches counts.
typedef struct rows_hit {
    int cause; // its index in the order of the tables
    expression_match match;
} rows_hit;

status rows_open(rows **out, err *e);
void rows_close(rows *r); // NULL allowed
// The first byte behind the first literal in [from, end); NULL: no line there shows anything.
const char *rows_first(const rows *r, const char *from, const char *end);
// The causes that line[bytes] shows, in the order of the tables: at most ROWS_HITS. `passed` [causes] names those that are
// not looked for. *is_error says
// whether the line looks like an error of any kind; the caller sets it where it wants to know.
int rows_find(rows *r, const char *line, size_t bytes, const bool *passed, rows_hit *hit,
              bool *is_error);

#endif
