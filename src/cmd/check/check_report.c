// check_report.c -- the table and the verdict of `trireme translate --check`, and the usual reasons for another loss
// after a move that apply to this configuration. It only compares numbers.
#include "cmd/check/check.h"

#include "cmd/console.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double FP32_TOLERANCE = 1e-4, SHORT_TOLERANCE = 2e-2, RATE_TOLERANCE = 1e-6;

typedef struct check_result {
    double tolerance;
    double loss, grad_norm;                  // the largest relative difference
    int64_t norms;                           // that the original gave
    int64_t loss_step, norm_step, rate_step; // the first that differs, from 1; 0: none
} check_result;

// The relative difference; NAN where one is not known, INFINITY where only one is finite.
static double differ(double own, double original)
{
    if (isnan(original)) return NAN;
    if (!isfinite(own) || !isfinite(original)) return own == original ? 0 : INFINITY;
    const double most = fmax(fabs(own), fabs(original));
    return most > 0 ? fabs(own - original) / most : 0;
}

static void take_first(int64_t *first, int64_t step, double difference, double tolerance)
{
    if (!*first && difference > tolerance) *first = step;
}

static check_result find(const check *c)
{
    check_result f = {.tolerance =
                          strcmp(c->precision, "fp32") == 0 ? FP32_TOLERANCE : SHORT_TOLERANCE};
    for (int64_t i = 0; i < c->steps; i++) {
        const check_step *own = &c->own->step[i], *theirs = &c->original->step[i];
        double loss = differ(own->loss, theirs->loss);
        const double norm = differ(own->grad_norm, theirs->grad_norm);
        if (isnan(loss)) loss = INFINITY; // a loss that is no number is another one
        f.loss = fmax(f.loss, loss);
        f.grad_norm = fmax(f.grad_norm, norm); // NAN counts as less
        f.norms += !isnan(norm);
        take_first(&f.loss_step, i + 1, loss, f.tolerance);
        take_first(&f.norm_step, i + 1, norm, f.tolerance);
        take_first(&f.rate_step, i + 1, differ(own->lr, theirs->lr), RATE_TOLERANCE);
    }
    return f;
}

static bool is_same(const check_result *f)
{
    return !f->loss_step && !f->norm_step && !f->rate_step;
}

// ---- The usual reasons

static void add_rate(const check *c, const check_result *f, text *out)
{
    if (!f->rate_step) return;
    const int64_t i = f->rate_step - 1;
    text_addf(out, "learning rate: step %lld has %.9g here and %.9g there\n",
              (long long)f->rate_step, c->own->step[i].lr, c->original->step[i].lr);
}

static void add_where(const check *c, const check_result *f, text *out)
{
    if (f->loss_step == 1)
        text_addf(out,
                  "step 1 differs before any update: the weights, the tokens%s or the forward "
                  "pass are not the same\n",
                  c->has_samples ? ", their labels" : "");
    else if (f->loss_step)
        text_addf(out,
                  "the losses agree up to step %lld: the forward pass is the same, and gradients "
                  "or updates are not\n",
                  (long long)f->loss_step - 1);
    else if (f->norm_step)
        text_addf(out,
                  "the losses agree: gradients are summed or averaged in another way from "
                  "step %lld on\n",
                  (long long)f->norm_step);
}

// Lines that say which of the usual reasons apply, and which the check has ruled out.
static void add_reasons(const check *c, const check_result *f, text *out)
{
    const bool is_short = strcmp(c->precision, "fp32") != 0;
    add_where(c, f, out);
    add_rate(c, f, out);
    if (c->of->dtypes && (is_short || strcmp(c->reduction, "fp32") != 0))
        text_addf(out, "number formats: %s\n", c->of->dtypes);
    text_add(out, "ruled out: order of data (both read the same sequences in the same order), "
                  "dropout (0 in both)");
    if (!c->has_samples)
        text_addf(out, ", averaging of losses (each of the %lld micro-batches has as many tokens)",
                  (long long)(c->accumulation * c->ranks));
    if (!is_short && strcmp(c->reduction, "fp32") == 0)
        text_add(out, ", number formats (all fp32)");
    if (!f->rate_step) text_add(out, ", learning rates (equal)");
    text_add(out, "\n");
}

// ---- Text

static void add_number(double value, int width, int digits, text *out)
{
    if (isnan(value))
        text_addf(out, "%*s", width, "-");
    else
        text_addf(out, "%*.*g", width, digits, value);
}

static void add_pair(double own, double theirs, text *out)
{
    add_number(own, 14, 8, out);
    add_number(theirs, 14, 8, out);
    add_number(differ(own, theirs), 13, 2, out);
}

static void add_table(const check *c, text *out)
{
    const char *name = strlen(c->of->system) < 14 ? c->of->system : "the original";
    text_addf(out, "      %14s%14s%13s%14s%14s%13s\n", "loss", "loss", "", "grad norm", "grad norm",
              "");
    text_addf(out, "step  %14s%14s%13s%14s%14s%13s\n", "Trireme", name, "difference", "Trireme",
              name, "difference");
    for (int64_t i = 0; i < c->steps; i++) {
        const check_step *own = &c->own->step[i], *theirs = &c->original->step[i];
        text_addf(out, "%4lld  ", (long long)i + 1);
        add_pair(own->loss, theirs->loss, out);
        add_pair(own->grad_norm, theirs->grad_norm, out);
        text_add(out, "\n");
    }
}

static void add_memory(const check *c, text *out)
{
    char own[24], theirs[24], base[24];
    text_bytes(own, c->own->peak_bytes);
    text_bytes(theirs, c->original->peak_bytes);
    text_bytes(base, c->original->base_bytes);
    text_addf(out, "memory of a rank, at most: Trireme %s, %s %s", own, c->of->system, theirs);
    if (c->original->base_bytes > 0) text_addf(out, ", of which Python and its libraries %s", base);
    text_add(out, "\n");
}

static void add_notes(const check *c, text *out)
{
    if (c->without_dropout)
        text_add(out, "note: dropout is 0 in both, because its random numbers differ\n");
    for (const char *s = c->notes.chars; s && *s;) {
        const size_t bytes = strcspn(s, "\n");
        text_add(out, "note: ");
        text_add_bytes(out, s, bytes);
        text_add(out, "\n");
        s += bytes + (s[bytes] == '\n');
    }
}

static void add_verdict(const check *c, const check_result *f, text *out)
{
    const bool same = is_same(f);
    text_addf(out, "verdict: %s: %lld losses differ by at most %.1e",
              same ? "the same run" : "another run", (long long)c->steps, f->loss);
    if (f->norms)
        text_addf(out, ", %lld gradient norms by at most %.1e", (long long)f->norms, f->grad_norm);
    text_addf(out, "; the tolerance of %s is %g (Trireme %s, %s, %d ranks)\n", c->precision,
              f->tolerance, TRIREME_VERSION, c->versions.chars ? c->versions.chars : "", c->ranks);
}

// ---- JSON

static json_t *number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *step_json(const check *c, int64_t i)
{
    const check_step *own = &c->own->step[i], *theirs = &c->original->step[i];
    return json_pack("{s:I, s:[o, o], s:[o, o], s:[o, o]}", "step", (json_int_t)i + 1, "loss",
                     number(own->loss), number(theirs->loss), "grad_norm", number(own->grad_norm),
                     number(theirs->grad_norm), "lr", number(own->lr), number(theirs->lr));
}

static void add_json(const check *c, const check_result *f, const char *reasons, text *out)
{
    json_t *steps = json_array();
    for (int64_t i = 0; i < c->steps; i++) json_array_append_new(steps, step_json(c, i));
    json_t *root = json_pack(
        "{s:b, s:f, s:o, s:o, s:o, s:[o, o], s:o, s:s, s:s, s:s}", "same", (int)is_same(f),
        "tolerance", f->tolerance, "loss_difference", number(f->loss), "grad_norm_difference",
        f->norms ? number(f->grad_norm) : json_null(), "steps", steps, "peak_bytes",
        number(c->own->peak_bytes), number(c->original->peak_bytes), "base_bytes",
        number(c->original->base_bytes), "versions", c->versions.chars ? c->versions.chars : "",
        "notes", c->notes.chars ? c->notes.chars : "", "reasons", reasons);
    char *s = root ? json_dumps(root, JSON_COMPACT | JSON_PRESERVE_ORDER) : NULL;
    if (!s) text_fail(out);
    text_addf(out, "%s\n", s ? s : "");
    free(s);
    json_decref(root);
}

status check_report(const check *c, bool *same, err *e)
{
    status result = OK;
    text out = {0}, reasons = {0};
    const check_result f = find(c);
    *same = is_same(&f);
    if (!*same) add_reasons(c, &f, &reasons);
    if (c->q->json) {
        add_json(c, &f, reasons.chars ? reasons.chars : "", &out);
    } else {
        add_table(c, &out);
        add_memory(c, &out);
        add_notes(c, &out);
        if (reasons.bytes) text_add(&out, reasons.chars);
        add_verdict(c, &f, &out);
    }
    TRY(text_check(&reasons, e));
    TRY(text_check(&out, e));
    console_print(out.chars, out.bytes);
done:
    text_clear(&reasons);
    text_clear(&out);
    return result;
}

status check_report_cannot(const check *c, err *e)
{
    status result = OK;
    text out = {0};
    if (c->q->json) {
        text_add(&out, "{\"cannot\":");
        text_add_json(&out, c->cannot.chars);
        text_add(&out, "}\n");
        TRY(text_check(&out, e));
        console_print(out.chars, out.bytes);
    }
    console_fail("%s cannot run here: %s", c->of->system, c->cannot.chars);
done:
    text_clear(&out);
    return result;
}
