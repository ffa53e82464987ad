// fit.c -- see fit.h. inputs.c calls it when the inputs are open. It does not know which changes
// there are (fit_search.c).
#include "session/plan/fit.h"

#include "session/plan/fit_search.h"
#include "session/plan/machine_choice.h"
#include "session/plan/search.h"

static status choose_micro_batch(job *j, const session_inputs *in, const memory_estimate_base *base,
                                 err *e)
{
    status result = OK;
    const memory_estimate_search s = {j, in, j->launch.ranks, base->budget, base};
    memory_estimate_micro found;
    TRY(memory_estimate_largest_micro(&s, j->train.micro_batch, &found, e));
    j->train.micro_batch = found.micro;
done:
    return result;
}

status fit_micro_batch(job *j, const session_inputs *in, err *e)
{
    status result = OK;
    memory_estimate_base base;
    TRY(memory_estimate_read_base(j, in, &base, e));
    TRY(choose_micro_batch(j, in, &base, e));
done:
    return result;
}

// " and 3 GiB of the host's memory (weights 1 GiB, …), of which 2 GiB are free".
static void print_host(const memory_estimate *n, const memory_estimate_base *base, text *out)
{
    char size[24], have[24];
    if (n->host_total <= base->host_budget) return;
    text_bytes(size, (double)n->host_total);
    text_bytes(have, (double)base->host_budget);
    text_addf(out, " and %s of the host's memory (", size);
    memory_estimate_print(n->host, out);
    text_addf(out, "), of which a rank has %s", have);
}

static status refuse(const job *j, const session_inputs *in, const memory_estimate *n,
                     const fit_search *l, const memory_estimate_base *base, err *e)
{
    status result = OK;
    const int ranks = j->launch.ranks;
    text line = {0};
    char size[24], have[24];
    int more = 0;
    text_bytes(size, (double)n->total);
    text_bytes(have, (double)base->budget);
    text_addf(&line, "the job needs %s ", size);
    memory_estimate_print_ranks(n, &line);
    text_add(&line, " (");
    memory_estimate_print(n->bytes, &line);
    text_add(&line, ")");
    print_host(n, base, &line);
    text_addf(&line, "; memory.budget is %s; %s: ", have,
              l->fits ? "the first change that fits" : "no change fits, the least");
    fit_search_print(j, l, &line);
    if (!l->fits) {
        TRY(fit_search_ranks(&l->changed, in, ranks, base->budget, base, &more, e));
        if (more > 0) text_addf(&line, "; under zero3 it would fit on %d ranks", more);
    } else if (!l->needs_path) {
        text_add(&line, " (memory.fit true makes it)");
    }
    FAIL(E_FIT, "%s", line.chars);
done:
    text_clear(&line);
    return result;
}

static status change(job *j, const fit_search *l, const memory_estimate *before,
                     const memory_estimate_base *base, char **changes, err *e)
{
    status result = OK;
    text line = {0};
    char size[24], have[24];
    text_bytes(size, (double)before->total);
    text_bytes(have, (double)base->budget);
    text_addf(&line, "memory.fit: the job needs %s of %s", size, have);
    print_host(before, base, &line);
    text_add(&line, "; ");
    fit_search_print(j, l, &line);
    TRY(job_take_changes(j, &l->changed, "memory.fit", e));
    TRY(text_copy(line.chars, changes, e));
done:
    text_clear(&line);
    return result;
}

// Where this user's machine file gives times: the fastest of the changes that fit, of those that keep tp, pp and its
// schedule. Leaves *l as it is where there is none.
static status take_fastest(const job *j, const session_inputs *in, const memory_estimate_base *base,
                           fit_search *l, err *e)
{
    status result = OK;
    planner_machine machine;
    search_result found = {.has_best = false};
    const search_options o = {.machine = &machine,
                              .base = base,
                              .budget = base->budget,
                              .keeps_mesh = true,
                              .predict = session_predict};
    if (session_machine_open(j, NULL, &machine, NULL) == OK) TRY(search_run(j, in, &o, &found, e));
    if (!found.has_best) goto done;
    if (layout_has_files(&found.best.layout) && !j->strategy.offload.path) goto done;
    layout_apply(j, &found.best.layout, &l->changed);
    l->estimate = found.best.estimate;
    l->fits = true;
    l->needs_path = false;
done:
    planner_machine_close(&machine);
    return result;
}

status fit_job(job *j, const session_inputs *in, bool choose_batch, char **changes, err *e)
{
    status result = OK;
    memory_estimate_base base;
    const int ranks = j->launch.ranks;
    memory_estimate n;
    fit_search l;
    TRY(memory_estimate_read_base(j, in, &base, e));
    if (choose_batch) TRY(choose_micro_batch(j, in, &base, e));
    TRY(memory_estimate_of(j, in, ranks, &base, &n, e));
    if (memory_estimate_fits(&n, base.budget, &base)) goto done;
    TRY(fit_search_run(j, in, ranks, base.budget, &base, &l, e));
    if (j->memory.fit && !j->own.planned && !j->parallel.batch_split)
        TRY(take_fastest(j, in, &base, &l, e));
    if (j->memory.fit && l.fits && !l.needs_path)
        TRY(change(j, &l, &n, &base, changes, e));
    else
        TRY(refuse(j, in, &n, &l, &base, e));
done:
    return result;
}
