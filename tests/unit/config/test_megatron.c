// Megatron-LM's arguments: what each group of them means, what is refused and with which line, and the words of scripts.
#include "config/job.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

// The lines that hold a GPT-2 and a run.
#define GPT                                                                                        \
    "--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 32\n"                    \
    "--max-position-embeddings 32 --micro-batch-size 2 --global-batch-size 16\n"                   \
    "--train-iters 100 --lr 1e-3 --vocab-size 250 --tokenizer-type NullTokenizer\n"
#define LLAMA                                                                                      \
    GPT "--position-embedding-type rope --normalization RMSNorm --swiglu --disable-bias-linear\n"  \
        "--untie-embeddings-and-output-weights --attention-dropout 0 --hidden-dropout 0\n"

static status translate(const char *script, text *out, err *e)
{
    char path[] = "/tmp/trireme-megatron-XXXXXX", *file = path;
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, script, strlen(script)), (ssize_t)strlen(script));
    close(fd);
    const status result = job_translate("megatron", 1, &file, 0, NULL, false, out, e);
    unlink(path);
    return result;
}

// The value of a key in the job that `yaml` holds, without its comment. "": the key is not there.
static void find(const char *yaml, const char *path, char value[256])
{
    char section[64];
    const char *dot = strchr(path, '.'), *in = yaml;
    snprintf(section, sizeof section, "\n%.*s:\n", (int)(dot - path), path);
    value[0] = 0;
    in = strstr(yaml, section);
    if (!in) return;
    for (in += strlen(section); *in == ' '; in = strchr(in, '\n') + 1) {
        const size_t bytes = strlen(dot + 1);
        if (strncmp(in + 2, dot + 1, bytes) != 0 || in[2 + bytes] != ':') continue;
        const char *from = in + 4 + bytes, *end = strstr(from, " #");
        snprintf(value, 256, "%.*s", (int)(end - from), from);
        for (size_t n = strlen(value); n && value[n - 1] == ' '; n--) value[n - 1] = 0;
        return;
    }
}

typedef struct megatron_case {
    const char *script, *key, *value; // value "": the key is not set
} megatron_case;

static void check(const megatron_case *c, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        err e = {0};
        text out = {0};
        char value[256];
        if (translate(c[i].script, &out, &e) != OK)
            fail_msg("%s\n%s: %s", c[i].script, c[i].key, e.text);
        find(out.chars, c[i].key, value);
        if (strcmp(value, c[i].value) != 0)
            fail_msg("%s\n%s: found '%s', expected '%s'", c[i].script, c[i].key, value, c[i].value);
        text_clear(&out);
    }
}

#define CHECK(...)                                                                                 \
    do {                                                                                           \
        static const megatron_case cases[] = {__VA_ARGS__};                                        \
        check(cases, sizeof cases / sizeof *cases);                                                \
    } while (0)

static void the_model_has_the_family_that_fits(void **state)
{
    (void)state;
    CHECK({GPT, "model.family", "gpt2"}, {GPT, "model.ffn", "256"}, {GPT, "model.vocab", "256"},
          {GPT, "model.drop_residual", "0.1"}, {GPT, "model.activation", "gelu_new"},
          {GPT "--no-bias-gelu-fusion", "model.activation", "gelu"},
          {GPT "--tensor-model-parallel-size 4", "model.vocab", "512"},
          {GPT "--make-vocab-size-divisible-by 1", "model.vocab", "250"},
          {LLAMA, "model.family", "llama"}, {LLAMA, "model.ffn", "128"},
          {LLAMA, "model.tie_embeddings", "false"}, {LLAMA, "model.norm_eps", "1e-5"},
          {LLAMA "--norm-epsilon 1e-6", "model.norm_eps", "1e-6"},
          {LLAMA "--group-query-attention --num-query-groups 2", "model.kv_heads", "2"},
          {LLAMA "--num-query-groups 2", "model.kv_heads", "4"},
          {LLAMA "--kv-channels 32", "model.head_dim", "32"},
          {LLAMA "--rotary-base 500000", "model.rope_theta", "500000"},
          {LLAMA "--use-rope-scaling", "model.rope_factor", "8"},
          {LLAMA "--add-qkv-bias", "model.family", "qwen2"},
          {LLAMA "--qk-layernorm", "model.family", "qwen3"},
          {GPT "--position-embedding-type rope", "model.family", "starcoder2"},
          {GPT "--init-method-std 0.01", "model.init_std", "0.01"});
}

static void ranks_and_batches_divide(void **state)
{
    (void)state;
#define RUN "torchrun --nproc_per_node=4 --nnodes 2 pretrain_gpt.py --micro-batch-size 2 --lr 1 "
    CHECK({RUN "--train-iters 5", "launch.ranks", "8"},
          {RUN "--train-iters 5", "train.accumulation", "1"},
          {RUN "--train-iters 5", "train.global_batch", ""},
          {RUN "--train-samples 170", "train.steps", "10"},
          {RUN "--train-samples 170 --tensor-model-parallel-size 2", "train.steps", "21"},
          {RUN "--train-samples 160", "lr_schedule.lr_decay_steps", "10"},
          {"deepspeed --num_gpus 2 p.py --lr 1 --train-iters 5", "launch.ranks", "2"},
          {"torchrun --nproc-per-node $N p.py --lr 1 --train-iters 5", "launch.ranks", ""});
}

static void schedules_count_steps_or_samples(void **state)
{
    (void)state;
#define SAMPLES "--lr 1e-3 --micro-batch-size 2 --global-batch-size 16 --train-samples 1600 "
    CHECK({GPT, "lr_schedule.lr_decay_style", "linear"}, {GPT, "lr_schedule.lr_decay_steps", ""},
          {GPT, "lr_schedule.lr_warmup_steps", "0"},
          {GPT "--lr-decay-iters 80", "lr_schedule.lr_decay_steps", "80"},
          {GPT "--lr-warmup-fraction .02", "lr_schedule.lr_warmup_steps", "2"},
          {GPT "--lr-warmup-iters 7", "lr_schedule.lr_warmup_steps", "7"},
          {GPT "--min-lr 1e-4", "lr_schedule.min_lr", "0.0001"},
          {GPT "--lr-decay-style WSD --lr-wsd-decay-iters 9", "lr_schedule.wsd_decay_steps", "9"},
          {GPT "--lr-decay-style WSD --lr-wsd-decay-iters 9", "lr_schedule.lr_wsd_decay_style",
           "exponential"},
          {SAMPLES, "train.steps", "100"},
          {SAMPLES "--lr-warmup-samples 40", "lr_schedule.lr_warmup_steps", "2.5"},
          {SAMPLES "--lr-decay-samples 800", "lr_schedule.lr_decay_steps", "50"});
}

static void numbers_and_the_optimizer(void **state)
{
    (void)state;
    CHECK({GPT, "train.precision", "fp32"}, {GPT "--bf16", "train.precision", "bf16"},
          {GPT "--bf16", "train.reduce_dtype", "fp32"},
          {GPT "--bf16 --grad-reduce-in-bf16", "train.reduce_dtype", "bf16"},
          {GPT "--fp16", "train.reduce_dtype", "fp16"},
          {GPT "--fp16 --accumulate-allreduce-grads-in-fp32", "train.reduce_dtype", "fp32"},
          {GPT, "optimizer.name", "adamw"}, {GPT, "optimizer.betas", "[0.9, 0.999]"},
          {GPT "--adam-beta2 .95", "optimizer.betas", "[0.9, 0.95]"},
          {GPT "--optimizer sgd", "optimizer.momentum", "0.9"},
          {GPT, "optimizer.weight_decay", "0.01"}, {GPT, "optimizer.decay", "matrices"},
          {GPT, "train.clip_grad_norm", "1.0"}, {GPT "--clip-grad 0", "train.clip_grad_norm", "0"},
          {GPT, "train.seed", "1234"}, {GPT "--seed 7", "train.seed", "7"});
}

static void strategies(void **state)
{
    (void)state;
    CHECK({GPT, "parallel.dp", "ddp"}, {GPT "--use-distributed-optimizer", "parallel.dp", "zero1"},
          {GPT "--use-torch-fsdp2", "parallel.dp", "zero3"},
          {GPT "--use-megatron-fsdp", "parallel.dp", "zero3"},
          {GPT "--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads", "parallel.dp",
           "zero2"},
          {GPT "--sequence-parallel", "parallel.sequence_parallel", ""},
          {GPT "--sequence-parallel --tensor-model-parallel-size 2", "parallel.sequence_parallel",
           "true"},
          {GPT "--pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 1",
           "parallel.virtual_stages", "2"},
          {GPT "--pipeline-model-parallel-size 2 --decoder-first-pipeline-num-layers 1",
           "parallel.split", "[1, 3]"},
          {GPT "--recompute-activations", "parallel.recompute", "selective"},
          {GPT "--activations-checkpoint-method uniform --activations-checkpoint-num-layers 1",
           "parallel.recompute", "full"},
          // Options without an effect, of which one takes several words.
          {GPT "--moe-router-topk 2 --moe-aux-loss-coeff 0.1 0.2 --profile-ranks 0 1 --seed 9",
           "train.seed", "9"},
          {GPT "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1",
           "parallel.recompute", "full"},
          {GPT "--ddp-bucket-size 1000", "parallel.bucket_bytes", "4000"});
}

static void data_and_checkpoints(void **state)
{
    (void)state;
    CHECK(
        {"--lr 1 --train-iters 9 --data-path a --eval-interval 5", "data.train",
         "[{path: a, documents: [0, 0.969]}]"},
        {"--lr 1 --data-path a --split 1,0,0 --eval-interval 5", "data.train", "[{path: a}]"},
        {"--lr 1 --data-path a --split 1,0,0 --eval-interval 5", "train.eval_every", "0"},
        {"--lr 1 --data-path 3 a 1 b --split 8,2,0", "data.train",
         "[{path: a, weight: 3, documents: [0, 0.8]}, {path: b, weight: 1, documents: [0, 0.8]}]"},
        {"--lr 1 --data-path a --split 8,2,0", "data.valid", "[{path: a, documents: [0.8, 1]}]"},
        {"--lr 1 --data-path a", "data.order", "megatron"},
        {"--lr 1 --train-data-path a --valid-data-path b --eval-interval 5", "data.valid",
         "[{path: b}]"},
        {"--lr 1 --mock-data", "data.train", "mock"}, {"--lr 1 --mock-data", "data.order", ""},
        {GPT "--save x --save-interval 50 --load x", "train.save_every", "50"},
        {GPT "--save x --save-interval 50 --load x", "train.out", "x"},
        {GPT, "train.save_every", "0"}, {GPT "--most-recent-k 3", "train.keep", "3"});
}

static void variables_of_a_script_are_replaced(void **state)
{
    (void)state;
    CHECK({"A=7\nt p.py --seed $A", "train.seed", "7"},
          {"export A='7'; B=\"$A\"1\nt p.py --seed ${B}", "train.seed", "71"},
          {"A=(--seed \"7\" # here\n --lr 2)\nA+=(--bf16)\nt p.py ${A[@]}", "train.precision",
           "bf16"},
          {"A=\"--lr 2 \\\n --seed 8\"\npython p.py \\\n $A --bf16 2>&1 | tee log", "train.seed",
           "8"},
          {"t p.py --seed ${A:-9} --lr 1 > log", "train.seed", "9"},
          {"if x; then\nA=1\nfi\nB=2\ncat <<END\nt q.py --seed 3\nEND\nt p.py --seed $B",
           "train.seed", "2"},
          {"P=p.py\nif [ ! -f $P ]; then\necho no $P\nfi\ntorchrun $P --seed 4", "train.seed", "4"},
          {"# a comment\n--seed 5\n  --lr 2\n", "train.seed", "5"});
}

static void refusals_name_file_line_and_argument(void **state)
{
    (void)state;
    static const char *const CASES[][2] = {
        {GPT "--bf16\n--sed 5", ":5: --sed: unknown option of Megatron-LM; did you mean --seed?"},
        {GPT "--moe-router-topkk 2",
         ":4: --moe-router-topkk: unknown option of Megatron-LM; did you mean --moe-router-topk?"},
        {GPT "--log-intervall 2", "--log-intervall: unknown option of Megatron-LM; did you mean "
                                  "--log-interval?"},
        {GPT "--retro-add-retriever", "--retro-add-retriever: found true; it belongs to another"},
        {GPT "--num-experts 8", ":4: --num-experts: mixtures of experts are planned"},
        {GPT "--expert-model-parallel-size 2", "--expert-model-parallel-size: found 2; mixtures"},
        {GPT "--fp8-format hybrid", "--fp8-format: found hybrid; weights and activations are"},
        {GPT "--multi-latent-attention", "--multi-latent-attention: found true; no family"},
        {GPT "--swiglu", "--position-embedding-type: found learned positions, layer norms, gates"},
        {GPT "--group-query-attention", "--group-query-attention: found it with learned positions"},
        {LLAMA "--hidden-dropout 0.1", "--hidden-dropout: found 0.1, Megatron-LM's default is 0.1"},
        {GPT "--rotary-percent 0.5", "--rotary-percent: found 0.5; all columns"},
        {GPT "--fp16 --bf16", "--fp16: found it beside --bf16; valid: one of them"},
        {GPT "--optimizer muon", "--optimizer: found muon, which has no equal here; valid: adam"},
        {GPT "--lr-decay-samples 5", "--lr-decay-samples: found it with --train-iters; valid: "},
        {GPT "--lr-warmup-iters 100", "--lr-warmup-iters: found a warm-up of 100 steps"},
        {GPT "--lr-decay-style WSD", "--lr-decay-style: found WSD; it needs --lr-wsd-decay-iters"},
        {GPT "--start-weight-decay 0 --end-weight-decay 1", "--end-weight-decay: found 1 after 0"},
        {GPT "--rampup-batch-size 1 1 9", "--rampup-batch-size: found [1, 1, 9]; all steps have"},
        {GPT "--load x", "--load: found x; checkpoints of Megatron-LM are not read"},
        {GPT "--save x --load x --finetune", "--finetune: valid: model.path"},
        {GPT "--eod-mask-loss", "--eod-mask-loss: found true; all tokens"},
        {GPT "--reset-position-ids", "--reset-position-ids: found true; a sample's documents see"},
        {GPT "--data-path a b c", "--data-path: found 3 words; valid: one prefix"},
        {GPT "--data-path 0 a 0 b", "--data-path: found no weight above 0"},
        {GPT "--data-path a --split 0,1,0", "--split: found 0,1,0; valid: a share of training"},
        {GPT "--dataloader-type cyclic", "--dataloader-type: found cyclic, which has no equal"},
        {"--lr 1 --train-samples 5", "--train-samples: found 5 without --global-batch-size"},
        {GPT "--pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 3",
         "--num-layers-per-virtual-pipeline-stage: found 3; valid: a divisor of the 2 layers"},
        {"t p.py --seed $A", ":1: found $A, which nothing in the file sets; valid: the value"},
        {"A=$(date)\nt p.py --seed $A",
         ":2: found $A, which line 1 sets to a text with $(date), which"},
        {"A=(--seed\n $2)\nt p.py ${A[@]}",
         ":3: found ${A[@]}, which line 2 sets to a text with $2"},
        {"if x; then A=1; fi\nt p.py --seed $A", ":2: found $A, which a condition of the"},
        {"t p.py --seed `date`", ":1: found `date`, which only a shell can replace"},
        {"t p.py --seed \"4", ":1: found no \" at the end of a text"},
        {"A=(1", ":1: found no ) at the end of a list"},
        {"t p.py --seed 1\nt q.py --seed 2", ":2: found a second command, q.py; valid: one"},
        {"t p.py --seed 1 'a\nb'", ":1: found argument a\\nb; valid: --option value"},
        {"t p.py --seed 1 2", ":1: found argument 2; valid: --option value"},
        {"echo hello", ": found no option; valid: a command with a program PROGRAM.py"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        err e = {0};
        text out = {0};
        if (translate(CASES[i][0], &out, &e) != E_USAGE) fail_msg("not refused: %s", CASES[i][1]);
        if (!strstr(e.text, CASES[i][1]) || strncmp(e.text, "/tmp/trireme-megatron-", 22) != 0)
            fail_msg("found: %s\nexpected: %s", e.text, CASES[i][1]);
        text_clear(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_model_has_the_family_that_fits),
        cmocka_unit_test(ranks_and_batches_divide),
        cmocka_unit_test(schedules_count_steps_or_samples),
        cmocka_unit_test(numbers_and_the_optimizer),
        cmocka_unit_test(strategies),
        cmocka_unit_test(data_and_checkpoints),
        cmocka_unit_test(variables_of_a_script_are_replaced),
        cmocka_unit_test(refusals_name_file_line_and_argument),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
