// verdict.c -- see verdict.h. verdict_text.c has the sentences.
#include "monitor/report/verdict_text.h"

#include <math.h>

// A kind holds where its share of the time is at least this. Of those that hold, the one with the largest share is the
// verdict. MEMORY CREEP comes before all, because it ends the run, and COMPUTE-BOUND behind all.
static const struct {
    const char *word;
    double least;
} KINDS[VERDICT_KINDS] = {
    [VERDICT_UNKNOWN] = {"UNKNOWN", 0},
    [VERDICT_HEALTHY] = {"HEALTHY", 0},
    [VERDICT_COMPUTE] = {"COMPUTE-BOUND", 0.85}, // forward, backward, optimizer
    [VERDICT_INPUT] = {"INPUT-BOUND", 0.1},      // waits for the loader
    [VERDICT_COMM] = {"COMMUNICATION-EXPOSED",
                      0.2}, // communication with no pass beside it, and waits in it
    [VERDICT_CHECKPOINT] = {"CHECKPOINT-BOUND", 0.1},
    [VERDICT_MEMORY] = {"MEMORY CREEP", 0.01}, // growth in 1,000 steps
    // Waits of the others; or it is chronic at the end.
    [VERDICT_COMPUTE_STRAGGLER] = {"COMPUTE STRAGGLER", 0.03},
    [VERDICT_INPUT_STRAGGLER] = {"INPUT STRAGGLER", 0.03},
    [VERDICT_LINK_STRAGGLER] = {"LINK STRAGGLER", 0.03},
};

const char *verdict_word(verdict_kind kind)
{
    return KINDS[kind].word;
}

static void choose(verdict *v, verdict_kind kind, double share)
{
    v->kind = kind;
    v->share = share;
}

static verdict_kind kind_of(const straggler *s)
{
    static const verdict_kind kinds[] = {[STRAGGLER_UNCLEAR] = VERDICT_HEALTHY,
                                         [STRAGGLER_COMPUTE] = VERDICT_COMPUTE_STRAGGLER,
                                         [STRAGGLER_INPUT] = VERDICT_INPUT_STRAGGLER,
                                         [STRAGGLER_LINK] = VERDICT_LINK_STRAGGLER};
    return kinds[s->cause];
}

// The chronic straggler for which the others waited longest.
static void choose_straggler(const run_measures *m, verdict *v)
{
    double most = 0;
    for (int i = 0; i < straggler_watch_count(m->watch); i++) {
        const straggler *s = straggler_watch_get(m->watch, i);
        const double share = (double)s->lost_ns / m->steps_ns;
        const verdict_kind kind = kind_of(s);
        if (!s->chronic_step || s->cause == STRAGGLER_UNCLEAR || share <= most) continue;
        if (share < KINDS[kind].least && !s->is_chronic) continue;
        most = share;
        choose(v, kind, share);
        v->straggler = s;
    }
    if (!v->straggler) return;
    v->rank = v->straggler->rank;
    v->host = m->host[v->straggler->host];
}

static void choose_larger(verdict *v, verdict_kind kind, double share)
{
    if (share < KINDS[kind].least || share <= v->share) return;
    choose(v, kind, share);
    v->straggler = NULL;
    v->rank = -1;
    v->host = NULL;
}

static void decide(const run_measures *m, verdict *v)
{
    *v = (verdict){.kind = VERDICT_HEALTHY, .rank = -1};
    if (!m->recorded) v->kind = VERDICT_UNKNOWN;
    if (m->steps < VERDICT_STEPS) return;
    choose_straggler(m, v);
    choose_larger(v, VERDICT_CHECKPOINT, m->phase[PHASE_SAVE]);
    choose_larger(v, VERDICT_INPUT, m->phase[PHASE_INPUT]);
    // The waits for a straggler are its own.
    const double blamed = v->straggler ? v->share : 0;
    choose_larger(v, VERDICT_COMM, m->phase[PHASE_COMM] - blamed);
    if (v->kind == VERDICT_HEALTHY && m->compute >= KINDS[VERDICT_COMPUTE].least)
        choose(v, VERDICT_COMPUTE, m->compute);
    const double growth = m->growing >= 0 ? m->rank[m->growing].growth : 0;
    if (growth < KINDS[VERDICT_MEMORY].least) return;
    choose(v, VERDICT_MEMORY, growth);
    v->straggler = NULL;
    v->rank = m->growing;
    v->host = run_measures_host(m, m->growing);
}

status verdict_make(const run_measures *m, verdict *out, err *e)
{
    status result = OK;
    decide(m, out);
    out->word = KINDS[out->kind].word;
    verdict_add_line(m, out, &out->line);
    verdict_add_evidence(m, out, &out->evidence);
    verdict_add_next(m, out, &out->next);
    TRY(text_check(&out->line, e));
    TRY(text_check(&out->evidence, e));
    TRY(text_check(&out->next, e));
done:
    return result;
}

void verdict_clear(verdict *v)
{
    text_clear(&v->line);
    text_clear(&v->evidence);
    text_clear(&v->next);
}
