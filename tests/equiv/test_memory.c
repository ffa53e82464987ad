// test_memory.c -- a step allocates nothing, and what was allocated is what the plan said.
//
// malloc and its kin are wrapped by the linker (--wrap), which catches every call from Trireme's
// own code; what the libraries below do inside a call is theirs.
#include "../unit/train/golden.h"

enum { STEPS = 4, WARM_UP = 1 };

static long allocations; // of this program's own objects, all threads

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t m);
void *__real_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t a, size_t n);
int __real_posix_memalign(void **p, size_t a, size_t n);
void *__real_mmap(void *at, size_t n, int protection, int flags, int fd, long offset);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t m);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_aligned_alloc(size_t a, size_t n);
int __wrap_posix_memalign(void **p, size_t a, size_t n);
void *__wrap_mmap(void *at, size_t n, int protection, int flags, int fd, long offset);

static long counted(void)
{
    return __atomic_load_n(&allocations, __ATOMIC_RELAXED);
}

static void count(void)
{
    __atomic_fetch_add(&allocations, 1, __ATOMIC_RELAXED);
}

void *__wrap_malloc(size_t n)
{
    count();
    return __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t m)
{
    count();
    return __real_calloc(n, m);
}

void *__wrap_realloc(void *p, size_t n)
{
    count();
    return __real_realloc(p, n);
}

void *__wrap_aligned_alloc(size_t a, size_t n)
{
    count();
    return __real_aligned_alloc(a, n);
}

int __wrap_posix_memalign(void **p, size_t a, size_t n)
{
    count();
    return __real_posix_memalign(p, a, n);
}

void *__wrap_mmap(void *at, size_t n, int protection, int flags, int fd, long offset)
{
    count();
    return __real_mmap(at, n, protection, flags, fd, offset);
}

static void check_no_allocation(const char *name, dtype precision, int threads)
{
    golden g = {0};
    trainer *t = NULL;
    long before = 0;
    uint64_t device_before = 0;
    golden_open(&g, name, threads);
    trainer_options o =
        golden_options(&g, UPDATE_ADAMW, precision, g.config.family == FAMILY_MLP ? 8 : 1);
    o.replicas_every = 1;
    CHECK(trainer_open(&o, &t, e));
    for (int s = 0; s < STEPS; s++) {
        step_result r;
        if (s == WARM_UP) before = counted(), device_before = g.device->allocations;
        CHECK(trainer_step(t, false, &r, e));
    }
    assert_int_equal(counted() - before, 0);
    assert_int_equal(g.device->allocations - device_before, 0);
    trainer_close(t);
    golden_close(&g);
}

static void test_a_step_allocates_nothing(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 2; threads++) {
        check_no_allocation("gpt2_new", F32, threads);
        check_no_allocation("gpt2_new", BF16, threads);
        check_no_allocation("llama_llama3", F32, threads);
        check_no_allocation("mlp_values", F32, threads);
    }
}

static void test_the_counter_counts(void **state)
{
    (void)state;
    long before = counted();
    void *volatile p = malloc(10);
    free(p);
    assert_int_equal(counted() - before, 1);
}

// Everything but the program itself is memory of the device, which counts it.
static void check_plan(const char *name, dtype precision, recompute keep)
{
    golden g = {0};
    trainer *t = NULL;
    golden_open(&g, name, 1);
    trainer_options o =
        golden_options(&g, UPDATE_ADAMW, precision, g.config.family == FAMILY_MLP ? 16 : 3);
    o.recompute = keep;
    CHECK(trainer_open(&o, &t, e));
    const plan *p = trainer_get_plan(t);
    uint64_t planned = plan_bytes(p) - p->bytes[BYTES_RUNTIME], used = g.device->bytes_peak;
    if (used != planned)
        fail_msg("%s: %llu bytes used, %llu planned", name, (unsigned long long)used,
                 (unsigned long long)planned);
    trainer_close(t);
    golden_close(&g);
}

static void test_memory_is_what_the_plan_says(void **state)
{
    (void)state;
    static const char *const models[] = {"gpt2_new", "gpt2_variants", "llama_gqa", "llama_llama3",
                                         "mlp_classes"};
    for (int i = 0; i < 5; i++)
        for (int keep = RECOMPUTE_NONE; keep <= RECOMPUTE_FULL; keep++) {
            check_plan(models[i], F32, (recompute)keep);
            check_plan(models[i], BF16, (recompute)keep);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_counter_counts),
        cmocka_unit_test(test_a_step_allocates_nothing),
        cmocka_unit_test(test_memory_is_what_the_plan_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
