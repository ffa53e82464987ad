// test_fine_tuners.c -- files of transformers' Trainer, TRL, axolotl, LLaMA-Factory and InstructLab: which settings they mean,
// what is refused and in which line, and what a remark says.
#include "config/dialect/dialect.h"
#include "job_fixture.h"

typedef struct tuner_case {
    const char *file, *key, *value; // value NULL: the key is not set
} tuner_case;

static const char *value_of(const translation *t, const char *key)
{
    for (size_t i = 0; i < t->settings; i++)
        if (strcmp(t->setting[i].key, key) == 0) return t->setting[i].value;
    return NULL;
}

static void check(const char *system, const char *name, const tuner_case *c, size_t count)
{
    int different = 0;
    for (size_t i = 0; i < count; i++) {
        translation t = {0};
        err e = {0};
        if (!i || strcmp(c[i].file, c[i - 1].file) != 0) put_file(name, c[i].file);
        if (dialect_read_file(dialect_find(system), name, &t, &e) != OK)
            fail_msg("%s\n%s", c[i].file, e.text);
        const char *found = value_of(&t, c[i].key);
        if ((found == NULL) != (c[i].value == NULL) || (found && strcmp(found, c[i].value) != 0)) {
            print_error("%s\n  %s: found %s, expected %s\n", c[i].file, c[i].key,
                        found ? found : "nothing", c[i].value ? c[i].value : "nothing");
            different++;
        }
        translation_clear(&t);
    }
    assert_int_equal(different, 0);
}
#define CHECK(system, name, all) check(system, name, all, sizeof all / sizeof *all)

static void check_refused(const char *system, const char *name, const char *const (*all)[2],
                          size_t count)
{
    int different = 0;
    for (size_t i = 0; i < count; i++) {
        translation t = {0};
        err e = {0};
        put_file(name, all[i][0]);
        const status s = dialect_read_file(dialect_find(system), name, &t, &e);
        if (s != E_USAGE || strncmp(e.text, all[i][1], strlen(all[i][1])) != 0) {
            print_error("%s\n  status %d, found %s\n  expected %s\n", all[i][0], (int)s, e.text,
                        all[i][1]);
            different++;
        }
        translation_clear(&t);
    }
    assert_int_equal(different, 0);
}
#define CHECK_REFUSED(system, name, all) check_refused(system, name, all, sizeof all / sizeof *all)

// Returns whether a remark of the file has a text.
static bool remarks(const char *system, const char *name, const char *file, const char *what)
{
    translation t = {0};
    err e = {0};
    bool has = false;
    put_file(name, file);
    if (dialect_read_file(dialect_find(system), name, &t, &e) != OK) fail_msg("%s", e.text);
    for (size_t i = 0; i < t.remarks; i++) has = has || strstr(t.remark[i].text, what);
    translation_clear(&t);
    return has;
}

// ---- transformers' Trainer

static void arguments_of_the_trainer(void **state)
{
    (void)state;
    static const tuner_case CASES[] = {
        {"{}", "optimizer.lr", "5e-05"},
        {"{}", "optimizer.betas", "[0.9, 0.999]"},
        {"{}", "optimizer.weight_decay", "0.0"},
        {"{}", "train.epochs", "3"},
        {"{}", "train.micro_batch", "8"},
        {"{}", "train.seed", "42"},
        {"{}", "train.precision", "fp32"},
        {"{}", "train.eval_every", "0"},
        {"{}", "train.save_every", "500"},
        {"{}", "train.keep", "0"},
        {"{}", "lr_schedule.lr_decay_style", "linear"},
        {"{}", "data.order", "torch"},
        {"{}", "parallel.recompute", "none"},
        {"{\"max_steps\": 7}", "train.steps", "7"},
        {"{\"max_steps\": 7}", "train.epochs", NULL},
        {"{\"max_steps\": 1000, \"save_steps\": 0.1}", "train.save_every", "100"},
        {"{\"save_steps\": 0.1}", "train.save_every", "1000000000"},
        {"{\"eval_strategy\": \"steps\"}", "train.eval_every", "500"},
        {"{\"evaluation_strategy\": \"steps\", \"eval_steps\": 20}", "train.eval_every", "20"},
        {"{\"eval_strategy\": \"epoch\"}", "train.eval_every", "0"},
        {"{\"save_strategy\": \"no\"}", "train.save_every", "1000000000"},
        {"{\"load_best_model_at_end\": true}", "train.keep_best", "true"},
        {"{\"bf16\": true}", "train.precision", "bf16"},
        {"{\"fp16\": true}", "train.precision", "fp16"},
        {"{\"tf32\": true}", "train.precision", "tf32"},
        {"{\"use_cpu\": true}", "launch.device", "cpu"},
        {"{\"optim\": \"paged_adamw_8bit\"}", "optimizer.name", "adamw"},
        {"{\"optim\": \"sgd\"}", "optimizer.momentum", "0"},
        {"{\"optim\": \"lion_32bit\"}", "optimizer.name", "lion"},
        {"{\"warmup_ratio\": 0.1}", "lr_schedule.warmup_ratio", "0.1"},
        {"{\"warmup_steps\": 20, \"warmup_ratio\": 0.1}", "lr_schedule.lr_warmup_steps", "20"},
        {"{\"lr_scheduler_type\": \"constant\", \"warmup_steps\": 20}",
         "lr_schedule.lr_warmup_steps", "0"},
        {"{\"report_to\": [\"wandb\", \"tensorboard\"]}", "observe.tensorboard", "true"},
        {"{\"fsdp\": \"full_shard auto_wrap\"}", "parallel.dp", "zero3"},
        {"{\"fsdp\": \"shard_grad_op offload\"}", "parallel.offload.weights", "host"},
        {"{\"fsdp\": true, \"fsdp_config\": {\"reshard_after_forward\": false}}",
         "parallel.reshard_after_forward", "false"},
        {"{\"deepspeed\": {\"zero_optimization\": {\"stage\": 2}, \"bf16\": {\"enabled\": "
         "\"auto\"}}}",
         "parallel.dp", "zero2"},
        {"{\"deepspeed\": {\"optimizer\": {\"type\": \"AdamW\", \"params\": {\"lr\": \"auto\"}}}, "
         "\"learning_rate\": 1e-4}",
         "optimizer.lr", "1e-4"},
        {"{\"train_sampling_strategy\": \"sequential\"}", "data.order", "sequential"},
        {"{\"ddp_timeout\": 60}", "checks.watchdog", "60s"},
    };
    CHECK("trainer", "args.json", CASES);
}

static void forms_of_the_files_of_the_trainer(void **state)
{
    (void)state;
    static const tuner_case YAML[] = {
        {"learning_rate: 1e-4\nfp16: yes\n", "train.precision", "fp16"},
        {"learning_rate: 1e-4\nnum_train_epochs: 2\n", "optimizer.lr", "1e-4"},
    };
    CHECK("trainer", "args.yaml", YAML);
    static const tuner_case SCRIPT[] = {
        {"#!/bin/bash\nLR=3e-4\ntorchrun --nproc_per_node=4 run.py --learning_rate $LR --bf16\n",
         "optimizer.lr", "3e-4"},
        {"torchrun --nproc_per_node=4 run.py --bf16 --fsdp 'full_shard auto_wrap'\n",
         "launch.ranks", "4"},
        {"torchrun --nproc_per_node=4 run.py --bf16 --fsdp 'full_shard auto_wrap'\n", "parallel.dp",
         "zero3"},
        {"--learning_rate 1e-4\n--bf16\n", "train.precision", "bf16"},
    };
    CHECK("trainer", "run.sh", SCRIPT);
}

static void arguments_of_the_trainer_that_are_refused(void **state)
{
    (void)state;
    static const char *const CASES[][2] = {
        {"{\n\"optim\": \"adafactor\"}",
         "args.json:2: optim: found adafactor, which has no equal here; valid: adamw_torch"},
        {"{\"label_smoothing_factor\": 0.1}",
         "args.json:1: label_smoothing_factor: found 0.1; it is another loss"},
        {"{\"neftune_noise_alpha\": 5}", "args.json:1: neftune_noise_alpha: found 5; noise"},
        {"{\"lr_scheduler_type\": \"reduce_lr_on_plateau\"}",
         "args.json:1: lr_scheduler_type: found reduce_lr_on_plateau, which has no equal here"},
        {"{\"lr_scheduler_type\": \"inverse_sqrt\"}",
         "args.json:1: lr_scheduler_type: found inverse_sqrt without a warm-up"},
        {"{\"lr_scheduler_type\": \"cosine\", \"lr_scheduler_kwargs\": {\"num_cycles\": 2}}",
         "args.json:1: lr_scheduler_kwargs.num_cycles: found 2; valid: 0.5"},
        {"{\"lr_scheduler_kwargs\": {\"num_cylces\": 2}}",
         "args.json:1: lr_scheduler_kwargs.num_cylces: unknown key; did you mean num_cycles?"},
        {"{\"bf16\": true, \"fp16\": true}", "args.json:1: fp16: found true beside bf16"},
        {"{\"load_best_model_at_end\": true, \"metric_for_best_model\": \"f1\"}",
         "args.json:1: metric_for_best_model: found f1; valid: eval_loss"},
        {"{\"fsdp\": \"some_shard\"}", "args.json:1: fsdp: found some_shard; valid: full_shard"},
        {"{\"deepspeed\": \"missing.json\"}", "args.json:1: deepspeed: cannot open missing.json"},
        {"{\"num_train_epochs\": 0}", "args.json:1: num_train_epochs: found 0 without max_steps"},
        {"{\"per_device_train_batch_size\": 0}",
         "args.json:1: per_device_train_batch_size: found 0; valid: a whole number from 1"},
        {"{\"use_peft\": true}", "args.json:1: use_peft: found true; it is a key of a script"},
    };
    CHECK_REFUSED("trainer", "args.json", CASES);
}

// ---- TRL

static void configurations_of_trl(void **state)
{
    (void)state;
    put_file("chats.jsonl", "{\"messages\": []}\n");
    put_file("pairs.jsonl", "{\"prompt\": \"a\", \"completion\": \"b\"}\n");
    put_file("three.jsonl", "{}\n{}\n\n{}");
    static const tuner_case CASES[] = {
        {"packing: true\n", "optimizer.lr", "2e-05"},
        {"packing: true\n", "train.precision", "bf16"},
        {"fp16: true\n", "train.precision", "fp16"},
        {"bf16: false\n", "train.precision", "fp32"},
        {"packing: true\n", "parallel.recompute", "full"},
        {"packing: true\n", "data.packing", "bfd"},
        {"packing: true\n", "data.seq_len", "1024"},
        {"packing: true\n", "data.truncate", "keep_start"},
        {"packing: false\n", "data.packing", "none"},
        {"packing: true\npacking_strategy: bfd_split\n", "data.truncate", "split"},
        {"packing: true\npacking_strategy: wrapped\n", "data.packing", "next_fit"},
        {"max_seq_length: 2048\n", "data.seq_len", "2048"},
        {"max_length: null\n", "data.seq_len", NULL},
        {"packing: false\n", "train.loss", NULL},
        {"dataset_name: chats.jsonl\n", "data.train", "chats.jsonl"},
        {"dataset_name: chats.jsonl\n", "data.train_on", "all"},
        {"dataset_name: pairs.jsonl\n", "data.train_on", "completion"},
        {"dataset_name: pairs.jsonl\ncompletion_only_loss: false\n", "data.train_on", "all"},
        {"assistant_only_loss: true\n", "data.train_on", "assistant"},
        {"dataset_name: someone/chats\n", "data.train", NULL},
        {"datasets: [{path: chats.jsonl}, {path: pairs.jsonl}]\n", "data.train",
         "[{path: chats.jsonl}, {path: pairs.jsonl}]"},
        // One line is 0.4 of 2.5, and 0.6 of 2.5 is half of three lines.
        {"datasets: [{path: chats.jsonl, fraction: 0.4}, {path: three.jsonl, fraction: 0.6}]\n",
         "data.train", "[{path: chats.jsonl, weight: 1}, {path: three.jsonl, weight: 0.5}]"},
        {"use_peft: true\n", "lora.rank", "16"},
        {"use_peft: true\n", "lora.alpha", "32"},
        {"use_peft: true\n", "lora.dropout", "0.05"},
        {"use_peft: true\n", "lora.target_modules", "[q_proj, v_proj]"},
        {"use_peft: true\nlora_target_modules: all-linear\n", "lora.target_modules", "all-linear"},
        {"use_peft: true\nlora_target_modules: [o_proj]\n", "lora.target_modules", "[o_proj]"},
        {"use_peft: true\nload_in_4bit: true\n", "model.storage", "nf4"},
        {"lora_r: 4\n", "lora.rank", NULL},
        {"beta: 0.3\n", "train.loss", "dpo"},
        {"beta: 0.3\n", "dpo.beta", "0.3"},
        {"beta: 0.3\n", "optimizer.lr", "1e-6"},
        {"beta: 0.3\nlearning_rate: 5e-7\n", "optimizer.lr", "5e-7"},
        {"beta: 0.3\n", "data.format", "preference"},
        {"beta: 0.3\nmax_length: 100\n", "data.seq_len", "200"},
        {"desirable_weight: 2\nmax_length: 100\n", "data.seq_len", "200"},
        {"beta: 0.3\n", "dpo.loss_type", NULL},
        {"beta: 0.3\nloss_type: [ipo]\n", "dpo.loss_type", "ipo"},
        {"beta: 0.3\nloss_type: robust\nlabel_smoothing: 0.1\n", "dpo.label_smoothing", "0.1"},
        {"beta: 0.3\nlabel_smoothing: 0.1\n", "dpo.label_smoothing", NULL},
        {"beta: 0.3\nloss_type: [apo_zero]\n", "dpo.loss_type", "apo_zero"},
        {"beta: 0.3\nloss_type: discopop\ndiscopop_tau: 0.1\n", "dpo.discopop_tau", "0.1"},
        {"desirable_weight: 2\n", "train.loss", "kto"},
        {"desirable_weight: 2\nloss_type: apo_zero_unpaired\n", "kto.loss_type",
         "apo_zero_unpaired"},
        {"accelerate_config: zero2\nnum_processes: 4\n", "parallel.dp", "zero2"},
        {"accelerate_config: zero2\nnum_processes: 4\n", "launch.ranks", "4"},
    };
    CHECK("trl", "trl.yaml", CASES);
}

static void scripts_that_call_trl(void **state)
{
    (void)state;
    static const tuner_case SCRIPT[] = {
        {"trl dpo --model_name_or_path m --beta 0.2\n", "train.loss", "dpo"},
        {"trl sft --learning_rate 1e-3 --packing\n", "data.packing", "bfd"},
        {"accelerate launch --num_processes 2 trl/scripts/orpo.py --beta 0.2\n", "train.loss",
         "orpo"},
        {"accelerate launch --num_processes 2 trl/scripts/orpo.py --beta 0.2\n", "orpo.beta",
         "0.2"},
        {"accelerate launch --num_processes 2 trl/scripts/sft.py --packing\n", "launch.ranks", "2"},
    };
    CHECK("trl", "trl.sh", SCRIPT);
    assert_true(remarks("trl", "trl.yaml", "dtype: bfloat16\n", "master weights are fp32"));
    assert_true(remarks("trl", "trl.yaml", "dataset_name: a/b\n",
                        "found a/b, which is no *.jsonl file here"));
    assert_false(remarks("trl", "trl.yaml", "dtype: float32\n", "master weights"));
}

static void configurations_of_trl_that_are_refused(void **state)
{
    (void)state;
    static const char *const CASES[][2] = {
        {"loss_type: dft\n", "trl.yaml:1: loss_type: found dft; valid: nll of trl sft"},
        {"beta: 0.1\nloss_type: [sigmoid, ipo]\n",
         "trl.yaml:2: loss_type: found [sigmoid, ipo]; valid: nll of trl sft"},
        {"chat_template_path: other.jinja\n",
         "trl.yaml:1: chat_template_path: found other.jinja; the chat template of the model's"},
        {"use_dora: true\n", "trl.yaml:1: use_dora: found true; the adapter is plain LoRA"},
        {"load_in_4bit: true\n", "trl.yaml:1: load_in_4bit: found true without use_peft"},
        {"num_generations: 8\n", "trl.yaml:1: num_generations: found 8; reinforcement learning"},
        {"packign: true\n", "trl.yaml:1: packign: unknown key; did you mean packing?"},
        {"sync_ref_model: true\n", "trl.yaml:1: sync_ref_model: found true; the reference"},
    };
    CHECK_REFUSED("trl", "trl.yaml", CASES);
}

// ---- axolotl

#define BASE "base_model: someone/model\ndatasets: [{path: chats.jsonl}]\nlearning_rate: 1e-4\n"

static void files_of_axolotl(void **state)
{
    (void)state;
    put_file("chats.jsonl", "{\"messages\": []}\n");
    static const tuner_case CASES[] = {
        {BASE, "data.train", "[{path: chats.jsonl, format: messages}]"},
        {BASE, "data.train_on", "assistant"},
        {BASE, "data.seq_len", "512"},
        {BASE, "data.packing", "none"},
        {BASE, "data.truncate", "drop"},
        {BASE, "train.micro_batch", "1"},
        {BASE, "train.epochs", "1"},
        {BASE, "train.precision", "bf16"},
        {BASE, "train.keep", "4"},
        {BASE, "lr_schedule.lr_decay_style", "cosine"},
        {BASE, "lr_schedule.warmup_ratio", "0.03"},
        {BASE, "lora.rank", NULL},
        {BASE "warmup_steps: 10\n", "lr_schedule.lr_warmup_steps", "10"},
        {BASE "sample_packing: true\n", "data.packing", "bfd"},
        {BASE "train_on_inputs: true\n", "data.train_on", "all"},
        {BASE "bf16: false\n", "train.precision", "fp32"},
        {BASE "bf16: false\nfp16: true\n", "train.precision", "fp16"},
        {BASE "sequence_len: 500_000\n", "data.seq_len", "500_000"},
        {BASE "cosine_min_lr_ratio: 0.1\n", "lr_schedule.min_lr", "1.0e-05"},
        {BASE "gradient_checkpointing: offload\n", "parallel.recompute", "full"},
        {BASE "adapter: lora\nlora_r: 8\nlora_alpha: 16\nlora_target_linear: true\n",
         "lora.target_modules", "all-linear"},
        {BASE "adapter: lora\nlora_r: 8\nlora_alpha: 16\n", "lora.alpha", "16"},
        {BASE "adapter: qlora\nlora_r: 8\n", "model.storage", "nf4"},
        {BASE "adapter: lora\nlora_r: 8\n", "model.storage", NULL},
        {BASE "rl: orpo\norpo_alpha: 0.2\n", "orpo.beta", "0.2"},
        {BASE "rl: dpo\n", "train.loss", "dpo"},
        {BASE "rl: ipo\n", "dpo.loss_type", "ipo"},
        {BASE "rl: dpo\ndpo_loss_type: [nca_pair]\n", "dpo.loss_type", "nca_pair"},
        {BASE "rl: dpo\nsequence_len: 100\n", "data.seq_len", "200"},
        {BASE "rl: dpo\n", "data.train", "[{path: chats.jsonl, format: preference}]"},
        {BASE "fsdp_config: {offload_params: false}\n", "parallel.dp", "zero3"},
        {BASE "tensor_parallel_size: 2\n", "parallel.tp", "2"},
        {BASE "sequence_parallel_degree: 4\n", "parallel.cp", "4"},
        {BASE "save_steps: 50\n", "train.save_every", "50"},
        {BASE "early_stopping_patience: 3\n", "train.early_stopping.patience", "3"},
        {"base_model: m\ndatasets: [{path: chats.jsonl, type: alpaca}]\n", "data.train",
         "[{path: chats.jsonl, format: alpaca}]"},
        {"base_model: m\ndatasets: [{path: chats.jsonl, type: chat_template, field_messages: "
         "conversations, message_property_mappings: {role: from, content: value}}]\n",
         "data.train", "[{path: chats.jsonl, format: sharegpt}]"},
        {"base_model: m\ndatasets: [{path: chats.jsonl, type: {field_instruction: q}}]\n",
         "data.train", NULL},
        {"base_model: m\ndatasets: [{path: json, data_files: chats.jsonl, type: completion}]\n",
         "data.train", "[{path: chats.jsonl, format: text}]"},
    };
    CHECK("axolotl", "axolotl.yml", CASES);
    assert_true(remarks("axolotl", "axolotl.yml", BASE "chat_template: chatml\n",
                        "found chatml; the template of the model's own folder is used"));
    assert_false(remarks("axolotl", "axolotl.yml", BASE "chat_template: tokenizer_default\n",
                         "chat_template"));
    assert_true(remarks("axolotl", "axolotl.yml", BASE "val_set_size: 0.05\n",
                        "val_set_size: found 0.05; valid: data.valid"));
}

static void files_of_axolotl_that_are_refused(void **state)
{
    (void)state;
    put_file("chats.jsonl", "{\"messages\": []}\n");
    static const char *const CASES[][2] = {
        {"datasets: [{path: chats.jsonl}]\n", "axolotl.yml: base_model: not given"},
        {"base_model: m\n", "axolotl.yml: datasets: not given"},
        {BASE "rl: grpo\n", "axolotl.yml:4: rl: found grpo, which has no equal here; valid: dpo"},
        {BASE "plugins: [axolotl.integrations.kd.KDPlugin]\n",
         "axolotl.yml:4: plugins: found axolotl.integrations.kd.KDPlugin, which changes"},
        {BASE "unfrozen_parameters: ['^lm_head']\n",
         "axolotl.yml:4: unfrozen_parameters: found [\"^lm_head\"]; its patterns"},
        {BASE "tokens: ['<|new|>']\n", "axolotl.yml:4: tokens: found new tokens"},
        {BASE "load_in_4bit: true\n", "axolotl.yml:4: load_in_4bit: found true without adapter"},
        {BASE "relora: true\n", "axolotl.yml:4: relora: found true; it is another training"},
        {BASE "lr_scheduler: one_cycle\n",
         "axolotl.yml:4: lr_scheduler: found one_cycle, which has no equal here"},
    };
    CHECK_REFUSED("axolotl", "axolotl.yml", CASES);
}

// ---- LLaMA-Factory

static void put_info(void)
{
    put_file("a.jsonl", "{\"instruction\": \"a\", \"output\": \"b\"}\n");
    put_file("b.jsonl", "{\"conversations\": []}\n");
    put_file("c.jsonl", "{\"messages\": []}\n");
    put_file("d.json", "[]\n");
    put_file("dataset_info.json",
             "{\"a\": {\"file_name\": \"a.jsonl\"},\n"
             " \"b\": {\"file_name\": \"b.jsonl\", \"formatting\": \"sharegpt\"},\n"
             " \"c\": {\"file_name\": \"c.jsonl\", \"formatting\": \"sharegpt\",\n"
             "  \"columns\": {\"messages\": \"messages\"}, \"tags\": {\"role_tag\": \"role\",\n"
             "  \"content_tag\": \"content\", \"user_tag\": \"user\", \"assistant_tag\": "
             "\"assistant\"}},\n"
             " \"d\": {\"file_name\": \"d.json\"}, \"e\": {\"hf_hub_url\": \"x/e\"},\n"
             " \"f\": {\"file_name\": \"a.jsonl\", \"columns\": {\"prompt\": \"question\"}}}\n");
}
#define INFO "dataset_dir: .\n"

static void files_of_llamafactory(void **state)
{
    (void)state;
    put_info();
    static const tuner_case CASES[] = {
        {INFO "dataset: a\n", "data.train", "[{path: \"./a.jsonl\", format: alpaca}]"},
        {INFO "dataset: a, b\n", "data.train",
         "[{path: \"./a.jsonl\", format: alpaca}, {path: \"./b.jsonl\", format: sharegpt}]"},
        {INFO "dataset: [c]\n", "data.train", "[{path: \"./c.jsonl\", format: messages}]"},
        {INFO "dataset: a,b\nmix_strategy: interleave_under\ninterleave_probs: [0.8, 0.2]\n",
         "data.train",
         "[{path: \"./a.jsonl\", format: alpaca, weight: 1}, "
         "{path: \"./b.jsonl\", format: sharegpt, weight: 0.25}]"},
        {INFO "dataset: a,b\nmix_strategy: interleave_over\ninterleave_probs: [0.8, 0.2]\n",
         "data.train",
         "[{path: \"./a.jsonl\", format: alpaca, weight: 4}, "
         "{path: \"./b.jsonl\", format: sharegpt, weight: 1}]"},
        {INFO "dataset: d\n", "data.train", NULL},
        {INFO "dataset: e\n", "data.train", NULL},
        {INFO "dataset: f\n", "data.train", NULL},
        {INFO, "lora.rank", "8"},
        {INFO, "lora.alpha", "16"},
        {INFO, "lora.target_modules", "all-linear"},
        {INFO "lora_target: q_proj,v_proj\n", "lora.target_modules", "[q_proj, v_proj]"},
        {INFO "lora_rank: 64\n", "lora.alpha", "128"},
        {INFO "finetuning_type: full\n", "lora.rank", NULL},
        {INFO "quantization_bit: 4\n", "model.storage", "nf4"},
        {INFO, "data.seq_len", "2048"},
        {INFO, "data.train_on", "assistant"},
        {INFO "mask_history: true\n", "data.train_on", "completion"},
        {INFO "train_on_prompt: true\n", "data.train_on", "all"},
        {INFO, "data.packing", "none"},
        {INFO "neat_packing: true\n", "data.packing", "bfd"},
        {INFO "stage: pt\n", "data.packing", "bfd"},
        {INFO, "parallel.recompute", "full"},
        {INFO "stage: dpo\n", "train.loss", "dpo"},
        {INFO "stage: dpo\npref_loss: orpo\n", "orpo.beta", "0.1"},
        {INFO "stage: dpo\npref_loss: hinge\n", "dpo.loss_type", "hinge"},
        {INFO "stage: dpo\ncutoff_len: 100\n", "data.seq_len", "200"},
        {INFO "stage: kto\n", "train.loss", "kto"},
        {INFO "pure_bf16: true\n", "train.precision", "bf16"},
        {INFO "learning_rate: 1.0e-4\nlr_scheduler_type: cosine\n", "optimizer.lr", "1.0e-4"},
        {INFO "disable_shuffling: true\n", "data.order", "sequential"},
    };
    CHECK("llamafactory", "lf.yaml", CASES);
    assert_true(remarks("llamafactory", "lf.yaml", INFO "dataset: d\n", "is one list"));
    assert_true(remarks("llamafactory", "lf.yaml", INFO "dataset: f\n", "columns or tags"));
    assert_true(remarks("llamafactory", "lf.yaml", INFO "template: qwen\n",
                        "found qwen; the template of the model's own folder is used"));
    static const tuner_case SCRIPT[] = {
        {"llamafactory-cli train \\\n --stage sft --lora_rank 16 --dataset_dir . --dataset a\n",
         "lora.rank", "16"},
        {"llamafactory-cli train --stage dpo --pref_beta 0.2\n", "dpo.beta", "0.2"},
    };
    CHECK("llamafactory", "lf.sh", SCRIPT);
}

static void files_of_llamafactory_that_are_refused(void **state)
{
    (void)state;
    put_info();
    static const char *const CASES[][2] = {
        {INFO "dataset: z\n", "lf.yaml:2: dataset: found z, which dataset_info.json does not have"},
        {INFO "stage: ppo\n", "lf.yaml:2: stage: found ppo, which has no equal here; valid: pt"},
        {INFO "finetuning_type: freeze\n",
         "lf.yaml:2: finetuning_type: found freeze; valid: groups"},
        {INFO "use_galore: true\n", "lf.yaml:2: use_galore: found true; it is another optimizer"},
        {INFO "use_dft_loss: true\n", "lf.yaml:2: use_dft_loss: found true; it is another loss"},
        {INFO "quantization_bit: 3\n", "lf.yaml:2: quantization_bit: found 3; valid: 4"},
        {INFO "quantization_bit: 4\nfinetuning_type: full\n",
         "lf.yaml:2: quantization_bit: found 4 without finetuning_type: lora"},
        {INFO "pref_loss: simpo\n", "lf.yaml:2: pref_loss: found simpo, which has no equal here"},
        {INFO "cutof_len: 3\n", "lf.yaml:2: cutof_len: unknown key; did you mean cutoff_len?"},
    };
    CHECK_REFUSED("llamafactory", "lf.yaml", CASES);
}

// ---- InstructLab

static void conversations_and_adapters_of_instructlab(void **state)
{
    (void)state;
    put_file("skills.jsonl", "{\"messages\": []}\n");
    static const tuner_case CASES[] = {
        {"train: {data_path: skills.jsonl}\n", "data.train", "skills.jsonl"},
        {"train: {data_path: skills.jsonl}\n", "data.format", "instructlab"},
        {"train: {data_path: skills.jsonl}\n", "data.packing", "none"},
        {"train: {data_path: skills.jsonl}\n", "data.truncate", "drop"},
        {"train: {data_path: skills.jsonl}\n", "lora.rank", NULL},
        {"train: {data_path: skills.jsonl}\n", "model.storage", NULL},
        {"train: {lora_rank: 4}\n", "lora.rank", "4"},
        {"train: {lora_rank: 4}\n", "lora.alpha", "32"},
        {"train: {lora_rank: 4}\n", "lora.dropout", "0.1"},
        {"train: {lora_rank: 4}\n", "lora.target_modules", "all-linear"},
        {"train: {lora_rank: 4}\n", "model.storage", "nf4"},
        {"train: {lora_rank: 4, lora_quantize_dtype: null}\n", "model.storage", "auto"},
        {"train: {lora_rank: 4, additional_args: {lora_target_modules: [q_proj]}}\n",
         "lora.target_modules", "[q_proj]"},
    };
    CHECK("instructlab", "config.yaml", CASES);
}

// A model of the hub is the snapshot in its cache.
static void a_model_of_the_hub_is_its_snapshot(void **state)
{
    (void)state;
    char *here = getcwd(NULL, 0);
    text folder = {0};
    err e = {0};
    text_addf(&folder, "%s/hub", here);
    assert_int_equal(setenv("HF_HUB_CACHE", folder.chars, 1), 0);
    text_clear(&folder);
    text_addf(&folder, "%s/hub/models--a--b/refs", here);
    assert_int_equal(file_make_directories(folder.chars, &e), OK);
    text_clear(&folder);
    text_addf(&folder, "%s/hub/models--a--b/snapshots/f00", here);
    assert_int_equal(file_make_directories(folder.chars, &e), OK);
    put_file("hub/models--a--b/refs/main", "f00");
    put_file("hub/models--a--b/snapshots/f00/config.json", "{}");
    const tuner_case CASES[] = {
        {"model_name_or_path: a/b\n", "model.path", folder.chars},
        {"model_name_or_path: a/c\n", "model.path", NULL},
    };
    CHECK("trl", "trl.yaml", CASES);
    static const char *const NO_TEMPLATE[][2] = {
        {"model_name_or_path: a/b\ntemplate: qwen\n", "lf.yaml:2: template: found qwen, and "}};
    CHECK_REFUSED("llamafactory", "lf.yaml", NO_TEMPLATE);
    put_file("hub/models--a--b/snapshots/f00/chat_template.jinja", "{{ messages }}");
    assert_true(remarks("llamafactory", "lf.yaml", "model_name_or_path: a/b\ntemplate: qwen\n",
                        "the template of the model's own folder is used"));
    unsetenv("HF_HUB_CACHE");
    text_clear(&folder);
    free(here);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arguments_of_the_trainer),
        cmocka_unit_test(forms_of_the_files_of_the_trainer),
        cmocka_unit_test(arguments_of_the_trainer_that_are_refused),
        cmocka_unit_test(configurations_of_trl),
        cmocka_unit_test(scripts_that_call_trl),
        cmocka_unit_test(configurations_of_trl_that_are_refused),
        cmocka_unit_test(files_of_axolotl),
        cmocka_unit_test(files_of_axolotl_that_are_refused),
        cmocka_unit_test(files_of_llamafactory),
        cmocka_unit_test(files_of_llamafactory_that_are_refused),
        cmocka_unit_test(conversations_and_adapters_of_instructlab),
        cmocka_unit_test(a_model_of_the_hub_is_its_snapshot),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
