// place.h -- where and when a line of a log was written: its rank, host and time, as launchers, NCCL, Slurm and syslog
// write them before the text. diagnose.c asks for the lines that show a cause.
#ifndef TRIREME_DIAGNOSE_PLACE_H
#define TRIREME_DIAGNOSE_PLACE_H

#include "base/err.h"

#include <stddef.h>

enum { PLACE_HOST_BYTES = 64 };

typedef struct place_reader place_reader;

typedef struct place {
    int rank, local;             // of the run, of the host; -1: not known
    char host[PLACE_HOST_BYTES]; // "": not known
    // Seconds since the beginning of a year, which the formats of some logs do not tell: only for comparing. -1: not known.
    double when;
} place;

status place_reader_open(place_reader **out, err *e);
void place_reader_close(place_reader *r); // NULL allowed
// Adds to *p what line[bytes] says and *p does not know yet.
void place_read(const place_reader *r, const char *line, size_t bytes, place *p);
// The same for the time alone.
void place_read_time(const place_reader *r, const char *line, size_t bytes, place *p);
// The same for a line of the block that torchrun prints for a rank that failed ("  rank      : 3 (local_rank: 1)").
void place_read_block(const place_reader *r, const char *line, size_t bytes, place *p);
// The same for the path of a log that one rank wrote.
void place_read_path(const place_reader *r, const char *path, place *p);
// Sets what a group of an expression says: <rank>, <local> or <host>. Other names are ignored.
void place_set(place *p, const char *name, const char *value, size_t bytes);

#endif
