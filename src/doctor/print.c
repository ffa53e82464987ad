// print.c -- what the checks found, as text for people. See doctor.h. cmd/doctor/ prints it.
#include "doctor/doctor.h"

#include <stdlib.h>
#include <string.h>

static const char *const SEVERITY[] = {
    [DOCTOR_NOTE] = "note", [DOCTOR_WARNING] = "warning", [DOCTOR_ERROR] = "error"};

const char *doctor_severity_name(doctor_severity s)
{
    return SEVERITY[s];
}

void doctor_add_sentence(text *out, const char *sentence)
{
    const size_t word = strspn(sentence, "abcdefghijklmnopqrstuvwxyz");
    const bool is_word = word > 0 && (sentence[word] == ' ' || sentence[word] == ',');
    const char first = (char)(is_word ? sentence[0] - 'a' + 'A' : sentence[0]);
    if (!first) return;
    text_add_bytes(out, &first, 1);
    text_add(out, sentence + 1);
}

// A text of the row with the finding's values. Where memory runs out, the whole text is marked as failed.
static void add_expanded(text *out, const char *before, const char *form, const doctor_finding *f)
{
    char *s = NULL;
    if (doctor_expand(form, f, &s, NULL) != OK)
        text_fail(out);
    else {
        text_add(out, before);
        doctor_add_sentence(out, s);
        text_add(out, "\n");
    }
    free(s);
}

static void add_finding(text *out, const doctor_check *c, const doctor_finding *f)
{
    text_addf(out, "%s %s: ", SEVERITY[f->severity], c->code);
    add_expanded(out, "", c->issue, f);
    add_expanded(out, "  ", c->why, f);
    for (int i = 0; i < DOCTOR_REMEDIES && c->remedy[i]; i++)
        add_expanded(out, "  -> ", c->remedy[i], f);
    if (c->reference) text_addf(out, "  see %s\n", c->reference);
}

static void add_findings(text *out, const doctor_report *r, doctor_severity severity)
{
    for (size_t i = 0; i < r->count; i++)
        for (size_t k = 0; k < r->of[i].count; k++)
            if (r->of[i].finding[k].severity == severity)
                add_finding(out, r->of[i].check, &r->of[i].finding[k]);
}

static void add_blind(text *out, const doctor_report *r)
{
    for (size_t i = 0; i < r->count; i++)
        if (r->of[i].state == DOCTOR_BLIND)
            text_addf(out, "not seen %s: %s\n", r->of[i].check->code, r->of[i].why);
}

static void add_rest(text *out, const doctor_report *r)
{
    for (size_t i = 0; i < r->count; i++) {
        const doctor_findings *f = &r->of[i];
        if (f->state == DOCTOR_PASSED)
            text_addf(out, "passed %s: %s\n", f->check->code, f->check->title);
        else if (f->state == DOCTOR_SKIPPED)
            text_addf(out, "skipped %s: %s\n", f->check->code, f->why);
    }
}

static size_t count_of(const doctor_report *r, doctor_state state)
{
    size_t count = 0;
    for (size_t i = 0; i < r->count; i++) count += r->of[i].state == state;
    return count;
}

void doctor_add_text(text *out, const doctor_report *r, bool all)
{
    for (int s = DOCTOR_ERROR; s >= DOCTOR_NOTE; s--) add_findings(out, r, (doctor_severity)s);
    add_blind(out, r);
    if (all) add_rest(out, r);
    const size_t passed = count_of(r, DOCTOR_PASSED), found = count_of(r, DOCTOR_FOUND);
    text_addf(out,
              "%zu check%s passed, %zu found something, %zu could not see, %zu do not concern this "
              "machine\n",
              passed, passed == 1 ? "" : "s", found, count_of(r, DOCTOR_BLIND),
              count_of(r, DOCTOR_SKIPPED));
}
