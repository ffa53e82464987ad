// run_all.c -- the full equivalence suite: every policy pair, mesh, schedule, recompute setting and
// tier that fits in 8 ranks, and random other points. `./test --nightly` runs it; people run it to
// repeat one point. It prints progress, failures, and a table with a row for each value of each
// dimension.
#include "equiv/matrix_cover.h"
#include "equiv/matrix_pool.h"

#include "base/clock.h"
#include "late/late_device.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char USAGE[] =
    "usage: equiv_run_all [option ...]\n"
    "  --core              every policy pair, mesh, schedule, recompute setting, tier (fp32)\n"
    "  --cover             points that cover every pair of values\n"
    "  --sample N          N random points\n"
    "  --late N            N random points, on the late device in both orders\n"
    "  --only POINT        one point by its printed name; may be repeated\n"
    "  --part K/N          every N-th of the points above, from the K-th on (1 to N)\n"
    "  --jobs N            number of simultaneous runs (default: processors)\n"
    "  --limit S           time limit of one run in seconds (default 120)\n"
    "  --folder DIR        folder of the file tier (default: in memory, if possible)\n"
    "  --json              the result as one JSON object\n"
    "Without --core, --cover, --sample, --late and --only: --core --cover --sample 6000 --late "
    "200\n"
    "Exit codes: 0 all passed, 1 some failed, 2 bad usage\n";

typedef struct suite {
    points plain, late;
    pool_options pool;
    int part, parts;
    bool json, chosen;
    trial *trials;
    int count;
    double since, told;
} suite;

// ---- Options

static bool to_number(const char *from, long least, long most, long *out)
{
    char *end;
    if (!from || !*from) return false;
    *out = strtol(from, &end, 10);
    return *end == 0 && *out >= least && *out <= most;
}

static bool add_point(suite *s, const char *name)
{
    point p;
    if (!name || !matrix_parse(name, &p) || !matrix_legal(&p)) return false;
    points_add(&s->plain, &p);
    return true;
}

static bool take_part(suite *s, const char *from)
{
    return from && sscanf(from, "%d/%d", &s->part, &s->parts) == 2 && s->part >= 1 &&
           s->part <= s->parts;
}

// Reads an option without a value. Returns false for any other word.
static bool take_switch(suite *s, const char *word)
{
    if (!strcmp(word, "--core"))
        matrix_core(&s->plain);
    else if (!strcmp(word, "--cover"))
        matrix_cover(&s->plain);
    else if (!strcmp(word, "--json"))
        s->json = true;
    else
        return false;
    s->chosen = s->chosen || strcmp(word, "--json") != 0;
    return true;
}

static bool take_value(suite *s, const char *word, const char *text_of)
{
    long n = 0;
    if (!strcmp(word, "--only")) return s->chosen = add_point(s, text_of);
    if (!strcmp(word, "--part")) return take_part(s, text_of);
    if (!strcmp(word, "--folder")) return (s->pool.folder = text_of) != NULL;
    if (!to_number(text_of, 1, 1000000, &n)) return false;
    if (!strcmp(word, "--jobs"))
        s->pool.jobs = (int)n;
    else if (!strcmp(word, "--limit"))
        s->pool.limit_s = (double)n;
    else if (!strcmp(word, "--sample"))
        matrix_sample(&s->plain, s->plain.count + (int)n, 2);
    else if (!strcmp(word, "--late"))
        matrix_sample(&s->late, (int)n, 3);
    else
        return false;
    s->chosen = s->chosen || !strcmp(word, "--sample") || !strcmp(word, "--late");
    return true;
}

static bool take_arguments(suite *s, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (take_switch(s, argv[i])) continue;
        const char *value_of = i + 1 < argc ? argv[i + 1] : NULL;
        if (!take_value(s, argv[i], value_of)) {
            fprintf(stderr, "%s %s: unknown, out of range, or no legal point\n", argv[i],
                    value_of ? value_of : "");
            return false;
        }
        i++;
    }
    if (s->chosen) return true;
    matrix_core(&s->plain);
    matrix_cover(&s->plain);
    matrix_sample(&s->plain, s->plain.count + 6000, 2);
    matrix_sample(&s->late, 200, 3);
    return true;
}

static void list_trials(suite *s)
{
    s->trials = calloc((size_t)(s->plain.count + 2 * s->late.count) + 1, sizeof *s->trials);
    if (!s->trials) abort();
    for (int i = 0; i < s->plain.count; i++)
        if (i % s->parts == s->part - 1)
            s->trials[s->count++] = (trial){.point = s->plain.items[i]};
    for (int i = 0; i < s->late.count; i++)
        for (int order = LATE_OTHERS_FIRST; order <= LATE_OTHERS_LAST; order++)
            if (i % s->parts == s->part - 1)
                s->trials[s->count++] =
                    (trial){.point = s->late.items[i], .late = true, .late_order = order};
}

static void progress(void *arg, int done, int count, int failed)
{
    suite *s = arg;
    const double now = clock_seconds();
    if (now - s->told < 10 && done < count) return;
    s->told = now;
    fprintf(stderr, "%d of %d, %d failed, %.0f s\n", done, count, failed, now - s->since);
}

// ---- Results

static void print_name(const trial *t, char out[MATRIX_NAME + 32])
{
    matrix_print(&t->point, out);
    if (t->late) snprintf(out + strlen(out), 32, " (late device, order %d)", t->late_order);
}

static void count_value(const suite *s, dim d, int v, int *passed, int *failed)
{
    *passed = *failed = 0;
    for (int i = 0; i < s->count; i++)
        if (s->trials[i].point.v[d] == v) ++*(s->trials[i].passed ? passed : failed);
}

static void print_table(const suite *s, int failed)
{
    char name[MATRIX_NAME + 32];
    int good, bad, exact = 0;
    printf("%-12s %-14s %8s %8s\n", "dimension", "value", "passed", "failed");
    for (int d = 0; d < DIMS; d++)
        for (int v = 0; v < matrix_values((dim)d); v++) {
            count_value(s, (dim)d, v, &good, &bad);
            printf("%-12s %-14s %8d %8d\n", v ? "" : matrix_dim((dim)d), matrix_value((dim)d, v),
                   good, bad);
        }
    for (int i = 0; i < s->count; i++) {
        exact += matrix_nearness(&s->trials[i].point) == MATRIX_EXACT;
        if (s->trials[i].passed) continue;
        print_name(&s->trials[i], name);
        printf("FAILED %s: %s\n", name, s->trials[i].why);
    }
    printf("%d points (%d must be bit-identical, %d close), %d failed, %.0f s\n", s->count, exact,
           s->count - exact, failed, clock_seconds() - s->since);
}

static void print_json(const suite *s, int failed)
{
    char name[MATRIX_NAME + 32];
    int good, bad;
    json_t *all = json_object(), *by = json_object(), *list = json_array();
    for (int d = 0; d < DIMS; d++) {
        json_t *values = json_object();
        for (int v = 0; v < matrix_values((dim)d); v++) {
            count_value(s, (dim)d, v, &good, &bad);
            json_object_set_new(values, matrix_value((dim)d, v),
                                json_pack("{s:i,s:i}", "passed", good, "failed", bad));
        }
        json_object_set_new(by, matrix_dim((dim)d), values);
    }
    for (int i = 0; i < s->count; i++) {
        if (s->trials[i].passed) continue;
        print_name(&s->trials[i], name);
        json_array_append_new(list, json_pack("{s:s,s:s}", "point", name, "why", s->trials[i].why));
    }
    json_object_set_new(all, "count", json_integer(s->count));
    json_object_set_new(all, "failed", json_integer(failed));
    json_object_set_new(all, "seconds", json_real(clock_seconds() - s->since));
    json_object_set_new(all, "dimensions", by);
    json_object_set_new(all, "failures", list);
    json_dumpf(all, stdout, JSON_INDENT(1));
    printf("\n");
    json_decref(all);
}

int main(int argc, char **argv)
{
    suite s = {.part = 1, .parts = 1, .since = clock_seconds()};
    s.pool = (pool_options){.jobs = (int)sysconf(_SC_NPROCESSORS_ONLN),
                            .limit_s = 120,
                            .folder = pool_folder(),
                            .progress = progress,
                            .arg = &s};
    if (!take_arguments(&s, argc, argv)) {
        fputs(USAGE, stderr);
        return 2;
    }
    list_trials(&s);
    const int failed = pool_run(&s.pool, s.trials, s.count);
    (s.json ? print_json : print_table)(&s, failed);
    points_clear(&s.plain);
    points_clear(&s.late);
    free(s.trials);
    return failed ? 1 : 0;
}
