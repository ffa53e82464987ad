// test_memory.c -- a step allocates nothing, and a trainer uses exactly the memory that its plan
// states.
//
// The linker wraps malloc and the like (--wrap). This counts every call from Trireme's own code, but
// no call inside a library.
#include "workers.h"

#include "train/groups.h"

enum { STEPS = 4, WARM_UP = 1 };

static long allocations; // calls from this program's own objects, of all threads

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t m);
void *__real_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t a, size_t n);
int __real_posix_memalign(void **p, size_t a, size_t n);
void *__real_mmap(void *address, size_t n, int protection, int flags, int fd, long offset);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t m);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_aligned_alloc(size_t a, size_t n);
int __wrap_posix_memalign(void **p, size_t a, size_t n);
void *__wrap_mmap(void *address, size_t n, int protection, int flags, int fd, long offset);

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

void *__wrap_mmap(void *address, size_t n, int protection, int flags, int fd, long offset)
{
    count();
    return __real_mmap(address, n, protection, flags, fd, offset);
}

static void check_no_allocation(const char *name, dtype precision, int threads)
{
    golden g = {0};
    trainer *t = NULL;
    long before = 0;
    uint64_t device_before = 0;
    golden_open(&g, name, threads);
    trainer_options o =
        golden_options(&g, UPDATE_ADAMW, precision, g.config.family->reads_vectors ? 8 : 1);
    o.checks.replicas_every = 1;
    CHECK(trainer_open(&o, &t, e));
    for (int s = 0; s < STEPS; s++) {
        trainer_step_result r;
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

// All memory of a trainer is memory of the device, which counts it.
static void check_plan(const char *name, dtype precision, recompute_mode keep)
{
    golden g = {0};
    trainer *t = NULL;
    golden_open(&g, name, 1);
    trainer_options o =
        golden_options(&g, UPDATE_ADAMW, precision, g.config.family->reads_vectors ? 16 : 3);
    o.strategy.recompute = keep;
    CHECK(trainer_open(&o, &t, e));
    const plan *p = trainer_get_plan(t);
    uint64_t planned = plan_bytes(p) - p->bytes[BYTES_RUNTIME],
             used = g.device->bytes_peak - g.device->bytes_scratch;
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
            check_plan(models[i], F32, (recompute_mode)keep);
            check_plan(models[i], BF16, (recompute_mode)keep);
        }
}

// ---- Several ranks, under every strategy

typedef struct observed {
    uint64_t used[WORKERS_MOST], planned[WORKERS_MOST], device_allocations[WORKERS_MOST];
    uint64_t host_used[WORKERS_MOST], host_planned[WORKERS_MOST];
    uint64_t scratch[WORKERS_MOST], planned_scratch[WORKERS_MOST]; // with the threads of streams
    long before, after; // allocations of the program before and after two steps
} observed;

// Barriers keep all ranks within the same steps, so that no rank's setup or cleanup is counted.
static status observe(worker_group *all, int rank, golden *g, trainer *t, err *e)
{
    status result = OK;
    observed *o = all->given;
    const plan *p = trainer_get_plan(t);
    trainer_step_result r;
    o->planned[rank] = plan_bytes(p) - p->bytes[BYTES_RUNTIME];
    o->host_planned[rank] = plan_host_bytes(p) - p->host_bytes[BYTES_RUNTIME];
    TRY(trainer_step(t, false, &r, e));
    TRY(trainer_step(t, false, &r, e));
    pthread_barrier_wait(&all->barrier);
    if (rank == 0) o->before = counted();
    uint64_t before = g->device->allocations;
    pthread_barrier_wait(&all->barrier);
    for (int s = 0; s < 2; s++) TRY(trainer_step(t, false, &r, e));
    pthread_barrier_wait(&all->barrier);
    if (rank == 0) o->after = counted();
    pthread_barrier_wait(&all->barrier);
    o->device_allocations[rank] = g->device->allocations - before;
    // Weights that are drawn pass through memory of their own before the first step.
    const uint64_t most = all->s->wide ? g->device->bytes_now : g->device->bytes_peak;
    o->used[rank] = most - g->device->bytes_scratch;
    o->host_used[rank] = g->device->host_bytes_now;
    device_description about;
    TRY(device_describe("cpu", &(device_options){.threads = 1}, &about, e));
    o->scratch[rank] = g->device->bytes_scratch;
    o->planned_scratch[rank] = about.own_bytes + groups_thread_bytes(g->device, g->comm);
done:
    return result;
}

static void check_strategy(const char *name, const scenario *s)
{
    observed o = {0};
    workers_run(name, s, false, observe, &o);
    for (int r = 0; r < workers_ranks(s); r++) {
        if (o.used[r] != o.planned[r])
            fail_msg("%s: rank %d used %llu bytes, %llu were planned", name, r,
                     (unsigned long long)o.used[r], (unsigned long long)o.planned[r]);
        if (o.host_used[r] != o.host_planned[r])
            fail_msg("%s: rank %d used %llu bytes of the host, %llu were planned", name, r,
                     (unsigned long long)o.host_used[r], (unsigned long long)o.host_planned[r]);
        if ((o.host_planned[r] > 0) != s->apart)
            fail_msg("%s: rank %d counts %llu bytes of the host", name, r,
                     (unsigned long long)o.host_planned[r]);
        if (o.scratch[r] != o.planned_scratch[r])
            fail_msg("%s: rank %d has %llu bytes of scratch memory, %llu were planned", name, r,
                     (unsigned long long)o.scratch[r], (unsigned long long)o.planned_scratch[r]);
        if (o.device_allocations[r] > 0)
            fail_msg("%s: rank %d allocated device memory in a step", name, r);
    }
    if (o.after != o.before) fail_msg("%s: %ld allocations in two steps", name, o.after - o.before);
}

typedef struct named_strategy {
    const char *name;
    scenario s;
} named_strategy;

static const named_strategy strategies[] = {
    {"ddp on 3", {.replicate = 3, .global = 6}},
    {"zero1", {.shard = 2, .inner = "zero1"}},
    {"zero2, every micro-batch", {.shard = 2, .inner = "zero2", .sync = true}},
    {"zero2, no_sync", {.shard = 4, .inner = "zero2"}},
    {"zero3", {.shard = 2, .inner = "zero3", .sync = true, .evaluates = true}},
    {"zero3, streams with threads", {.shard = 2, .inner = "zero3", .sync = true, .distant = true}},
    {"zero3, no_sync", {.shard = 3, .inner = "zero3", .global = 6}},
    {"zero3, weights kept", {.shard = 2, .inner = "zero3", .reshard = -1, .sync = true}},
    {"zero3, groups of 2", {.shard = 4, .inner = "zero3", .reshard = 2, .sync = true}},
    {"hybrid", {.replicate = 2, .shard = 2, .inner = "zero3", .sync = true}},
    {"zero3 x zero3",
     {.replicate = 2, .shard = 2, .outer = "zero3", .inner = "zero3", .sync = true}},
    {"zero2, bf16", {.shard = 2, .inner = "zero2", .precision = BF16, .sync = true}},
    {"zero3, fp16", {.shard = 2, .inner = "zero3", .precision = F16, .sync = true}},
    {"zero1, bf16, reduced in bf16",
     {.shard = 2, .inner = "zero1", .precision = BF16, .reduce = BF16}},
    {"the bf16 hook", {.replicate = 2, .hook = HOOK_BF16}},
    {"PowerSGD", {.replicate = 2, .hook = HOOK_POWERSGD}},
    {"PowerSGD, zero3", {.shard = 2, .inner = "zero3", .hook = HOOK_POWERSGD, .sync = true}},
    {"zero3 and ddp",
     {.replicate = 2, .shard = 2, .inner = "zero3", .match = "*.mlp.*", .match_inner = "ddp"}},
    {"zero2 and frozen zero3",
     {.shard = 2,
      .inner = "zero2",
      .match = "*.mlp.*",
      .match_inner = "zero3",
      .freezes = true,
      .sync = true}},
    {"the first layers frozen, pipeline",
     {.pp = 2, .shard = 2, .inner = "zero3", .match = "*.h.0.*", .freezes = true}},
    {"PowerSGD, zero3 and ddp",
     {.shard = 2,
      .inner = "zero3",
      .match = "*.attn.*",
      .match_inner = "ddp",
      .hook = HOOK_POWERSGD}},
    {"PowerSGD, frozen",
     {.replicate = 2, .match = "*.attn.*", .freezes = true, .hook = HOOK_POWERSGD}},
    {"reduced in bf16, zero3 and zero1",
     {.shard = 2,
      .inner = "zero3",
      .match = "*.mlp.*",
      .match_inner = "zero1",
      .reduce = BF16,
      .sync = true}},
    {"optimizer in a file, some frozen",
     {.shard = 2, .inner = "zero1", .optimizer = TIER_FILE, .match = "*.mlp.*", .freezes = true}},
    {"all in files, zero3 and frozen",
     {.shard = 2,
      .inner = "zero3",
      .match = "*.mlp.*",
      .freezes = true,
      .weights = TIER_FILE,
      .gradients = TIER_FILE,
      .optimizer = TIER_FILE}},
    {"NF4", {.wide = true, .match = "*_proj*", .freezes = true, .storage = STORAGE_NF4}},
    {"NF4, zero3, bf16",
     {.wide = true,
      .shard = 2,
      .inner = "zero3",
      .precision = BF16,
      .match = "*_proj*",
      .freezes = true,
      .storage = STORAGE_NF4,
      .evaluates = true}},
    {"NF4, all in files",
     {.wide = true,
      .shard = 2,
      .inner = "zero3",
      .weights = TIER_FILE,
      .optimizer = TIER_FILE,
      .match = "*_proj*",
      .freezes = true,
      .storage = STORAGE_NF4}},
    {"NF4, tp, zero3 in groups of 2",
     {.wide = true,
      .tp = 2,
      .shard = 4,
      .inner = "zero3",
      .reshard = 2,
      .match = "*_proj*",
      .freezes = true,
      .storage = STORAGE_NF4}},
    {"tp", {.tp = 2, .evaluates = true}},
    {"tp, 4, bf16", {.tp = 4, .precision = BF16}},
    {"sequence parallel, recomputed",
     {.tp = 2, .sequence = true, .micro = 2, .keep = RECOMPUTE_SELECTIVE}},
    {"a llama, tp, zero3", {.model = "llama_llama3", .tp = 2, .shard = 2, .inner = "zero3"}},
    {"cp", {.cp = 2, .evaluates = true}},
    {"tp beyond key-value heads, zero3",
     {.model = "llama_gqa", .tp = 4, .shard = 2, .inner = "zero3", .micro = 2, .sequence = true}},
    {"cp with windows", {.model = "mistral", .cp = 4, .evaluates = true}},
    {"cp, 4, bf16, recomputed", {.cp = 4, .precision = BF16, .keep = RECOMPUTE_FULL}},
    {"a llama, zero3 over dp_shard x cp",
     {.model = "llama_gqa", .shard = 2, .cp = 2, .inner = "zero3", .sync = true}},
    {"cp, sequence parallel", {.cp = 2, .tp = 2, .sequence = true, .keep = RECOMPUTE_SELECTIVE}},
    {"cp, zero-bubble", {.pp = 2, .cp = 2, .order = PIPE_ZB}},
    {"cp, zero1 and frozen zero3",
     {.shard = 2,
      .cp = 2,
      .inner = "zero1",
      .match = "*.mlp.*",
      .match_inner = "zero3",
      .freezes = true,
      .precision = BF16}},
    {"cp, tp, the first layers frozen, optimizer in a file",
     {.cp = 2, .tp = 2, .match = "*.h.0.*", .freezes = true, .optimizer = TIER_FILE}},
    {"a llama, cp, pipeline, zero3 and ddp",
     {.model = "llama_gqa",
      .pp = 2,
      .cp = 2,
      .inner = "zero3",
      .match = "*.mlp.*",
      .match_inner = "ddp",
      .sync = true}},
    {"gpipe", {.pp = 2, .order = PIPE_GPIPE, .evaluates = true}},
    {"1f1b on 4", {.pp = 4, .order = PIPE_1F1B}},
    {"1f1b, bf16, recomputed",
     {.pp = 2, .order = PIPE_1F1B, .precision = BF16, .keep = RECOMPUTE_FULL}},
    {"interleaved", {.pp = 2, .order = PIPE_INTERLEAVED, .chunks = 2}},
    {"zero-bubble", {.pp = 2, .order = PIPE_ZB}},
    {"zero-bubble, zero2", {.pp = 2, .order = PIPE_ZB, .shard = 2, .inner = "zero2"}},
    {"pipeline of zero3", {.pp = 2, .shard = 2, .inner = "zero3", .sync = true}},
    {"3d", {.pp = 2, .shard = 2, .tp = 2, .inner = "zero3", .micro = 2}},
    {"on the host", {.shard = 2, .inner = "zero2", .gradients = TIER_HOST, .optimizer = TIER_HOST}},
    {"everything on a device of its own", {.shard = 2, .inner = "zero2", .apart = true}},
    {"on a host apart",
     {.shard = 2, .inner = "zero2", .gradients = TIER_HOST, .optimizer = TIER_HOST, .apart = true}},
    {"all on a host apart, bf16",
     {.shard = 2,
      .inner = "zero3",
      .precision = BF16,
      .weights = TIER_HOST,
      .gradients = TIER_HOST,
      .optimizer = TIER_HOST,
      .apart = true}},
    {"all on a host apart, which updates them",
     {.shard = 2,
      .inner = "zero3",
      .precision = BF16,
      .weights = TIER_HOST,
      .gradients = TIER_HOST,
      .optimizer = TIER_HOST,
      .apart = true,
      .host_updates = true}},
    {"optimizer and gradients on a host apart, which updates the weights",
     {.gradients = TIER_HOST, .optimizer = TIER_HOST, .apart = true, .host_updates = true}},
    {"weights on a host apart, others in files",
     {.weights = TIER_HOST, .gradients = TIER_FILE, .optimizer = TIER_FILE, .apart = true}},
    {"optimizer in a file", {.optimizer = TIER_FILE}},
    {"gradients and optimizer in files",
     {.shard = 2, .inner = "zero2", .gradients = TIER_FILE, .optimizer = TIER_FILE}},
    {"all in files, bf16",
     {.shard = 2,
      .inner = "zero3",
      .precision = BF16,
      .weights = TIER_FILE,
      .gradients = TIER_FILE,
      .optimizer = TIER_FILE}},
};

static void test_every_rank_of_every_strategy_uses_what_its_plan_says(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++)
        check_strategy(strategies[i].name, &strategies[i].s);
}

// With workspaces for packed shards, and the tables for them.
static void test_memory_of_packed_shards_is_planned(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++) {
        scenario s = strategies[i].s;
        s.toy = true;
        check_strategy(strategies[i].name, &s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_counter_counts),
        cmocka_unit_test(test_a_step_allocates_nothing),
        cmocka_unit_test(test_memory_is_what_the_plan_says),
        cmocka_unit_test(test_every_rank_of_every_strategy_uses_what_its_plan_says),
        cmocka_unit_test(test_memory_of_packed_shards_is_planned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
