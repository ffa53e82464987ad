// test_workspace.c -- a training run on a device whose kernels need workspaces: each launch has what it
// needs, the plan counts every byte, and the bits are those of a device that needs none.
#include "golden.h"

#include "infer/evaluate.h"
#include "unit/spy_device.h"

enum { STEPS = 4, MOST = 1 << 16 };

typedef struct outcome {
    double loss[STEPS], norm[STEPS];
    float weight[MOST]; // of the first parameter
} outcome;

static void check_bytes(const golden *g, const trainer *t)
{
    const plan *p = trainer_get_plan(t);
    assert_int_equal(plan_bytes(p) - p->bytes[BYTES_RUNTIME],
                     g->device->bytes_peak - g->device->bytes_scratch);
}

static void run(const char *name, dtype precision, bool spied, outcome *out)
{
    golden g = {0};
    trainer *t = NULL;
    memset(out, 0, sizeof *out);
    golden_open(&g, name, 1);
    if (spied) spy_watch(g.device);
    trainer_options o =
        golden_options(&g, UPDATE_ADAMW, precision, g.config.family->reads_vectors ? 8 : 1);
    o.valid = o.train;
    CHECK(trainer_open(&o, &t, e));
    check_bytes(&g, t);
    for (int s = 0; s < STEPS; s++) {
        trainer_step_result r;
        CHECK(trainer_step(t, false, &r, e));
        out->loss[s] = r.loss, out->norm[s] = r.grad_norm;
    }
    double loss;
    CHECK(infer_evaluate(t, 0, &loss, NULL, e));
    assert_true(trainer_get_model(t)->param[0].count <= MOST);
    CHECK(trainer_read_state(t, STATE_WEIGHT, 0, out->weight, e));
    trainer_close(t);
    golden_close(&g);
}

static void a_run_with_workspaces_has_the_bits_of_one_without(void **state)
{
    (void)state;
    static const char *const models[] = {"gpt2_new", "llama_gqa", "mlp_classes"};
    static outcome plain, spied;
    for (int i = 0; i < 6; i++) {
        const dtype precision = i < 3 ? F32 : BF16;
        run(models[i % 3], precision, false, &plain);
        run(models[i % 3], precision, true, &spied);
        assert_memory_equal(&plain, &spied, sizeof plain);
        assert_int_equal(the_spy.too_small, 0);
        assert_int_equal(the_spy.unaligned, 0);
        assert_true(the_spy.launches[K_SUM_SQUARES] > 0 && the_spy.launches[K_MATMUL] > 0);
        assert_true(the_spy.prepared[K_MATMUL] > 0);
        assert_true(the_spy.prepared[K_MATMUL] < the_spy.launches[K_MATMUL]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_with_workspaces_has_the_bits_of_one_without),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
