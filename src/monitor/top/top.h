// top.h -- runs as lines of text for a terminal: what `trireme top` shows. The lines are made here, from what is seen of the
// runs from outside, and cmd/ draws or prints them. It knows no terminal.
#ifndef TRIREME_MONITOR_TOP_TOP_H
#define TRIREME_MONITOR_TOP_TOP_H

#include "base/text.h"
#include "monitor/run_view.h"

enum { TOP_MARKS = 6 }; // runs that have a letter and a colour of their own

// One of these bytes in a line changes how what follows it is drawn. They are no characters of other text, because that is
// printable.
typedef enum top_tone {
    TOP_PLAIN = 1,
    TOP_TITLE,
    TOP_SOFT,
    TOP_GOOD,
    TOP_BAD,
    TOP_CHOSEN,
    TOP_MARK = 14, // of run 0; those of the other runs follow
    TOP_TONES = TOP_MARK + TOP_MARKS
} top_tone;

typedef enum top_sort { TOP_BY_RANK, TOP_BY_CAUSED, TOP_BY_OWN, TOP_BY_MEMORY, TOP_SORTS } top_sort;
typedef enum top_page { TOP_RANKS, TOP_LINKS, TOP_DEVICES, TOP_PAGES } top_page;

typedef struct top_run {
    const run_view *v;
    const char *verdict; // so far, in one line; NULL: none
} top_run;

typedef struct top_settings {
    int width, height; // of the terminal; height 0: all lines, one page after the other
    int run;           // that is shown in detail
    int first;         // row of the list that is shown first
    top_sort sort;
    top_page page;
    bool help;
    bool is_ascii;       // the terminal shows no other characters
    const char *devices; // lines about the devices of this machine; NULL: none
} top_settings;

// Appends the lines, each with a line break.
status top_add(const top_run *runs, int count, const top_settings *s, text *out, err *e);
// Appends lines without the bytes of tones.
void top_add_plain(const text *lines, text *out);
// The same numbers as one JSON object; the caller releases it. `devices` is taken over.
status top_json(const top_run *runs, int count, json_t *devices, json_t **out, err *e);

// Finds the folders of runs whose ranks are on this machine, and whose processes this user may see: those that have mapped
// a record for writing. The caller frees each of *out and the array.
status top_find(const char *proc, char ***out, size_t *count, err *e);

#endif
