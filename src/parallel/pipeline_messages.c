// pipeline_messages.c -- see pipeline_messages.h. Called by schedule_visits.c. It knows chunks and
// micro-batches, and neither blocks nor memory.
#include "parallel/pipeline_messages.h"

#include "base/alloc.h"
#include "base/size.h"

#include <stdlib.h>

static const char WHAT[] = "the messages of the pipeline";

// ---- Which messages a pass has

static int model_chunks(const pipeline_stages *x)
{
    return x->stages * x->virtual_stages;
}

// The pass's chunk of the model.
static int chunk_of(const pipeline_stages *x, int stage, const pipeline_op *pass)
{
    return pass->chunk * x->stages + stage;
}

static bool is_dgrad(const pipeline_op *pass)
{
    return pass->kind == PIPE_BACKWARD || pass->kind == PIPE_BACKWARD_INPUT;
}

static bool is_needed(const pipeline_stages *x, int stage, const pipeline_op *pass)
{
    return pass->kind == PIPE_FORWARD || chunk_of(x, stage, pass) >= x->first_backward;
}

// Does a message bring the input of a forward, or the output gradient of a dgrad?
static bool is_received(const pipeline_stages *x, int stage, const pipeline_op *pass)
{
    const int chunk = chunk_of(x, stage, pass);
    if (pass->kind == PIPE_FORWARD) return chunk > 0;
    return is_dgrad(pass) && chunk + 1 < model_chunks(x);
}

static bool is_sent(const pipeline_stages *x, int stage, const pipeline_op *pass)
{
    const int chunk = chunk_of(x, stage, pass);
    if (pass->kind == PIPE_FORWARD) return chunk + 1 < model_chunks(x);
    return is_dgrad(pass) && chunk > x->first_backward;
}

// The message that brings what the pass reads, or that takes away what it computes.
static pipeline_op message_of(const pipeline_op *pass, bool sends)
{
    const bool forward = pass->kind == PIPE_FORWARD;
    const pipeline_pass kind = sends ? (forward ? PIPE_SEND_ACT : PIPE_SEND_GRAD)
                                     : (forward ? PIPE_RECV_ACT : PIPE_RECV_GRAD);
    return (pipeline_op){.kind = kind, .micro = pass->micro, .chunk = pass->chunk};
}

static status open_list(const pipeline_list *passes, pipeline_list *out, err *e)
{
    *out = (pipeline_list){0};
    return alloc_zeroed(&out->ops, (size_t)passes->count, 3 * sizeof *out->ops, WHAT, e);
}

// ---- Sends that do not wait

static status add_at_once(const pipeline_stages *x, int stage, pipeline_list *out, err *e)
{
    const pipeline_list *l = x->passes;
    const status result = open_list(l, out, e);
    for (int i = 0; result == OK && i < l->count; i++) {
        const pipeline_op *pass = &l->ops[i];
        if (!is_needed(x, stage, pass)) continue;
        const bool received = is_received(x, stage, pass);
        if (received) out->ops[out->count++] = message_of(pass, false);
        out->ops[out->count] = *pass;
        out->ops[out->count++].received = received;
        if (is_sent(x, stage, pass)) out->ops[out->count++] = message_of(pass, true);
    }
    return result;
}

// ---- Sends that wait

// The times of the passes of all stages, if messages take no time.
typedef struct pipeline_times {
    const pipeline_stages *x;
    bool joins; // a forward and the backward that follows it are one unit
    int *next;  // [stages] the next pass of the stage
    int *clock; // [stages] when its last pass ended
    int *end;   // [passes] of the stage whose messages are placed
    // [model chunks, micros] when the value is computed, and from when on there is room for it at the
    // other end. An activation belongs to the chunk that computes it, a gradient to the chunk that
    // reads it. -1: not known yet.
    int *act, *act_room, *grad, *grad_room;
} pipeline_times;

static int *cell(const pipeline_times *t, int *table, int chunk, int micro)
{
    return &table[(size_t)chunk * (size_t)t->x->micros + (size_t)micro];
}

static int units(const pipeline_op *pass)
{
    return pass->kind == PIPE_BACKWARD ? 2 : 1;
}

// Does a stage run the forward l->ops[i] and the backward that follows it as one unit? Such a unit
// starts when both inputs are there, and both outputs are sent when it has ended. Only stages that
// alternate between forwards and backwards have units, not those that begin with all forwards.
static bool is_joined(const pipeline_times *t, const pipeline_list *l, int i)
{
    if (!t->joins || i < 0 || i + 1 >= l->count || l->ops[i].kind != PIPE_FORWARD ||
        l->ops[i + 1].kind == PIPE_FORWARD)
        return false;
    return (i > 0 && l->ops[i - 1].kind != PIPE_FORWARD) ||
           (i + 2 < l->count && l->ops[i + 2].kind == PIPE_FORWARD);
}

// Notes that the pass's input, if a message brings it, has room from now on. `start` is delayed until
// the input is there. Returns false where that is not known yet.
static bool receive(pipeline_times *t, int stage, const pipeline_op *pass, int *start)
{
    const bool forward = pass->kind == PIPE_FORWARD;
    if (!is_received(t->x, stage, pass)) return true;
    const int from = chunk_of(t->x, stage, pass) - forward;
    const int ready = *cell(t, forward ? t->act : t->grad, from, pass->micro);
    *cell(t, forward ? t->act_room : t->grad_room, from, pass->micro) = t->clock[stage];
    if (ready > *start) *start = ready;
    return ready >= 0;
}

// What the pass computes can be sent from now on.
static void finish(pipeline_times *t, int stage, const pipeline_op *pass)
{
    const int chunk = chunk_of(t->x, stage, pass);
    const bool forward = pass->kind == PIPE_FORWARD;
    if (is_sent(t->x, stage, pass))
        *cell(t, forward ? t->act : t->grad, forward ? chunk : chunk - 1, pass->micro) =
            t->clock[stage];
}

// Runs pass i of a stage if what it reads is there. A received value takes its slot when the pass
// before has ended, because that pass may have freed the slot.
static bool try_pass(pipeline_times *t, int stage, int i)
{
    const pipeline_list *l = &t->x->passes[stage];
    const pipeline_op *pass = &l->ops[i];
    const bool begins = is_joined(t, l, i), ends = is_joined(t, l, i - 1);
    int start = t->clock[stage];
    if (!ends && !receive(t, stage, pass, &start)) return false;
    if (begins && !receive(t, stage, pass + 1, &start)) return false;
    t->clock[stage] = start + units(pass);
    if (!begins) finish(t, stage, pass);
    if (ends) finish(t, stage, pass - 1);
    return true;
}

// Advances a stage until it has to wait. Returns whether it moved.
static bool advance(pipeline_times *t, int stage, int own)
{
    const pipeline_list *l = &t->x->passes[stage];
    bool moved = false;
    for (int i; (i = t->next[stage]) < l->count; t->next[stage]++, moved = true) {
        if (is_needed(t->x, stage, &l->ops[i]) && !try_pass(t, stage, i)) return moved;
        if (stage == own) t->end[i] = t->clock[stage];
    }
    return moved;
}

// Fills the times. Returns when the last stage ends, or -1 where stages wait for each other for ever.
static int find_times(pipeline_times *t, int own, bool joins)
{
    const pipeline_stages *x = t->x;
    int end = 0;
    t->joins = joins;
    for (int i = 0; i < x->stages; i++) t->next[i] = t->clock[i] = 0;
    for (int i = 0; i < model_chunks(x) * x->micros; i++) t->act[i] = t->grad[i] = -1;
    for (bool any = true; any;) {
        any = false;
        for (int i = 0; i < x->stages; i++) any = advance(t, i, own) || any;
    }
    for (int i = 0; i < x->stages; i++) {
        if (t->next[i] < x->passes[i].count) return -1;
        if (t->clock[i] > end) end = t->clock[i];
    }
    return end;
}

typedef struct timed_message {
    int time, number; // number: sends before receives, and each in the order of passes
    pipeline_op op;
} timed_message;

static int by_time(const void *a, const void *b)
{
    const timed_message *x = a, *y = b;
    return x->time != y->time ? x->time - y->time : x->number - y->number;
}

// Fills `out` with the messages of a stage, by time. Returns their number.
static int list_messages(const pipeline_times *t, int stage, timed_message *out)
{
    const pipeline_list *l = &t->x->passes[stage];
    int count = 0;
    for (int sends = 1; sends >= 0; sends--)
        for (int i = 0; i < l->count; i++) {
            const pipeline_op *pass = &l->ops[i];
            const int chunk = chunk_of(t->x, stage, pass);
            if (!is_needed(t->x, stage, pass)) continue;
            if (!(sends ? is_sent : is_received)(t->x, stage, pass)) continue;
            const bool forward = pass->kind == PIPE_FORWARD;
            const int at = forward ? chunk - !sends : chunk - !!sends;
            const int ready = *cell(t, forward ? t->act : t->grad, at, pass->micro),
                      room = *cell(t, forward ? t->act_room : t->grad_room, at, pass->micro);
            out[count] =
                (timed_message){ready > room ? ready : room, count, message_of(pass, sends)};
            count++;
        }
    qsort(out, (size_t)count, sizeof *out, by_time);
    return count;
}

// A message stands before the first pass that ends after its time.
static void merge(const pipeline_times *t, int stage, const timed_message *m, int count,
                  pipeline_list *out)
{
    const pipeline_list *l = &t->x->passes[stage];
    int k = 0;
    for (int i = 0; i <= l->count; i++) {
        for (; k < count && (i == l->count || m[k].time < t->end[i]); k++) {
            out->ops[out->count] = m[k].op;
            out->ops[out->count++].with_next = k + 1 < count && m[k + 1].time == m[k].time;
        }
        if (i == l->count || !is_needed(t->x, stage, &l->ops[i])) continue;
        out->ops[out->count] = l->ops[i];
        out->ops[out->count++].received = is_received(t->x, stage, &l->ops[i]);
    }
}

static void times_close(pipeline_times *t)
{
    free(t->next);
    free(t->clock);
    free(t->end);
    free(t->act);
    free(t->act_room);
    free(t->grad);
    free(t->grad_room);
}

static status times_open(pipeline_times *t, int stage, err *e)
{
    status result = OK;
    const size_t stages = (size_t)t->x->stages,
                 cells = (size_t)model_chunks(t->x) * (size_t)t->x->micros;
    TRY(alloc_zeroed(&t->next, stages, sizeof *t->next, WHAT, e));
    TRY(alloc_zeroed(&t->clock, stages, sizeof *t->clock, WHAT, e));
    TRY(alloc_zeroed(&t->end, (size_t)t->x->passes[stage].count, sizeof *t->end, WHAT, e));
    TRY(alloc_array(&t->act, cells, sizeof *t->act, WHAT, e));
    TRY(alloc_array(&t->grad, cells, sizeof *t->grad, WHAT, e));
    TRY(alloc_zeroed(&t->act_room, cells, sizeof *t->act_room, WHAT, e));
    TRY(alloc_zeroed(&t->grad_room, cells, sizeof *t->grad_room, WHAT, e));
done:
    return result;
}

static status add_by_time(const pipeline_stages *x, int stage, pipeline_list *out, err *e)
{
    status result = OK;
    pipeline_times t = {.x = x};
    timed_message *messages = NULL;
    *out = (pipeline_list){0};
    TRY(times_open(&t, stage, e));
    // Joined passes need one group of messages for a forward and a backward, instead of two.
    const int apart = find_times(&t, stage, false);
    if (apart < 0)
        FAIL(E_INTERNAL, "the passes of the pipeline's stages wait for each other for ever");
    if (find_times(&t, stage, true) != apart) find_times(&t, stage, false);
    TRY(alloc_zeroed(&messages, 2 * (size_t)x->passes[stage].count, sizeof *messages, WHAT, e));
    TRY(open_list(&x->passes[stage], out, e));
    merge(&t, stage, messages, list_messages(&t, stage, messages), out);
done:
    free(messages);
    times_close(&t);
    return result;
}

status pipeline_add_messages(const pipeline_stages *x, int stage, pipeline_list *out, err *e)
{
    return x->sends_wait ? add_by_time(x, stage, out, e) : add_at_once(x, stage, out, e);
}
