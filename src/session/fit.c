// fit.c -- refuses a job that does not fit in memory, or changes it as memory.fit allows. See
// fit.h. Called when inputs are opened. What can be changed is ladder.c's.
#include "session/fit.h"

#include "session/ladder.h"

static status choose(job *j, const inputs *in, const need_base *base, err *e)
{
    status result = OK;
    const micro_search s = {j, in, j->launch.ranks, base->budget, base};
    need_micro found;
    TRY(need_largest_micro(&s, j->train.micro_batch, &found, e));
    j->train.micro_batch = found.micro;
done:
    return result;
}

status fit_micro_batch(job *j, const inputs *in, err *e)
{
    status result = OK;
    need_base base = {NULL, 0, 0};
    TRY(need_base_open(j, &base, e));
    TRY(choose(j, in, &base, e));
done:
    need_base_close(&base);
    return result;
}

static status refuse(const job *j, const inputs *in, const need *n, const ladder *l,
                     const need_base *base, err *e)
{
    status result = OK;
    const int ranks = j->launch.ranks;
    text line = {0};
    char size[24], have[24];
    int more = 0;
    text_bytes(size, (double)n->total);
    text_bytes(have, (double)base->budget);
    text_addf(&line, "the job needs %s ", size);
    need_print_ranks(n, &line);
    text_add(&line, " (");
    need_print(n, &line);
    text_addf(&line, "); memory.budget is %s; %s: ", have,
              l->fits ? "the first change that fits" : "no change fits, the least");
    ladder_print(j, l, &line);
    if (!l->fits) {
        TRY(ladder_ranks(&l->changed, in, ranks, base->budget, base, &more, e));
        if (more > 0) text_addf(&line, "; under zero3 it would fit on %d ranks", more);
    } else if (!l->wants_path) {
        text_add(&line, " (memory.fit true makes it)");
    }
    FAIL(E_FIT, "%s", line.at);
done:
    text_clear(&line);
    return result;
}

static status change(job *j, const ladder *l, const need *before, uint64_t budget, char **said,
                     err *e)
{
    status result = OK;
    text line = {0};
    char size[24], have[24];
    text_bytes(size, (double)before->total);
    text_bytes(have, (double)budget);
    text_addf(&line, "memory.fit: the job needs %s of %s; ", size, have);
    ladder_print(j, l, &line);
    TRY(job_take_changes(j, &l->changed, "memory.fit", e));
    *said = text_copy(line.at);
done:
    text_clear(&line);
    return result;
}

status fit_job(job *j, const inputs *in, bool choose_batch, char **said, err *e)
{
    status result = OK;
    need_base base = {NULL, 0, 0};
    const int ranks = j->launch.ranks;
    need n;
    ladder l;
    TRY(need_base_open(j, &base, e));
    if (choose_batch) TRY(choose(j, in, &base, e));
    TRY(need_of(j, in, ranks, &base, &n, e));
    if (n.total <= base.budget) goto done;
    TRY(ladder_climb(j, in, ranks, base.budget, &base, &l, e));
    if (j->memory.fit && l.fits && !l.wants_path)
        TRY(change(j, &l, &n, base.budget, said, e));
    else
        TRY(refuse(j, in, &n, &l, &base, e));
done:
    need_base_close(&base);
    return result;
}
