// test_refusals.c -- the error line of each mistake in a job file or on a command line.
#include "job_fixture.h"

#define FAMILIES                                                                                   \
    "gpt2, llama, qwen2, qwen3, mistral, ministral3, gemma2, gemma3, gemma4, smollm3, phi3, "      \
    "granite, granite_swa, olmo2, olmo3, exaone4, glm, glm4, cohere, cohere2, ernie4_5, "          \
    "hunyuan_v1_dense, seed_oss, starcoder2, stablelm, arcee, apertus, "                           \
    "lfm2, qwen3_5, qwen3_next or mlp"

static void unknown_keys_get_a_guess_or_a_list(void **state)
{
    (void)state;
    static const refusal all[] = {
        {SMALL "train:\n  step: 5", "",
         "job.yaml:4: train.step: unknown key; did you mean train.steps?"},
        {SMALL "train:\n  lr: 5", "",
         "job.yaml:4: train.lr: unknown key; did you mean optimizer.lr?"},
        {SMALL "trian: {steps: 5}", "", "job.yaml:3: trian: unknown key; did you mean train?"},
        {SMALL "banana: 5", "",
         "job.yaml:3: banana: unknown key; valid: model, lora, data, train, dpo, orpo, kto, "
         "optimizer, "
         "lr_schedule, parallel, groups, memory, launch, checks, observe"},
        {SMALL "checks: {xyzzy: 1}", "",
         "job.yaml:3: checks.xyzzy: unknown key; valid: replicas_every, nonfinite, watchdog, "
         "desync, flight_recorder, flight_recorder_prefix"},
        {SMALL, "--train.global-batch|4",
         "--train.global-batch: unknown option; did you mean train.global_batch?"},
        {SMALL, "--seq_len|4", "--seq_len: unknown option; did you mean data.seq_len?"},
        {SMALL, "--verbose",
         "--verbose: unknown option; valid: model, lora, data, train, dpo, orpo, kto, optimizer, "
         "lr_schedule, parallel, groups, memory, launch, checks, observe"},
        {SMALL, "--model.haeds|5",
         "--model.haeds: not a field of gpt2 models; did you mean heads?"},
        {MODEL "data: {train: [{path: a, wieght: 2}]}", "",
         "job.yaml:2: data.train: found key wieght; valid: path, weight, documents, format"},
    };
    ASSERT_ALL_REFUSED(all);
}

static void values_of_the_wrong_kind_are_refused(void **state)
{
    (void)state;
    static const refusal all[] = {
        {SMALL "train: {steps: many}", "",
         "job.yaml:3: train.steps: found many; valid: a whole number from 1 to 1000000000000000"},
        {SMALL "train: {steps: 1.5}", "",
         "job.yaml:3: train.steps: found 1.5; valid: a whole number from 1 to 1000000000000000"},
        {SMALL "train: {steps: }", "",
         "job.yaml:3: train.steps: found nothing; valid: a whole number from 1 to "
         "1000000000000000"},
        {SMALL "train: {steps: [1]}", "",
         "job.yaml:3: train.steps: found [1]; valid: a whole number from 1 to 1000000000000000"},
        {SMALL "train: {out: {a: b}}", "", "job.yaml:3: train.out: found {a: b}; valid: a path"},
        {SMALL "train: {out: ''}", "", "job.yaml:3: train.out: found \"\"; valid: a path"},
        {SMALL "optimizer: adamw", "",
         "job.yaml:3: optimizer: found adamw; valid: a section of name, lr, "
         "lr_scaling, betas, momentum, eps, ema, weight_decay, decay"},
        {SMALL "memory: [1]", "", "job.yaml:3: memory: found [1]; valid: a section of budget, fit"},
        {"[a, b]", "",
         "job.yaml:1: found a list; valid: sections of keys, as train: {steps: 1000}"},
        {"word", "", "job.yaml:1: found a word; valid: sections of keys, as train: {steps: 1000}"},
        {SMALL "optimizer: {betas: 0.9}", "",
         "job.yaml:3: optimizer.betas: found 0.9; valid: two numbers from 0 to below 1, as [0.9, "
         "0.95]"},
        {SMALL "optimizer: {betas: [0.9, 1]}", "",
         "job.yaml:3: optimizer.betas: found [0.9, 1]; valid: two numbers from 0 to below 1, as "
         "[0.9, 0.95]"},
        {SMALL "checks: {watchdog: soon}", "",
         "job.yaml:3: checks.watchdog: found soon; valid: a duration such as 30s or 500ms, at most "
         "1000000000s, 0 for "
         "off"},
        {SMALL, "--model.n_head|abc",
         "--model.n_head: found \"abc\", valid are whole numbers from 1 to 2147483647"},
    };
    ASSERT_ALL_REFUSED(all);
}

static void impossible_values_are_refused(void **state)
{
    (void)state;
    static const refusal all[] = {
        {SMALL "train: {steps: -5}", "",
         "job.yaml:3: train.steps: found -5; valid: a whole number from 1 to 1000000000000000"},
        {SMALL "train: {seed: 99999999999999999999}", "",
         "job.yaml:3: train.seed: found 99999999999999999999; valid: a whole number from 0 to "
         "9223372036854775807"},
        {SMALL "train: {epochs: 0}", "",
         "job.yaml:3: train.epochs: found 0; valid: a number > 0, at most 1.0e+09"},
        {SMALL "optimizer: {lr: -1e-3}", "",
         "job.yaml:3: optimizer.lr: found -1e-3; valid: a number >= 0"},
        {SMALL "optimizer: {lr: .nan}", "",
         "job.yaml:3: optimizer.lr: found .nan; valid: a number >= 0"},
        {SMALL "lr_schedule: {min_ratio: 1.5}", "",
         "job.yaml:3: lr_schedule.min_ratio: found 1.5; valid: a number from 0 to 1"},
        {SMALL "launch: {ranks: 100000}", "",
         "job.yaml:3: launch.ranks: found 100000; valid: auto, or a whole number from 1 to 16384"},
        {SMALL "data: {order: shufle}", "",
         "job.yaml:3: key data is given twice; the first is in line 2"},
        {SMALL, "--data.order|shufle",
         "--data.order: found shufle; valid: shuffle, sequential, torch, megatron; did you mean "
         "shuffle?"},
        {SMALL, "--parallel.bucket_bytes=0",
         "--parallel.bucket_bytes: found 0; valid: a whole number from 1 to 1152921504606846976"},
        {MODEL "data: {train: [{path: a, weight: -2}]}", "",
         "job.yaml:2: data.train: found weight -2; valid: a number > 0"},
        {MODEL "data: {train: []}", "",
         "job.yaml:2: data.train: found []; valid: a path, mock, or a list of paths or {path, "
         "weight, documents, format}"},
        {SMALL, "--data.train|mock,a",
         "--data.train: found mock among other parts; valid: mock alone"},
        {SMALL, "--model.heads|5",
         "job.yaml:1: model.hidden: found 32, valid are multiples of heads (5)"},
        {SMALL "data.seq_len: 100", "",
         "job.yaml:3: data.seq_len: found 100; valid: up to the model's max_seq, which is 64"},
    };
    ASSERT_ALL_REFUSED(all);
}

static void unsupported_words_are_refused(void **state)
{
    (void)state;
    static const refusal all[] = {
        {SMALL "launch: {device: cuda}", "",
         "job.yaml:3: launch.device: device cuda: this program was built without it"},
        {SMALL "checks: {desync: maybe}", "",
         "job.yaml:3: checks.desync: found maybe; valid: off, on"},
    };
    ASSERT_ALL_REFUSED(all);
}

static void keys_that_contradict_each_other_are_refused(void **state)
{
    (void)state;
    static const refusal all[] = {
        {SMALL "train:\n  steps: 5\n  epochs: 2", "",
         "job.yaml:5: train.epochs: train.steps is given too; valid: one of train.steps, "
         "train.epochs and train.tokens"},
        {SMALL "train.seed: 1\ntrain: {seed: 2}", "",
         "job.yaml:4: train.seed: given twice; the first is in line 3"},
        {"model:\n  path: /tmp\n  family: gpt2\n", "",
         "job.yaml:3: model.family: model.path is given too; valid: one of the two"},
        {"model:\n  path: /tmp\n  layers: 2\n", "",
         "job.yaml:3: model.layers: model.path is given, and its config.json says what the model "
         "is; valid: one of the two"},
        {"model: {family: gpt2, heads: 4, n_head: 4}\n", "",
         "job.yaml:1: model.n_head: sets what model.heads has set already"},
        {"model: {family: gpt2, init: checkpoint}", "",
         "job.yaml:1: model.init: found checkpoint; it needs model.path, a folder with weights"},
        {SMALL, "--model.storage|nf4",
         "--model.storage: found nf4, which keeps frozen weights, but all weights train; valid: "
         "auto, lora.rank, or an entry of groups with trainable: false"},
        {"data: {train: mock}", "",
         "job.yaml: model: not given; valid: model.path: a HuggingFace folder, or "
         "model.family: " FAMILIES},
        {NULL, "",
         "model: not given; valid: model.path: a HuggingFace folder, or model.family: " FAMILIES},
        {MODEL, "",
         "job.yaml: data.train: not given; valid: PREFIX of token shards, a *.safetensors file, "
         "mock, FILE.jsonl, or a list of {path, weight, documents, format}"},
        {SMALL, "--model.path|/nowhere",
         "--model.path: found /nowhere, which is not a folder; valid: a HuggingFace folder on this "
         "machine"},
        {SMALL, "--lr_schedule.name|OneCycle",
         "job.yaml: lr_schedule.cycle_min_lr: not given; OneCycle needs it"},
        {SMALL, "--lr_schedule.cycle_min_lr|1",
         "--lr_schedule.cycle_min_lr: not a parameter of the schedule cosine (lr_schedule.name)"},
        {SMALL, "--optimizer.name|sgd|--optimizer.betas|0.1,0.2",
         "--optimizer.betas: not a parameter of the optimizer sgd (optimizer.name)"},
        {SMALL, "--optimizer.momentum|0.5",
         "--optimizer.momentum: not a parameter of the optimizer adamw (optimizer.name)"},
        {SMALL, "--train.micro_batch|65",
         "--train.micro_batch: found 65; valid: at most train.global_batch, which is 64"},
        {"model: {family: mlp, features: 3, classes: 2}\ndata: {train: x}\ntrain: {tokens: 5}", "",
         "job.yaml:3: train.tokens: mlp reads vectors, not tokens; valid: train.steps or "
         "train.epochs"},
    };
    ASSERT_ALL_REFUSED(all);
}

static void a_batch_that_cannot_be_split_gets_the_nearest_that_can(void **state)
{
    (void)state;
    static const refusal all[] = {
        {SMALL "train: {global_batch: 10}", "--launch.ranks|4",
         "job.yaml:3: train.global_batch: found 10, not a multiple of 4 ranks; nearest valid: 8 "
         "and 12; valid launch.ranks for 10: 1, 2, 5, 10" BATCH_RULE},
        {SMALL, "--launch.ranks|4|--train.global_batch|2",
         "--train.global_batch: found 2, not a multiple of 4 ranks; nearest valid: 4; valid "
         "launch.ranks for 2: 1, 2" BATCH_RULE},
        {SMALL, "--launch.ranks|4|--train.micro_batch|6",
         "job.yaml: train.global_batch: found 64, not a multiple of 4 ranks x micro_batch 6 = 24; "
         "nearest valid: 48 and 72; valid train.micro_batch for 64: 1, 2, 4, 8, 16, 32, "
         "64" BATCH_RULE},
        {SMALL "train: {global_batch: 12, micro_batch: 2}", "--launch.ranks|4",
         "job.yaml:3: train.global_batch: found 12, not a multiple of 4 ranks x micro_batch 2 = 8; "
         "nearest valid: 8 and 16; valid launch.ranks for 12: 1, 2, 3, 6" BATCH_RULE},
    };
    ASSERT_ALL_REFUSED(all);
}

static void broken_yaml_is_refused_with_line_and_column(void **state)
{
    (void)state;
    static const refusal all[] = {
        {"a: [1,\nb: 2", "",
         "job.yaml:3:1: broken YAML: did not find expected ',' or ']' while parsing a flow "
         "sequence"},
        {SMALL "  bad", "",
         "job.yaml:3:3: broken YAML: did not find expected key while parsing a block mapping"},
        {"a: \xff", "", "job.yaml: broken YAML: invalid leading UTF-8 octet at byte 3"},
        {"a:\n\tb: 1", "", "job.yaml:2: found a tab before the key; valid: spaces"},
        {SMALL "train: {steps: *x}", "",
         "job.yaml:3:16: alias *x: aliases are not supported; text that begins with * needs "
         "quotes"},
        {SMALL, "--groups|[{match: *.bias}]",
         "--groups:1:11: broken YAML: did not find expected alphabetic or numeric character while "
         "scanning an alias; text that begins with * needs quotes"},
        {SMALL "---\ntrain: {}", "",
         "job.yaml:3: a second document begins here; a job file is one"},
        {"? [a]\n: b", "", "job.yaml:1:3: a key must be a word, not a list"},
        {"a: [[[[[[[[[[[[[[[[[[", "", "job.yaml:1:19: more than 16 levels of nesting"},
        {"train: {seed: \"a\\0b\"}", "", "job.yaml:1:15: a zero byte in text"},
        {SMALL, "--optimizer|{name: sgd",
         "--optimizer:2:1: broken YAML: did not find expected ',' or '}' while parsing a flow "
         "mapping"},
    };
    ASSERT_ALL_REFUSED(all);
}

static void arguments_that_are_no_options_are_refused(void **state)
{
    (void)state;
    static const refusal all[] = {
        {SMALL, "word", "found argument word; valid: --key value or --key=value"},
        {SMALL, "-x", "found argument -x; valid: --key value or --key=value"},
        {SMALL, "--", "found argument --; valid: --key value or --key=value"},
        {SMALL, "--train.steps", "--train.steps: needs a value"},
        {SMALL, "--train.steps|--quiet", "--train.steps: needs a value"},
        {SMALL, "--train.out=\xff", "--train.out: the value is not UTF-8 at byte 0"},
        {SMALL, "--train|5",
         "--train: found 5; valid: a section of steps, epochs, tokens, global_batch, micro_batch, "
         "accumulation, seed, precision, deterministic, reduce_dtype, fp16, clip_grad_norm, "
         "eval_every, "
         "eval_batches, "
         "save_every, keep, async_save, keep_best, early_stopping, out, loss"},
    };
    ASSERT_ALL_REFUSED(all);
    err e;
    job *j;
    assert_int_equal(job_open("absent.yaml", 0, NULL, &j, &e), E_USAGE);
    assert_string_equal(e.text, "cannot open absent.yaml: No such file or directory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unknown_keys_get_a_guess_or_a_list),
        cmocka_unit_test(values_of_the_wrong_kind_are_refused),
        cmocka_unit_test(impossible_values_are_refused),
        cmocka_unit_test(unsupported_words_are_refused),
        cmocka_unit_test(keys_that_contradict_each_other_are_refused),
        cmocka_unit_test(a_batch_that_cannot_be_split_gets_the_nearest_that_can),
        cmocka_unit_test(broken_yaml_is_refused_with_line_and_column),
        cmocka_unit_test(arguments_that_are_no_options_are_refused),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
