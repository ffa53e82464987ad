// diagnosis.h -- what a diagnosis holds. diagnose.c fills it, choose.c finds the cause, answer.c prints it.
#ifndef TRIREME_DIAGNOSE_DIAGNOSIS_H
#define TRIREME_DIAGNOSE_DIAGNOSIS_H

#include "diagnose/diagnose.h"
#include "diagnose/late.h"
#include "diagnose/place.h"
#include "diagnose/rows.h"

#include <stdint.h>

// The first line that shows a cause.
typedef struct diagnose_finding {
    const diagnose_cause *cause;
    int64_t count; // lines that show it; 0: none
    int file;
    int64_t line, order; // its number, from 1; its place among all lines that were read
    place place;
    char *shown, *sentence; // the line, cut; the sentence with its values
} diagnose_finding;

struct diagnosis {
    rows *rows;
    place_reader *places;
    late_ranks *late;
    diagnose_finding *finding; // [diagnose_cause_count()], in the order of the rows
    char **path;               // [files] as the user wrote them
    size_t files, file_room;
    int error_file; // the first line that looks like an error of any kind
    int64_t error_line;
    char *error_shown; // NULL: none

    // The log that is being read.
    bool *passed;  // [causes] seen so often in it that further lines do not count
    int64_t *seen; // [causes] lines in it
    int64_t line;  // number of the first line of the piece
    int64_t lines; // of all logs so far
};

// The row that says why the run ended; NULL: no row but echoes, or none at all.
const diagnose_finding *diagnosis_cause(const diagnosis *d);
// The row of a launcher that names the rank that failed first, without a reason; NULL: none.
const diagnose_finding *diagnosis_first_failed(const diagnosis *d);
// Whether `a` rather than `b` is the cause. Both were found.
bool diagnosis_is_before(const diagnose_finding *a, const diagnose_finding *b);
// The rank to name for a finding; -1: none.
int diagnosis_rank(const diagnosis *d, const diagnose_finding *f);

#endif
