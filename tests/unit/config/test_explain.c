// test_explain.c -- a job as text: explain, job.yaml that reads back to the same job, and help.
#include "config/keys.h"
#include "config/yaml_node.h"
#include "job_fixture.h"

static void assert_round_trip(const char *yaml, const char *args)
{
    job *first = good_job(yaml, args);
    text once = yaml_of(first);
    job *second = good_job(once.chars, "");
    text twice = yaml_of(second);
    assert_string_equal(once.chars, twice.chars);
    // The structs are equal, except for pointers.
    assert_memory_equal(&first->model.config, &second->model.config, sizeof first->model.config);
    assert_memory_equal(&first->optimizer, &second->optimizer, sizeof first->optimizer);
    assert_memory_equal(&first->lr, &second->lr, sizeof first->lr);
    assert_memory_equal(&first->checks, &second->checks, sizeof first->checks);
    assert_memory_equal(&first->strategy.dp, &second->strategy.dp, sizeof first->strategy.dp);
    assert_memory_equal(&first->strategy.hook, &second->strategy.hook, sizeof first->strategy.hook);
    assert_memory_equal(&first->strategy.offload.tier, &second->strategy.offload.tier,
                        sizeof first->strategy.offload.tier);
    assert_int_equal(first->parallel.splits, second->parallel.splits);
    assert_int_equal(first->launch.ranks, second->launch.ranks);
    assert_string_equal(first->train.out, second->train.out);
    assert_int_equal(first->data.trains, second->data.trains);
    for (size_t i = 0; i < first->data.trains; i++)
        assert_string_equal(first->data.train[i].path, second->data.train[i].path);
    text_clear(&once);
    text_clear(&twice);
    job_close(first);
    job_close(second);
}

static void job_yaml_reads_back_to_the_same_job(void **state)
{
    (void)state;
    assert_round_trip(SMALL, "");
    assert_round_trip(NULL, "--model.family|llama|--data.train|mock|--train.epochs|0.3");
    assert_round_trip(NULL, "--model.family|llama|--data.train|./mock");
    assert_round_trip(SMALL, "--train.tokens|1e6|--checks.watchdog|1.5s|--memory.budget|1000001");
    assert_round_trip(SMALL, "--optimizer.name|sgd|--optimizer.momentum|0.123456789012345678");
    assert_round_trip(SMALL, "--optimizer.name|lion|--optimizer.lr|1e-05");
    assert_round_trip(MODEL "data:\n  train:\n  - {path: 'a b: \"c\" # \\ \xc3\xa9', weight: 0.1}\n"
                            "  - {path: yes, weight: 3}\n  valid: mock\n",
                      "--train.out|x\ty|--parallel.offload.path|off");
    assert_round_trip(SMALL "parallel: {dp: [zero1, FULL_SHARD], dp_replicate: 2, dp_shard: 2,\n"
                            "  tp: 2, sequence_parallel: on, no_sync: off, bucket_bytes: 1000,\n"
                            "  reshard_after_forward: off, recompute: selective,\n"
                            "  offload: {weights: host, gradients: device, optimizer: file,\n"
                            "            path: ., block_bytes: 64Ki, depth: 32},\n"
                            "  hook: {name: powersgd, rank: 4, start_step: 10, epsilon: 1e-8}}\n"
                            "memory: {budget: 1Gi, fit: true}\n",
                      "");
    assert_round_trip(SMALL,
                      "--parallel.pp|2|--parallel.pp_schedule|interleaved|"
                      "--parallel.virtual_stages|2|--model.layers|8|--parallel.split|2,2,2,2");
    assert_round_trip(SMALL, "--train.precision|fp16|--train.fp16|{hysteresis: 3, loss_scale: 128}|"
                             "--train.reduce_dtype|fp16|--parallel.hook|bf16");
    assert_round_trip(SMALL "lr_schedule: {name: OneCycle, cycle_min_lr: 1e-5, cycle_max_lr: 1e-3}",
                      "");
    assert_round_trip(SMALL "lr_schedule: {name: WarmupLR, warmup_max_lr: 0.5}", "");
    assert_round_trip(SMALL "observe: {trace_steps: 10-12, prometheus: 9401, textfile: off}", "");
    assert_round_trip(SMALL, "--observe.trace_steps|7|--observe.prometheus|[::]:0|"
                             "--observe.textfile|t.prom|--observe.tensorboard|--observe.csv");
    assert_round_trip(
        "model: {family: mlp, features: 10, classes: 1, loss: mse, activation: tanh}\n"
        "data: {train: x.safetensors}\n",
        "--data.valid|a,b");
    assert_round_trip(
        "model:\n  family: llama\n  hidden: 64\n  heads: 4\n  vocab: 300\n  eos: [1, 2, 3]\n"
        "  rope_scaling: {rope_type: llama3, factor: 8, low_freq_factor: 1, "
        "high_freq_factor: 4, original_max_position_embeddings: 128}\n"
        "data: {train: mock}\n",
        "");
}

static void every_lr_schedule_reads_back(void **state)
{
    (void)state;
    for (int i = 0; i < LR_NAMES; i++) {
        text args = {0};
        text_addf(&args, "--lr_schedule.name|%s", LR_LABELS[i]);
        if (i == LR_ONE_CYCLE)
            text_add(&args, "|--lr_schedule.cycle_min_lr|0|--lr_schedule.cycle_max_lr|1");
        assert_round_trip(SMALL, args.chars);
        text_clear(&args);
    }
}

static void a_solved_batch_is_written(void **state)
{
    (void)state;
    job *j = good_job(SMALL, "--launch.ranks|2");
    assert_int_equal(job_solve_batch(j, 2, 8, NULL), OK);
    text t = yaml_of(j);
    assert_non_null(strstr(t.chars, "  micro_batch: 8\n"));
    assert_non_null(strstr(t.chars, "  ranks: 2\n  threads_per_rank: auto\n"));
    text_clear(&t);
    job_close(j);
}

static void explain_tells_values_and_origins(void **state)
{
    (void)state;
    job *j = good_job(SMALL "train:\n  seed: 5\n",
                      "--optimizer.lr|1e-3|--model.n_embd|64|--parallel.hook|bf16|"
                      "--parallel.sequence_parallel");
    text t = {0};
    job_explain(j, true, &t);
    json_t *root = json_loads(t.chars, 0, NULL);
    static const struct {
        const char *path, *value, *origin;
    } expected[] = {
        {"train.seed", "5", "job.yaml:4"},
        {"train.steps", "1000", "default"},
        {"train.out", "\"", "default"},
        {"optimizer.lr", "0.001", "command line"},
        {"optimizer.betas", "[0.9,0.95]", "default"},
        {"model.layers", "2", "job.yaml:1"},
        {"model.hidden", "64", "command line"},
        {"model.ffn", "256", "default"},
        {"model.tie_embeddings", "true", "default"},
        {"data.train", "\"mock\"", "job.yaml:2"},
        {"launch.device", "\"cpu\"",
         "default (auto); device cuda: this program was built without it"},
        {"train.micro_batch", "\"auto\"", "default"},
        {"parallel.tp", "1", "default"},
        {"parallel.dp_shard", "\"auto\"", "default"},
        {"parallel.hook.name", "\"bf16\"", "command line"},
        {"parallel.sequence_parallel", "false", "command line (off: parallel.tp is 1)"},
    };
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        const json_t *entry = json_object_get(root, expected[i].path);
        assert_non_null(entry);
        char *value = json_dumps(json_object_get(entry, "value"),
                                 JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(12));
        assert_memory_equal(value, expected[i].value, strlen(expected[i].value));
        assert_string_equal(json_string_value(json_object_get(entry, "origin")),
                            expected[i].origin);
        free(value);
    }
    json_decref(root);
    text_clear(&t);
    job_explain(j, false, &t);
    assert_non_null(strstr(t.chars, "\ntrain.seed "));
    assert_non_null(strstr(t.chars, " job.yaml:4\n"));
    text_clear(&t);
    job_close(j);
}

static void a_folders_fields_come_from_config_json(void **state)
{
    (void)state;
    assert_int_equal(file_make_directories("m", NULL), OK);
    put_file("m/config.json",
             "{\"model_type\": \"llama\", \"hidden_size\": 32, \"num_attention_heads\": 2}");
    job *j = good_job("model: {path: m}\ndata: {train: mock}\n", "");
    text t = {0};
    job_explain(j, true, &t);
    json_t *root = json_loads(t.chars, 0, NULL), *hidden = json_object_get(root, "model.hidden");
    assert_int_equal(json_integer_value(json_object_get(hidden, "value")), 32);
    assert_string_equal(json_string_value(json_object_get(hidden, "origin")), "config.json");
    json_decref(root);
    text_clear(&t);
    t = yaml_of(j);
    assert_null(strstr(t.chars, "hidden"));
    text_clear(&t);
    job_close(j);
    assert_round_trip("model: {path: m}\ndata: {train: mock}\n", "");
}

static void help_lists_every_key(void **state)
{
    (void)state;
    text t = {0};
    job_help(&t);
    for (int i = 0; i < JOB_KEY_COUNT; i++) {
        assert_non_null(strstr(t.chars, JOB_KEYS[i].path));
        assert_true(JOB_KEYS[i].help && *JOB_KEYS[i].help);
    }
    assert_non_null(strstr(t.chars, "model.rope_theta"));
    text_clear(&t);
    assert_int_equal(job_help_topic("model.classes", &t, NULL), OK);
    assert_non_null(strstr(t.chars, "default    mlp: none"));
    assert_non_null(strstr(t.chars, "also       model.vocab\n"));
    text_clear(&t);
    assert_int_equal(job_help_topic("model.vocab", &t, NULL), OK);
    assert_non_null(strstr(t.chars, "also       model.vocab_size\n"));
    text_clear(&t);
    assert_string_equal(job_help_find("model.n_layer"), "model.layers");
    assert_null(job_help_find("model.factor"));
}

// A value of an enum without a word would end the list of words early.
static void every_value_of_an_enum_has_a_word(void **state)
{
    (void)state;
    int families = 0;
    while (MODEL_FAMILIES[families]) families++;
    const struct {
        const char *path;
        int values;
    } all[] = {{"model.family", families},
               {"model.storage", STORAGE_NF4 + 1},
               {"data.format", SAMPLES_FORMATS},
               {"data.train_on", CHAT_TRAIN_ONS},
               {"data.packing", SAMPLES_PACKINGS},
               {"data.truncate", SAMPLES_TRUNCATES},
               {"data.order", ORDERS},
               {"train.precision", PRECISION_WORDS},
               {"train.reduce_dtype", F16 + 1},
               {"train.loss", JOB_LOSSES},
               {"dpo.loss_type", PREFERENCE_ORPO - PREFERENCE_SIGMOID},
               {"kto.loss_type", 2},
               {"optimizer.name", UPDATE_RULES},
               {"optimizer.lr_scaling", LR_SCALES},
               {"lr_schedule.name", LR_NAMES},
               {"lr_schedule.lr_decay_style", LR_DECAY_STYLES},
               {"lr_schedule.lr_wsd_decay_style", LR_WSD_STYLES},
               {"parallel.pp_schedule", PIPE_SCHEDULES},
               {"parallel.recompute", RECOMPUTES},
               {"parallel.offload.weights", TIERS},
               {"parallel.offload.gradients", TIERS},
               {"parallel.offload.optimizer", TIERS},
               {"parallel.hook.name", HOOKS},
               {"parallel.no_sync", NO_SYNC_MODES},
               {"checks.nonfinite", NONFINITE_ACTIONS}};
    size_t enums = 0;
    for (int i = 0; i < JOB_KEY_COUNT; i++) enums += JOB_KEYS[i].type == KEY_ENUM;
    assert_int_equal(enums, sizeof all / sizeof all[0]);
    for (size_t i = 0; i < enums; i++) {
        const job_key *k = key_find(all[i].path);
        int words = 0;
        assert_int_equal(k->type, KEY_ENUM);
        while (k->words[words]) words++;
        assert_int_equal(words, all[i].values);
    }
}

static void words_of_dtypes_and_policies_are_their_names(void **state)
{
    (void)state;
    for (int i = 0; i <= F16; i++)
        assert_string_equal(key_find("train.precision")->words[i], dtype_name((dtype)i));
    const job_key *dp = key_find("parallel.dp");
    for (size_t i = 0; policy_row(i) || dp->words[i]; i++)
        assert_string_equal(dp->words[i], policy_row(i)->name);
    for (size_t i = 0; dp->also[i][0]; i++) assert_non_null(policy_find(dp->also[i][1]));
}

// Covers every character that YAML readers treat specially, and the characters around it.
static void a_path_of_any_characters_reads_back(void **state)
{
    (void)state;
    static const uint32_t first_last[][2] = {
        {1, 0x2f},        {0x5b, 0x60},       {0x7b, 0x120},
        {0x2020, 0x2030}, {0xd7f0, 0xd7ff},   {0xe000, 0xe010},
        {0xfe00, 0xffff}, {0x10000, 0x10010}, {0x10fff0, 0x10ffff}};
    for (size_t range = 0; range < sizeof first_last / sizeof *first_last; range++)
        for (uint32_t c = first_last[range][0]; c <= first_last[range][1]; c++) {
            char word[8] = {'/', 'x'};
            int n = 2;
            if (c < 0x80) {
                word[n++] = (char)c;
            } else if (c < 0x800) {
                word[n++] = (char)(0xc0 | c >> 6);
            } else if (c < 0x10000) {
                word[n++] = (char)(0xe0 | c >> 12);
                word[n++] = (char)(0x80 | (c >> 6 & 0x3f));
            } else {
                word[n++] = (char)(0xf0 | c >> 18);
                word[n++] = (char)(0x80 | (c >> 12 & 0x3f));
                word[n++] = (char)(0x80 | (c >> 6 & 0x3f));
            }
            if (c >= 0x80) word[n++] = (char)(0x80 | (c & 0x3f));
            word[n] = 'y';
            text quoted = {0};
            yaml_node *back = NULL;
            err e = {0};
            yaml_node_quote(word, &quoted);
            if (yaml_node_parse("quoted", quoted.chars, quoted.bytes, &back, &e) != OK)
                fail_msg("U+%04X: %s", c, e.text);
            if (strcmp(back->scalar, word) != 0) fail_msg("U+%04X: %s", c, quoted.chars);
            yaml_node_free(back);
            text_clear(&quoted);
        }
    assert_round_trip(SMALL, "--train.out|a\xc2\x85"
                             "b\xe2\x80\xa9 c\xef\xbb\xbf");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(job_yaml_reads_back_to_the_same_job),
        cmocka_unit_test(every_lr_schedule_reads_back),
        cmocka_unit_test(a_solved_batch_is_written),
        cmocka_unit_test(explain_tells_values_and_origins),
        cmocka_unit_test(a_folders_fields_come_from_config_json),
        cmocka_unit_test(help_lists_every_key),
        cmocka_unit_test(every_value_of_an_enum_has_a_word),
        cmocka_unit_test(words_of_dtypes_and_policies_are_their_names),
        cmocka_unit_test(a_path_of_any_characters_reads_back),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
