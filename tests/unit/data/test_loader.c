// The loader returns the batch of every requested (step, micro), in order or not, and the batch stays
// valid until its release. Errors of the thread reach the caller. The dataset of these tests makes
// values that tell the number of the sample.
#include "unit/data/scratch.h"

#include "data/loader.h"

#include <stdatomic.h>
#include <time.h>

typedef struct probe {
    dataset base;
    uint64_t bad_sample; // reading it fails; UINT64_MAX: none
    int delay_us;
    atomic_int reads;
} probe;

static status probe_read(dataset *d, uint64_t sample, void *inputs, void *labels, err *e)
{
    probe *p = (probe *)d;
    atomic_fetch_add(&p->reads, 1);
    if (p->delay_us) nanosleep(&(struct timespec){.tv_nsec = p->delay_us * 1000}, NULL);
    if (sample == p->bad_sample) return err_set(e, E_IO, "sample %d is broken", (int)sample);
    for (int i = 0; i < 3; i++) ((int32_t *)inputs)[i] = (int32_t)sample * 10 + i;
    for (int i = 0; i < 2; i++) ((int32_t *)labels)[i] = (int32_t)sample * 100 + i;
    return OK;
}

static probe probe_make(void)
{
    return (probe){.base = {.shape = {3, I32, 2, I32}, .samples = 1000, .read = probe_read},
                   .bad_sample = UINT64_MAX};
}

enum { GLOBAL = 24, LOCAL = 12, MICRO = 4, MICROS = 3, RANK = 1 };

static loader_options options(probe *p, sampler *s, int depth)
{
    return (loader_options){.data = &p->base,
                            .order = s,
                            .global_batch = GLOBAL,
                            .micro_batch = MICRO,
                            .local_batch = LOCAL,
                            .first = RANK * LOCAL,
                            .rank = RANK,
                            .ranks = 2,
                            .depth = depth};
}

static sampler *sequential(void)
{
    err e = {0};
    sampler *s = NULL;
    assert_int_equal(sampler_open(ORDER_SEQUENTIAL, 1000, 0, RANK, 2, &s, &e), OK);
    return s;
}

static void assert_batch(const loader_batch *b, uint64_t step, int64_t micro)
{
    uint64_t first = step * GLOBAL + RANK * LOCAL + (uint64_t)micro * MICRO;
    assert_int_equal(b->first, first);
    for (uint64_t i = 0; i < MICRO; i++)
        for (int c = 0; c < 3; c++) {
            int32_t sample = (int32_t)((first + i) % 1000);
            assert_int_equal(((const int32_t *)b->inputs)[i * 3 + (uint64_t)c], sample * 10 + c);
            if (c < 2)
                assert_int_equal(((const int32_t *)b->labels)[i * 2 + (uint64_t)c],
                                 sample * 100 + c);
        }
}

static void next_ok(loader *l, uint64_t step, int64_t micro, loader_batch *b)
{
    err e = {0};
    if (loader_next(l, step, micro, b, &e) != OK) fail_msg("%s", e.text);
    assert_batch(b, step, micro);
}

static void batches_come_in_order(void **state)
{
    (void)state;
    for (int depth = 2; depth <= 5; depth++) {
        err e = {0};
        probe p = probe_make();
        sampler *s = sequential();
        loader *l = NULL;
        loader_options o = options(&p, s, depth);
        assert_int_equal(loader_open(&o, &l, &e), OK);
        for (uint64_t step = 0; step < 200; step++)
            for (int64_t micro = 0; micro < MICROS; micro++) {
                loader_batch b;
                next_ok(l, step, micro, &b);
                loader_release(l);
            }
        loader_close(l);
        sampler_close(s);
    }
}

static void a_seek_gives_the_requested_batch(void **state)
{
    (void)state;
    err e = {0};
    probe p = probe_make();
    p.delay_us = 1;
    sampler *s = sequential();
    loader *l = NULL;
    loader_options o = options(&p, s, 4);
    assert_int_equal(loader_open(&o, &l, &e), OK);
    uint32_t random = 1;
    uint64_t step = 0;
    for (int i = 0; i < 600; i++) {
        random = random * 1664525 + 1013904223;
        if (random >> 30 == 0) step = random >> 16 & 1023;
        loader_batch b;
        next_ok(l, step, (random >> 8) % MICROS, &b);
        loader_release(l);
        step++;
    }
    loader_close(l);
    sampler_close(s);
}

static void lent_batches_stay_valid_until_their_release(void **state)
{
    (void)state;
    err e = {0};
    probe p = probe_make();
    sampler *s = sequential();
    loader *l = NULL;
    loader_options o = options(&p, s, 4);
    assert_int_equal(loader_open(&o, &l, &e), OK);
    loader_batch a, b, c, d;
    next_ok(l, 0, 0, &a);
    next_ok(l, 0, 1, &b);
    next_ok(l, 7, 0, &c); // a seek must not change the lent batches
    assert_batch(&a, 0, 0);
    assert_batch(&b, 0, 1);
    assert_int_equal(loader_next(l, 7, 1, &d, &e), E_INTERNAL);
    assert_says(&e, "the caller holds 3 batches");
    loader_release(l);
    next_ok(l, 7, 1, &d);
    assert_batch(&b, 0, 1);
    assert_batch(&c, 7, 0);
    for (int i = 0; i < 5; i++) loader_release(l);
    next_ok(l, 7, 2, &a);
    loader_close(l);
    sampler_close(s);
}

static void reading_ahead_stops_at_the_depth(void **state)
{
    (void)state;
    err e = {0};
    probe p = probe_make();
    sampler *s = sequential();
    loader *l = NULL;
    loader_options o = options(&p, s, 3);
    assert_int_equal(loader_open(&o, &l, &e), OK);
    for (int i = 0; i < 100000 && atomic_load(&p.reads) < 3 * MICRO; i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    assert_int_equal(atomic_load(&p.reads), 3 * MICRO);
    loader_batch b;
    for (int64_t m = 0; m < 2; m++) next_ok(l, 0, m, &b); // both batches are ready
    assert_true(loader_waited_seconds(l) == 0);
    loader_close(l);
    sampler_close(s);
}

static void an_error_of_the_thread_comes_back_from_next(void **state)
{
    (void)state;
    err e = {0};
    probe p = probe_make();
    p.bad_sample = GLOBAL + LOCAL + MICRO + 1; // step 1, micro-batch 1
    sampler *s = sequential();
    loader *l = NULL;
    loader_options o = options(&p, s, 4);
    assert_int_equal(loader_open(&o, &l, &e), OK);
    loader_batch b;
    for (int64_t m = 0; m < MICROS; m++) {
        next_ok(l, 0, m, &b);
        loader_release(l);
    }
    next_ok(l, 1, 0, &b);
    loader_release(l);
    for (int again = 0; again < 2; again++) {
        err failure = {0};
        assert_int_equal(loader_next(l, 1, 1, &b, &failure), E_IO);
        assert_says(&failure, "sample 41 is broken");
    }
    assert_int_equal(loader_next(l, 1, 1, &b, NULL), E_IO);
    next_ok(l, 1, 2, &b);
    loader_release(l);
    next_ok(l, 2, 0, &b);
    loader_close(l);
    sampler_close(s);
}

static void the_hash_tells_data_apart(void **state)
{
    (void)state;
    err e = {0};
    probe p = probe_make();
    sampler *s = sequential();
    loader *l = NULL;
    loader_options o = options(&p, s, 3);
    assert_int_equal(loader_open(&o, &l, &e), OK);
    loader_batch a, b;
    next_ok(l, 0, 0, &a);
    loader_release(l);
    next_ok(l, 0, 1, &b);
    assert_true(a.hash != b.hash);
    loader_release(l);
    next_ok(l, 0, 0, &b);
    assert_true(a.hash == b.hash);
    loader_close(l);
    sampler_close(s);
}

// Rank 1 has 17 samples: one step and five more.
static status local_read(dataset *d, int rank, int ranks, uint64_t index, void *inputs,
                         void *labels, bool *ended, err *e)
{
    assert_true(rank == RANK && ranks == 2);
    *ended = index >= 17;
    return *ended ? OK : probe_read(d, index, inputs, labels, e);
}

static void padding_rows_follow_the_end_of_a_ranks_data(void **state)
{
    (void)state;
    err e = {0};
    loader *l = NULL;
    loader_batch b;
    static const int64_t samples[2 * MICROS] = {4, 4, 4, 4, 1, 0};
    probe p = probe_make();
    p.base.samples = 0, p.base.read = NULL, p.base.read_own = local_read;
    loader_options o = options(&p, NULL, 3);
    assert_int_equal(loader_open(&o, &l, &e), OK);
    for (int round = 0; round < 2; round++) // the second round begins with a seek back
        for (int k = 0; k < 2 * MICROS; k++) {
            assert_int_equal(loader_next(l, (uint64_t)(k / MICROS), k % MICROS, &b, &e), OK);
            const int32_t *in = b.inputs, *labels = b.labels;
            assert_int_equal(b.samples, samples[k]);
            assert_int_equal(b.hash != 0, samples[k] > 0);
            for (int i = 0; i < MICRO; i++) {
                assert_int_equal(in[3 * i], i < samples[k] ? (k * MICRO + i) * 10 : 0);
                assert_int_equal(labels[2 * i], i < samples[k] ? (k * MICRO + i) * 100 : -100);
            }
            loader_release(l);
        }
    loader_close(l);
}

static void the_caller_can_lend_the_memory(void **state)
{
    (void)state;
    err e = {0};
    probe p = probe_make();
    sampler *s = sequential();
    loader *l = NULL;
    loader_options o = options(&p, s, 3);
    size_t bytes = loader_host_bytes(&o);
    assert_int_equal(bytes, 3 * (64 + 64)); // 48 and 32 bytes, each padded to a cache line
    char *host = aligned_alloc(64, bytes);
    o.host = host;
    assert_int_equal(loader_open(&o, &l, &e), OK);
    loader_batch b;
    next_ok(l, 3, 1, &b);
    assert_in_range((uintptr_t)b.inputs, (uintptr_t)host, (uintptr_t)host + bytes - 48);
    loader_close(l);
    sampler_close(s);
    free(host);
}

static void impossible_batches_are_refused(void **state)
{
    (void)state;
    err e = {0};
    probe p = probe_make();
    sampler *s = sequential();
    loader *l = NULL;
    loader_options o = options(&p, s, 1);
    assert_int_equal(loader_open(&o, &l, &e), E_INTERNAL);
    o = options(&p, s, 2);
    o.micro_batch = 5;
    assert_int_equal(loader_open(&o, &l, &e), E_USAGE);
    o = options(&p, s, 2);
    o.global_batch = 23;
    assert_int_equal(loader_open(&o, &l, &e), E_USAGE);
    assert_says(&e, "global batch of 23");
    assert_null(l);
    loader_close(NULL);
    sampler_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_come_in_order),
        cmocka_unit_test(a_seek_gives_the_requested_batch),
        cmocka_unit_test(lent_batches_stay_valid_until_their_release),
        cmocka_unit_test(reading_ahead_stops_at_the_depth),
        cmocka_unit_test(an_error_of_the_thread_comes_back_from_next),
        cmocka_unit_test(the_hash_tells_data_apart),
        cmocka_unit_test(padding_rows_follow_the_end_of_a_ranks_data),
        cmocka_unit_test(the_caller_can_lend_the_memory),
        cmocka_unit_test(impossible_batches_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
