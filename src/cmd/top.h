// top.h -- the runs that `trireme top` looks at, and its screen. cmd/top.c gathers and prints; cmd/top_screen.c draws with
// ncurses, where the program was built with it.
#ifndef TRIREME_CMD_TOP_H
#define TRIREME_CMD_TOP_H

#include "base/text.h"
#include "monitor/top/top.h"

#include <stdbool.h>
#include <stddef.h>

// The line below a run.
typedef struct top_note {
    char *problem;  // why it could not be read the last time; NULL: it could
    char *verdict;  // so far; NULL: none
    double again_s; // clock_seconds from which on the verdict is made again
} top_note;

typedef struct top_list {
    bool finds;      // the runs of this machine; else those that were named
    run_view **view; // [count] owned
    top_run *run;    // [count] what top_add takes
    top_note *note;  // [count]
    size_t count, view_room, run_room, note_room;
    text devices; // lines
} top_list;

// Reads what has come to the runs since, and finds new ones. A run that cannot be read at the moment stays as it was.
status top_list_refresh(top_list *t, err *e);
// Writes the lines about the devices of this machine.
void top_list_read_devices(top_list *t);

// Shows the runs until the user quits. E_IO where the terminal cannot show them.
status top_screen_show(top_list *t, double every_s, err *e);

#endif
