// test_options.c -- the trainer's options of a job: strategy, mesh, learning rate, loss scaler.
#include "session/session.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { ARGS_MAX = 12 };

// `arg` ends with NULL. *out borrows from the job.
static job *options_of(const char *const *arg, int ranks, trainer_options *out)
{
    static const char *const fixed[] = {"--model.family=gpt2", "--model.layers=4",
                                        "--data.train=mock", "--train.micro_batch=1"};
    char *argv[ARGS_MAX];
    int argc = 0;
    job *j = NULL;
    session_inputs in = {.seq_len = 8};
    err e = {.code = OK};
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++) argv[argc++] = (char *)fixed[i];
    for (; *arg; arg++) argv[argc++] = (char *)*arg;
    if (job_open(NULL, argc, argv, &j, &e) != OK) fail_msg("%s", e.text);
    in.family = j->model.config.family;
    in.config = &j->model.config;
    if (session_options(j, &in, ranks, out, &e) != OK) fail_msg("%s", e.text);
    return j;
}

static void the_strategy_is_that_of_the_job(void **state)
{
    (void)state;
    static const char *const arg[] = {
        "--parallel={dp: [zero1, zero3], dp_replicate: 2, tp: 2, pp: 2, sequence_parallel: on,"
        " pp_schedule: interleaved, virtual_stages: 2, split: [1, 1, 1, 1], bucket_bytes: 1Ki,"
        " reshard_after_forward: off, recompute: full, no_sync: off, unused_parameters: zero,"
        " offload: {weights: host, optimizer: file, path: /tmp, block_bytes: 8Ki, depth: 3, slots: "
        "5},"
        " hook: {name: powersgd, rank: 3}}",
        "--train.precision=fp16", "--train.reduce_dtype=bf16", "--train.fp16.hysteresis=7", NULL};
    trainer_options o;
    job *j = options_of(arg, 16, &o);
    const strategy *const g = &o.strategy;
    assert_memory_equal(g, &j->strategy, sizeof *g);
    assert_string_equal(g->dp.outer.name, "zero1");
    assert_string_equal(g->dp.inner.name, "zero3");
    static const int size[AXES] = {2, 2, 2, 1, 2};
    for (int a = 0; a < AXES; a++) assert_int_equal(o.mesh.size[a], size[a]);
    assert_true(g->no_sync == NO_SYNC_FALSE && g->reshard_after_forward == 0);
    assert_true(g->sequence_parallel && g->zero_unused_parameters);
    assert_true(g->pipeline.schedule == PIPE_INTERLEAVED && g->pipeline.virtual_stages == 2);
    static const int blocks[] = {2, 1, 1, 2}; // with embedding and head
    int all = 0;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(g->pipeline.chunk_blocks[i], blocks[i]);
        all += g->pipeline.chunk_blocks[i];
    }
    assert_int_equal(all, o.family->blocks(o.config));
    assert_int_equal(g->bucket_bytes, 1024);
    assert_true(g->hook.kind == HOOK_POWERSGD && g->hook.rank == 3 && g->hook.start_step == 1000);
    assert_true(o.precision == F16 && g->reduce_dtype == BF16 && o.scaler.hysteresis == 7);
    assert_int_equal(g->offload.tier[PLAN_WEIGHTS], TIER_HOST);
    assert_int_equal(g->offload.tier[PLAN_GRADIENTS], TIER_DEVICE);
    assert_int_equal(g->offload.tier[PLAN_OPTIMIZER_STATE], TIER_FILE);
    assert_string_equal(g->offload.path, "/tmp");
    assert_true(g->offload.block_bytes == 8192 && g->offload.depth == 3 && g->offload.slots == 5);
    assert_int_equal(g->recompute, RECOMPUTE_FULL);
    assert_int_equal(o.place.rank, 0);
    job_close(j);
}

static void without_a_pipeline_its_keys_have_no_effect(void **state)
{
    (void)state;
    static const char *const arg[] = {
        "--parallel={pp_schedule: interleaved, virtual_stages: 2, split: [4]}", NULL};
    trainer_options o;
    job *j = options_of(arg, 2, &o);
    const strategy used = strategy_resolve(&o.strategy, &o.mesh);
    assert_true(used.pipeline.schedule == PIPE_1F1B && used.pipeline.virtual_stages == 1);
    assert_null(used.pipeline.chunk_blocks);
    assert_true(used.no_sync == NO_SYNC_TRUE && used.reshard_after_forward == 1);
    assert_false(used.zero_unused_parameters);
    job_close(j);
}

static void the_learning_rate_is_scaled_by_data_parallel_ranks(void **state)
{
    (void)state;
    static const char *const arg[] = {"--optimizer={lr: 0.5, lr_scaling: linear}",
                                      "--parallel.tp=2", "--parallel.pp=2", NULL};
    trainer_options o;
    job *j = options_of(arg, 8, &o);
    assert_true(o.optimizer.lr == 1);
    job_close(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_strategy_is_that_of_the_job),
        cmocka_unit_test(without_a_pipeline_its_keys_have_no_effect),
        cmocka_unit_test(the_learning_rate_is_scaled_by_data_parallel_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
