// search.c -- the random search over shapes of jobs: it draws pairs of jobs that must have the same bits,
// trains both, and compares all losses and weights. CI runs a fixed number of pairs, `./test --nightly`
// an hour of other ones. It prints each pair that differs, with the command that repeats it.
#include "equiv/matrix_pair.h"
#include "equiv/matrix_pool.h"

#include "base/clock.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static const char USAGE[] =
    "usage: equiv_search [option ...]\n"
    "  --pairs N     number of random pairs (default 1000)\n"
    "  --minutes M   pairs for so many minutes, instead of a number\n"
    "  --seed S      which pairs (default 1)\n"
    "  --only K      pair K of the seed alone\n"
    "  --jobs N      pairs that run at once (default: processors)\n"
    "  --limit S     time limit of one run in seconds (default 600)\n"
    "Exit codes: 0 all pairs have equal bits, 1 some differ or fail, 2 bad usage\n";

enum { MOST_JOBS = 64 };

typedef struct search {
    long pairs, minutes, seed, only, jobs, limit_s;
    double since;
} search;

// What the jobs share.
typedef struct tally {
    atomic_long next, done, differ, failed;
    atomic_long hosts, processes; // runs on two hosts, and with a process for each rank
} tally;

// ---- One pair

static void print_pair(const search *s, long number, const pair *p, const char *why)
{
    char line[4096], name[MATRIX_NAME], run[PAIR_RUN_NAME];
    int length = snprintf(line, sizeof line, "pair %ld of seed %ld: %s\n", number, s->seed, why);
    for (int i = 0; i < 2; i++) {
        matrix_print(&p->point[i], name);
        pair_describe_run(&p->how[i], run);
        length += snprintf(line + length, sizeof line - (size_t)length, "  %s (%s)\n", name, run);
    }
    snprintf(line + length, sizeof line - (size_t)length,
             "  repeat: equiv_search --seed %ld --only %ld\n", s->seed, number);
    fputs(line, stdout);
    fflush(stdout);
}

static void run_pair(const search *s, long number, outcome out[2], tally *t)
{
    pair p;
    char why[700] = "";
    pair_draw((uint64_t)s->seed, (uint64_t)number, &p);
    for (int i = 0; i < 2; i++) {
        p.how[i].folder = pool_folder();
        p.how[i].patience_ms = s->limit_s * 500;
        atomic_fetch_add(&t->hosts, p.how[i].second_host > 0);
        atomic_fetch_add(&t->processes, p.how[i].processes);
        pool_run_one(&p.point[i], &p.how[i], (double)s->limit_s, &out[i]);
        if (out[i].result != OK && !*why)
            snprintf(why, sizeof why, "job %d failed: %s", i + 1, out[i].error);
    }
    if (*why) {
        atomic_fetch_add(&t->failed, 1);
    } else {
        const difference d = matrix_compare(&out[0], &out[1]);
        if (!d.same) {
            atomic_fetch_add(&t->differ, 1);
            snprintf(why, sizeof why, "losses differ by %.3g, weights by %.3g", d.loss, d.weights);
        }
    }
    if (*why) print_pair(s, number, &p, why);
    atomic_fetch_add(&t->done, 1);
}

// ---- All pairs

static bool has_more(const search *s, long number)
{
    if (s->minutes > 0) return clock_seconds() - s->since < 60.0 * (double)s->minutes;
    return number < s->pairs;
}

// Pairs are given out by number, so that a seed has the same pairs with any number of jobs.
static void run_job(const search *s, tally *t)
{
    outcome *out = calloc(2, sizeof *out);
    if (!out) abort();
    for (;;) {
        const long number = atomic_fetch_add(&t->next, 1);
        if (!has_more(s, number)) break;
        run_pair(s, number, out, t);
    }
    free(out);
}

static int run_jobs(const search *s, tally *t)
{
    pid_t job[MOST_JOBS];
    int broken = 0, how;
    fflush(NULL);
    for (long i = 0; i < s->jobs; i++) {
        job[i] = fork();
        if (job[i] < 0) abort();
        if (job[i] > 0) continue;
        run_job(s, t);
        _exit(0);
    }
    for (long i = 0; i < s->jobs; i++)
        if (waitpid(job[i], &how, 0) != job[i] || how != 0) broken++;
    return broken;
}

// ---- Options

static bool take_value(search *s, const char *word, const char *from)
{
    const struct {
        const char *word;
        long *to, least, most;
    } option[] = {{"--pairs", &s->pairs, 1, 1L << 40}, {"--minutes", &s->minutes, 1, 100000},
                  {"--seed", &s->seed, 0, 1L << 60},   {"--only", &s->only, 0, 1L << 40},
                  {"--jobs", &s->jobs, 1, MOST_JOBS},  {"--limit", &s->limit_s, 1, 100000}};
    for (size_t i = 0; i < sizeof option / sizeof *option; i++) {
        char *end;
        if (strcmp(word, option[i].word) != 0) continue;
        if (!from || !*from) return false;
        *option[i].to = strtol(from, &end, 10);
        return *end == 0 && *option[i].to >= option[i].least && *option[i].to <= option[i].most;
    }
    return false;
}

int main(int argc, char **argv)
{
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    search s = {.pairs = 1000, .seed = 1, .only = -1, .limit_s = 600, .since = clock_seconds()};
    s.jobs = cores < MOST_JOBS ? cores : MOST_JOBS;
    for (int i = 1; i < argc; i += 2)
        if (!take_value(&s, argv[i], i + 1 < argc ? argv[i + 1] : NULL)) {
            fprintf(stderr, "%s: unknown, or its value is missing or out of range\n%s", argv[i],
                    USAGE);
            return 2;
        }
    tally *t = mmap(NULL, sizeof *t, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (t == MAP_FAILED) abort();
    *t = (tally){0};
    if (s.only >= 0) {
        atomic_store(&t->next, s.only);
        s.pairs = s.only + 1, s.minutes = 0, s.jobs = 1;
    }
    const int broken = run_jobs(&s, t);
    printf(
        "seed %ld: %ld pairs, %ld differ, %ld failed, %.0f s (%ld runs with processes, %ld of them "
        "on two hosts)\n",
        s.seed, (long)t->done, (long)t->differ, (long)t->failed, clock_seconds() - s.since,
        (long)t->processes, (long)t->hosts);
    if (broken) printf("%d of %ld jobs ended without a result\n", broken, s.jobs);
    return t->differ || t->failed || broken || t->done == 0;
}
