// print.c -- see print.h.
#include "doctor/hosts/print.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

// A finding of some hosts.
typedef struct merged {
    const doctor_check *check;
    const doctor_finding *finding; // of the first of them
    doctor_severity severity;
    char *issue;
    text hosts; // "a, b"
    int count;  // of hosts
} merged;

typedef struct merged_list {
    merged *item; // [count]
    size_t count, room;
} merged_list;

static void list_close(merged_list *l)
{
    for (size_t i = 0; i < l->count; i++) {
        free(l->item[i].issue);
        text_clear(&l->item[i].hosts);
    }
    free(l->item);
}

// Adds a finding of a host, to the one that says the same of another host where there is one.
static status add(merged_list *l, const doctor_check *check, const doctor_finding *f,
                  const char *host, err *e)
{
    status result = OK;
    char *issue = NULL;
    merged *m = NULL;
    TRY(doctor_expand(check->issue, f, &issue, e));
    for (size_t i = 0; i < l->count && !m; i++)
        if (l->item[i].check == check && l->item[i].severity == f->severity &&
            strcmp(l->item[i].issue, issue) == 0)
            m = &l->item[i];
    if (!m) {
        TRY(alloc_grow(&l->item, &l->room, l->count + 1, sizeof *l->item, "the findings", e));
        m = &l->item[l->count++];
        *m = (merged){.check = check, .finding = f, .severity = f->severity, .issue = issue};
        issue = NULL;
    }
    if (host) text_addf(&m->hosts, "%s%s", m->hosts.bytes ? ", " : "", host);
    m->count += host != NULL;
done:
    free(issue);
    return result;
}

static status add_report(merged_list *l, const doctor_report *r, const char *host, err *e)
{
    status result = OK;
    for (size_t c = 0; c < r->count; c++)
        for (size_t f = 0; f < r->of[c].count; f++)
            TRY(add(l, r->of[c].check, &r->of[c].finding[f], host, e));
done:
    return result;
}

// A line of a row with the values of a finding, indented.
static status add_line(text *out, const char *form, const doctor_finding *f, err *e)
{
    status result = OK;
    char *line = NULL;
    TRY(doctor_expand(form, f, &line, e));
    text_addf(out, "    %s\n", line);
done:
    free(line);
    return result;
}

static status add_merged(text *out, const merged *m, int hosts, err *e)
{
    static const char *const WORDS[] = {"note", "warning", "error"};
    status result = OK;
    text_addf(out, "%s: %s", WORDS[m->severity], m->issue);
    if (m->count == hosts && hosts > 1)
        text_addf(out, " (all %d hosts)", hosts);
    else if (m->count > 0)
        text_addf(out, " (%s %s)", m->count > 1 ? "hosts" : "host", m->hosts.chars);
    text_addf(out, " [%s]\n", m->check->code);
    TRY(add_line(out, m->check->why, m->finding, e));
    for (int i = 0; i < DOCTOR_REMEDIES && m->check->remedy[i]; i++)
        TRY(add_line(out, m->check->remedy[i], m->finding, e));
done:
    return result;
}

static void add_blind(text *out, const doctor_report *r)
{
    for (size_t c = 0; c < r->count; c++)
        if (r->of[c].state == DOCTOR_BLIND)
            text_addf(out, "not seen: host %s: %s [%s]\n", r->host, r->of[c].why,
                      r->of[c].check->code);
}

static void add_sum(text *out, const merged_list *l, const doctor_report *reports, int count)
{
    int found[DOCTOR_ERROR + 1] = {0};
    size_t checks = 0, blind = 0;
    for (size_t i = 0; i < l->count; i++) found[l->item[i].severity]++;
    for (int i = 0; i < count; i++)
        for (size_t c = 0; c < reports[i].count; c++) {
            checks++;
            blind += reports[i].of[c].state == DOCTOR_BLIND;
        }
    text_addf(out, "%d hosts, %zu checks: errors %d, warnings %d, notes %d, not seen %zu\n", count,
              checks, found[DOCTOR_ERROR], found[DOCTOR_WARNING], found[DOCTOR_NOTE], blind);
}

status hosts_add_text(text *out, const doctor_report *reports, int count,
                      const doctor_report *between, bool all, err *e)
{
    status result = OK;
    merged_list l = {0};
    TRY(add_report(&l, between, NULL, e));
    for (int i = 0; i < count; i++) TRY(add_report(&l, &reports[i], reports[i].host, e));
    for (int severity = DOCTOR_ERROR; severity >= DOCTOR_NOTE; severity--)
        for (size_t i = 0; i < l.count; i++)
            if ((int)l.item[i].severity == severity) TRY(add_merged(out, &l.item[i], count, e));
    for (int i = 0; all && i < count; i++) add_blind(out, &reports[i]);
    add_sum(out, &l, reports, count);
    TRY(text_check(out, e));
done:
    list_close(&l);
    return result;
}
