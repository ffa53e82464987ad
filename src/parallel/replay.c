// replay.c -- runs the lists of all pipeline stages against each other, without work and without
// time: every stage goes on until it has to wait, in turn, until all are through or none can go on.
// Called by verify.c and simulate.c. Deliberately knows nothing of what an instruction does, but for
// messages and for collectives between stages.
#include "parallel/replay.h"

#include "base/alloc.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

typedef enum channel { ACTIVATIONS, GRADIENTS, CHANNELS } channel;

typedef struct walk {
    const schedule *const *of_stage;
    int stages;
    int *next;           // [stages] the instruction that a stage is at
    int *read[CHANNELS]; // [stages] by sender: what its neighbour has received goes up to here
    replay_position *together; // [stages] who is in a collective
    bool *named;               // [stages] in the account of a standstill
    replay_visit *visit;
    void *given;
} walk;

static void add_place(const schedule *const *of_stage, replay_position at, text *out)
{
    text_addf(out, "stage %d, instruction %d (", at.stage, at.number);
    instr_print(&of_stage[at.stage]->instr[at.number], out);
    text_add(out, ")");
}

status replay_refuse(const schedule *const *of_stage, replay_position at, err *e,
                     const char *format, ...)
{
    char why[ERR_TEXT_BYTES];
    text where = {0};
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    add_place(of_stage, at, &where);
    status result = err_set(e, E_INTERNAL, "%s: %s", where.chars, why);
    text_clear(&where);
    return result;
}

static const schedule_instr *instr_at(const walk *w, replay_position at)
{
    return &w->of_stage[at.stage]->instr[at.number];
}

static bool is_through(const walk *w, int stage)
{
    return w->next[stage] == w->of_stage[stage]->count;
}

static schedule_instr_kind kind_now(const walk *w, int stage)
{
    return is_through(w, stage) ? INSTRS : w->of_stage[stage]->instr[w->next[stage]].kind;
}

// The stage at the other end of a message.
static int neighbour(const walk *w, int stage, schedule_instr_kind k)
{
    int step = k == SEND_ACT || k == RECV_GRAD ? 1 : w->stages - 1;
    return (stage + step) % w->stages;
}

// The number of the oldest message that was sent and not received, or -1.
static int oldest_sent(walk *w, int sender, channel c)
{
    const schedule *s = w->of_stage[sender];
    int *at = &w->read[c][sender];
    while (*at < w->next[sender] && s->instr[*at].kind != (c == ACTIVATIONS ? SEND_ACT : SEND_GRAD))
        ++*at;
    return *at < w->next[sender] ? *at : -1;
}

static status check_peer(const walk *w, replay_position at, err *e)
{
    const schedule_instr *x = instr_at(w, at);
    int peer = neighbour(w, at.stage, x->kind);
    if (w->stages == 1)
        return replay_refuse(w->of_stage, at, e, "there is no other stage in this pipeline");
    if (x->peer != peer)
        return replay_refuse(w->of_stage, at, e, "found stage %d at the other end; valid: stage %d",
                             x->peer, peer);
    return OK;
}

static status visit(walk *w, const replay_step *s, err *e)
{
    for (int i = 0; i < s->count; i++) w->next[s->at[i].stage]++;
    return w->visit ? w->visit(w->given, s, e) : OK;
}

static status try_receive(walk *w, replay_position at, bool *moved, err *e)
{
    const schedule_instr *x = instr_at(w, at);
    const channel c = x->kind == RECV_ACT ? ACTIVATIONS : GRADIENTS;
    // What leaves the block before is what enters this one, and the other way round.
    const int block = c == ACTIVATIONS ? x->index - 1 : x->index + 1;
    const replay_position sent = {x->peer, oldest_sent(w, x->peer, c)};
    *moved = sent.number >= 0;
    if (!*moved) return OK;
    const schedule_instr *y = instr_at(w, sent);
    if (y->micro != x->micro || y->index != block) {
        text other = {0};
        add_place(w->of_stage, sent, &other);
        status result = replay_refuse(
            w->of_stage, at, e, "the next message is of %s; wanted is that of micro %d block %d",
            other.chars, x->micro, block);
        text_clear(&other);
        return result;
    }
    w->read[c][sent.stage]++;
    return visit(w, &(replay_step){.at = &at, .count = 1, .sent = sent}, e);
}

// Fills w->together with where the stages of a collective are.
static int participants(walk *w, schedule_instr_kind k)
{
    int count = 0;
    for (int i = 0; i < w->stages; i++)
        if (k == CLIP_GRAD_NORM || i == 0 || i == w->stages - 1)
            w->together[count++] = (replay_position){i, w->next[i]};
    return count;
}

static status try_collective(walk *w, replay_position at, bool *moved, err *e)
{
    const schedule_instr_kind k = instr_at(w, at)->kind;
    const int count = participants(w, k);
    *moved = true;
    if (k == REDUCE_TIED_GRAD && at.stage > 0 && at.stage < w->stages - 1)
        return replay_refuse(w->of_stage, at, e, "only the first and the last stage share weights");
    for (int i = 0; i < count; i++) *moved = *moved && kind_now(w, w->together[i].stage) == k;
    if (!*moved) return OK;
    return visit(w, &(replay_step){.at = w->together, .count = count}, e);
}

static status try_next(walk *w, int stage, bool *moved, err *e)
{
    status result = OK;
    const replay_position at = {stage, w->next[stage]};
    switch (instr_at(w, at)->kind) {
    case RECV_ACT:
    case RECV_GRAD:
        TRY(check_peer(w, at, e));
        return try_receive(w, at, moved, e);
    case REDUCE_TIED_GRAD:
    case CLIP_GRAD_NORM:
        return try_collective(w, at, moved, e);
    case SEND_ACT:
    case SEND_GRAD:
        TRY(check_peer(w, at, e));
        break;
    default:
        break;
    }
    *moved = true;
    return visit(w, &(replay_step){.at = &at, .count = 1}, e);
done:
    return result;
}

// Whom a stage that stands still waits for.
static int waits_for(walk *w, int stage)
{
    const schedule_instr_kind k = kind_now(w, stage);
    if (k == RECV_ACT || k == RECV_GRAD) return w->of_stage[stage]->instr[w->next[stage]].peer;
    int count = participants(w, k), i = 0;
    while (i < count && kind_now(w, w->together[i].stage) == k) i++;
    return w->together[i].stage;
}

// None can go on: from the first stage that waits, along those that are waited for, until one that
// is through or was named before.
static status refuse_deadlock(walk *w, err *e)
{
    text chain = {0};
    int stage = 0;
    while (is_through(w, stage)) stage++;
    while (!is_through(w, stage) && !w->named[stage]) {
        int other = waits_for(w, stage);
        if (chain.bytes) text_add(&chain, "; ");
        w->named[stage] = true;
        add_place(w->of_stage, (replay_position){stage, w->next[stage]}, &chain);
        text_addf(&chain, " waits for stage %d%s", other,
                  is_through(w, other) ? ", which is through with its list" : "");
        stage = other;
    }
    status result = err_set(e, E_INTERNAL, "the pipeline comes to a standstill: %s", chain.chars);
    text_clear(&chain);
    return result;
}

static status check_end(walk *w, err *e)
{
    for (int i = 0; i < w->stages; i++)
        if (!is_through(w, i)) return refuse_deadlock(w, e);
    for (int i = 0; i < w->stages; i++)
        for (int c = 0; c < CHANNELS; c++) {
            int number = oldest_sent(w, i, (channel)c);
            if (number >= 0)
                return replay_refuse(w->of_stage, (replay_position){i, number}, e,
                                     "nobody receives this");
        }
    return OK;
}

status schedule_replay(const schedule *const *of_stage, int stages, replay_visit *visitor,
                       void *given, err *e)
{
    status result = OK;
    walk w = {.of_stage = of_stage, .stages = stages, .visit = visitor, .given = given};
    const size_t count = (size_t)stages;
    TRY(alloc_zeroed(&w.next, count, sizeof *w.next, "a replay", e));
    TRY(alloc_zeroed(&w.together, count, sizeof *w.together, "a replay", e));
    TRY(alloc_zeroed(&w.named, count, sizeof *w.named, "a replay", e));
    for (int c = 0; c < CHANNELS; c++)
        TRY(alloc_zeroed(&w.read[c], count, sizeof *w.read[c], "a replay", e));
    for (bool any = true; any;) {
        any = false;
        for (int i = 0; i < stages; i++)
            for (bool moved = true; moved && !is_through(&w, i); any = any || moved)
                TRY(try_next(&w, i, &moved, e));
    }
    TRY(check_end(&w, e));
done:
    for (int c = 0; c < CHANNELS; c++) free(w.read[c]);
    free(w.named);
    free(w.together);
    free(w.next);
    return result;
}
