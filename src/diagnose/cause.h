// cause.h -- a cause of failed runs as one row: how logs show it, what it means and what helps. The rows stand in
// causes_*.c, one table for each subject; causes.c lists the tables. A new cause is one row and one case of
// tests/golden/diagnose/.
#ifndef TRIREME_DIAGNOSE_CAUSE_H
#define TRIREME_DIAGNOSE_CAUSE_H

#include <stdbool.h>
#include <stddef.h>

// How much a line says about why the run ended. The cause is the first line of the greatest weight: a rank that waited in
// vain says less than one that says why it ended.
typedef enum diagnose_weight {
    DIAGNOSE_ECHO,     // follows from a failure elsewhere, and is never the cause
    DIAGNOSE_WAIT,     // a rank waited for another one, or was stopped from outside
    DIAGNOSE_GENERAL,  // a rank ended, and its line does not say why
    DIAGNOSE_SYMPTOM,  // something failed that has several possible causes
    DIAGNOSE_SPECIFIC, // the line says what is wrong
    DIAGNOSE_MACHINE,  // the line says what is wrong with the machine, and explains the others
} diagnose_weight;

enum { DIAGNOSE_PATTERNS = 12, DIAGNOSE_REMEDIES = 4, DIAGNOSE_CHECKS = 4 };

// A line shows the cause where it holds `literal`, and `regex` matches (PCRE2, on bytes); NULL: the literal is enough.
// The literal makes large logs fast to read, so it is as rare as possible. The groups <rank>, <local> (a rank of its
// host) and <host> say where; any other group is a value of the sentence.
typedef struct diagnose_pattern {
    const char *literal, *regex;
} diagnose_pattern;

typedef struct diagnose_cause {
    const char *code; // words joined by '-', unique, fixed for ever: people script against it
    diagnose_weight weight;
    diagnose_pattern pattern[DIAGNOSE_PATTERNS]; // ends with a NULL literal
    // One sentence. {name} is a value of the line; what stands in brackets is left out where a value is missing.
    const char *sentence;
    bool last_resort; // counts only where no other row knows the line
    bool last_counts; // the last line shows it, not the first
    const char
        *why; // what happens because of it, or how it comes about; NULL: the sentence says all
    const char
        *remedy[DIAGNOSE_REMEDIES]; // sentences or commands (those begin with "$ "); ends with NULL
    const char *check[DIAGNOSE_CHECKS]; // codes of `trireme doctor`; ends with NULL
    const char *reference;              // a page of docs/ or a manual; NULL: none
} diagnose_cause;

typedef struct diagnose_table {
    const diagnose_cause *row;
    int count;
} diagnose_table;

// causes.c; ends with NULL. Where one line shows several causes of one weight, the first row counts.
extern const diagnose_table *const DIAGNOSE_TABLES[];

// The ranks' calls of this row are compared, to find the rank that came late.
#define DIAGNOSE_TIMEOUT "nccl-timeout"

int diagnose_cause_count(void);
const diagnose_cause *diagnose_cause_at(int index); // in the order of the tables

#endif
