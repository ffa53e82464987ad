// test_own_threads.c -- trainers whose communicator asks for streams with threads of their own, as a
// network's does. The bits must be those of inline streams, and computation must go on while a
// collective waits. A collective that waits on an inline stream stops the rank, which is the control.
#include "equiv/matrix_pool.h"

#include "train/trainer_private.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <cmocka.h>

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
enum { LIMIT_S = 900 };
#else
enum { LIMIT_S = 300 };
#endif

static const char *const SAME[] = {
    "shard=2",
    "shard=2,inner=zero1",
    "shard=2,inner=zero2",
    "shard=3,inner=zero3,micros=1,precision=bf16",
    "shard=2,inner=zero3,model=llama,no_sync=true,reshard=0",
    "replicate=2,shard=2,outer=ddp,inner=zero3",
    "pp=2,model=llama_tied,schedule=zb,micros=8",
    "pp=2,schedule=interleaved",
    "pp=2,shard=2,inner=zero3",
    "tp=2sp,no_sync=false",
    "cp=2,inner=zero3,no_sync=false",
    "shard=2,inner=zero3,file=ogw",
};

// ---- Every policy has the bits of inline streams

static status pause(void *arg, err *e)
{
    (void)e;
    const struct timespec moment = {.tv_nsec = *(long *)arg};
    nanosleep(&moment, NULL);
    return OK;
}

// Delays each collective, by up to 60 microseconds. It changes which stream is ahead.
static void delay(device_stream *on, void *arg)
{
    (void)arg;
    static __thread unsigned calls;
    const long moment = (long)(calls++ * 2654435761u >> 16) % 60 * 1000;
    on->device->ops->call(on, pause, &moment, sizeof moment);
}

static void test_streams_with_threads_give_the_same_bits(void **state)
{
    (void)state;
    enum { POINTS = sizeof SAME / sizeof *SAME };
    static const distant_options slow = {.own_thread = true, .before = delay};
    trial t[POINTS] = {{.passed = false}};
    char name[MATRIX_NAME];
    for (int i = 0; i < POINTS; i++) {
        t[i].distant = &slow;
        if (!matrix_parse(SAME[i], &t[i].point) || !matrix_legal(&t[i].point))
            fail_msg("%s is no point", SAME[i]);
    }
    const pool_options o = {.jobs = 2, .limit_s = LIMIT_S, .folder = pool_folder()};
    const int failed = pool_run(&o, t, POINTS);
    for (int i = 0; i < POINTS; i++) {
        matrix_print(&t[i].point, name);
        if (!t[i].passed) print_error("%s: %s\n", name, t[i].why);
    }
    assert_int_equal(failed, 0);
}

// ---- Computation goes on while a collective waits

// The first collective of one instruction of a step waits until the rank has launched a kernel on its
// compute stream after it issued the collective. Each rank is a thread.
typedef struct gate {
    device_ops ops;
    const device_ops *real;
    pthread_t issuer;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t launches; // on the compute stream
    int seen;          // instructions of the kind
    bool holds;        // the next collective waits
} gate;

typedef struct gate_wait {
    gate *gate;
    uint64_t launches; // when the collective was issued
} gate_wait;

typedef struct held {
    const char *point;
    schedule_instr_kind kind; // of the instruction whose collective waits
    int number;               // the instruction among those of its kind in a step
} held;

// The next block is gathered, or the last block's gradients are reduced, while a block computes.
static const held HELD[] = {
    {"shard=2,inner=zero3,micros=1", UNSHARD, 1},
    {"shard=2,micros=1", REDUCE_GRAD, 0},
};
enum { HELD_COUNT = sizeof HELD / sizeof *HELD };

static const held *now;
static atomic_int *waited; // collectives that saw a later kernel, of all processes
static __thread gate *own; // of the rank

static void count_launch(device_stream *s, const kernel_call *call)
{
    gate *g = own;
    g->real->launch(s, call);
    if (s->kind != STREAM_COMPUTE) return;
    pthread_mutex_lock(&g->lock);
    g->launches++;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
}

static void opened(device *d, int rank)
{
    (void)rank;
    own = calloc(1, sizeof *own);
    if (!own) abort();
    *own = (gate){.ops = *d->ops, .real = d->ops, .issuer = pthread_self()};
    pthread_mutex_init(&own->lock, NULL);
    pthread_cond_init(&own->changed, NULL);
    own->ops.launch = count_launch;
    d->ops = &own->ops;
}

static void closing(device *d, int rank)
{
    (void)rank;
    d->ops = own->real;
    pthread_cond_destroy(&own->changed);
    pthread_mutex_destroy(&own->lock);
    free(own);
    own = NULL;
}

#define WATCHED(name)                                                                              \
    status __real_##name(trainer *t, const schedule_instr *x, err *e);                             \
    status __wrap_##name(trainer *t, const schedule_instr *x, err *e);                             \
    status __wrap_##name(trainer *t, const schedule_instr *x, err *e)                              \
    {                                                                                              \
        if (own && x->kind == now->kind) own->holds = own->seen++ == now->number;                  \
        return __real_##name(t, x, e);                                                             \
    }
WATCHED(run_unshard)
WATCHED(run_reduce_grad)

// On the thread that issues kernels, the kernel that this waits for could never come.
static status wait_for_launch(void *arg, err *e)
{
    const gate_wait *w = arg;
    gate *g = w->gate;
    if (pthread_equal(pthread_self(), g->issuer))
        return err_set(e, E_INTERNAL, "a collective stops the thread that issues kernels");
    pthread_mutex_lock(&g->lock);
    while (g->launches == w->launches) pthread_cond_wait(&g->changed, &g->lock);
    pthread_mutex_unlock(&g->lock);
    atomic_fetch_add(waited, 1);
    return OK;
}

static void hold(device_stream *on, void *arg)
{
    (void)arg;
    if (!own || !own->holds) return;
    const gate_wait w = {own, own->launches};
    own->holds = false;
    on->device->ops->call(on, wait_for_launch, &w, sizeof w);
}

// Runs one step. Returns the number of collectives that waited for a later kernel.
static int run_held(const held *h, bool own_thread, outcome *out)
{
    point p;
    const distant_options o = {.own_thread = own_thread, .before = hold};
    const matrix_run how = {.steps = 1, .distant = &o, .opened = opened, .closing = closing};
    now = h;
    atomic_store(waited, 0);
    if (!matrix_parse(h->point, &p) || !matrix_legal(&p)) fail_msg("%s is no point", h->point);
    pool_run_one(&p, &how, LIMIT_S, out);
    return atomic_load(waited);
}

static void test_computation_goes_on_while_a_collective_waits(void **state)
{
    (void)state;
    outcome *out = malloc(sizeof *out);
    for (int i = 0; i < HELD_COUNT; i++) {
        const int ranks = run_held(&HELD[i], true, out);
        if (out->result != OK) fail_msg("%s: %s", HELD[i].point, out->error);
        assert_int_equal(ranks, 2);
    }
    free(out);
}

static void test_an_inline_stream_would_stop_the_rank(void **state)
{
    (void)state;
    outcome *out = malloc(sizeof *out);
    for (int i = 0; i < HELD_COUNT; i++) {
        assert_int_equal(run_held(&HELD[i], false, out), 0);
        assert_int_equal(out->result, E_INTERNAL);
        assert_non_null(strstr(out->error, "stops the thread that issues kernels"));
    }
    free(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_streams_with_threads_give_the_same_bits),
        cmocka_unit_test(test_computation_goes_on_while_a_collective_waits),
        cmocka_unit_test(test_an_inline_stream_would_stop_the_rank),
    };
    waited = mmap(NULL, sizeof *waited, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (waited == MAP_FAILED) return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
