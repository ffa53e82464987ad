// answer.c -- the answer of a diagnosis as text and as JSON. See diagnose.h.
#include "diagnose/diagnosis.h"

#include "base/alloc.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_OTHERS = 6 };

// How sure the answer is, by the weight of its row.
static const char *confidence(const diagnose_finding *f)
{
    return f->cause->weight >= DIAGNOSE_SPECIFIC  ? "high"
           : f->cause->weight == DIAGNOSE_SYMPTOM ? "medium"
                                                  : "low";
}

// Other rows that were found, in their order of likeliness: echoes last. Returns their number.
static int others(const diagnosis *d, const diagnose_finding *cause,
                  const diagnose_finding *out[MOST_OTHERS])
{
    int count = 0;
    for (int i = 0; i < diagnose_cause_count(); i++) {
        const diagnose_finding *f = &d->finding[i];
        if (!f->count || f == cause) continue;
        int slot = count < MOST_OTHERS ? count++ : MOST_OTHERS - 1;
        if (slot == MOST_OTHERS - 1 && out[slot] && !diagnosis_is_before(f, out[slot])) continue;
        while (slot > 0 && diagnosis_is_before(f, out[slot - 1])) {
            out[slot] = out[slot - 1];
            slot--;
        }
        out[slot] = f;
    }
    return count;
}

static void add_line(text *out, const diagnosis *d, const diagnose_finding *f)
{
    text_add(out, "  ");
    text_add_printable(out, d->path[f->file], strlen(d->path[f->file]), "");
    text_addf(out, ":%" PRId64 ": %s\n", f->line, f->shown);
}

static void add_where(text *out, const diagnosis *d, const diagnose_finding *f)
{
    const int rank = diagnosis_rank(d, f);
    const bool is_late = strcmp(f->cause->code, DIAGNOSE_TIMEOUT) == 0;
    if (rank >= 0) text_addf(out, "%s: rank %d", is_late ? "late" : "where", rank);
    if (rank < 0 && !is_late && f->place.local >= 0)
        text_addf(out, "where: local rank %d", f->place.local);
    const bool has_rank = rank >= 0 || (!is_late && f->place.local >= 0);
    if (f->place.host[0] && !is_late)
        text_addf(out, "%shost %s", has_rank ? ", " : "where: ", f->place.host);
    if (has_rank || (f->place.host[0] && !is_late)) text_add(out, "\n");
}

static void add_advice(text *out, const diagnose_cause *c)
{
    if (c->remedy[0]) text_add(out, "try:\n");
    for (int i = 0; i < DIAGNOSE_REMEDIES && c->remedy[i]; i++)
        text_addf(out, "  %s\n", c->remedy[i]);
    if (c->check[0]) text_add(out, "check that host:\n  $ trireme doctor");
    for (int i = 0; i < DIAGNOSE_CHECKS && c->check[i]; i++) text_addf(out, " %s", c->check[i]);
    if (c->check[0]) text_add(out, "\n");
    if (c->reference) text_addf(out, "see: %s\n", c->reference);
}

static void add_others(text *out, const diagnosis *d, const diagnose_finding *cause)
{
    const diagnose_finding *other[MOST_OTHERS] = {0};
    const int count = others(d, cause, other);
    for (int i = 0; i < count; i++) {
        if (i == 0) text_add(out, cause ? "also in the log:\n" : "only consequences were found:\n");
        text_addf(out, "  %s (", other[i]->cause->code);
        text_add_printable(out, d->path[other[i]->file], strlen(d->path[other[i]->file]), "");
        text_addf(out, ":%" PRId64, other[i]->line);
        if (other[i]->count > 1) text_addf(out, ", %" PRId64 " lines", other[i]->count);
        text_add(out, ")\n");
    }
}

static void add_unknown(text *out, const diagnosis *d)
{
    if (!d->error_shown) {
        text_addf(out, "no failure found in %" PRId64 " lines of %zu log%s\n",
                  d->lines + (d->line ? d->line - 1 : 0), d->files, d->files == 1 ? "" : "s");
        return;
    }
    text_add(out, "no known cause; the first error line is\n  ");
    text_add_printable(out, d->path[d->error_file], strlen(d->path[d->error_file]), "");
    text_addf(out, ":%" PRId64 ": %s\n", d->error_line, d->error_shown);
    const diagnose_finding *f = diagnosis_first_failed(d);
    if (!f) return;
    text_addf(out, "its launcher says that %srank %d%s%s failed first: read that rank's log\n",
              f->place.rank < 0 ? "local " : "", f->place.rank < 0 ? f->place.local : f->place.rank,
              f->place.host[0] ? " on host " : "", f->place.host);
}

void diagnose_add_text(text *out, const diagnosis *d)
{
    const diagnose_finding *f = diagnosis_cause(d);
    if (!f) {
        add_unknown(out, d);
        add_others(out, d, NULL);
        return;
    }
    text_addf(out, "cause: %s [%s]\n", f->sentence, f->cause->code);
    add_where(out, d, f);
    if (f->cause->weight < DIAGNOSE_SPECIFIC) text_addf(out, "confidence: %s\n", confidence(f));
    if (f->cause->why) text_addf(out, "why: %s\n", f->cause->why);
    text_add(out, "evidence:\n");
    add_line(out, d, f);
    add_others(out, d, f);
    add_advice(out, f->cause);
}

// ---- JSON

static json_t *list(const char *const *items, int most)
{
    json_t *out = json_array();
    for (int i = 0; i < most && items[i]; i++) json_array_append_new(out, json_of_text(items[i]));
    return out;
}

static json_t *describe(const diagnosis *d, const diagnose_finding *f)
{
    json_t *o = json_pack("{s:s,s:o,s:I,s:I,s:o}", "code", f->cause->code, "file",
                          json_of_text(d->path[f->file]), "line", (json_int_t)f->line, "lines",
                          (json_int_t)f->count, "text", json_of_text(f->shown));
    const int rank = diagnosis_rank(d, f);
    if (o && rank >= 0) json_object_set_new(o, "rank", json_integer(rank));
    if (o && f->place.local >= 0)
        json_object_set_new(o, "local_rank", json_integer(f->place.local));
    if (o && f->place.host[0]) json_object_set_new(o, "host", json_of_text(f->place.host));
    return o;
}

static void add_cause(json_t *o, const diagnosis *d, const diagnose_finding *f)
{
    const diagnose_cause *c = f->cause;
    json_t *cause = describe(d, f);
    json_object_set_new(cause, "sentence", json_of_text(f->sentence));
    json_object_set_new(cause, "confidence", json_string(confidence(f)));
    if (c->why) json_object_set_new(cause, "why", json_of_text(c->why));
    json_object_set_new(cause, "remedies", list(c->remedy, DIAGNOSE_REMEDIES));
    json_object_set_new(cause, "checks", list(c->check, DIAGNOSE_CHECKS));
    if (c->reference) json_object_set_new(cause, "reference", json_string(c->reference));
    json_object_set_new(o, "cause", cause);
}

status diagnose_to_json(const diagnosis *d, json_t **out, err *e)
{
    const diagnose_finding *f = diagnosis_cause(d), *other[MOST_OTHERS] = {0};
    const int count = others(d, f, other);
    json_t *o = json_object(), *also = json_array();
    if (!o || !also) {
        json_decref(o);
        json_decref(also);
        return alloc_failed(sizeof(json_t), "an answer", e);
    }
    if (f) add_cause(o, d, f);
    for (int i = 0; i < count; i++) json_array_append_new(also, describe(d, other[i]));
    json_object_set_new(o, "also", also);
    json_object_set_new(o, "failure", json_boolean(diagnose_answer_of(d).has_failure));
    if (!f && d->error_shown) {
        json_t *first =
            json_pack("{s:o,s:I,s:o}", "file", json_of_text(d->path[d->error_file]), "line",
                      (json_int_t)d->error_line, "text", json_of_text(d->error_shown));
        json_object_set_new(o, "first_error", first);
    }
    *out = o;
    return OK;
}
