// compare.c -- see compare.h. Reports of hosts have the same checks in the same order where they have one version, so a fact or
// a number is found by the code of its check and its key.
#include "doctor/hosts/compare.h"

#include "base/alloc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_BYTES = 32 };
#define SLOWER_HOST  0.95 // of the median
#define MOST_CLOCK_S 1.0

static const char *name_of(const hosts_input *in, int i)
{
    return in->report[i].host;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Of two values the larger one, so that of two hosts the slower one is found.
static double median_of(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, by_value);
    return count ? values[count / 2] : 0;
}

// "host a" or "hosts a, b".
static void add_hosts(text *out, const hosts_input *in, const bool *chosen)
{
    int count = 0;
    for (int i = 0; i < in->count; i++) count += chosen[i];
    text_add(out, count == 1 ? "host" : "hosts");
    const char *comma = " ";
    for (int i = 0; i < in->count; i++)
        if (chosen[i]) text_addf(out, "%s%s", comma, name_of(in, i)), comma = ", ";
}

// ---- Facts

static const doctor_findings *findings_of(const doctor_report *r, const char *code)
{
    for (size_t i = 0; i < r->count; i++)
        if (strcmp(r->of[i].check->code, code) == 0) return &r->of[i];
    return NULL;
}

// NULL: the host does not say it.
static const char *fact_of(const doctor_report *r, const char *code, const char *key)
{
    const doctor_findings *f = findings_of(r, code);
    for (size_t i = 0; f && i < f->fact_count; i++)
        if (strcmp(f->fact[i].name, key) == 0) return f->fact[i].text;
    return NULL;
}

static int count_same(const char *const *values, int count, const char *value)
{
    int same = 0;
    for (int i = 0; i < count; i++) same += values[i] && strcmp(values[i], value) == 0;
    return same;
}

// Finds each value of values [count] that fewer hosts have than the most frequent one.
static status compare_fact(const hosts_input *in, const char *key, const char **values,
                           bool *chosen, doctor_findings *out, err *e)
{
    status result = OK;
    text hosts = {0};
    char others[NUMBER_BYTES], all[NUMBER_BYTES];
    const char *most = NULL;
    int have = 0, most_count = 0;
    for (int i = 0; i < in->count; i++) {
        const int same = values[i] ? count_same(values, in->count, values[i]) : 0;
        have += values[i] != NULL;
        if (same > most_count) most_count = same, most = values[i];
    }
    snprintf(others, sizeof others, "%d", most_count);
    snprintf(all, sizeof all, "%d", have);
    for (int i = 0; i < in->count; i++) {
        if (!values[i] || strcmp(values[i], most) == 0) continue;
        if (count_same(values, i, values[i])) continue; // said with an earlier host
        for (int j = 0; j < in->count; j++)
            chosen[j] = values[j] && strcmp(values[j], values[i]) == 0;
        text_clear(&hosts);
        add_hosts(&hosts, in, chosen);
        TRY(text_check(&hosts, e));
        doctor_find(out, "where", hosts.chars, "hosts", hosts.chars, "have",
                    strncmp(hosts.chars, "hosts", 5) == 0 ? "have" : "has", "fact", key, "value",
                    values[i], "others", others, "count", all, "most", most, NULL);
    }
done:
    text_clear(&hosts);
    return result;
}

// Returns whether a host before this one says this fact, so that it was compared with it.
static bool was_compared(const hosts_input *in, int host, const char *code, const char *key)
{
    for (int i = 0; i < host; i++)
        if (fact_of(&in->report[i], code, key)) return true;
    return false;
}

static status compare_facts(const hosts_input *in, doctor_findings *out, err *e)
{
    status result = OK;
    const char **values = NULL;
    bool *chosen = NULL;
    TRY(alloc_zeroed(&values, (size_t)in->count, sizeof *values, "facts of hosts", e));
    TRY(alloc_zeroed(&chosen, (size_t)in->count, sizeof *chosen, "facts of hosts", e));
    for (int i = 0; i < in->count; i++)
        for (size_t c = 0; c < in->report[i].count; c++) {
            const doctor_findings *f = &in->report[i].of[c];
            for (size_t k = 0; k < f->fact_count; k++) {
                const char *key = f->fact[k].name, *code = f->check->code;
                if (was_compared(in, i, code, key)) continue;
                for (int j = 0; j < in->count; j++) values[j] = fact_of(&in->report[j], code, key);
                TRY(compare_fact(in, key, values, chosen, out, e));
            }
        }
done:
    free(values);
    free(chosen);
    return result;
}

// ---- Rates of hosts

static const doctor_number *number_of(const doctor_report *r, const char *code, const char *key)
{
    const doctor_findings *f = findings_of(r, code);
    for (size_t i = 0; f && i < f->number_count; i++)
        if (f->number[i].compares && strcmp(f->number[i].key, key) == 0) return &f->number[i];
    return NULL;
}

static void compare_number(const hosts_input *in, const char *code, const doctor_number *n,
                           double *values, doctor_findings *out)
{
    char value[NUMBER_BYTES], median[NUMBER_BYTES], percent[NUMBER_BYTES], all[NUMBER_BYTES];
    int count = 0;
    for (int i = 0; i < in->count; i++) {
        const doctor_number *own = number_of(&in->report[i], code, n->key);
        if (own) values[count++] = own->value;
    }
    const double middle = median_of(values, count);
    for (int i = 0; i < in->count; i++) {
        const doctor_number *own = number_of(&in->report[i], code, n->key);
        if (!own || own->value >= SLOWER_HOST * middle) continue;
        snprintf(value, sizeof value, "%.4g", own->value);
        snprintf(median, sizeof median, "%.4g", middle);
        snprintf(percent, sizeof percent, "%.0f", 100 * (1 - own->value / middle));
        snprintf(all, sizeof all, "%d", count);
        doctor_find(out, "where", name_of(in, i), "key", n->key, "value", value, "unit", n->unit,
                    "percent", percent, "count", all, "median", median, NULL);
    }
}

static bool was_measured(const hosts_input *in, int host, const char *code, const char *key)
{
    for (int i = 0; i < host; i++)
        if (number_of(&in->report[i], code, key)) return true;
    return false;
}

static status compare_numbers(const hosts_input *in, doctor_findings *out, err *e)
{
    status result = OK;
    double *values = NULL;
    TRY(alloc_zeroed(&values, (size_t)in->count, sizeof *values, "rates of hosts", e));
    for (int i = 0; i < in->count; i++)
        for (size_t c = 0; c < in->report[i].count; c++) {
            const doctor_findings *f = &in->report[i].of[c];
            for (size_t k = 0; k < f->number_count; k++)
                if (f->number[k].compares && !was_measured(in, i, f->check->code, f->number[k].key))
                    compare_number(in, f->check->code, &f->number[k], values, out);
        }
done:
    free(values);
    return result;
}

// ---- Pairs

static void find_pair(const hosts_input *in, const host_pair *p, bool turned, doctor_findings *out)
{
    const char *from = name_of(in, turned ? p->to : p->from);
    const char *to = name_of(in, turned ? p->from : p->to);
    doctor_find(out, "where", from, "from", from, "to", to, "reason", p->why, NULL);
}

static void find_state(const hosts_input *in, const host_pair *p, doctor_findings *rows)
{
    if (p->state == PAIR_UNKNOWN) find_pair(in, p, false, &rows[HOSTS_UNMEASURED]);
    if (p->state == PAIR_SEPARATE) find_pair(in, p, false, &rows[HOSTS_UNREACHABLE]);
    if (p->state == PAIR_ONE_WAY) find_pair(in, p, false, &rows[HOSTS_ONE_WAY]);
    if (p->state == PAIR_ONE_WAY_BACK) find_pair(in, p, true, &rows[HOSTS_ONE_WAY]);
    if (p->state == PAIR_LOST) find_pair(in, p, false, &rows[HOSTS_LOST]);
    if (p->state != PAIR_MEASURED && p->state != PAIR_ONE_WAY_BACK) return;
    if (p->link.out.stalled) find_pair(in, p, false, &rows[HOSTS_STALL]);
    if (p->link.in.stalled) find_pair(in, p, true, &rows[HOSTS_STALL]);
}

static const char *reference_of(const pair_medians *m)
{
    return m->is_best ? "the best pair" : "the median of pairs";
}

static void find_slow(const hosts_input *in, const host_pair *p, const pair_medians *m,
                      doctor_findings *out)
{
    char value[NUMBER_BYTES], median[NUMBER_BYTES];
    const char *from = name_of(in, p->from), *to = name_of(in, p->to);
    snprintf(value, sizeof value, "%.2g", host_pair_rate(p));
    snprintf(median, sizeof median, "%.2g", m->gbits);
    doctor_find(out, "where", from, "from", from, "to", to, "gbits", value, "median", median,
                "reference", reference_of(m), NULL);
}

static void find_long(const hosts_input *in, const host_pair *p, const pair_medians *m,
                      doctor_findings *out)
{
    char value[NUMBER_BYTES], median[NUMBER_BYTES];
    const char *from = name_of(in, p->from), *to = name_of(in, p->to);
    snprintf(value, sizeof value, "%.0f", p->link.latency_us);
    snprintf(median, sizeof median, "%.0f", m->latency_us);
    doctor_find(out, "where", from, "from", from, "to", to, "us", value, "median", median,
                "reference", reference_of(m), NULL);
}

// Finds a host all of whose pairs are slow, of two or more. Returns whether it is one.
static bool find_host(const hosts_input *in, int host, const pair_medians *m, doctor_findings *out)
{
    char value[NUMBER_BYTES], median[NUMBER_BYTES];
    double best = 0;
    int pairs = 0;
    for (int i = 0; i < in->pairs; i++) {
        const host_pair *p = &in->pair[i];
        if ((p->from != host && p->to != host) || !host_pair_is_measured(p)) continue;
        if (!host_pair_is_slow(p, m)) return false;
        if (host_pair_rate(p) > best) best = host_pair_rate(p);
        pairs++;
    }
    if (pairs < 2) return false;
    snprintf(value, sizeof value, "%.2g", best);
    snprintf(median, sizeof median, "%.2g", m->gbits);
    doctor_find(out, "where", name_of(in, host), "gbits", value, "median", median, "reference",
                reference_of(m), NULL);
    return true;
}

static status compare_pairs(const hosts_input *in, doctor_findings *rows, err *e)
{
    status result = OK;
    pair_medians m;
    bool *is_slow = NULL;
    TRY(alloc_zeroed(&is_slow, (size_t)in->count, sizeof *is_slow, "pairs of hosts", e));
    TRY(host_pairs_medians(in->pair, in->pairs, &m, e));
    for (int i = 0; i < in->count; i++) is_slow[i] = find_host(in, i, &m, &rows[HOSTS_LINK]);
    for (int i = 0; i < in->pairs; i++) {
        const host_pair *p = &in->pair[i];
        const bool is_said = is_slow[p->from] || is_slow[p->to];
        find_state(in, p, rows);
        if (host_pair_is_slow(p, &m) && !is_said) find_slow(in, p, &m, &rows[HOSTS_SLOW]);
        if (host_pair_takes_long(p, &m)) find_long(in, p, &m, &rows[HOSTS_LATENCY]);
    }
done:
    free(is_slow);
    return result;
}

// ---- Clocks and names

static void compare_clocks(const hosts_input *in, doctor_findings *out)
{
    char seconds[NUMBER_BYTES];
    for (int i = 1; i < in->count; i++) {
        const double ahead = in->clock[i].ahead_s;
        if (fabs(ahead) <= MOST_CLOCK_S + in->clock[i].error_s) continue;
        snprintf(seconds, sizeof seconds, "%.1f", fabs(ahead));
        doctor_find(out, "where", name_of(in, i), "seconds", seconds, "way",
                    ahead > 0 ? "ahead" : "behind", "first", name_of(in, 0), NULL);
    }
}

// The hosts on which a name is not found, or on which it stands for that host itself.
static status find_lookup(const hosts_input *in, int of, bool loopback, bool *chosen,
                          doctor_findings *out, err *e)
{
    status result = OK;
    text hosts = {0};
    int count = 0;
    for (int i = 0; i < in->count; i++) {
        const host_lookup *l = &in->lookup[i * in->count + of];
        chosen[i] = loopback ? l->found && l->is_loopback && i != of &&
                                   strcmp(name_of(in, i), name_of(in, of)) != 0
                             : !l->found;
        count += chosen[i];
    }
    if (!count) goto done;
    add_hosts(&hosts, in, chosen);
    TRY(text_check(&hosts, e));
    doctor_find(out, "where", name_of(in, of), "problem",
                loopback ? "stands for the host itself" : "is not known", "hosts", hosts.chars,
                NULL);
done:
    text_clear(&hosts);
    return result;
}

static status compare_names(const hosts_input *in, doctor_findings *out, err *e)
{
    status result = OK;
    bool *chosen = NULL;
    TRY(alloc_zeroed(&chosen, (size_t)in->count, sizeof *chosen, "names of hosts", e));
    for (int of = 0; in->lookup && of < in->count; of++) {
        TRY(find_lookup(in, of, false, chosen, out, e));
        TRY(find_lookup(in, of, true, chosen, out, e));
    }
done:
    free(chosen);
    return result;
}

// ---- All

status hosts_compare(const hosts_input *in, doctor_report *out, err *e)
{
    status result = OK;
    char seconds[NUMBER_BYTES];
    *out = (doctor_report){0};
    TRY(text_copy("all hosts", &out->host, e));
    TRY(alloc_zeroed(&out->of, HOSTS_ROWS, sizeof *out->of, "what differs between hosts", e));
    for (; out->count < HOSTS_ROWS; out->count++)
        out->of[out->count].check = &DOCTOR_HOSTS.row[out->count];
    snprintf(seconds, sizeof seconds, "%.3g", in->waited_s);
    for (int i = 0; i < in->missing_count; i++)
        doctor_find(&out->of[HOSTS_MISSING], "where", in->missing[i], "seconds", seconds, NULL);
    for (int i = 0; in->is_gone && i < in->count; i++)
        if (in->is_gone[i]) doctor_find(&out->of[HOSTS_GONE], "where", name_of(in, i), NULL);
    TRY(compare_facts(in, &out->of[HOSTS_DIFFER], e));
    TRY(compare_numbers(in, &out->of[HOSTS_SLOWER], e));
    TRY(compare_pairs(in, out->of, e));
    compare_clocks(in, &out->of[HOSTS_CLOCK]);
    TRY(compare_names(in, &out->of[HOSTS_LOOKUP], e));
    for (size_t i = 0; i < out->count; i++)
        if (out->of[i].failed != OK) FAIL(E_MEMORY, "no memory for what differs between hosts");
done:
    if (result != OK) doctor_report_clear(out);
    return result;
}
