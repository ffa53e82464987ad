// watchdog.c -- the line of a rank that has waited too long: which rank did not come to which call,
// and what both are doing. See watchdog.h. Called by communicators whose wait has ended.
#include "comm/watchdog.h"

#include "comm/recorder.h"

#include <stdio.h>

enum { ACTIVITY_BYTES = 96, LAST_CALL_BYTES = 160 };

// Describes the activity `what` in out, with the function of rank `waiting`. Leaves out empty when it is not
// known.
static void describe_activity(comm_watchdog *w, int waiting, uint64_t what,
                              char out[ACTIVITY_BYTES])
{
    void (*describe)(uint64_t, char *, size_t) = atomic_load(&w->activities[waiting].describe);
    out[0] = 0;
    if (describe && what) describe(what, out, ACTIVITY_BYTES);
}

// `in`: the words before the activity.
static void describe_doing(comm_watchdog *w, int describer, int of, const comm_recorder *r,
                           const char *in, char *out, size_t room)
{
    char what[ACTIVITY_BYTES], last[LAST_CALL_BYTES] = "";
    describe_activity(w, describer, atomic_load(&w->activities[of].what), what);
    if (r) comm_recorder_describe(r, of, last, sizeof last);
    snprintf(out, room, "%s%s%s%s", what[0] ? in : "", what, last[0] ? "; its last call is " : "",
             last);
}

void comm_watchdog_describe(comm_watchdog *w, int describer, int of, const comm_recorder *r,
                            char *out, size_t room)
{
    describe_doing(w, describer, of, r, "; it was in ", out, room);
}

status comm_watchdog_error(comm_watchdog *w, comm_failure *f, const comm_wait *wait, err *e)
{
    err why = {0};
    char waiting_for[ACTIVITY_BYTES], doing[COMM_DOING_BYTES] = "";
    if (comm_failure_known(f)) return comm_failure_error(f, e);
    const int waiting = wait->waiting - wait->first, awaited = wait->awaited - wait->first;
    describe_activity(w, waiting, wait->what, waiting_for);
    if (!wait->is_elsewhere)
        describe_doing(w, waiting, awaited, wait->recorder, "; it is in ", doing, sizeof doing);
    err_set(&why, E_PEER,
            "Watchdog caught collective operation timeout: rank %d%s%s%s did not come to "
            "%s%s%s%s%s%s within %.3g s%s",
            wait->awaited, wait->host ? " (host " : "", wait->host ? wait->host : "",
            wait->host ? ")" : "", wait->call, wait->label ? " over " : "",
            wait->label ? wait->label : "", waiting_for[0] ? " (" : "", waiting_for,
            waiting_for[0] ? ")" : "", (double)atomic_load(&w->limit_ms) * 1e-3, doing);
    // -1: the message names the awaited rank, and no rank has reported a failure of its own.
    comm_failure_set(f, -1, &why);
    return err_set(e, E_PEER, "%s", why.text);
}
