// registry.c -- the communicators that this version has: their names, what they can do, and how each
// is opened. See registry.h. A new communicator is one row.
//
// Called by session/ and by programs that measure. Of a communicator it knows no more than its row.
#include "comm/registry.h"

#include "comm/local.h"
#include "comm/solo.h"

#include <string.h>

typedef struct registry_row {
    const char *name;
    const comm_capabilities *can;
    int least_ranks, most_ranks; // most_ranks 0: any number
    status (*open)(const comm_options *o, comm **out, err *e);
} registry_row;

static status solo_row_open(const comm_options *o, comm **out, err *e)
{
    (void)o;
    return comm_solo_open(out, e);
}

// "auto" is the first row that can have the ranks.
static const registry_row ROWS[] = {
    {"solo", &SOLO_CAPABILITIES, 1, 1, solo_row_open},
    {"local", &LOCAL_CAPABILITIES, 2, 0, local_open},
};
enum { ROW_COUNT = sizeof ROWS / sizeof *ROWS };

static const char VALID[] = "auto, solo (one rank) and local (ranks of one machine)";

static bool can_have(const registry_row *row, int size)
{
    return size >= row->least_ranks && (size <= row->most_ranks || row->most_ranks == 0);
}

static status find(const char *name, int size, const registry_row **out, err *e)
{
    const bool is_auto = strcmp(name, "auto") == 0;
    const registry_row *row = NULL;
    for (int i = 0; i < ROW_COUNT && !row; i++)
        if (is_auto ? can_have(&ROWS[i], size) : strcmp(ROWS[i].name, name) == 0) row = &ROWS[i];
    *out = row;
    if (!row) return err_set(e, E_USAGE, "communicator %s: valid are %s", name, VALID);
    if (!can_have(row, size))
        return err_set(e, E_USAGE, "communicator %s: found %d ranks; valid are %s", row->name, size,
                       row->most_ranks == 1 ? "1" : "2 and more");
    return OK;
}

status comm_describe(const char *name, int size, comm_description *out, err *e)
{
    const registry_row *row;
    const status result = find(name, size, &row, e);
    if (result == OK) *out = (comm_description){.name = row->name, .can = *row->can};
    return result;
}

status comm_open(const char *name, comm_options o, comm **out, err *e)
{
    const registry_row *row;
    *out = NULL;
    const status result = find(name, o.size, &row, e);
    return result == OK ? row->open(&o, out, e) : result;
}
