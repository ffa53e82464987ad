// top_parts.h -- inside of monitor/top/: the parts of the screen, and how numbers and columns are written.
#ifndef TRIREME_MONITOR_TOP_TOP_PARTS_H
#define TRIREME_MONITOR_TOP_TOP_PARTS_H

#include "monitor/run_recent.h"
#include "monitor/top/top.h"

enum { TOP_MOST_LINKS = 64 };

// Calls of one kind over one process group, of all ranks since the run began.
typedef struct top_link {
    char group[24], name[56];
    uint64_t calls, bytes, ns, waited_ns;
} top_link;

void top_tone_add(text *t, int tone);
// Adds s, at most `columns` characters of it, and spaces up to there; from its end where `keep_end`.
void top_add_column(text *t, const char *s, int columns, bool keep_end);
// The same at the right edge of the column.
void top_add_right(text *t, const char *s, int columns);
void top_format_count(char out[24], double value); // "41.2k"; "-" where it is not finite
void top_format_ms(char out[24], double ns);       // "12.3 ms"

// The loss of all runs in a plot of width x height characters.
status top_add_curves(const top_run *runs, int count, int width, int height, bool is_ascii,
                      text *out, err *e);
// A line for each run.
void top_add_runs(const top_run *runs, int count, const top_settings *s, text *out);
// A head and a line for each rank.
status top_add_ranks(const run_view *v, const top_settings *s, text *out, err *e);
void top_add_links(const run_view *v, text *out);

// Fills out[TOP_MOST_LINKS], and returns how many there are.
int top_read_links(const run_view *v, top_link *out);
double top_link_rate(const top_link *x); // bytes a second of a rank, waits left out; 0: not known
// Numbers of the last logged steps; NAN where there are none.
double top_seconds_of(const run_view *v);
// What runs on a rank now: the name of its row; borrowed.
const char *top_now_of(const run_view *v, int rank);

#endif
