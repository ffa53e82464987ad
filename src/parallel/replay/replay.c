// replay.c -- steps through the instruction lists of all pipeline stages together, without
// computing anything. It advances one stage after another until each has to wait. It ends when all
// lists are at their end, or when no stage can advance. Called by verify.c and simulate.c. The only
// fact that it uses about an instruction is which stages it meets, from the table in
// instructions.c.
#include "parallel/replay/replay.h"

#include "base/alloc.h"
#include "parallel/instructions.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct replay {
    const schedule *const *of_stage;
    int stages;
    int *next; // [stages] the next instruction of the stage
    // [stages] by sender: the receiver has read the messages before this instruction of the sender.
    int *read[CHANNELS];
    replay_position *collective; // [stages] the instruction of each stage in a collective
    bool sends_wait;
    // Where sends wait: [stages][instructions] the other end of a message that both stages have begun;
    // stage -1: not yet. Else: of one instruction.
    replay_position **other;
    replay_position *group; // [longest list] the messages that start together
    bool *named;            // [stages] the deadlock message has named the stage
    replay_visit *visit;
    void *given;
} replay;

static void add_position(const schedule *const *of_stage, replay_position position, text *out)
{
    text_addf(out, "stage %d, instruction %d (", position.stage, position.number);
    instr_print(&of_stage[position.stage]->instr[position.number], out);
    text_add(out, ")");
}

status replay_refuse(const schedule *const *of_stage, replay_position position, err *e,
                     const char *format, ...)
{
    char why[ERR_TEXT_BYTES];
    text where = {0};
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    add_position(of_stage, position, &where);
    status result = err_set(e, E_INTERNAL, "%s: %s", where.chars, why);
    text_clear(&where);
    return result;
}

int replay_together(const schedule *s, int number)
{
    int count = 1;
    while (number + count < s->count && s->instr[number + count - 1].with_next) count++;
    return count;
}

static const schedule_instr *instr_of(const replay *w, replay_position position)
{
    return &w->of_stage[position.stage]->instr[position.number];
}

static bool is_finished(const replay *w, int stage)
{
    return w->next[stage] == w->of_stage[stage]->count;
}

// Which stages the next instruction of `stage` meets. The list must not be at its end.
static const instr_peers *peers_now(const replay *w, int stage)
{
    return &instr_row_of(w->of_stage[stage]->instr[w->next[stage]].kind)->peers;
}

// Whether the next instruction of the stage meets other stages in this way.
static bool is_at(const replay *w, int stage, instr_rendezvous m)
{
    return !is_finished(w, stage) && peers_now(w, stage)->waits_for == m;
}

static bool is_sent_on(const schedule_instr *x, instr_channel c)
{
    const instr_peers *p = &instr_row_of(x->kind)->peers;
    return p->waits_for == WAITS_FOR_RECEIVER && p->channel == c;
}

// The number of the oldest message that was sent and not received, or -1.
static int oldest_sent(replay *w, int sender, instr_channel c)
{
    const schedule *s = w->of_stage[sender];
    int *i = &w->read[c][sender];
    while (*i < w->next[sender] && !is_sent_on(&s->instr[*i], c)) ++*i;
    return *i < w->next[sender] ? *i : -1;
}

static status check_message(const replay *w, replay_position position, err *e)
{
    const schedule_instr *x = instr_of(w, position);
    const schedule *s = w->of_stage[position.stage];
    const int step = instr_row_of(x->kind)->peers.stage_step;
    const int peer = (position.stage + step + w->stages) % w->stages;
    if (w->stages == 1)
        return replay_refuse(w->of_stage, position, e, "there is no other stage in this pipeline");
    if (x->peer != peer)
        return replay_refuse(w->of_stage, position, e,
                             "found stage %d at the other end; valid: stage %d", x->peer, peer);
    if (x->with_next && (position.number + 1 == s->count || !instr_is_message(x + 1)))
        return replay_refuse(w->of_stage, position, e,
                             "it starts together with the next instruction, which is no message");
    return OK;
}

static status visit(replay *w, const replay_step *s, err *e)
{
    for (int i = 0; i < s->count; i++) w->next[s->items[i].stage]++;
    return w->visit ? w->visit(w->given, s, e) : OK;
}

// Checks that the message that is sent is the one that the receive reads.
static status check_content(const replay *w, replay_position sent, replay_position received, err *e)
{
    const schedule_instr *x = instr_of(w, received), *y = instr_of(w, sent);
    // The sender is the next or the previous stage, so its block is the next or the previous one.
    const int block = x->index + instr_row_of(x->kind)->peers.stage_step;
    text other = {0};
    if (y->micro == x->micro && y->index == block) return OK;
    add_position(w->of_stage, sent, &other);
    const status result = replay_refuse(
        w->of_stage, received, e, "the next message is of %s; valid: that of micro %d block %d",
        other.chars, x->micro, block);
    text_clear(&other);
    return result;
}

// ---- Sends that do not wait

static const replay_position NOTHING = {-1, -1};

static status try_receive(replay *w, replay_position position, bool *moved, err *e)
{
    status result = OK;
    const schedule_instr *x = instr_of(w, position);
    const instr_channel channel = instr_row_of(x->kind)->peers.channel;
    const replay_position sent = {x->peer, oldest_sent(w, x->peer, channel)};
    *moved = sent.number >= 0;
    if (!*moved) return OK;
    TRY(check_content(w, sent, position, e));
    w->read[channel][sent.stage]++;
    TRY(visit(w, &(replay_step){.items = &position, .count = 1, .others = &sent}, e));
done:
    return result;
}

// ---- Sends that wait

// The first message that `stage` has begun on the channel of *x, with the stage `peer` at its other
// end, that is still to meet it; -1: none.
static int begun_message(const replay *w, int stage, const schedule_instr *x, int peer)
{
    const schedule *s = w->of_stage[stage];
    const instr_peers *p = &instr_row_of(x->kind)->peers;
    const int first = w->next[stage];
    if (is_finished(w, stage) || !instr_is_message(&s->instr[first])) return -1;
    for (int i = first; i < first + replay_together(s, first); i++) {
        const instr_peers *q = &instr_row_of(s->instr[i].kind)->peers;
        const bool fits = q->channel == p->channel && q->waits_for != p->waits_for &&
                          q->stage_step == -p->stage_step && s->instr[i].peer == peer;
        if (fits && w->other[stage][i].stage < 0) return i;
    }
    return -1;
}

// Lets a message of `position.stage` meet its other end, if that has begun.
static status try_meet(replay *w, replay_position position, bool *moved, err *e)
{
    status result = OK;
    const schedule_instr *x = instr_of(w, position);
    const replay_position other = {x->peer, begun_message(w, x->peer, x, position.stage)};
    const bool sends = instr_row_of(x->kind)->peers.waits_for == WAITS_FOR_RECEIVER;
    if (other.number < 0) return OK;
    TRY(check_content(w, sends ? position : other, sends ? other : position, e));
    w->other[position.stage][position.number] = other;
    w->other[other.stage][other.number] = position;
    *moved = true;
done:
    return result;
}

// The first of the messages of a stage that start together which has not met its other end; -1: none.
static int waiting_message(const replay *w, int stage)
{
    const int first = w->next[stage], count = replay_together(w->of_stage[stage], first);
    for (int i = first; i < first + count; i++)
        if (w->other[stage][i].stage < 0) return i;
    return -1;
}

static status try_messages(replay *w, int stage, bool *moved, err *e)
{
    status result = OK;
    const int first = w->next[stage], count = replay_together(w->of_stage[stage], first);
    *moved = false;
    for (int i = 0; i < count; i++) {
        w->group[i] = (replay_position){stage, first + i};
        TRY(check_message(w, w->group[i], e));
        if (w->other[stage][first + i].stage < 0) TRY(try_meet(w, w->group[i], moved, e));
    }
    if (waiting_message(w, stage) >= 0) goto done;
    *moved = true;
    TRY(visit(w, &(replay_step){w->group, count, &w->other[stage][first]}, e));
done:
    return result;
}

// ---- Collectives between stages

// Fills w->collective with the next instruction of each stage that takes part in the collective.
static int participants(replay *w, instr_rendezvous m)
{
    int count = 0;
    for (int i = 0; i < w->stages; i++)
        if (m == WAITS_FOR_ALL_STAGES || i == 0 || i == w->stages - 1)
            w->collective[count++] = (replay_position){i, w->next[i]};
    return count;
}

static status try_collective(replay *w, replay_position position, bool *moved, err *e)
{
    const instr_rendezvous m = peers_now(w, position.stage)->waits_for;
    const int count = participants(w, m);
    *moved = true;
    if (m == WAITS_FOR_ENDS && position.stage > 0 && position.stage < w->stages - 1)
        return replay_refuse(w->of_stage, position, e,
                             "only the first and the last stage share weights");
    for (int i = 0; i < count; i++) *moved = *moved && is_at(w, w->collective[i].stage, m);
    if (!*moved) return OK;
    return visit(w, &(replay_step){.items = w->collective, .count = count}, e);
}

static status try_next(replay *w, int stage, bool *moved, err *e)
{
    status result = OK;
    const replay_position position = {stage, w->next[stage]};
    const instr_rendezvous m = peers_now(w, stage)->waits_for;
    const bool message = instr_is_message(instr_of(w, position));
    if (m == WAITS_FOR_ENDS || m == WAITS_FOR_ALL_STAGES)
        return try_collective(w, position, moved, e);
    if (message) TRY(check_message(w, position, e));
    if (message && w->sends_wait) return try_messages(w, stage, moved, e);
    if (m == WAITS_FOR_SENDER) return try_receive(w, position, moved, e);
    *moved = true;
    return visit(w, &(replay_step){.items = &position, .count = 1, .others = &NOTHING}, e);
done:
    return result;
}

// The instruction at which a stage cannot advance.
static int stuck_at(const replay *w, int stage)
{
    const replay_position now = {stage, w->next[stage]};
    const bool waits = w->sends_wait && instr_is_message(instr_of(w, now));
    return waits ? waiting_message(w, stage) : now.number;
}

// `stage` cannot advance. Returns the stage that it waits for.
static int waits_for(replay *w, int stage)
{
    const instr_rendezvous m = peers_now(w, stage)->waits_for;
    const schedule_instr *stuck = instr_of(w, (replay_position){stage, stuck_at(w, stage)});
    if (instr_is_message(stuck)) return stuck->peer;
    int count = participants(w, m), i = 0;
    while (i < count && is_at(w, w->collective[i].stage, m)) i++;
    return w->collective[i].stage;
}

// No stage can advance. The message starts at the first stage that waits, and names which stage
// waits for which, until it comes to one that is at the end of its list or already named.
static status refuse_deadlock(replay *w, err *e)
{
    text chain = {0};
    int stage = 0;
    while (is_finished(w, stage)) stage++;
    while (!is_finished(w, stage) && !w->named[stage]) {
        int other = waits_for(w, stage);
        if (chain.bytes) text_add(&chain, "; ");
        w->named[stage] = true;
        add_position(w->of_stage, (replay_position){stage, stuck_at(w, stage)}, &chain);
        text_addf(&chain, " waits for stage %d%s", other,
                  is_finished(w, other) ? ", which is at the end of its list" : "");
        stage = other;
    }
    status result = err_set(e, E_INTERNAL, "the pipeline deadlocks: %s", chain.chars);
    text_clear(&chain);
    return result;
}

static status check_end(replay *w, err *e)
{
    for (int i = 0; i < w->stages; i++)
        if (!is_finished(w, i)) return refuse_deadlock(w, e);
    for (int i = 0; i < w->stages && !w->sends_wait; i++)
        for (int c = 0; c < CHANNELS; c++) {
            int number = oldest_sent(w, i, (instr_channel)c);
            if (number >= 0)
                return replay_refuse(w->of_stage, (replay_position){i, number}, e,
                                     "no stage receives this message");
        }
    return OK;
}

static status replay_open(replay *w, err *e)
{
    status result = OK;
    static const char what[] = "a replay";
    const size_t count = (size_t)w->stages;
    int longest = 0;
    TRY(alloc_zeroed(&w->next, count, sizeof *w->next, what, e));
    TRY(alloc_zeroed(&w->collective, count, sizeof *w->collective, what, e));
    TRY(alloc_zeroed(&w->named, count, sizeof *w->named, what, e));
    for (int c = 0; c < CHANNELS; c++)
        TRY(alloc_zeroed(&w->read[c], count, sizeof *w->read[c], what, e));
    TRY(alloc_zeroed(&w->other, count, sizeof *w->other, what, e));
    for (int i = 0; i < w->stages && w->sends_wait; i++) {
        const int length = w->of_stage[i]->count;
        TRY(alloc_array(&w->other[i], (size_t)length, sizeof **w->other, what, e));
        for (int k = 0; k < length; k++) w->other[i][k] = NOTHING;
        if (length > longest) longest = length;
    }
    TRY(alloc_array(&w->group, (size_t)longest, sizeof *w->group, what, e));
done:
    return result;
}

static void replay_close(replay *w)
{
    for (int i = 0; w->other && i < w->stages; i++) free(w->other[i]);
    for (int c = 0; c < CHANNELS; c++) free(w->read[c]);
    free(w->other);
    free(w->group);
    free(w->named);
    free(w->collective);
    free(w->next);
}

status schedule_replay(const schedule *const *of_stage, int stages, bool sends_wait,
                       replay_visit *visitor, void *given, err *e)
{
    status result = OK;
    replay w = {.of_stage = of_stage,
                .stages = stages,
                .sends_wait = sends_wait,
                .visit = visitor,
                .given = given};
    TRY(replay_open(&w, e));
    for (bool any = true; any;) {
        any = false;
        for (int i = 0; i < stages; i++)
            for (bool moved = true; moved && !is_finished(&w, i); any = any || moved)
                TRY(try_next(&w, i, &moved, e));
    }
    TRY(check_end(&w, e));
done:
    replay_close(&w);
    return result;
}
