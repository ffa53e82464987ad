// What a call met (comm_visit): a rank that sleeps before a call is the last one for all others, over local, tls and
// hier, for collectives and messages. Ranks of tls and hier have clocks that differ by seconds, as machines have.
#include "far_ranks.h"

// ---- Clocks that differ

static int shifted_from; // the process whose clock is right; 0: no clock is shifted

int __real_clock_gettime(clockid_t id, struct timespec *t);
int __wrap_clock_gettime(clockid_t id, struct timespec *t);
uint64_t __wrap_clock_identity(void);

static int shift_s(void)
{
    return shifted_from ? 10 * ((int)getpid() - shifted_from) : 0;
}

int __wrap_clock_gettime(clockid_t id, struct timespec *t)
{
    const int result = __real_clock_gettime(id, t);
    if (id == CLOCK_MONOTONIC) t->tv_sec += shift_s();
    return result;
}

uint64_t __wrap_clock_identity(void)
{
    return (uint64_t)getpid();
}

// ---- A late rank

enum { LATE_US = 30000, WAIT_NS = 20000000, TRIES = 20, FEW = 100, MANY = 50000 };

typedef struct late_case {
    const char *name;
    status (*issue)(const test_rank *s, int late, comm_visit *v, float *in, float *out, err *e);
    bool all_wait; // for the late rank; else one rank does, the next one
    bool
        of_messages; // whoever waits names the peer of the message, which may itself wait for the late rank
} late_case;

static status reduce_few(const test_rank *s, int late, comm_visit *v, float *in, float *out, err *e)
{
    (void)late, (void)out;
    const comm_call c = {CALL_ALL_REDUCE, .type = F32, .count = FEW,
                         .in = in,        .out = in,   .visit = v};
    return comm_issue(s->comm, &c, s->stream, e);
}

static status reduce_many(const test_rank *s, int late, comm_visit *v, float *in, float *out,
                          err *e)
{
    (void)late, (void)out;
    const comm_call c = {CALL_ALL_REDUCE, .type = F32, .count = MANY,
                         .in = in,        .out = in,   .visit = v};
    return comm_issue(s->comm, &c, s->stream, e);
}

static status reduce_half(const test_rank *s, int late, comm_visit *v, float *in, float *out,
                          err *e)
{
    (void)late, (void)out;
    const comm_call c = {CALL_ALL_REDUCE, .type = BF16, .count = FEW,
                         .in = in,        .out = in,    .visit = v};
    return comm_issue(s->comm, &c, s->stream, e);
}

static status scatter_sums(const test_rank *s, int late, comm_visit *v, float *in, float *out,
                           err *e)
{
    (void)late;
    const comm_call c = {CALL_REDUCE_SCATTER, .type = F32, .count = FEW, .in = in,
                         .out = out,          .visit = v};
    return comm_issue(s->comm, &c, s->stream, e);
}

static status gather_all(const test_rank *s, int late, comm_visit *v, float *in, float *out, err *e)
{
    (void)late;
    const comm_call c = {CALL_ALL_GATHER, .type = F32, .count = FEW,
                         .in = in,        .out = out,  .visit = v};
    return comm_issue(s->comm, &c, s->stream, e);
}

static status broadcast_late(const test_rank *s, int late, comm_visit *v, float *in, float *out,
                             err *e)
{
    (void)out;
    const comm_call c = {CALL_BROADCAST, .type = F32, .peer = late, .count = MANY,
                         .in = in,       .out = in,   .visit = v};
    return comm_issue(s->comm, &c, s->stream, e);
}

static status exchange_all(const test_rank *s, int late, comm_visit *v, float *in, float *out,
                           err *e)
{
    (void)late;
    const comm_call c = {CALL_ALL_TO_ALL, .type = F32, .count = FEW,
                         .in = in,        .out = out,  .visit = v};
    return comm_issue(s->comm, &c, s->stream, e);
}

static status send_to_next(const test_rank *s, int late, comm_visit *v, float *in, float *out,
                           err *e)
{
    const int next = (late + 1) % s->comm->size;
    comm_call c = {CALL_SEND, .type = F32, .peer = next, .count = MANY,
                   .in = in,  .out = out,  .visit = v};
    if (s->comm->rank == late) return comm_issue(s->comm, &c, s->stream, e);
    if (s->comm->rank != next) return OK;
    c.kind = CALL_RECV;
    c.peer = late;
    return comm_issue(s->comm, &c, s->stream, e);
}

static const late_case CASES[] = {
    {"all_reduce of few", reduce_few, true, false},
    {"all_reduce of many", reduce_many, true, false},
    {"all_reduce in bf16", reduce_half, true, false},
    {"reduce_scatter", scatter_sums, true, false},
    {"all_gather", gather_all, true, false},
    {"broadcast", broadcast_late, true, false},
    {"all_to_all", exchange_all, true, true},
    {"a message", send_to_next, false, false},
};

// Did this rank see what it had to see?
static bool is_right(const late_case *c, const comm *group, int late, const comm_visit *v)
{
    if (group->rank == late) return v->last != late;
    if (!c->all_wait && group->rank != (late + 1) % group->size)
        return v->last == -1 && v->waited_ns == 0;
    return (v->last == late || c->of_messages) && v->last_wait_ns >= WAIT_NS &&
           v->waited_ns >= v->last_wait_ns;
}

// On a busy machine another rank may come later than the late one: then the ranks try again, all of them.
static status try_late(const test_rank *s, const late_case *c, int late, float *in, float *out,
                       err *e)
{
    status result = OK;
    comm_visit v = COMM_VISIT_NONE;
    for (int i = 1; i <= TRIES; i++) {
        v = COMM_VISIT_NONE;
        TRY(comm_barrier(s->comm, e));
        if (s->comm->rank == late) usleep((useconds_t)(LATE_US * i));
        TRY(c->issue(s, late, &v, in, out, e));
        TRY(s->device->ops->sync(s->stream, e));
        int64_t wrong = !is_right(c, s->comm, late, &v);
        TRY(comm_all_reduce(s->comm, &wrong, 1, I64, REDUCE_SUM, s->stream, e));
        TRY(s->device->ops->sync(s->stream, e));
        if (wrong == 0) return OK;
    }
    FAIL(E_INTERNAL, "%s: rank %d was late; rank %d waited %.3f ms, the longest for rank %d",
         c->name, late, s->comm->rank, (double)v.waited_ns * 1e-6, (int)v.last);
done:
    return result;
}

static status every_rank_is_late_once(const test_rank *s, err *e)
{
    status result = OK;
    const int size = s->comm->size;
    float *in = calloc((size_t)(MANY * size), sizeof *in),
          *out = calloc((size_t)(MANY * size), sizeof *out);
    for (size_t c = 0; c < sizeof CASES / sizeof *CASES; c++)
        for (int late = (int)c % 2; late < size; late += 2)
            TRY(try_late(s, &CASES[c], late, in, out, e));
done:
    free(in);
    free(out);
    return result;
}

static void run_here(int ranks, bool as_threads, bool late)
{
    alarm(LIMIT_S);
    workers k = {
        .ranks = ranks, .as_threads = as_threads, .late = late, .fn = every_rank_is_late_once};
    const int bad = workers_run(&k);
    if (bad) print_error("%s\n", k.failure.text);
    assert_int_equal(bad, 0);
}

static void run_far_apart(const char *communicator, const int *per_host)
{
    far_ranks f = {.communicator = communicator,
                   .killed = -1,
                   .patience_ms = PATIENCE_MS,
                   .fn = every_rank_is_late_once};
    for (int h = 0; per_host[h]; h++) f.ranks += f.per_host[h] = per_host[h];
    shifted_from = f.per_host[0] == 1 ? (int)getpid() : 0; // ranks that share memory have one clock
    fork_far(&f);
    shifted_from = 0;
    expect_ok(&f);
}

static void test_local(void **state)
{
    (void)state;
    run_here(3, false, false);
    run_here(4, true, true);
}

static void test_tls(void **state)
{
    (void)state;
    run_far_apart("tls", (const int[]){1, 1, 1, 1, 0});
    setenv("TRIREME_ALGO", "halving_doubling", 1);
    run_far_apart("tls", (const int[]){1, 1, 1, 1, 0});
    unsetenv("TRIREME_ALGO");
}

static void test_hier(void **state)
{
    (void)state;
    run_far_apart("hier", (const int[]){2, 2, 0});
    run_far_apart("hier", (const int[]){2, 1, 0});
}

// Nobody waits alone.
static void test_one_rank_waits_for_nobody(void **state)
{
    (void)state;
    device d = {.ops = &test_device_ops};
    test_rank s = {.device = &d};
    comm_visit v = COMM_VISIT_NONE;
    float x[FEW] = {0};
    assert_int_equal(d.ops->stream_open(&d, STREAM_COMM, false, &s.stream, NULL), OK);
    assert_int_equal(comm_solo_open(&s.comm, NULL), OK);
    assert_int_equal(reduce_few(&s, 0, &v, x, x, NULL), OK);
    assert_int_equal(d.ops->sync(s.stream, NULL), OK);
    assert_int_equal(v.last, -1);
    assert_int_equal(v.waited_ns, 0);
    d.ops->stream_close(s.stream);
    comm_close(s.comm);
}

static void test_waits_are_summed(void **state)
{
    (void)state;
    comm_visit v = COMM_VISIT_NONE;
    comm_visit_add(&v, 5, 3);
    comm_visit_add(&v, 0, 4);
    comm_visit_add(&v, -7, 4);
    comm_visit_add(&v, 2, 1);
    assert_int_equal(v.waited_ns, 7);
    assert_int_equal(v.last_wait_ns, 5);
    assert_int_equal(v.last, 3);
    comm_visit_join(&v, &(comm_visit){.waited_ns = 9, .last_wait_ns = 8, .last = 2});
    comm_visit_join(&v, &COMM_VISIT_NONE);
    assert_int_equal(v.waited_ns, 16);
    assert_int_equal(v.last_wait_ns, 8);
    assert_int_equal(v.last, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_waits_are_summed),
        cmocka_unit_test(test_one_rank_waits_for_nobody),
        cmocka_unit_test(test_tls),
        cmocka_unit_test(test_hier),
        cmocka_unit_test(test_local),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
