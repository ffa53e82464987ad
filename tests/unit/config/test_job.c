// test_job.c -- the values of a job from its file, the command line and the defaults.
#include "job_fixture.h"

static void all_keys_but_model_and_data_have_defaults(void **state)
{
    (void)state;
    job *j = good_job(NULL, "--model.family|gpt2|--data.train|mock");
    assert_int_equal(j->model.config.layers, 12);
    assert_false(j->model.has_weights);
    assert_int_equal(j->data.trains, 1);
    assert_string_equal(j->data.train[0].path, "mock");
    assert_true(j->data.mock_samples > 0);
    assert_int_equal(j->data.valids, 0);
    assert_int_equal(j->data.seq_len, 1024);
    assert_int_equal(j->data.order, ORDER_SHUFFLE);
    assert_int_equal(j->train.steps, 1000);
    assert_int_equal(j->train.global_batch, 64);
    assert_int_equal(j->train.micro_batch, 0);
    assert_int_equal(j->train.precision, F32);
    assert_true(j->train.clip_grad_norm == 1);
    assert_int_equal(j->optimizer.rule, UPDATE_ADAMW);
    assert_true(j->optimizer.lr == 3e-4 && j->optimizer.beta2 == 0.95);
    assert_true(j->optimizer.eps == 1e-8 && j->optimizer.weight_decay == 0.1);
    assert_int_equal(j->lr.name, LR_COSINE);
    assert_int_equal(j->lr.warmup_steps, 100);
    assert_string_equal(j->strategy.dp.inner.name, "ddp");
    assert_int_equal(j->strategy.bucket_bytes, 25 << 20);
    assert_int_equal(j->strategy.recompute, RECOMPUTE_NONE);
    assert_true(j->launch.ranks >= 1 && j->launch.threads_per_rank >= 1);
    assert_string_equal(j->launch.device, "cpu");
    assert_int_equal(j->checks.watchdog_ms, 600000);
    assert_int_equal(j->resume, RESUME_AUTO);
    assert_false(j->quiet);
    job_close(j);
}

static void quotes_do_not_turn_mock_into_a_path(void **state)
{
    (void)state;
    job *j = good_job("model: {family: gpt2}\ndata: {train: \"mock\", valid: 'mock'}\n", "");
    assert_string_equal(j->data.train[0].path, "mock");
    assert_string_equal(j->data.valid[0].path, "mock");
    job_close(j);
    j = good_job("model: {family: gpt2}\ndata: {train: ./mock}\n", "");
    assert_string_not_equal(j->data.train[0].path, "mock");
    job_close(j);
}

static void sizes_that_are_not_given_follow_from_the_width(void **state)
{
    (void)state;
    static const struct {
        const char *model;
        int64_t layers, heads, kv_heads, head_dim, ffn;
    } cases[] = {
        {"gpt2", 12, 12, 12, 64, 3072}, // HuggingFace's own default
        {"gpt2, hidden: 1024", 24, 16, 16, 64, 4096},
        {"gpt2, hidden: 1600", 48, 25, 25, 64, 6400},
        {"gpt2, hidden: 128", 2, 2, 2, 64, 512},
        {"gpt2, hidden: 384", 6, 6, 6, 64, 1536},
        {"gpt2, hidden: 100, ffn: 7", 2, 1, 1, 100, 7},
        {"llama", 32, 32, 32, 128, 11008}, // Llama 2 7B
        {"llama, hidden: 2048", 16, 32, 32, 64, 5632},
        {"llama, hidden: 5120", 40, 40, 40, 128, 13824}, // 13B
        {"llama, hidden: 6656", 60, 52, 52, 128, 17920}, // 30B
        {"llama, hidden: 8192", 80, 64, 64, 128, 22016}, // 65B
        {"llama, hidden: 256", 2, 4, 4, 64, 704},
        {"llama, hidden: 576, kv_heads: 3, layers: 30", 30, 9, 3, 64, 1536}, // SmolLM2 135M
        {"llama, hidden: 256, head_dim: 32, kv_heads: 2", 2, 8, 2, 32, 704},
        {"llama, hidden: 200", 2, 2, 2, 100, 544},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char yaml[128];
        snprintf(yaml, sizeof yaml, "model: {family: %s}\ndata: {train: mock}\n", cases[i].model);
        job *j = good_job(yaml, "");
        const model_config *c = &j->model.config;
        if (c->layers != cases[i].layers || c->heads != cases[i].heads ||
            c->kv_heads != cases[i].kv_heads || c->head_dim != cases[i].head_dim ||
            c->ffn != cases[i].ffn)
            fail_msg("%s: layers %lld, heads %lld, kv_heads %lld, head_dim %lld, ffn %lld",
                     cases[i].model, (long long)c->layers, (long long)c->heads,
                     (long long)c->kv_heads, (long long)c->head_dim, (long long)c->ffn);
        job_close(j);
    }
    // A folder's config.json means what HuggingFace means.
    assert_int_equal(file_make_directories("narrow", NULL), OK);
    put_file("narrow/config.json", "{\"model_type\":\"llama\",\"hidden_size\":256}");
    job *j = good_job("model: {path: narrow}\ndata: {train: mock}\n", "");
    assert_int_equal(j->model.config.layers, 32);
    assert_int_equal(j->model.config.heads, 32);
    assert_int_equal(j->model.config.ffn, 11008);
    job_close(j);
}

static void a_job_file_with_every_section_is_read(void **state)
{
    (void)state;
    job *j = good_job(
        "model:\n  init: auto\n  family: llama\n  hidden: 64\n  num_hidden_layers: 2\n  heads: 4\n"
        "  kv_heads: 2\n  ffn: 96\n  vocab: 1k\n  max_seq: 1024\n  rope_theta: 5e5\n"
        "data:\n  train: [{path: a/b, weight: 2}, /c]\n  valid: v\n  seq_len: 1024\n  order: "
        "torch\n"
        "train:\n  steps: 1000\n  global_batch: 64\n  micro_batch: 4\n  seed: 7\n"
        "  precision: bf16\n  reduce_dtype: fp32\n  clip_grad_norm: 0.5\n  eval_every: 0\n"
        "  save_every: 1k\n  keep: 0\n  out: runs/x\n"
        "optimizer: {name: adamw, lr: 3e-4, betas: [0.9, 0.99], eps: 1e-7, weight_decay: 0.2,\n"
        "            lr_scaling: sqrt, decay: all}\n"
        "lr_schedule: {name: wsd, warmup_steps: 10, min_ratio: 0.2, decay_steps: 50}\n"
        "parallel:\n  dp: NO_SHARD\n  dp_shard: auto\n  dp_replicate: 1\n  tp: 1\n"
        "  sequence_parallel: false\n  pp: 1\n  pp_schedule: 1f1b\n  virtual_stages: 1\n"
        "  split: auto\n  reshard_after_forward: true\n  recompute: selective\n"
        "  offload: {weights: device, gradients: device, optimizer: device, path: /off}\n"
        "  bucket_bytes: 1Mi\n  hook: none\n  unused_parameters: zero\n"
        "memory: {budget: 2Gi, fit: false}\n"
        "launch: {ranks: 4, threads_per_rank: 2, as: threads, device: cpu}\n"
        "checks: {replicas_every: 10, nonfinite: skip, watchdog: 500ms, desync: off}\n",
        "");
    assert_ptr_equal(j->model.config.family, model_family_find("llama"));
    assert_int_equal(j->model.config.layers, 2);
    assert_int_equal(j->model.config.vocab, 1000);
    assert_int_equal(j->model.config.head_dim, 16);
    assert_true(j->model.config.rope.theta == 5e5);
    assert_int_equal(j->data.trains, 2);
    assert_true(j->data.train[0].weight == 2 && j->data.train[1].weight == 1);
    assert_string_equal(j->data.train[1].path, "/c");
    assert_int_equal(j->data.train[0].path[0], '/');
    assert_int_equal(j->data.order, ORDER_TORCH);
    assert_int_equal(j->train.precision, BF16);
    assert_int_equal(j->train.save_every, 1000);
    assert_true(j->optimizer.decay_all && j->optimizer.beta2 == 0.99 && j->optimizer.eps == 1e-7);
    assert_int_equal(j->scaling, LR_SCALE_SQRT);
    assert_int_equal(j->lr.name, LR_WSD);
    assert_int_equal(j->lr.decay_steps, 50);
    assert_string_equal(j->strategy.dp.inner.name, "ddp");
    assert_string_equal(j->strategy.offload.path, "/off");
    assert_int_equal(j->strategy.bucket_bytes, 1 << 20);
    assert_true(j->strategy.zero_unused_parameters);
    assert_true(j->memory.budget == INT64_C(2) << 30);
    assert_true(j->launch.ranks == 4 && j->launch.threads_per_rank == 2 && j->launch.as_threads);
    assert_int_equal(j->checks.nonfinite, NONFINITE_SKIP);
    assert_int_equal(j->checks.watchdog_ms, 500);
    job_close(j);
}

static void the_command_line_overrides_the_file(void **state)
{
    (void)state;
    job *j = good_job(
        SMALL "train: {steps: 5, seed: 1}\n",
        "--train.steps=7|--train.seed|2|--train.seed|3|--launch.as=threads|"
        "--optimizer|{name: sgd, lr: 1e-2, momentum: 0.8}|--quiet|--overwrite|--resume|never");
    assert_int_equal(j->train.steps, 7);
    assert_int_equal(j->train.seed, 3);
    assert_true(j->launch.as_threads && j->quiet && j->overwrite);
    assert_int_equal(j->optimizer.rule, UPDATE_SGD);
    assert_true(j->optimizer.beta1 == 0.8 && j->optimizer.lr == 1e-2);
    assert_true(j->optimizer.weight_decay == 0);
    assert_int_equal(j->resume, RESUME_NEVER);
    job_close(j);
    j = good_job(SMALL "train: {steps: 5}\n",
                 "--train.epochs|2|--resume=/some/where|--memory.fit=off");
    assert_true(j->train.epochs == 2 && j->train.steps == 0);
    assert_false(j->quiet || j->overwrite);
    assert_int_equal(j->resume, RESUME_FROM);
    assert_string_equal(j->resume_from, "/some/where");
    job_close(j);
    j = good_job(SMALL, "--optimizer.betas|0.5,0.6|--data.train|a,b");
    assert_true(j->optimizer.beta1 == 0.5 && j->optimizer.beta2 == 0.6);
    assert_int_equal(j->data.trains, 2);
    job_close(j);
}

static void names_of_other_systems_are_read(void **state)
{
    (void)state;
    static const char *const words[] = {"DDP", "NO_SHARD",         "no-shard",
                                        "dp",  "MirroredStrategy", "stage0"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        text args = {0};
        text_addf(&args, "--parallel.dp|%s", words[i]);
        job *j = good_job(SMALL, args.chars);
        assert_string_equal(j->strategy.dp.inner.name, "ddp");
        job_close(j);
        text_clear(&args);
    }
    job *j = good_job(SMALL "lr_schedule: {name: WarmupDecayLR, warmup_num_steps: 20, "
                            "warmup_type: linear, warmup_max_lr: null, total_num_steps: 100}\n",
                      "--optimizer.name|AdamW");
    assert_int_equal(j->lr.name, LR_WARMUP_DECAY);
    assert_true(j->lr.warmup.linear && j->lr.warmup.max_lr < 0);
    assert_int_equal(j->lr.warmup.total_num_steps, 100);
    job_close(j);
}

static void a_model_folder_is_read(void **state)
{
    (void)state;
    assert_int_equal(file_make_directories("m", NULL), OK);
    put_file("m/config.json",
             "{\"model_type\": \"gpt2\", \"n_embd\": 32, \"n_head\": 2, \"n_layer\": 1, "
             "\"n_positions\": 16, \"vocab_size\": 50}");
    job *j = good_job("model: {path: m}\ndata: {train: mock}\n", "");
    assert_int_equal(j->model.config.hidden, 32);
    assert_int_equal(j->data.seq_len, 16); // the default, as far as the model goes
    assert_false(j->model.has_weights);
    assert_int_equal(j->model.path[0], '/');
    job_close(j);
    text line = {0};
    char *here = getcwd(NULL, 0);
    text_addf(&line,
              "job.yaml:1: model.init: found checkpoint, but %s/m holds no model.safetensors "
              "and no model.safetensors.index.json",
              here);
    assert_refused("model: {path: m, init: checkpoint}\ndata: {train: mock}\n", "", line.chars);
    put_file("m/model.safetensors", "");
    j = good_job("model: {path: m}\ndata: {train: mock}\n", "");
    assert_true(j->model.has_weights);
    job_close(j);
    j = good_job("model: {path: ./m}\ndata: {train: mock}\n", "--model.init|random");
    assert_false(j->model.has_weights);
    job_close(j);
    // A folder on the command line replaces the file's family, whose sizes must be the folder's,
    // and the reverse.
    j = good_job("model: {family: gpt2, hidden_size: 32, vocab: 50}\ndata: {train: mock}\n",
                 "--model.path|m");
    assert_int_equal(j->model.config.vocab, 50);
    assert_int_equal(j->model.config.layers, 1);
    job_close(j);
    assert_refused("model: {family: gpt2, vocab: 51}\ndata: {train: mock}\n", "--model.path|m",
                   "job.yaml:1: model.vocab: found 51, but config.json of --model.path says 50; "
                   "valid: the same, or a job file without it");
    j = good_job("model: {path: m}\ndata: {train: mock}\n", "--model.family|llama");
    assert_null(j->model.path);
    assert_int_equal(j->model.config.layers, 32);
    job_close(j);
    text_clear(&line);
    free(here);
}

static void batches_are_split_and_steps_are_counted(void **state)
{
    (void)state;
    job *j = good_job(SMALL "train: {global_batch: 24}", "--launch.ranks|2");
    assert_int_equal(job_solve_batch(j, 2, 5, NULL), OK);
    assert_int_equal(j->train.micro_batch, 4);
    err e;
    assert_int_equal(job_solve_batch(j, 5, 0, &e), E_USAGE);
    assert_non_null(strstr(e.text, "5 ranks x micro_batch 4"));
    j->train.micro_batch = 0;
    assert_int_equal(job_solve_batch(j, 3, 0, NULL), OK);
    assert_int_equal(j->train.micro_batch, 8);
    assert_int_equal(job_resolve_steps(j, 1000, NULL), OK);
    assert_int_equal(j->train.steps, 1000);
    assert_int_equal(j->lr.total_steps, 1000);
    job_close(j);
    j = good_job(SMALL "train: {global_batch: 10, epochs: 0.1}", "--launch.ranks|1");
    assert_int_equal(job_resolve_steps(j, 1000, NULL), OK);
    assert_int_equal(j->train.steps, 10);
    assert_int_equal(job_resolve_steps(j, 1001, NULL), OK);
    assert_int_equal(j->train.steps, 11);
    assert_int_equal(job_resolve_steps(j, 1, NULL), OK);
    assert_int_equal(j->train.steps, 1);
    job_close(j);
    j = good_job(SMALL "train: {global_batch: 4, tokens: 10k}\ndata.seq_len: 64",
                 "--launch.ranks|1");
    assert_int_equal(job_resolve_steps(j, 1, NULL), OK);
    assert_int_equal(j->train.steps, 40);
    job_close(j);
}

static void auto_ranks_divide_the_batch(void **state)
{
    (void)state;
    job *j = good_job(SMALL "train: {global_batch: 7, micro_batch: 7}", "");
    assert_int_equal(j->launch.ranks, 1);
    job_close(j);
    j = good_job(SMALL "train: {global_batch: 3600}", "");
    assert_int_equal(3600 % j->launch.ranks, 0);
    job_close(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_keys_but_model_and_data_have_defaults),
        cmocka_unit_test(quotes_do_not_turn_mock_into_a_path),
        cmocka_unit_test(sizes_that_are_not_given_follow_from_the_width),
        cmocka_unit_test(a_job_file_with_every_section_is_read),
        cmocka_unit_test(the_command_line_overrides_the_file),
        cmocka_unit_test(names_of_other_systems_are_read),
        cmocka_unit_test(a_model_folder_is_read),
        cmocka_unit_test(batches_are_split_and_steps_are_counted),
        cmocka_unit_test(auto_ranks_divide_the_batch),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
