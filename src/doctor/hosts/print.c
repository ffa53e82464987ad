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

// A line of a row with the values of a finding.
static status add_line(text *out, const char *before, const char *form, const doctor_finding *f,
                       err *e)
{
    status result = OK;
    char *line = NULL;
    TRY(doctor_expand(form, f, &line, e));
    text_addf(out, "%s%s\n", before, line);
done:
    free(line);
    return result;
}

static void add_hosts(text *out, const char *names, int count, int all)
{
    if (count == all && all > 1)
        text_addf(out, " (all %d hosts)\n", all);
    else if (count > 0)
        text_addf(out, " (%s %s)\n", count > 1 ? "hosts" : "host", names);
    else
        text_add(out, "\n");
}

static status add_merged(text *out, const merged *m, int hosts, err *e)
{
    status result = OK;
    const doctor_check *c = m->check;
    text_addf(out, "%s %s: %s", doctor_severity_name(m->severity), c->code, m->issue);
    add_hosts(out, m->hosts.chars, m->count, hosts);
    TRY(add_line(out, "  ", c->why, m->finding, e));
    for (int i = 0; i < DOCTOR_REMEDIES && c->remedy[i]; i++)
        TRY(add_line(out, "  -> ", c->remedy[i], m->finding, e));
    if (c->reference) text_addf(out, "  see %s\n", c->reference);
done:
    return result;
}

// Returns whether this check of another host ended alike, and for the same reason.
static bool is_alike(const doctor_report *r, const doctor_findings *f)
{
    for (size_t c = 0; c < r->count; c++) {
        const doctor_findings *own = &r->of[c];
        if (own->check == f->check)
            return own->state == f->state &&
                   (!own->why || !f->why || strcmp(own->why, f->why) == 0);
    }
    return false;
}

// The checks of a host that ended in a state, each reason once with the hosts that have it.
static void add_state(text *out, const doctor_report *reports, int count, int host,
                      doctor_state state, const char *word)
{
    for (size_t c = 0; c < reports[host].count; c++) {
        const doctor_findings *f = &reports[host].of[c];
        text names = {0};
        int have = 0, before = 0;
        if (f->state != state) continue;
        for (int i = 0; i < count; i++) {
            if (!is_alike(&reports[i], f)) continue;
            text_addf(&names, "%s%s", names.bytes ? ", " : "", reports[i].host);
            have++;
            before += i < host;
        }
        if (!before)
            text_addf(out, "%s %s: %s", word, f->check->code, f->why ? f->why : f->check->title);
        if (!before) add_hosts(out, names.chars, have, count);
        text_clear(&names);
    }
}

static void add_sum(text *out, const merged_list *l, int hosts)
{
    int found[DOCTOR_ERROR + 1] = {0};
    for (size_t i = 0; i < l->count; i++) found[l->item[i].severity]++;
    text_addf(out, "%d host%s: %d error%s, %d warning%s, %d note%s\n", hosts, hosts == 1 ? "" : "s",
              found[DOCTOR_ERROR], found[DOCTOR_ERROR] == 1 ? "" : "s", found[DOCTOR_WARNING],
              found[DOCTOR_WARNING] == 1 ? "" : "s", found[DOCTOR_NOTE],
              found[DOCTOR_NOTE] == 1 ? "" : "s");
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
    for (int i = 0; i < count; i++) add_state(out, reports, count, i, DOCTOR_BLIND, "not seen");
    for (int i = 0; all && i < count; i++) {
        add_state(out, reports, count, i, DOCTOR_PASSED, "passed");
        add_state(out, reports, count, i, DOCTOR_SKIPPED, "skipped");
    }
    add_sum(out, &l, count);
    TRY(text_check(out, e));
done:
    list_close(&l);
    return result;
}
