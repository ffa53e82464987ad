// event.h -- the events of a run, and the sinks that take them: log.jsonl, the progress line.
//
// Rank 0 of a run makes each event once and gives it to each sink in turn. Events are plain numbers and borrowed texts,
// so a sink knows neither the trainer nor the job. A sink ignores events that it does not show.
#ifndef TRIREME_BASE_EVENT_H
#define TRIREME_BASE_EVENT_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum event_kind {
    EVENT_START,
    EVENT_STEP,
    EVENT_EVAL,
    EVENT_SAVE,
    EVENT_NOTE,
    EVENT_STRAGGLER,
    EVENT_VERDICT,
    EVENT_ERROR,
    EVENT_END
} event_kind;

typedef struct event_axis {
    const char *name; // "dp"
    int size;
} event_axis;

// Strings that are NULL and numbers that are negative are not known.
typedef struct event_start {
    const char *version, *model, *policy, *precision, *device;
    const char *launched_as; // "processes" | "threads" | "workers"
    const char *program;     // that the workers run
    const char *note;        // the warnings that the user has seen
    const event_axis *mesh;
    int axes;
    int ranks, threads_per_rank;
    int64_t params, plan_bytes_per_rank;
    int64_t steps, tokens_per_step;
    int64_t resumed_from;   // step of the checkpoint that the run resumes from; < 0 for a new run
    const char *checkpoint; // its folder, where it was chosen before the ranks started
} event_start;

// Means over pairs: the rewards of the chosen and the rejected answers, and how often the chosen one's is larger.
typedef struct event_preferences {
    double pairs; // 0: the loss is not of preferences
    double chosen, rejected, accuracy;
} event_preferences;

// The gradient norm of the parameters of one entry of the job's `groups`, before clipping.
typedef struct event_group_norm {
    const char *name; // the entry's pattern, or "no group"
    double norm;
} event_group_norm;

// One finished optimizer step.
typedef struct event_step {
    int64_t step, steps; // number of this step, from 1; steps of the run
    double loss;         // mean over the valid tokens of the global batch, before the step
    double grad_norm;    // before clipping
    double lr;
    int64_t tokens; // valid tokens of this step on all ranks
    float seconds;  // of this step
    float tokens_per_s;
    float mfu; // model FLOPs utilization of the measured matmul rate, in [0, 1]; NaN: not known
    bool skipped;
    double loss_scale;                  // of fp16 in this step; 0: none
    event_preferences preferences;      // of the pairs of the step
    const event_group_norm *group_norm; // [group_norms] for as long as the sink takes the event
    int group_norms;                    // 0: nobody asks
    const char *unit;                   // name of a token on the progress line; NULL means "tok"
} event_step;

typedef struct event {
    event_kind kind;
    union {
        event_start start;
        event_step step;
        struct {
            int64_t step;
            double loss;
            bool has_perplexity; // e to the loss; vectors and preferences have none
            event_preferences preferences;
        } eval;
        struct {
            int64_t step;
            const char *path;
            int64_t bytes;
            float seconds;
        } save;
        const char *note; // a line for the user who watches the run
        struct {
            int64_t step;
            int rank; // that keeps the others waiting; -1: all ranks of the host
            const char *host;
            const char *cause; // "compute" | "input" | "link"
            double share;      // of a step, that the others wait
            bool chronic;      // in 8 of the last 10 steps
        } straggler;
        struct {
            const char *word; // "COMPUTE STRAGGLER"
            int rank;         // that it is about; -1: none
            const char *host; // likewise; NULL: none
            const char *line; // the verdict in one line
            const char *next; // the next thing to try, a sentence
        } verdict;
        struct {
            int rank; // that failed; < 0: not known
            const char *text;
        } error;
        struct {
            int64_t step;       // the last one; < 0: not known
            const char *reason; // "done" | "interrupted" | "failed"
            float seconds;      // of the run
        } end;
    };
} event;

typedef struct event_sink {
    // A failure ends the run.
    status (*take)(void *arg, const event *ev, err *e);
    void (*close)(void *arg);
    void *arg;
} event_sink;

enum { EVENT_SINKS = 8 };
typedef struct event_sinks {
    event_sink items[EVENT_SINKS];
    int count;
} event_sinks;

void event_sinks_add(event_sinks *s, event_sink one); // at most EVENT_SINKS
status event_emit(const event_sinks *s, const event *ev, err *e);
void event_sinks_close(event_sinks *s);

#endif
