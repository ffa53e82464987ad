// matrix_pool.c -- runs points of the matrix in processes. See matrix_pool.h. The equivalence tests
// and the nightly command call it. It does not know what a point means.
#include "equiv/matrix_pool.h"

#include "base/clock.h"
#include "sanitized.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_JOBS = 64, MOST_KEPT = 4096 };

// One run in a child process. Parent and child share the memory of the outcome.
typedef struct run {
    pid_t pid;
    double since;
    outcome *out;
    int number; // of the trial or the kept outcome
} run;

// A reference that trials are compared with.
typedef struct kept {
    point point;
    int64_t micro_batch, length;
    outcome *out;
} kept;

typedef struct pool {
    const pool_options *o;
    kept kept[MOST_KEPT];
    int count;
} pool;

#ifdef __SANITIZE_THREAD__
// A data race ends the run, which then has no outcome.
__attribute__((visibility("default"))) const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "halt_on_error=1";
}
#endif

static outcome *shared_outcome(void)
{
    void *p =
        mmap(NULL, sizeof(outcome), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) abort();
    return p;
}

const char *pool_folder(void)
{
    return access("/dev/shm", W_OK) == 0 ? "/dev/shm" : P_tmpdir;
}

// ---- One process

static void start(run *r, const point *p, const matrix_run *how)
{
    // The run counts as failed until it has succeeded.
    *r->out = (outcome){.result = E_INTERNAL};
    snprintf(r->out->error, sizeof r->out->error, "ended without an outcome");
    r->since = clock_seconds();
    fflush(NULL);
    r->pid = fork();
    if (r->pid < 0) abort();
    if (r->pid > 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    outcome *mine = malloc(sizeof *mine);
    if (!mine) _exit(1);
    matrix_execute(p, how, mine);
    *r->out = *mine;
    _exit(0);
}

// Returns whether the run has ended. Kills a run that has exceeded its time limit.
static bool ended(run *r, double limit_s)
{
    int how = 0;
    if (clock_seconds() - r->since > limit_s) {
        kill(r->pid, SIGKILL);
        waitpid(r->pid, &how, 0);
        r->out->result = E_INTERNAL;
        snprintf(r->out->error, sizeof r->out->error, "still running after %.0f s", limit_s);
    } else {
        if (waitpid(r->pid, &how, WNOHANG) != r->pid) return false;
        if (WIFSIGNALED(how)) {
            r->out->result = E_INTERNAL;
            snprintf(r->out->error, sizeof r->out->error, "killed by signal %d", WTERMSIG(how));
        }
    }
    r->pid = 0;
    return true;
}

void pool_run_one(const point *p, const matrix_run *how, double limit_s, outcome *out)
{
    run r = {.out = shared_outcome()};
    start(&r, p, how);
    while (!ended(&r, limit_s)) usleep(500);
    *out = *r.out;
    munmap(r.out, sizeof *r.out);
}

// ---- Many processes. `next` starts run number i; `take` receives its outcome.

typedef struct work {
    int count;
    void (*next)(void *arg, int i, run *r);
    void (*take)(void *arg, int i, run *r);
    void *arg;
} work;

static void run_work(const pool_options *o, const work *w)
{
    run slot[MOST_JOBS] = {{0}};
    const int jobs = o->jobs < MOST_JOBS ? o->jobs : MOST_JOBS;
    for (int begun = 0, done = 0; done < w->count;) {
        bool moved = false;
        for (int k = 0; k < jobs; k++) {
            if (slot[k].pid == 0 && begun < w->count) {
                slot[k].number = begun++;
                w->next(w->arg, slot[k].number, &slot[k]);
                moved = true;
            } else if (slot[k].pid > 0 && ended(&slot[k], o->limit_s)) {
                w->take(w->arg, slot[k].number, &slot[k]);
                done++;
                moved = true;
            }
        }
        if (!moved) usleep(500);
    }
    for (int k = 0; k < jobs; k++)
        if (slot[k].out) munmap(slot[k].out, sizeof *slot[k].out);
}

static matrix_run how_of(const pool_options *o)
{
    return (matrix_run){.folder = o->folder};
}

// ---- References

static const outcome *keep(pool *l, const point *p, int64_t micro_batch, int64_t length)
{
    for (int i = 0; i < l->count; i++)
        if (l->kept[i].micro_batch == micro_batch && l->kept[i].length == length &&
            !memcmp(&l->kept[i].point, p, sizeof *p))
            return l->kept[i].out;
    if (l->count == MOST_KEPT) abort();
    l->kept[l->count] = (kept){*p, micro_batch, length, shared_outcome()};
    return l->kept[l->count++].out;
}

// In fp32 a reference is itself compared with a run on one rank.
static const outcome *one_rank(pool *l, const point *p)
{
    int64_t micro_batch;
    const point one = matrix_one_rank(p, &micro_batch);
    return keep(l, &one, micro_batch, matrix_length(p));
}

static const outcome *reference(pool *l, const point *p)
{
    const point r = matrix_reference(p);
    return keep(l, &r, 0, matrix_length(p));
}

static void next_kept(void *arg, int i, run *r)
{
    pool *l = arg;
    matrix_run how = how_of(l->o);
    how.micro_batch = l->kept[i].micro_batch;
    how.length = l->kept[i].length;
    if (r->out) munmap(r->out, sizeof *r->out);
    r->out = shared_outcome();
    start(r, &l->kept[i].point, &how);
}

static void take_kept(void *arg, int i, run *r)
{
    *((pool *)arg)->kept[i].out = *r->out;
}

// ---- Trials

typedef struct trials {
    pool *l;
    trial *items; // [count]
    int count, done, failed;
} trials;

static void next_trial(void *arg, int i, run *r)
{
    trials *t = arg;
    matrix_run how = how_of(t->l->o);
    how.late = t->items[i].late;
    how.unkind = t->items[i].unkind;
    how.late_order = t->items[i].late_order;
    how.toy = t->items[i].toy;
    how.distant = t->items[i].distant;
    if (!r->out) r->out = shared_outcome();
    start(r, &t->items[i].point, &how);
}

static void judge(pool *l, trial *t, const outcome *out)
{
    t->passed = out->result == OK && SANITIZED;
    if (t->passed) return;
    if (out->result != OK) {
        snprintf(t->why, sizeof t->why, "%s", out->error);
        return;
    }
    const outcome *want = reference(l, &t->point);
    if (want->result != OK) {
        snprintf(t->why, sizeof t->why, "its reference failed: %s", want->error);
        return;
    }
    t->difference = matrix_compare(out, want);
    const nearness near = matrix_nearness(&t->point);
    t->passed = matrix_allows(&t->difference, near, matrix_tolerance(&t->point));
    if (!t->passed)
        snprintf(t->why, sizeof t->why,
                 "differs from its reference%s: losses by %.3g, norms by %.3g, weights by %.3g",
                 near == MATRIX_EXACT ? "" : " by more than the tolerance", t->difference.loss,
                 t->difference.norm, t->difference.weights);
    if (!t->passed || t->point.v[DIM_PRECISION] > 0) return;
    const difference d = matrix_compare(want, one_rank(l, &t->point));
    t->passed = matrix_allows(&d, MATRIX_CLOSE, matrix_tolerance(&t->point));
    if (!t->passed)
        snprintf(t->why, sizeof t->why,
                 "its reference differs from one rank by more than the tolerance: losses by %.3g, "
                 "norms by %.3g, weights by %.3g",
                 d.loss, d.norm, d.weights);
}

static void take_trial(void *arg, int i, run *r)
{
    trials *t = arg;
    trial *x = &t->items[i];
    x->seconds = clock_seconds() - r->since;
    judge(t->l, x, r->out);
    t->done++;
    t->failed += !x->passed;
    if (t->l->o->progress) t->l->o->progress(t->l->o->arg, t->done, t->count, t->failed);
}

int pool_run(const pool_options *o, trial *items, int count)
{
    pool *l = calloc(1, sizeof *l);
    if (!l) abort();
    l->o = o;
    for (int i = 0; i < count && !SANITIZED; i++) {
        reference(l, &items[i].point);
        if (items[i].point.v[DIM_PRECISION] == 0) one_rank(l, &items[i].point);
    }
    run_work(o, &(work){l->count, next_kept, take_kept, l});
    trials t = {.l = l, .items = items, .count = count};
    run_work(o, &(work){count, next_trial, take_trial, &t});
    for (int i = 0; i < l->count; i++) munmap(l->kept[i].out, sizeof *l->kept[i].out);
    free(l);
    return t.failed;
}
