// page_data.h -- inside of monitor/page/: the parts of the page's data. Each part appends one JSON value.
#ifndef TRIREME_MONITOR_PAGE_PAGE_DATA_H
#define TRIREME_MONITOR_PAGE_PAGE_DATA_H

#include "base/text.h"
#include "monitor/run_recent.h"

enum {
    PAGE_POINTS = 1500,      // of a curve
    PAGE_STEPS = 240,        // whose phases are shown
    PAGE_SAMPLE = 256,       // ranks whose steps are averaged
    PAGE_CHOSEN = 24,        // ranks of the timeline
    PAGE_WORST = 16,         // of them, those that others waited for longest
    PAGE_MOST_SPANS = 12000, // of the timeline
    PAGE_MATRIX = 64,        // ranks of a matrix of waits; more ranks get a list of pairs
    PAGE_PAIRS = 60,
};

// What the parts share.
typedef struct page_view {
    const run_view *v;
    run_rank *rank;          // [v->ranks]
    uint64_t first, last;    // steps that records keep; last 0: none
    int chosen[PAGE_CHOSEN]; // ranks of the timeline, by number
    int chosen_count;
} page_view;

// Reads the last steps of all ranks, and chooses ranks. The owner calls page_view_clear, also after a failure.
status page_view_read(const run_view *v, page_view *out, err *e);
void page_view_clear(page_view *p);

// A number of JSON: "null" where it is not finite.
void page_add_number(text *t, double value);
// Nanoseconds as milliseconds.
void page_add_ms(text *t, double ns);
// "," before each but the first: pass the index.
void page_add_comma(text *t, size_t index);

void page_add_log(const run_view *v, text *t);              // {step: [...], loss: [...], ...}
void page_add_evals(const run_view *v, text *t);            // {step, loss}
void page_add_saves(const run_view *v, text *t);            // {step, seconds}
void page_add_memory(const page_view *p, text *t);          // the plan of chosen ranks by category
status page_add_steps(const page_view *p, text *t, err *e); // the phases of steps, means over ranks
status page_add_ranks(const page_view *p, text *t, err *e); // a row for each rank with a record
status page_add_timeline(const page_view *p, text *t,
                         err *e);                           // a step over chosen ranks; null: none
status page_add_waits(const page_view *p, text *t, err *e); // who waited for whom

#endif
