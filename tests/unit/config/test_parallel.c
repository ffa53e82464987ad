// test_parallel.c -- the keys of `parallel`, `memory` and `train.fp16`: names of other systems,
// meshes, the batch over data-parallel ranks, and error lines.
#include "config/private.h"
#include "job_fixture.h"

static void policies_have_names_of_other_systems(void **state)
{
    (void)state;
    static const struct {
        const char *args, *outer, *inner;
    } all[] = {
        {"--parallel.dp|DDP", "ddp", "ddp"},
        {"--parallel.dp|NO_SHARD", "ddp", "ddp"},
        {"--parallel.dp|no_shard", "ddp", "ddp"},
        {"--parallel.dp|0", "ddp", "ddp"},
        {"--parallel.dp|1", "ddp", "zero1"},
        {"--parallel.dp|optim", "ddp", "zero1"},
        {"--parallel.dp|2", "ddp", "zero2"},
        {"--parallel.dp|SHARD_GRAD_OP", "ddp", "zero2"},
        {"--parallel.dp|optim_grads", "ddp", "zero2"},
        {"--parallel.dp|3", "ddp", "zero3"},
        {"--parallel.dp|stage3", "ddp", "zero3"},
        {"--parallel.dp|fsdp", "ddp", "zero3"},
        {"--parallel.dp|fully_shard", "ddp", "zero3"},
        {"--parallel.dp|optim-grads-params", "ddp", "zero3"},
        {"--parallel.dp|fsdp_no_sync", "ddp", "fsdp_no_sync"},
        {"--parallel.dp|HYBRID_SHARD|--parallel.dp_replicate|2", "ddp", "zero3"},
        {"--parallel.dp|_HYBRID_SHARD_ZERO2|--parallel.dp_replicate|2", "ddp", "zero2"},
        {"--parallel.dp|zero1,zero3", "zero1", "zero3"},
        {"--parallel.dp|[no_shard, FULL_SHARD]", "ddp", "zero3"},
        {"--parallel.dp|[zero2]", "ddp", "zero2"},
        {"--parallel.dp|zero3,ddp", "zero3", "ddp"},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        job *j = good_job(SMALL, all[i].args);
        assert_string_equal(j->strategy.dp.outer.name, all[i].outer);
        assert_string_equal(j->strategy.dp.inner.name, all[i].inner);
        job_close(j);
    }
}

static void every_key_is_stored(void **state)
{
    (void)state;
    job *j = good_job(
        MODEL "data: {train: mock}\n"
              "train: {precision: fp16, reduce_dtype: bf16, micro_batch: 1,\n"
              "        fp16: {loss_scale: 4, initial_scale_power: 10, loss_scale_window: 50,\n"
              "               hysteresis: 3, consecutive_hysteresis: true, min_loss_scale: 0.5}}\n"
              "parallel:\n"
              "  dp: zero3\n  dp_shard: 2\n  dp_replicate: 2\n  tp: 2\n  sequence_parallel: true\n"
              "  pp: 2\n  pp_schedule: zb\n  split: [1, 1]\n  reshard_after_forward: false\n"
              "  offload: {weights: host, gradients: host, optimizer: file, path: .,\n"
              "            block_bytes: 8Ki, depth: 4, slots: 2}\n"
              "  hook: {name: powersgd, rank: 2, start_step: 0, min_compression_rate: 1.5,\n"
              "         error_feedback: off, warm_start: off, epsilon: 1e-6}\n"
              "  no_sync: false\n  unused_parameters: zero\n"
              "memory: {fit: true}\n",
        "");
    assert_int_equal(j->train.precision, F16);
    assert_int_equal(j->strategy.reduce_dtype, BF16);
    const scaler_options *s = &j->train.fp16;
    assert_true(s->loss_scale == 4 && s->initial_power == 10 && s->scale_window == 50);
    assert_true(s->hysteresis == 3 && s->consecutive_hysteresis && s->min_scale == 0.5);
    assert_true(j->parallel.size[AXIS_DP_SHARD] == 2 && j->parallel.size[AXIS_DP_REPLICATE] == 2);
    assert_true(j->parallel.size[AXIS_TP] == 2 && j->parallel.size[AXIS_PP] == 2 &&
                j->strategy.sequence_parallel);
    assert_int_equal(j->strategy.pipeline.schedule, PIPE_ZB);
    assert_int_equal(j->parallel.splits, 2);
    assert_int_equal(j->strategy.reshard_after_forward, 0);
    assert_int_equal(j->strategy.offload.tier[PLAN_WEIGHTS], TIER_HOST);
    assert_int_equal(j->strategy.offload.tier[PLAN_GRADIENTS], TIER_HOST);
    assert_int_equal(j->strategy.offload.tier[PLAN_OPTIMIZER_STATE], TIER_FILE);
    assert_int_equal(j->strategy.offload.path[0], '/');
    assert_true(j->strategy.offload.block_bytes == 8192 && j->strategy.offload.depth == 4 &&
                j->strategy.offload.slots == 2);
    const strategy_hook *h = &j->strategy.hook;
    assert_true(h->kind == HOOK_POWERSGD && h->rank == 2 && h->start_step == 0);
    assert_true(h->min_compression_rate == 1.5 && h->epsilon == 1e-6);
    assert_true(!h->error_feedback && !h->warm_start);
    assert_int_equal(j->strategy.no_sync, NO_SYNC_FALSE);
    assert_true(j->memory.fit);
    assert_int_equal(j->launch.ranks, 16); // as many as the mesh needs
    job_close(j);
}

static void defaults_are_those_of_deepspeed_and_pytorch(void **state)
{
    (void)state;
    job *j = good_job(SMALL, "--parallel.hook|powersgd");
    const scaler_options *s = &j->train.fp16;
    assert_true(s->loss_scale == 0 && s->initial_power == 16 && s->scale_window == 1000);
    assert_true(s->hysteresis == 2 && !s->consecutive_hysteresis && s->min_scale == 1);
    const strategy_hook *h = &j->strategy.hook;
    assert_true(h->rank == 1 && h->start_step == 1000 && h->min_compression_rate == 2);
    assert_true(h->error_feedback && h->warm_start && h->epsilon == 0);
    assert_true(j->strategy.no_sync == NO_SYNC_AUTO && j->strategy.reshard_after_forward);
    assert_int_equal(j->parallel.size[AXIS_DP_SHARD], 0);
    assert_int_equal(j->strategy.pipeline.schedule, PIPE_1F1B);
    assert_null(j->parallel.split);
    assert_true(j->strategy.offload.block_bytes == 1 << 20 && j->strategy.offload.depth == 8 &&
                j->strategy.offload.slots == 3);
    assert_false(j->memory.fit);
    job_close(j);
}

static void a_hook_is_a_word_or_a_section(void **state)
{
    (void)state;
    static const char *const yaml[] = {
        SMALL "parallel: {hook: powersgd}\n",
        SMALL "parallel:\n  hook:\n    name: powersgd\n",
        SMALL "parallel.hook: powersgd\n",
        SMALL "parallel.hook.name: PowerSGD\n",
    };
    for (size_t i = 0; i < sizeof yaml / sizeof yaml[0]; i++) {
        job *j = good_job(yaml[i], "--parallel.hook.rank|4");
        assert_int_equal(j->strategy.hook.kind, HOOK_POWERSGD);
        assert_int_equal(j->strategy.hook.rank, 4);
        job_close(j);
    }
    job *j = good_job(SMALL, "--parallel.hook|{name: powersgd, start_step: 10}");
    assert_int_equal(j->strategy.hook.start_step, 10);
    job_close(j);
    j = good_job(SMALL "parallel: {hook: }\n", "");
    assert_int_equal(j->strategy.hook.kind, HOOK_NONE);
    job_close(j);
}

static void the_mesh_follows_from_the_number_of_ranks(void **state)
{
    (void)state;
    static const struct {
        const char *args;
        int ranks, pp, replicate, shard, tp, cp;
    } all[] = {
        {"", 4, 1, 4, 1, 1, 1},
        {"--parallel.dp|zero3", 4, 1, 1, 4, 1, 1},
        {"--parallel.dp|zero3|--parallel.dp_replicate|2", 8, 1, 2, 4, 1, 1},
        {"--parallel.dp|ddp|--parallel.dp_replicate|2", 8, 1, 8, 1, 1, 1},
        {"--parallel.dp|ddp|--parallel.dp_shard|2", 2, 1, 1, 2, 1, 1},
        {"--parallel.dp|zero1,ddp", 4, 1, 4, 1, 1, 1},
        {"--parallel.dp|zero1,ddp|--parallel.dp_replicate|2", 4, 1, 2, 2, 1, 1},
        {"--parallel.dp|zero1,zero3", 4, 1, 1, 4, 1, 1},
        {"--parallel.tp|2|--parallel.pp|2", 8, 2, 2, 1, 2, 1},
        {"--parallel.dp|zero2|--parallel.tp|2|--parallel.pp|2", 8, 2, 1, 2, 2, 1},
        {"--parallel.dp|3|--parallel.dp_shard|2|--parallel.dp_replicate|2", 4, 1, 2, 2, 1, 1},
        {"--parallel.cp|2", 8, 1, 4, 1, 1, 2},
        {"--parallel.dp|zero3|--parallel.cp|4|--parallel.tp|2|--parallel.pp|2", 32, 2, 1, 2, 2, 4},
        {"--parallel.dp|zero3|--parallel.dp_shard|2|--parallel.cp|2", 4, 1, 1, 2, 1, 2},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        job *j = good_job(SMALL, all[i].args);
        mesh m;
        err e = {0};
        if (job_solve_mesh(j, all[i].ranks, &m, &e) != OK) fail_msg("%s: %s", all[i].args, e.text);
        assert_int_equal(m.ranks, all[i].ranks);
        assert_int_equal(m.size[AXIS_PP], all[i].pp);
        assert_int_equal(m.size[AXIS_DP_REPLICATE], all[i].replicate);
        assert_int_equal(m.size[AXIS_DP_SHARD], all[i].shard);
        assert_int_equal(m.size[AXIS_TP], all[i].tp);
        assert_int_equal(m.size[AXIS_CP], all[i].cp);
        job_close(j);
    }
}

static void launch_ranks_auto_follows_the_mesh_and_the_batch(void **state)
{
    (void)state;
    static const struct {
        const char *args;
        int cores, ranks;
    } all[] = {{"", 4, 4},
               {"--parallel.cp|2", 8, 8},
               {"--parallel.cp|2", 7, 4}, // the batch of 4 does not divide over 3
               {"--parallel.cp|4|--parallel.tp|2", 2, 8},
               {"--parallel.cp|2|--parallel.pp|2", 16, 16}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        job *j = good_job(SMALL "train: {global_batch: 4, micro_batch: 1}\n", all[i].args);
        assert_int_equal(batch_auto_ranks(j, all[i].cores), all[i].ranks);
        job_close(j);
    }
}

static void a_mesh_that_does_not_fit_names_the_nearest_that_do(void **state)
{
    (void)state;
    static const refusal all[] = {
        {SMALL "parallel: {tp: 4}\nlaunch: {ranks: 6}", "",
         "job.yaml:4: launch.ranks: found 6, not a multiple of tp 4; nearest valid: 4 and 8"},
        {SMALL "parallel: {tp: 2, pp: 2}", "--launch.ranks|6",
         "--launch.ranks: found 6, not a multiple of pp 2 x tp 2 = 4; nearest valid: 4 and 8"},
        {SMALL "parallel: {tp: 4}", "--launch.ranks|2",
         "--launch.ranks: found 2, not a multiple of tp 4; nearest valid: 4"},
        {SMALL "parallel: {dp: zero3, dp_shard: 2, dp_replicate: 2, tp: 2}", "--launch.ranks|4",
         "--launch.ranks: found 4, not the product of dp_replicate 2 x dp_shard 2 x tp 2 = 8; "
         "valid: 8"},
        {SMALL, "--launch.ranks|2|--parallel.dp_shard|1",
         "--launch.ranks: found 2, not the product of dp_shard 1; valid: 1"},
        {SMALL "parallel: {tp: 256, pp: 256, dp_replicate: 256, dp_shard: 256}", "",
         "job.yaml: launch.ranks: found 16384, not the product of pp 256 x dp_replicate 256 x "
         "dp_shard 256 x tp 256 = 4294967296; valid: sizes of which the product is at most 16384"},
        {SMALL "parallel: {tp: 16384, pp: 16384, cp: 16384, dp_replicate: 16384, dp_shard: 16384}",
         "--data.seq_len|32768|--model.max_seq|32768",
         "job.yaml: launch.ranks: found 16384, not the product of pp 16384 x dp_replicate 16384 x "
         "dp_shard 16384 x cp 16384 x tp 16384; valid: sizes of which the product is at most "
         "16384"},
        {SMALL "parallel: {tp: 300000}", "",
         "job.yaml:3: parallel.tp: found 300000; valid: a whole number from 1 to 16384"},
    };
    ASSERT_ALL_REFUSED(all);
}

static void auto_ranks_are_at_least_the_mesh(void **state)
{
    (void)state;
    job *j = good_job(SMALL, "--parallel.tp|64");
    assert_int_equal(j->launch.ranks % 64, 0);
    job_close(j);
    j = good_job(SMALL, "--parallel.tp|2|--parallel.pp|2|--parallel.dp_shard|3|"
                        "--train.global_batch|6");
    assert_int_equal(j->launch.ranks, 12);
    job_close(j);
    j = good_job(SMALL, "--parallel.dp_replicate|3|--train.global_batch|3");
    assert_int_equal(j->launch.ranks, 3);
    job_close(j);
}

static void the_batch_is_split_over_data_parallel_ranks(void **state)
{
    (void)state;
    job *j = good_job(SMALL, "--parallel.tp|4|--launch.ranks|8|--train.global_batch|2");
    assert_int_equal(job_solve_batch(j, 8, 0, NULL), OK);
    assert_int_equal(j->train.micro_batch, 1);
    job_close(j);
    static const refusal all[] = {
        {SMALL "parallel: {tp: 2}\ntrain: {global_batch: 9}", "--launch.ranks|4",
         "job.yaml:4: train.global_batch: found 9, not a multiple of 2 data-parallel ranks; "
         "nearest valid: 8 and 10; valid launch.ranks for 9: 2, 6, 18" BATCH_RULE},
        {SMALL "parallel: {dp: 3, dp_replicate: 2}", "--launch.ranks|4|--train.global_batch|6",
         "--train.global_batch: found 6, not a multiple of 4 ranks; nearest valid: 4 and 8; valid "
         "launch.ranks for 6: 2, 6" BATCH_RULE},
        {SMALL "parallel: {dp: 3, dp_shard: 4}", "--train.global_batch|6",
         "--train.global_batch: found 6, not a multiple of 4 ranks; nearest valid: 4 and "
         "8" BATCH_RULE},
        {SMALL "parallel: {pp: 2, dp_replicate: 2}", "--train.micro_batch|3|--launch.ranks|4",
         "job.yaml: train.global_batch: found 64, not a multiple of 2 data-parallel ranks x "
         "micro_batch 3 = 6; nearest valid: 60 and 66; valid train.micro_batch for 64: 1, 2, 4, 8, "
         "16, 32, 64" BATCH_RULE},
    };
    ASSERT_ALL_REFUSED(all);
}

static void a_split_gives_each_rank_its_micro_batch(void **state)
{
    (void)state;
    mesh m;
    job *j = good_job(SMALL "parallel: {batch_split: [3, 1]}\ntrain: {global_batch: 16}\n",
                      "--launch.ranks|2");
    assert_int_equal(j->train.micro_batch, 3);
    assert_int_equal(job_solve_mesh(j, 2, &m, NULL), OK);
    assert_int_equal(job_micro_batches(j, &m), 4);
    assert_false(job_measures_split(j));
    text yaml = yaml_of(j);
    assert_non_null(strstr(yaml.chars, "  batch_split: [3, 1]\n"));
    text_clear(&yaml);
    job_close(j);
    j = good_job(SMALL, "--launch.ranks|auto|--parallel.tp|2|--train.accumulation|3|"
                        "--parallel.batch_split|1,2,1");
    assert_int_equal(j->launch.ranks, 6);
    assert_int_equal(j->train.global_batch, 12);
    job_close(j);
    j = good_job(SMALL, "--parallel.batch_split|measured|--launch.ranks|2|--train.micro_batch|4");
    assert_true(job_measures_split(j));
    assert_int_equal(job_solve_mesh(j, 2, &m, NULL), OK);
    assert_int_equal(job_micro_batches(j, &m), 8); // even until then
    yaml = yaml_of(j);
    assert_non_null(strstr(yaml.chars, "  batch_split: measured\n"));
    text_clear(&yaml);
    job_close(j);
    static const refusal all[] = {
        {SMALL, "--parallel.batch_split|3,1,1|--launch.ranks|2",
         "--parallel.batch_split: found 3 numbers; valid: 2, one for each data-parallel rank"},
        {SMALL "train: {global_batch: 64}\n", "--parallel.batch_split|4,1|--launch.ranks|2",
         "job.yaml:3: train.global_batch: found 64, not a multiple of 5 (parallel.batch_split: 4 + "
         "1); nearest valid: 60 and 65"},
        {SMALL, "--parallel.batch_split|3,1|--launch.ranks|2|--train.micro_batch|2",
         "--train.micro_batch: found 2; valid: auto, or 3, the largest number of "
         "parallel.batch_split"},
        {SMALL, "--parallel.batch_split|measured|--launch.ranks|2|--data.order|torch",
         "--parallel.batch_split: found with data.order torch, which gives every rank equally many "
         "samples; valid: even, or data.order shuffle"},
        {SMALL, "--parallel.batch_split|measure|--launch.ranks|2",
         "--parallel.batch_split: found measure; valid: even, or measured, or a list of whole "
         "numbers from 1 to 1048576, as [6, 6]; did you mean measured?"},
        {SMALL, "--parallel.batch_split|0|--launch.ranks|1",
         "--parallel.batch_split: found 0; valid: even, or measured, or a list of whole numbers "
         "from 1 to 1048576, as [6, 6]"},
    };
    ASSERT_ALL_REFUSED(all);
}

static void an_auto_micro_batch_fills_the_pipeline(void **state)
{
    (void)state;
    static const struct {
        const char *args;
        int64_t limit, micro;
    } all[] = {
        {"--parallel.pp|2|--train.global_batch|16", 0, 4},
        {"--parallel.pp|4|--train.global_batch|16", 0, 2},
        {"--parallel.pp|2|--train.global_batch|16", 3, 2},
        {"--parallel.pp|4|--train.global_batch|6", 0, 1}, // no 8 micro-batches
        {"--parallel.pp|2|--train.global_batch|18|--parallel.pp_schedule|interleaved|"
         "--parallel.virtual_stages|2",
         0, 3}, // 6 micro-batches, because 9 do not come in groups of 2
        {"--parallel.pp|1|--train.global_batch|16|--parallel.pp_schedule|interleaved", 0, 16},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        job *j = good_job(SMALL, all[i].args);
        int ranks = j->parallel.size[AXIS_PP];
        assert_int_equal(job_solve_batch(j, ranks, all[i].limit, NULL), OK);
        assert_int_equal(j->train.micro_batch, all[i].micro);
        job_close(j);
    }
}

static void a_split_counts_layers_and_becomes_blocks(void **state)
{
    (void)state;
    static const struct {
        const char *family;
        int first, last;
    } all[] = {{"gpt2", 4, 2}, {"llama", 4, 2}, {"mlp", 3, 1}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        text yaml = {0};
        text_addf(&yaml, "model: {family: %s, layers: 4%s}\ndata: {train: x}\n", all[i].family,
                  i == 2 ? ", features: 3, classes: 2" : "");
        job *j = good_job(yaml.chars, "--parallel.pp|2|--parallel.split|3,1");
        assert_int_equal(j->strategy.pipeline.chunk_blocks[0], all[i].first);
        assert_int_equal(j->strategy.pipeline.chunk_blocks[1], all[i].last);
        job_close(j);
        text_clear(&yaml);
    }
}

static void context_parallelism_needs_sequences_that_divide(void **state)
{
    (void)state;
    static const refusal all[] = {
        {SMALL "parallel: {cp: 3}", "--data.seq_len|64",
         "job.yaml:3: parallel.cp: found 3, which splits a sequence into 6 chunks of equal length, "
         "but data.seq_len is 64; valid: data.seq_len a multiple of 6, or parallel.cp 1, 2, 4, 8, "
         "16, 32"},
        {SMALL, "--parallel.cp|2|--data.seq_len|63",
         "--parallel.cp: found 2, which splits a sequence into 4 chunks of equal length, but "
         "data.seq_len is 63; valid: data.seq_len a multiple of 4, or parallel.cp 1"},
        {"model: {family: mlp, features: 4, classes: 3}\ndata: {train: mock}\n", "--parallel.cp|2",
         "--parallel.cp: found 2, but mlp reads vectors, not sequences, which cannot be split; "
         "valid: 1"},
        {SMALL "parallel: {cp: 0}", "",
         "job.yaml:3: parallel.cp: found 0; valid: a whole number from 1 to 16384"},
        {SMALL "parallel: {cp: 2, tp: 2}", "--launch.ranks|6",
         "--launch.ranks: found 6, not a multiple of cp 2 x tp 2 = 4; nearest valid: 4 and 8"},
        {SMALL "parallel: {cp: 2, dp_shard: 2}", "--launch.ranks|6",
         "--launch.ranks: found 6, not the product of dp_shard 2 x cp 2 = 4; valid: 4"},
    };
    ASSERT_ALL_REFUSED(all);
}

static void keys_that_exclude_each_other_are_refused(void **state)
{
    (void)state;
    static const refusal all[] = {
        {SMALL "parallel:\n  dp: [zero3, zero1]\n", "",
         "job.yaml:4: parallel.dp: zero3 over dp_replicate shards weights, zero1 over dp_shard "
         "does not; valid: shard them on dp_shard too, or nothing there (ddp)"},
        {SMALL, "--parallel.dp|zero2,zero1",
         "--parallel.dp: zero2 over dp_replicate shards gradients, zero1 over dp_shard does not; "
         "valid: shard them on dp_shard too, or nothing there (ddp)"},
        {SMALL, "--parallel.dp|[HYBRID_SHARD]",
         "--parallel.dp: found [HYBRID_SHARD], which keeps several copies of the shards; valid: "
         "with parallel.dp_replicate 2 or more, their number"},
        {SMALL "parallel: {dp: _HYBRID_SHARD_ZERO2}", "",
         "job.yaml:3: parallel.dp: found _HYBRID_SHARD_ZERO2, which keeps several copies of the "
         "shards; valid: with parallel.dp_replicate 2 or more, their number"},
        {SMALL, "--parallel.dp|zero4",
         "--parallel.dp: found zero4; valid: ddp, zero1, zero2, zero3, fsdp_no_sync, or two of "
         "them as [OUTER, INNER]; did you mean zero1?"},
        {SMALL, "--parallel.dp|ddp,ddp,ddp",
         "--parallel.dp: found [ddp, ddp, ddp]; valid: ddp, zero1, zero2, zero3, fsdp_no_sync, or "
         "two of them as [OUTER, INNER]"},
        {SMALL, "--parallel.virtual_stages|2",
         "--parallel.virtual_stages: found 2, but parallel.pp_schedule is 1f1b; valid: 1, or "
         "interleaved"},
        {SMALL "parallel: {pp: 2, pp_schedule: interleaved}", "",
         "job.yaml:3: parallel.pp_schedule: found interleaved with parallel.virtual_stages 1; "
         "valid: with 2 or more"},
        {SMALL "parallel: {pp: 2, pp_schedule: interleaved, virtual_stages: 2}",
         "--train.global_batch|9|--train.micro_batch|3|--launch.ranks|2",
         "job.yaml:3: parallel.pp_schedule: found interleaved with 3 micro-batches in a step "
         "(global_batch 9 / 1 data-parallel ranks / micro_batch 3); valid: a multiple of pp 2"},
        {SMALL "parallel: {pp: 2, split: [2]}", "",
         "job.yaml:3: parallel.split: found 1 numbers; valid: 2, for pp 2 x virtual_stages 1"},
        {SMALL "parallel: {pp: 2, split: [2, 1]}", "",
         "job.yaml:3: parallel.split: found 3 layers in all; the model has 2"},
        {SMALL "parallel: {split: [0, 2]}", "",
         "job.yaml:3: parallel.split: found [0, 2]; valid: auto, or a list of whole numbers from 1 "
         "to 1048576, as [6, 6]"},
        {SMALL "parallel: {split: []}", "",
         "job.yaml:3: parallel.split: found []; valid: auto, or a list of whole numbers from 1 to "
         "1048576, as [6, 6]"},
        {SMALL "parallel: {reshard_after_forward: -4}", "",
         "job.yaml:3: parallel.reshard_after_forward: found -4; valid: false, true, or a whole "
         "number "
         "from 2 to 16384"},
        {SMALL "parallel: {hook: powersgd}", "--parallel.hook.start_step|1",
         "--parallel.hook.start_step: found 1; valid: 2 or more, or any with error_feedback and "
         "warm_start false"},
        {SMALL "parallel: {hook: powersdg}", "",
         "job.yaml:3: parallel.hook.name: found powersdg; valid: none, fp16, bf16, powersgd; did "
         "you mean powersgd?"},
        {SMALL "parallel: {hook: {name: bf16, rank: 2}}", "",
         "job.yaml:3: parallel.hook.rank: not a parameter of the hook bf16 (parallel.hook.name)"},
        {SMALL "parallel: {hook: {name: powersgd, rnak: 2}}", "",
         "job.yaml:3: parallel.hook.rnak: unknown key; did you mean parallel.hook.rank?"},
        {SMALL "parallel: {hook: [a]}", "",
         "job.yaml:3: parallel.hook: found [a]; valid: a section of name, rank, start_step, "
         "min_compression_rate, error_feedback, warm_start, epsilon"},
    };
    ASSERT_ALL_REFUSED(all);
}

static void offload_and_fp16_are_checked(void **state)
{
    (void)state;
    static const refusal all[] = {
        {SMALL "parallel:\n  offload: {weights: file}", "",
         "job.yaml:4: parallel.offload.weights: found file; it needs parallel.offload.path, a "
         "folder"},
        {SMALL "parallel: {offload: {optimizer: file, path: /dev/null}}", "",
         "job.yaml:3: parallel.offload.path: found /dev/null, which is not a folder and cannot be "
         "made one; valid: a folder of this machine, which is created where it does not exist"},
        {SMALL "parallel: {offload: {optimizer: file, path: /dev/null/a/b}}", "",
         "job.yaml:3: parallel.offload.path: found /dev/null/a/b, which is not a folder and cannot "
         "be made one; valid: a folder of this machine, which is created where it does not exist"},
        {SMALL, "--parallel.offload.weights|disk",
         "--parallel.offload.weights: found disk; valid: device, host, file"},
        {SMALL, "--parallel.offload.block_bytes|5000",
         "--parallel.offload.block_bytes: found 5000; valid: a multiple of 4Ki"},
        {SMALL "train: {fp16: {hysteresis: 4}}", "",
         "job.yaml:3: train.fp16.hysteresis: not a parameter of the precision fp32 "
         "(train.precision); valid: fp16"},
        {SMALL "train: {precision: fp16, fp16: {min_loss_scale: 8, initial_scale_power: 2}}", "",
         "job.yaml:3: train.fp16.min_loss_scale: found 8; valid: at most 2^2 "
         "(train.fp16.initial_scale_power)"},
        {SMALL "train: {precision: fp16, fp16: {min_loss_scale: 0}}", "",
         "job.yaml:3: train.fp16.min_loss_scale: found 0; valid: a number > 0, at most 1.0e+38"},
    };
    ASSERT_ALL_REFUSED(all);
}

static void sizes_may_end_in_b(void **state)
{
    (void)state;
    static const struct {
        const char *args;
        int64_t bytes;
    } all[] = {{"--parallel.bucket_bytes|25MiB", 25 << 20},
               {"--parallel.bucket_bytes|25MB", 25000000},
               {"--parallel.bucket_bytes|1kB", 1000},
               {"--parallel.bucket_bytes|2Ki", 2048},
               {"--parallel.bucket_bytes|5e8", 500000000}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        job *j = good_job(SMALL, all[i].args);
        assert_int_equal(j->strategy.bucket_bytes, all[i].bytes);
        job_close(j);
    }
    assert_refused(
        SMALL, "--parallel.bucket_bytes|25B",
        "--parallel.bucket_bytes: found 25B; valid: a whole number from 1 to 1152921504606846976");
    assert_refused(SMALL, "--train.steps|1kB",
                   "--train.steps: found 1kB; valid: a whole number from 1 to 1000000000000000");
}

static void keys_without_effect_are_no_error(void **state)
{
    (void)state;
    job *j = good_job(SMALL "parallel: {pp_schedule: interleaved, virtual_stages: 3, split: 2}\n",
                      "--parallel.offload.path|/nowhere|--parallel.sequence_parallel|on|"
                      "--parallel.dp|zero1,zero3");
    assert_false(j->strategy.sequence_parallel);
    job_close(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(policies_have_names_of_other_systems),
        cmocka_unit_test(every_key_is_stored),
        cmocka_unit_test(defaults_are_those_of_deepspeed_and_pytorch),
        cmocka_unit_test(a_hook_is_a_word_or_a_section),
        cmocka_unit_test(the_mesh_follows_from_the_number_of_ranks),
        cmocka_unit_test(launch_ranks_auto_follows_the_mesh_and_the_batch),
        cmocka_unit_test(a_mesh_that_does_not_fit_names_the_nearest_that_do),
        cmocka_unit_test(auto_ranks_are_at_least_the_mesh),
        cmocka_unit_test(the_batch_is_split_over_data_parallel_ranks),
        cmocka_unit_test(a_split_gives_each_rank_its_micro_batch),
        cmocka_unit_test(an_auto_micro_batch_fills_the_pipeline),
        cmocka_unit_test(a_split_counts_layers_and_becomes_blocks),
        cmocka_unit_test(context_parallelism_needs_sequences_that_divide),
        cmocka_unit_test(keys_that_exclude_each_other_are_refused),
        cmocka_unit_test(offload_and_fp16_are_checked),
        cmocka_unit_test(sizes_may_end_in_b),
        cmocka_unit_test(keys_without_effect_are_no_error),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
