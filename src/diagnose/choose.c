// choose.c -- which of the causes that logs show is the cause. See diagnosis.h.
#include "diagnose/diagnosis.h"

#include <math.h>
#include <string.h>

// A fault of the machine explains what follows within this time. Older ones belong to an earlier run.
static const double MACHINE_SECONDS = 3600;

static bool both_timed(const diagnose_finding *a, const diagnose_finding *b)
{
    return a->place.when >= 0 && b->place.when >= 0;
}

// A fault of the machine long before the other finding.
static bool is_old(const diagnose_finding *machine, const diagnose_finding *other)
{
    return machine->cause->weight == DIAGNOSE_MACHINE && other->cause->weight != DIAGNOSE_MACHINE &&
           both_timed(machine, other) && other->place.when - machine->place.when > MACHINE_SECONDS;
}

bool diagnosis_is_before(const diagnose_finding *a, const diagnose_finding *b)
{
    if (is_old(a, b)) return false;
    if (is_old(b, a)) return true;
    if (a->cause->weight != b->cause->weight) return a->cause->weight > b->cause->weight;
    if (both_timed(a, b) && fabs(a->place.when - b->place.when) > 1e-6)
        return a->place.when < b->place.when;
    return a->order < b->order;
}

const diagnose_finding *diagnosis_cause(const diagnosis *d)
{
    const diagnose_finding *best = NULL;
    for (int i = 0; i < diagnose_cause_count(); i++) {
        const diagnose_finding *f = &d->finding[i];
        if (!f->count || f->cause->weight == DIAGNOSE_ECHO) continue;
        if (!best || diagnosis_is_before(f, best)) best = f;
    }
    return best;
}

// Those that print a time-out waited: the rank that is behind them is the one to look at.
int diagnosis_rank(const diagnosis *d, const diagnose_finding *f)
{
    if (strcmp(f->cause->code, DIAGNOSE_TIMEOUT) == 0) return late_rank(d->late);
    return f->place.rank;
}

const diagnose_finding *diagnosis_first_failed(const diagnosis *d)
{
    for (int i = 0; i < diagnose_cause_count(); i++) {
        const diagnose_finding *f = &d->finding[i];
        if (f->count && f->cause->last_counts && (f->place.rank >= 0 || f->place.local >= 0))
            return f;
    }
    return NULL;
}

diagnose_answer diagnose_answer_of(const diagnosis *d)
{
    const diagnose_finding *f = diagnosis_cause(d);
    diagnose_answer a = {.rank = -1, .local = -1, .has_failure = f || d->error_shown};
    for (int i = 0; i < diagnose_cause_count(); i++) a.has_failure |= d->finding[i].count > 0;
    if (f) {
        a.code = f->cause->code;
        a.sentence = f->sentence;
    } else {
        f = diagnosis_first_failed(d);
    }
    if (!f) return a;
    a.rank = diagnosis_rank(d, f);
    a.local = f->place.local;
    a.host = f->place.host[0] ? f->place.host : NULL;
    return a;
}
