// effective_print.c -- see effective_print.h.
#include "session/plan/effective_print.h"

#include <math.h>

// A checkpoint has the weights, master weights where they are apart, and the optimizer's state in fp32.
static double checkpoint_bytes(const job *j, double params)
{
    const dtype type = job_dtype(j);
    const int states = optim_state_tensors(&j->optimizer);
    return params * ((int)dtype_bytes(type) + (type == F32 ? 0 : 4) + 4 * states);
}

session_training session_training_of(const job *j, const session_inputs *in, int ranks,
                                     double params, double tokens, const planner_machine *m,
                                     const prediction *p)
{
    const double step_tokens = (double)j->train.global_batch * (double)in->seq_len;
    session_training t = {.tokens = tokens > 0 ? tokens : (double)j->train.steps * step_tokens,
                          .ranks = ranks,
                          .params = params,
                          .checkpoint_bytes = checkpoint_bytes(j, params)};
    const planner_stragglers stragglers = {.sigma = m->straggler_sigma};
    t.straggler_factor = planner_straggler_factor(&stragglers, ranks);
    t.step_s = p->step_s + p->compute_s * (t.straggler_factor - 1);
    t.failures = (planner_failures){
        .per_hour = m->failures_per_hour, .ranks = ranks, .restart_s = m->restart_s};
    const bool known = m->checkpoint_bytes_per_s > 0;
    if (known) t.failures.checkpoint_s = t.checkpoint_bytes / ranks / m->checkpoint_bytes_per_s;
    t.effective = known ? planner_effective_of(&t.failures)
                        : (planner_effective){.interval_s = INFINITY, .useful = 1};
    t.bill = planner_bill_of(&(planner_training){.tokens = t.tokens,
                                                 .tokens_per_s = step_tokens / t.step_s,
                                                 .ranks = ranks,
                                                 .useful = t.effective.useful,
                                                 .watts = m->watts,
                                                 .price_per_hour = m->price_per_hour});
    return t;
}

// ---- Text

static void add_duration(const char *before, double seconds, text *out)
{
    if (seconds < 120)
        text_addf(out, "%s%.3g s", before, seconds);
    else if (seconds < 7200)
        text_addf(out, "%s%.3g min", before, seconds / 60);
    else if (seconds < 2 * 86400)
        text_addf(out, "%s%.3g h", before, seconds / 3600);
    else
        text_addf(out, "%s%.4g days", before, seconds / 86400);
}

static double save_every(const session_training *t)
{
    return fmax(1, round(t->effective.interval_s / t->step_s));
}

static void print_failures(const session_training *t, text *out)
{
    const planner_effective *x = &t->effective;
    char bytes[24];
    text_bytes(bytes, t->checkpoint_bytes);
    text_addf(out, "failures: %.3g in 1,000 hours of a rank", 1000 * t->failures.per_hour);
    add_duration(", one in ", x->between_failures_s, out);
    text_addf(out, " on %.0f ranks", t->ranks);
    add_duration("; a restart takes ", t->failures.restart_s, out);
    text_addf(out, "\ncheckpoints: %s", bytes);
    add_duration(", written in ", t->failures.checkpoint_s, out);
    add_duration("; the best interval is ", x->interval_s, out);
    add_duration(" (Young ", x->young_s, out);
    add_duration(", Daly ", x->daly_s, out);
    text_addf(out, "): train.save_every %.0f\n", save_every(t));
    text_addf(out, "useful time: %.1f %%\n", 100 * x->useful);
}

static void print_bill(const session_training *t, text *out)
{
    const planner_bill *b = &t->bill;
    text_addf(out, "to %.4g tokens:", t->tokens);
    add_duration(" ", 86400 * b->days, out);
    if (t->effective.useful < 1)
        add_duration(", without failures ", 86400 * b->days_without_failures, out);
    if (!isnan(b->kilowatt_hours)) text_addf(out, "; energy %.4g kWh", b->kilowatt_hours);
    if (!isnan(b->price)) text_addf(out, "; price %.4g", b->price);
    text_add(out, "\n");
}

// ---- JSON

static void add_number(const char *key, double value, text *out)
{
    if (isfinite(value))
        text_addf(out, "\"%s\":%.9g", key, value);
    else
        text_addf(out, "\"%s\":null", key);
}

static void print_json(const session_training *t, text *out)
{
    const planner_effective *x = &t->effective;
    const struct {
        const char *key;
        double value;
    } numbers[] = {{"tokens", t->tokens},
                   {"step_ms", 1e3 * t->step_s},
                   {"straggler_factor", t->straggler_factor},
                   {"between_failures_s", x->between_failures_s},
                   {"checkpoint_bytes", t->checkpoint_bytes},
                   {"checkpoint_s", t->failures.checkpoint_s},
                   {"restart_s", t->failures.restart_s},
                   {"checkpoint_interval_s", x->interval_s},
                   {"checkpoint_interval_young_s", x->young_s},
                   {"checkpoint_interval_daly_s", x->daly_s},
                   {"useful", x->useful},
                   {"days", t->bill.days},
                   {"days_without_failures", t->bill.days_without_failures},
                   {"kilowatt_hours", t->bill.kilowatt_hours},
                   {"price", t->bill.price}};
    text_add(out, ",\"training\":{");
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        text_add(out, i ? "," : "");
        add_number(numbers[i].key, numbers[i].value, out);
    }
    text_add(out, "}");
}

void session_training_print(const session_training *t, bool json, text *out)
{
    if (json) {
        print_json(t, out);
        return;
    }
    if (t->straggler_factor > 1)
        text_addf(
            out,
            "stragglers: the slowest of %.0f ranks computes %.1f %% longer than the median; a "
            "step takes %.1f ms\n",
            t->ranks, 100 * (t->straggler_factor - 1), 1e3 * t->step_s);
    if (isfinite(t->effective.interval_s)) print_failures(t, out);
    print_bill(t, out);
}
