// trace.c -- has the steps of observe.trace_steps traced (trace.h).
#include "session/trace.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/text.h"
#include "monitor/trace/trace.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

enum { LOOK_MS = 10, LOOKS = 3000, LAST_LOOKS = 100 };

struct session_trace {
    char *folder;
    uint64_t first, last, step; // step: the last one of the run so far
    bool begun, told;
    pthread_t thread;      // where begun
    _Atomic bool finishes; // no further step will be recorded
    _Atomic bool done;     // note is set
    char *note;
};

// ---- The thread

static bool all_have(const run_view *v, uint64_t last)
{
    uint64_t oldest, newest;
    return v->recorded == v->ranks && run_view_common_steps(v, &oldest, &newest) && newest >= last;
}

// Waits until the records have the last step, or as long as that can be expected.
static status wait_for_records(const session_trace *t, run_view *v, err *e)
{
    status result = OK;
    for (int looks = 0; !all_have(v, t->last); looks++) {
        if (looks == LOOKS || (atomic_load(&t->finishes) && looks >= LAST_LOOKS)) break;
        nanosleep(&(struct timespec){.tv_nsec = LOOK_MS * 1000000L}, NULL);
        TRY(run_view_refresh(v, e));
    }
done:
    return result;
}

// A run that has ended early has not all of the steps.
static status cut(const session_trace *t, char **folder, uint64_t *last, err *e)
{
    status result = OK;
    run_view *v = NULL;
    uint64_t oldest, newest;
    TRY(run_view_open(t->folder, &v, e));
    TRY(wait_for_records(t, v, e));
    *last = t->last;
    if (run_view_common_steps(v, &oldest, &newest) && newest < *last && newest >= t->first)
        *last = newest;
    TRY(trace_cut(v, t->first, *last, folder, e));
done:
    run_view_close(v);
    return result;
}

static void *thread_main(void *arg)
{
    session_trace *t = arg;
    err error = {0};
    text note = {0};
    char *folder = NULL;
    uint64_t last;
    if (cut(t, &folder, &last, &error) == OK)
        text_addf(&note, "traced steps %" PRIu64 " to %" PRIu64 ": %s", t->first, last,
                  file_shown(folder));
    else
        text_addf(&note, "steps %" PRIu64 " to %" PRIu64 " were not traced: %s", t->first, t->last,
                  error.text);
    (void)text_take(&note, &t->note, NULL);
    text_clear(&note);
    free(folder);
    atomic_store(&t->done, true);
    return NULL;
}

// Starts the thread; where that fails, cuts here.
static void begin(session_trace *t)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    t->begun = pthread_create(&t->thread, NULL, thread_main, t) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!t->begun) thread_main(t);
}

// ---- Rank 0

status session_trace_open(const char *folder, int64_t first, int64_t last, session_trace **out,
                          err *e)
{
    status result = OK;
    session_trace *t = NULL;
    *out = NULL;
    if (first <= 0) return OK;
    TRY(alloc_zeroed(&t, 1, sizeof *t, "the trace of a run", e));
    t->first = (uint64_t)first;
    t->last = (uint64_t)last;
    TRY(text_copy(folder, &t->folder, e));
    *out = t;
    t = NULL;
done:
    session_trace_close(t);
    return result;
}

static void take_note(session_trace *t, char **note)
{
    if (!atomic_load(&t->done) || t->told) return;
    if (t->begun) pthread_join(t->thread, NULL);
    t->begun = false;
    t->told = true;
    *note = t->note;
    t->note = NULL;
}

void session_trace_due(session_trace *t, uint64_t step, char **note)
{
    *note = NULL;
    if (!t || t->told) return;
    // A run that resumes behind the steps does not have them.
    if (!t->step && step > t->last) t->told = true;
    t->step = step;
    if (!t->told && !t->begun && step > t->last) begin(t);
    take_note(t, note);
}

void session_trace_finish(session_trace *t, char **note)
{
    *note = NULL;
    if (!t || t->told) return;
    atomic_store(&t->finishes, true);
    if (!t->begun && t->step >= t->first) begin(t);
    if (t->begun) {
        pthread_join(t->thread, NULL);
        t->begun = false;
    }
    take_note(t, note);
}

void session_trace_close(session_trace *t)
{
    if (!t) return;
    atomic_store(&t->finishes, true);
    if (t->begun) pthread_join(t->thread, NULL);
    free(t->note);
    free(t->folder);
    free(t);
}
