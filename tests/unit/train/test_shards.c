// test_shards.c -- compares each rank's local shards under zero3 after some steps with those of
// PyTorch's FSDP2 (tests/golden/make_fsdp2.py). It compares weights, m and v of every parameter,
// sharded over 2, 3 and 4 ranks. Shards are uneven and some are empty.
//
// If a parameter is one tensor in both, each rank's shard must have the same shape and values.
// Llama's query, key and value (and gate and up) are one parameter here and several in PyTorch, so
// their shards begin elsewhere. The test joins PyTorch's shards and compares this rank's rows.
#include "golden.h"

#include "comm/registry.h"
#include "patience.h"
#include "train/trainer_private.h"

#include <pthread.h>

enum { STEPS = 3, BATCH = 12, MOST_RANKS = 4, PIECES = 3 };

static const char *const PART[STATE_V + 1] = {"weight", "m", "v"};

typedef struct run {
    const char *model;
    int ranks;
    world *world;
    // Counts of all ranks, under the lock: shards that were compared, compared by shape, and empty.
    pthread_mutex_t lock;
    int compared, shaped, empty;
    char problem[400]; // the first difference
} run;

static void say(run *r, const char *line)
{
    pthread_mutex_lock(&r->lock);
    if (!r->problem[0]) snprintf(r->problem, sizeof r->problem, "%.390s", line);
    pthread_mutex_unlock(&r->lock);
}

// ---- PyTorch's shards

static const safetensors_tensor *shard_of(const golden *g, int ranks, int rank,
                                          trainer_state_kind part, const char *name)
{
    char key[200];
    snprintf(key, sizeof key, "%d.%d.%s.%s", ranks, rank, PART[part], name);
    return golden_tensor(g, key);
}

// Joins the shards of all pieces to the full parameter in Trireme's order.
static void put_together(const golden *g, int ranks, trainer_state_kind part,
                         const model_param_file *piece, int pieces, float *whole)
{
    for (int i = 0; i < pieces; i++)
        for (int rank = 0; rank < ranks; rank++) {
            const safetensors_tensor *t = shard_of(g, ranks, rank, part, piece[i].name);
            memcpy(whole, t->data, t->bytes);
            whole += t->bytes / sizeof *whole;
        }
}

// ---- This rank's shards

typedef struct held {
    const float *local;
    plan_shard span; // of the whole
} held;

static held held_part(const trainer *t, trainer_state_kind part, const plan_row *r)
{
    const plan *p = t->plan;
    static const plan_array array[] = {
        [STATE_WEIGHT] = ARRAY_WEIGHTS, [STATE_M] = ARRAY_M, [STATE_V] = ARRAY_V};
    const plan_layout l = plan_array_layout(plan_group_of(p, r->bucket), array[part]);
    float *bucket = (float *)(void *)state_bucket(t, array[part], r->bucket);
    return (held){trainer_row_ptr(r, bucket, l), plan_local_shard(p, r, l, p->coord)};
}

// The true gradient of a key bias is zero. Adam scales the rounding error to full steps.
static bool is_noise(const char *name, const plan_row *r, int64_t element)
{
    return strstr(name, "c_attn.bias") && element >= r->count / 3 && element < 2 * r->count / 3;
}

static double error_of(const held *h, const char *name, const plan_row *r, const float *whole)
{
    double apart = 0, size = 0;
    for (int64_t i = 0; i < h->span.count; i++) {
        const double want = whole[h->span.first + i];
        if (is_noise(name, r, h->span.first + i)) continue;
        apart += (h->local[i] - want) * (h->local[i] - want);
        size += want * want;
    }
    return sqrt(apart) / (sqrt(size) + 1e-30);
}

static void compare_shape(run *r, const plan_row *row, const held *h,
                          const safetensors_tensor *want, const char *name, int rank)
{
    char line[400];
    const int64_t rows = h->span.count / row->cols;
    if (want->dim[0] == rows && (want->dims == 1 || want->dim[1] == row->cols)) return;
    snprintf(line, sizeof line, "rank %d of %d has %lld rows of %s, FSDP2 has %lld", rank, r->ranks,
             (long long)rows, name, (long long)want->dim[0]);
    say(r, line);
}

static void compare_param(run *r, const golden *g, const trainer *t, int p, trainer_state_kind part,
                          const model_param_file *piece, int pieces)
{
    const plan_row *row = &t->plan->row[p];
    const int rank = t->o.comm->rank;
    float *whole = malloc((size_t)row->count * sizeof *whole);
    const held h = held_part(t, part, row);
    put_together(g, r->ranks, part, piece, pieces, whole);
    const double off = error_of(&h, piece->name, row, whole);
    const double allowed = part == STATE_WEIGHT ? 1e-5 : 1e-4;
    if (!(off <= allowed)) {
        char line[400];
        snprintf(line, sizeof line, "%s of %s on rank %d of %d: relative error %.3g, allowed %.3g",
                 PART[part], piece->name, rank, r->ranks, off, allowed);
        say(r, line);
    }
    if (pieces == 1)
        compare_shape(r, row, &h, shard_of(g, r->ranks, rank, part, piece->name), piece->name,
                      rank);
    pthread_mutex_lock(&r->lock);
    r->compared++, r->shaped += pieces == 1, r->empty += h.span.count == 0;
    pthread_mutex_unlock(&r->lock);
    free(whole);
}

static void compare_all(run *r, const golden *g, const trainer *t)
{
    model_param_files files;
    assert_int_equal(model_param_files_make(t->model, F32, &files, NULL), OK);
    for (int i = 0, end; i < files.count; i = end) {
        for (end = i + 1; end < files.count && files.file[end].param == files.file[i].param;) end++;
        assert_true(end - i <= PIECES);
        for (int part = 0; part <= STATE_V; part++)
            compare_param(r, g, t, files.file[i].param, (trainer_state_kind)part, &files.file[i],
                          end - i);
    }
    model_param_files_clear(&files);
}

// ---- Ranks

static status train(run *r, golden *g, trainer *t, err *e)
{
    status result = OK;
    const float *loss = golden_tensor(g, "losses")->data, *norm = golden_tensor(g, "norms")->data;
    for (int i = 0; i < STEPS; i++) {
        trainer_step_result s;
        TRY(trainer_step(t, false, &s, e));
        if (!(fabs(s.loss - loss[i]) <= 1e-5 * loss[i]))
            FAIL(E_NUMERIC, "loss of step %d: %.9g, FSDP2 has %.9g", i + 1, s.loss, loss[i]);
        if (!(fabs(s.grad_norm - norm[i]) <= 1e-4 * norm[i]))
            FAIL(E_NUMERIC, "norm of step %d: %.9g, FSDP2 has %.9g", i + 1, s.grad_norm, norm[i]);
    }
    compare_all(r, g, t);
done:
    return result;
}

typedef struct member {
    run *r;
    int rank;
} member;

static void *work(void *arg)
{
    const member *m = arg;
    golden g = {0};
    trainer *t = NULL;
    err why = {0}, *e = &why;
    status result = OK;
    golden_open(&g, m->r->model, 1);
    comm_close(g.comm);
    g.comm = NULL;
    TRY(comm_open("auto", test_world_options(m->r->world, m->rank, g.device), &g.comm, e));
    trainer_options o = golden_options(&g, UPDATE_ADAMW, F32, 1);
    o.mesh.size[AXIS_DP_REPLICATE] = 1;
    o.mesh.size[AXIS_DP_SHARD] = m->r->ranks;
    o.strategy.dp.inner = *policy_find("zero3");
    o.global_batch = BATCH;
    o.strategy.bucket_bytes = 2 << 10; // several
    TRY(trainer_open(&o, &t, e));
    TRY(train(m->r, &g, t, e));
done:
    if (result != OK) say(m->r, why.text);
    if (result != OK && g.comm) comm_abort(g.comm, e);
    trainer_close(t);
    golden_close(&g);
    return NULL;
}

// Returns the number of empty shards.
static int compare_with_fsdp2(const char *folder, int ranks)
{
    run r = {.model = folder, .ranks = ranks, .lock = PTHREAD_MUTEX_INITIALIZER};
    pthread_t thread[MOST_RANKS];
    member arg[MOST_RANKS];
    CHECK(test_world_open(ranks, true, &r.world, e));
    for (int i = 0; i < ranks; i++) {
        arg[i] = (member){&r, i};
        assert_int_equal(pthread_create(&thread[i], NULL, work, &arg[i]), 0);
    }
    for (int i = 0; i < ranks; i++) pthread_join(thread[i], NULL);
    world_close(r.world);
    if (r.problem[0]) fail_msg("%s on %d ranks: %s", folder, ranks, r.problem);
    print_message("%s on %d ranks: %d shards, %d of them by shape, %d empty\n", folder, ranks,
                  r.compared, r.shaped, r.empty);
    assert_true(r.shaped > 0 && r.compared >= 3 * ranks);
    return r.empty;
}

static void test_gpt2_is_sharded_like_fsdp2(void **state)
{
    (void)state;
    compare_with_fsdp2("../fsdp2/gpt2", 2);
    compare_with_fsdp2("../fsdp2/gpt2", 3);
    assert_true(compare_with_fsdp2("../fsdp2/gpt2", 4) > 0);
}

static void test_llama_is_sharded_like_fsdp2(void **state)
{
    (void)state;
    compare_with_fsdp2("../fsdp2/llama", 2);
    compare_with_fsdp2("../fsdp2/llama", 3);
    assert_true(compare_with_fsdp2("../fsdp2/llama", 4) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpt2_is_sharded_like_fsdp2),
        cmocka_unit_test(test_llama_is_sharded_like_fsdp2),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
