// literals.h -- finds any of many short texts in bytes in one pass (Aho and Corasick's automaton). diagnose.c passes over
// the lines of a log with it, and looks closely only at those that hold a literal of a row.
#ifndef TRIREME_DIAGNOSE_LITERALS_H
#define TRIREME_DIAGNOSE_LITERALS_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct literals literals;

// literal[count], each of at least one byte and without a line break; equal ones are allowed. The caller closes it.
status literals_open(const char *const *literal, int count, literals **out, err *e);
void literals_close(literals *l); // NULL allowed

// The first byte behind the first literal in [from, end); NULL: there is none.
const char *literals_first(const literals *l, const char *from, const char *end);
// Calls `found` once or more for each literal in [from, end), by its index.
void literals_each(const literals *l, const char *from, const char *end,
                   void (*found)(void *arg, int literal), void *arg);

#endif
