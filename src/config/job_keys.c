// job_keys.c -- the table of all keys of the job file, in the order of explain and job.yaml, and the
// table of the keys of a parameter group.
// config/ reads it through keys.h. A key's words stand beside the values of its enum, here or in
// the table of the folder that owns the enum.
#include "comm/registry.h"
#include "config/keys.h"
#include "device/device.h"

#include <stddef.h>
#include <string.h>

#define AT(member)           .offset = (int)offsetof(job, member)
#define PARTS(member, count) AT(member), .count_offset = (int)offsetof(job, count)
#define OF_GROUP(member)     .offset = (int)offsetof(param_group, member)
#define UNSTORED             .offset = KEY_UNSTORED
#define WORDS(...)                                                                                 \
    .words = (const char *const[])                                                                 \
    {                                                                                              \
        __VA_ARGS__, NULL                                                                          \
    }
#define FROM(bound)   .low = (bound), .high = 1e308 // bounded by key_most alone
#define AUTO          .special = "auto", .special_value = 0
#define DS(name)      .schedules = 1u << (name)
#define DS_WARMUP     .schedules = 1u << LR_WARMUP | 1u << LR_WARMUP_DECAY
#define DS_ALL_WARMUP .schedules = 1u << LR_WARMUP | 1u << LR_WARMUP_DECAY | 1u << LR_WARMUP_COSINE
#define DS_TOTAL      .schedules = 1u << LR_WARMUP_DECAY | 1u << LR_WARMUP_COSINE
#define MEGATRON      .schedules = 1u << LR_MEGATRON
#define OF_RATIO                                                                                   \
    .schedules =                                                                                   \
        1u << LR_CONSTANT | 1u << LR_LINEAR | 1u << LR_COSINE | 1u << LR_WSD | 1u << LR_MEGATRON
#define TRIREME       .schedules = 1u << LR_CONSTANT | 1u << LR_LINEAR | 1u << LR_COSINE | 1u << LR_WSD
#define ADAMS         1u << UPDATE_ADAMW | 1u << UPDATE_ADAM
#define POWERSGD      .hooks = 1u << HOOK_POWERSGD
#define FP16          .precisions = 1u << PRECISION_FP16
#define OF_LOSS(loss) .losses = 1u << (loss)
#define RANKS         .low = 1, .high = MESH_RANKS

static const char *const OFF_ON[] = {"off", "on", NULL};
static const char *const FALSE_TRUE[] = {"false", "true", NULL};
static const char *const PRECISIONS[] = {[F32] = "fp32", [BF16] = "bf16", [F16] = "fp16", NULL};
const char *const TRAIN_LOSSES[] = {[LOSS_AUTO] = "auto", [LOSS_CROSS_ENTROPY] = "cross_entropy",
                                    [LOSS_MSE] = "mse",   [LOSS_DPO] = "dpo",
                                    [LOSS_ORPO] = "orpo", [LOSS_KTO] = "kto",
                                    [JOB_LOSSES] = NULL};
// In the order of kernel_preference_kind, from PREFERENCE_SIGMOID on.
const char *const DPO_LOSSES[] = {"sigmoid",  "hinge",        "ipo",       "exo_pair", "nca_pair",
                                  "robust",   "bco_pair",     "sppo_hard", "apo_zero", "apo_down",
                                  "discopop", "sigmoid_norm", NULL};
const char *const TRAIN_PRECISIONS[] = {[PRECISION_FP32] = "fp32",
                                        [PRECISION_BF16] = "bf16",
                                        [PRECISION_FP16] = "fp16",
                                        [PRECISION_TF32] = "tf32",
                                        [PRECISION_WORDS] = NULL};

// Stored as the list of the one number 0.
static const char *const BATCH_SPLITS[] = {"measured", NULL};

// torch.set_float32_matmul_precision's words.
static const char *const PRECISION_ALSO[][2] = {
    {"highest", "fp32"}, {"high", "tf32"}, {NULL, NULL}};

// Names of other systems for the data-parallel policies.
static const char *const DP_ALSO[][2] = {
    {"NO_SHARD", "ddp"},
    {"0", "ddp"},
    {"dp", "ddp"},
    {"replicate", "ddp"},
    {"stage0", "ddp"},
    {"zero0", "ddp"},
    {"DataParallel", "ddp"},
    {"DistributedDataParallel", "ddp"},
    {"MULTI_GPU", "ddp"},
    {"MirroredStrategy", "ddp"},
    {"mirrored", "ddp"},
    {"MultiWorkerMirroredStrategy", "ddp"},
    {"1", "zero1"},
    {"stage1", "zero1"},
    {"optim", "zero1"},
    {"2", "zero2"},
    {"stage2", "zero2"},
    {"optim_grads", "zero2"},
    {"SHARD_GRAD_OP", "zero2"},
    {"HYBRID_SHARD_ZERO2", "zero2"},
    {"_HYBRID_SHARD_ZERO2", "zero2"},
    {"3", "zero3"},
    {"stage3", "zero3"},
    {"optim_grads_params", "zero3"},
    {"fully_shard", "zero3"},
    {"fsdp", "zero3"},
    {"fsdp2", "zero3"},
    {"FULL_SHARD", "zero3"},
    {"HYBRID_SHARD", "zero3"},
    {NULL, NULL},
};

// Words that other systems and later versions have.
static const char *const PLANNED_OPTIMIZERS[] = {"muon", NULL};
static const char *const PLANNED_SCHEDULES[] = {"constant_with_warmup", NULL};
static const char *const PLANNED_FAMILIES[] = {"qwen3", NULL};

// clang-format off
const job_key JOB_KEYS[] = {
    {"model.path", "Names the HuggingFace folder that holds the model (config.json, *.safetensors, tokenizer.json).", KEY_PATH, AT(model.path), .flags = KEY_OPTIONAL},
    {"model.init", "Chooses the initial weights: random draws them from train.seed, checkpoint reads them from model.path, auto reads them where model.path holds weights and draws them otherwise.", KEY_WORD, AT(model.init), .fallback = "auto", WORDS("auto", "random", "checkpoint")},
    {"model.family", "Chooses the model family, in place of model.path; model.layers, model.hidden and the other fields set its sizes.", KEY_ENUM, AT(model.family), .words = MODEL_FAMILY_NAMES, .planned = PLANNED_FAMILIES},
    {"model.storage", "Chooses how frozen weights are kept: auto keeps them in train.precision; nf4 packs those of linear layers as bitsandbytes does, in NF4 with double quantisation, and a block's weights are unpacked while it runs.", KEY_ENUM, AT(model.storage), .fallback = "auto", WORDS([STORAGE_COMPUTE] = "auto", [STORAGE_NF4] = "nf4")},

    {"lora.rank", "Trains low-rank adapters of linear layers (LoRA) of this rank in place of the weights, which are frozen; lora.r is the same key.", KEY_COUNT, AT(lora.how.rank), .flags = KEY_OPTIONAL, .fallback = "none", .low = 1, .high = 1 << 16, .special = "none", .special_value = 0},
    {"lora.alpha", "Sets the scale of the adapters, which is lora.alpha / lora.rank; auto takes lora.rank.", KEY_NUMBER, AT(lora.how.alpha), .fallback = "auto", FROM(0), AUTO},
    {"lora.dropout", "Sets the share of an adapter's inputs that training sets to zero.", KEY_NUMBER, AT(lora.how.dropout), .flags = KEY_MAY_CHANGE, .fallback = "0", .low = 0, .high = 0.999},
    {"lora.target_modules", "Names the linear layers that have adapters, as q_proj or layers.3.mlp.up_proj: all-linear, a list of names, or one regular expression that whole names match; the output layer and embeddings have none.", KEY_NAMES, PARTS(lora.how.targets, lora.how.target_count), .fallback = "all-linear"},
    {"lora.exclude_modules", "Names linear layers that have no adapters, as lora.target_modules does.", KEY_NAMES, PARTS(lora.how.excluded, lora.how.excluded_count), .flags = KEY_OPTIONAL},
    {"lora.layers_to_transform", "Lists the numbers of the layers that have adapters, from 0.", KEY_SIZES, PARTS(lora.how.layers, lora.how.layer_count), .fallback = "all", .low = 0, .high = MODEL_LAYERS, .special = "all"},
    {"lora.rslora", "Scales adapters by lora.alpha / sqrt(lora.rank), as rsLoRA does.", KEY_BOOL, AT(lora.how.rslora), .fallback = "false", .words = FALSE_TRUE},
    {"lora.rank_pattern", "Sets other ranks for some layers, as {down_proj: 32}; names are as in lora.target_modules.", KEY_NUMBERS, PARTS(lora.how.ranks, lora.how.rank_count), .flags = KEY_OPTIONAL},
    {"lora.alpha_pattern", "Sets another lora.alpha for some layers, as lora.rank_pattern does.", KEY_NUMBERS, PARTS(lora.how.alphas, lora.how.alpha_count), .flags = KEY_OPTIONAL},
    {"lora.modules_to_save", "Names modules that train as they are and are saved with the adapters, as [lm_head].", KEY_NAMES, PARTS(lora.how.saved, lora.how.saved_count), .flags = KEY_OPTIONAL},
    {"lora.start", "Names the folder of an adapter, of PEFT or of a run, whose weights training starts from; keys of this section that are not given are the adapter's.", KEY_PATH, AT(lora.start), .flags = KEY_OPTIONAL},

    {"data.train", "Names the training data: token shards PREFIX.bin and PREFIX.idx, a *.safetensors file (mlp), mock for random tokens, FILE.jsonl with samples, or a list of {path, weight, documents, format}, where documents: [0, 0.95] takes the first 95 % of a shard's documents.", KEY_PARTS, PARTS(data.train, data.trains), .flags = KEY_OPTIONAL},
    {"data.valid", "Names the validation data, in the same forms as data.train.", KEY_PARTS, PARTS(data.valid, data.valids), .flags = KEY_OPTIONAL | KEY_MAY_CHANGE},
    {"data.format", "Chooses the form of the lines of FILE.jsonl: auto finds it by their keys; an entry of a list may name its own.", KEY_ENUM, AT(data.format), .fallback = "auto", .words = SAMPLES_FORMAT_NAMES},
    {"data.train_on", "Chooses the tokens of samples that have labels: assistant takes all turns of the assistant, completion the last turn or what follows the prompt, all every token.", KEY_ENUM, AT(data.train_on), .fallback = "assistant", .words = CHAT_TRAIN_ON_NAMES},
    {"data.packing", "Chooses how samples share a sequence: bfd puts each into the sequence that it fills best, the longest first, next_fit takes them in order, none gives each a sequence of its own.", KEY_ENUM, AT(data.packing), .fallback = "bfd", .words = SAMPLES_PACKING_NAMES},
    {"data.truncate", "Chooses what happens to a sample that is longer than data.seq_len: error refuses the job, drop leaves it out, keep_start and keep_end cut it, split makes several samples of it.", KEY_ENUM, AT(data.truncate), .fallback = "error", .words = SAMPLES_TRUNCATE_NAMES},
    {"data.seq_len", "Sets the length of a training sequence, at most model.max_seq.", KEY_COUNT, .unit = "tokens", AT(data.seq_len), .fallback = "1024", .low = 1, .high = 1 << 24},
    {"data.tokenizer_mismatch", "Chooses what happens when the shards and the model do not have the same tokenizer: error refuses the job, allow trains all the same.", KEY_BOOL, AT(data.allow_tokenizer_mismatch), .flags = KEY_MAY_CHANGE, .fallback = "error", WORDS("error", "allow")},
    {"data.order", "Chooses the order of samples: shuffle draws a new order in each epoch, sequential keeps the stored order, torch uses the order of PyTorch's DistributedSampler, megatron that of Megatron-LM's GPTDataset.", KEY_ENUM, AT(data.order), .fallback = "shuffle", WORDS([ORDER_SHUFFLE] = "shuffle", [ORDER_SEQUENTIAL] = "sequential", [ORDER_TORCH] = "torch", [ORDER_MEGATRON] = "megatron")},

    {"train.steps", "Sets how many optimizer steps the run makes; give one of train.steps, train.epochs and train.tokens.", KEY_COUNT, .unit = "optimizer steps", AT(train.steps), .flags = KEY_OPTIONAL | KEY_MAY_CHANGE, .low = 1, .high = 1e15},
    {"train.epochs", "Sets how many passes over data.train the run makes.", KEY_NUMBER, .unit = "epochs", AT(train.epochs), .flags = KEY_OPTIONAL | KEY_MAY_CHANGE | KEY_POSITIVE, .low = 0, .high = 1e9},
    {"train.tokens", "Sets how many tokens the run trains on.", KEY_COUNT, .unit = "tokens", AT(train.tokens), .flags = KEY_OPTIONAL | KEY_MAY_CHANGE, FROM(1)},
    {"train.global_batch", "Sets how many sequences all ranks together process in an optimizer step.", KEY_COUNT, .unit = "sequences", AT(train.global_batch), .fallback = "64", .low = 1, .high = 1 << 30},
    {"train.micro_batch", "Sets how many sequences a rank processes in one forward pass; auto takes the largest number that fits in memory.", KEY_COUNT, .unit = "sequences", AT(train.micro_batch), .flags = KEY_MAY_CHANGE, .fallback = "auto", .low = 1, .high = 1 << 30, AUTO},
    {"train.accumulation", "Sets how many micro-batches a rank sums in an optimizer step; without train.global_batch, a step takes train.micro_batch times this times the data-parallel ranks.", KEY_COUNT, .unit = "micro-batches", AT(train.accumulation), .flags = KEY_OPTIONAL | KEY_MAY_CHANGE, .low = 1, .high = 1 << 20},
    {"train.seed", "Seeds the random numbers of initial weights, dropout and the order of samples.", KEY_COUNT, AT(train.seed), .fallback = "0", .low = 0, .high = 0x1p63},
    {"train.precision", "Sets the number format of activations and compute weights; master weights stay fp32. With tf32 all numbers are fp32, and a GPU rounds the factors of linear layers' products to TF32.", KEY_ENUM, AT(train.precision), .fallback = "fp32", .words = TRAIN_PRECISIONS, .also = PRECISION_ALSO},
    {"train.deterministic", "Gives the same bits in every run of the job; false lets a GPU compute attention's gradients by cuDNN, and ranks over nccl add by NCCL, both in no fixed order; it changes nothing on the CPU.", KEY_BOOL, AT(train.deterministic), .flags = KEY_MAY_CHANGE, .fallback = "true", .words = FALSE_TRUE},
    {"train.reduce_dtype", "Sets the number format in which ranks sum gradients.", KEY_ENUM, AT(strategy.reduce_dtype), .fallback = "fp32", .words = PRECISIONS},
    {"train.fp16.loss_scale", "Sets a fixed loss scale for precision fp16; 0 scales dynamically, as the other keys of train.fp16 say.", KEY_NUMBER, AT(train.fp16.loss_scale), .low = 0, .high = 1e38, FP16},
    {"train.fp16.initial_scale_power", "Sets the exponent of the first dynamic loss scale, which is 2 to this power.", KEY_INT, AT(train.fp16.initial_power), .low = 0, .high = 120, FP16},
    {"train.fp16.loss_scale_window", "Sets after how many steps without overflow the loss scale is doubled.", KEY_COUNT, .unit = "optimizer steps", AT(train.fp16.scale_window), FROM(1), FP16},
    {"train.fp16.hysteresis", "Sets after how many overflows the loss scale is halved.", KEY_COUNT, .unit = "overflows", AT(train.fp16.hysteresis), FROM(1), FP16},
    {"train.fp16.consecutive_hysteresis", "Restarts the count of overflows after each step without overflow.", KEY_BOOL, AT(train.fp16.consecutive_hysteresis), .words = FALSE_TRUE, FP16},
    {"train.fp16.min_loss_scale", "Sets the smallest loss scale; the run ends when gradients overflow at this scale.", KEY_NUMBER, AT(train.fp16.min_scale), .flags = KEY_POSITIVE, .low = 0, .high = 1e38, FP16},
    {"train.clip_grad_norm", "Clips gradients to this global L2 norm; 0 turns clipping off.", KEY_NUMBER, AT(train.clip_grad_norm), .fallback = "1.0", FROM(0)},
    {"train.eval_every", "Sets the number of steps between evaluations on data.valid; 0 turns evaluation off.", KEY_COUNT, .unit = "optimizer steps", AT(train.eval_every), .flags = KEY_MAY_CHANGE, .fallback = "100", FROM(0)},
    {"train.eval_batches", "Limits an evaluation to this many global batches; 0 evaluates all of data.valid.", KEY_COUNT, .unit = "global batches", AT(train.eval_batches), .flags = KEY_MAY_CHANGE, .fallback = "50", FROM(0)},
    {"train.save_every", "Sets the number of steps between checkpoints; the end of the run saves one, too; 0 saves none.", KEY_COUNT, .unit = "optimizer steps", AT(train.save_every), .flags = KEY_MAY_CHANGE, .fallback = "500", FROM(0)},
    {"train.keep", "Keeps this many of the newest checkpoints and deletes older ones; 0 keeps all.", KEY_COUNT, .unit = "checkpoints", AT(train.keep), .flags = KEY_MAY_CHANGE, .fallback = "2", FROM(0)},
    {"train.async_save", "Writes checkpoints while steps go on: each rank copies what it writes into memory first, as much as the checkpoint has of it.", KEY_BOOL, AT(train.async_save), .flags = KEY_MAY_CHANGE, .words = FALSE_TRUE},
    {"train.keep_best", "Keeps the checkpoint with the lowest loss on data.valid, too: each evaluation that is the best so far saves one, and checkpoints/best names it.", KEY_BOOL, AT(train.keep_best), .flags = KEY_MAY_CHANGE, .words = FALSE_TRUE},
    {"train.early_stopping.patience", "Ends the run after this many evaluations in a row without a new lowest loss; 0 never does.", KEY_COUNT, .unit = "evaluations", AT(train.early_stopping.patience), .flags = KEY_MAY_CHANGE, .fallback = "0", FROM(0)},
    {"train.early_stopping.threshold", "Sets by how much a loss must be lower than the lowest so far to count as a new one.", KEY_NUMBER, AT(train.early_stopping.threshold), .flags = KEY_MAY_CHANGE, .fallback = "0", FROM(0)},
    {"train.out", "Names the folder that the run writes to; the default is runs/ and the name of the job file.", KEY_PATH, AT(train.out), .flags = KEY_MAY_CHANGE},
    {"train.loss", "Chooses the loss: auto takes the model's, which is cross_entropy for ids and mse for targets; dpo, orpo and kto compare chosen and rejected answers.", KEY_ENUM, AT(train.loss), .fallback = "auto", .words = TRAIN_LOSSES},

    {"dpo.beta", "Sets how strongly the policy is kept near the reference; a smaller number lets it go further.", KEY_NUMBER, AT(dpo.beta), .fallback = "0.1", .flags = KEY_POSITIVE, FROM(0), OF_LOSS(LOSS_DPO)},
    {"dpo.loss_type", "Chooses the loss of a pair, by TRL's names: of the margin of both rewards (sigmoid, hinge, robust, exo_pair, discopop), of the margin per token (ipo, sigmoid_norm), or of each reward (nca_pair, bco_pair, sppo_hard, apo_zero, apo_down).", KEY_ENUM, AT(dpo.kind), .fallback = "sigmoid", .words = DPO_LOSSES, OF_LOSS(LOSS_DPO)},
    {"dpo.label_smoothing", "Sets the share of pairs whose answers are assumed to be swapped; of sigmoid, robust and exo_pair.", KEY_NUMBER, AT(dpo.smoothing), .fallback = "0", .low = 0, .high = 0.5, OF_LOSS(LOSS_DPO)},
    {"dpo.discopop_tau", "Sets the margin over which discopop goes from one loss to the other; a larger number makes the change slower.", KEY_NUMBER, AT(dpo.tau), .fallback = "0.05", .flags = KEY_POSITIVE, FROM(0), OF_LOSS(LOSS_DPO)},
    {"dpo.reference", "Names the folder of the reference model; auto takes the weights at the start of the run.", KEY_PATH, AT(dpo.reference), .fallback = "auto", .special = "auto", OF_LOSS(LOSS_DPO)},
    {"orpo.beta", "Sets the weight of the odds ratio beside the loss of the chosen answer.", KEY_NUMBER, AT(orpo.beta), .fallback = "0.1", .flags = KEY_POSITIVE, FROM(0), OF_LOSS(LOSS_ORPO)},
    {"kto.beta", "Sets how strongly the policy is kept near the reference; a smaller number lets it go further.", KEY_NUMBER, AT(kto.beta), .fallback = "0.1", .flags = KEY_POSITIVE, FROM(0), OF_LOSS(LOSS_KTO)},
    {"kto.loss_type", "Chooses what the reward of an answer is compared with: kto takes an estimate of the KL divergence from the reference, of answers after other prompts, apo_zero_unpaired takes 0.", KEY_ENUM, AT(kto.kind), .fallback = "kto", WORDS("kto", "apo_zero_unpaired"), OF_LOSS(LOSS_KTO)},
    {"kto.desirable_weight", "Sets the weight of the losses of chosen answers.", KEY_NUMBER, AT(kto.desirable), .fallback = "1", FROM(0), OF_LOSS(LOSS_KTO)},
    {"kto.undesirable_weight", "Sets the weight of the losses of rejected answers.", KEY_NUMBER, AT(kto.undesirable), .fallback = "1", FROM(0), OF_LOSS(LOSS_KTO)},
    {"kto.reference", "Names the folder of the reference model; auto takes the weights at the start of the run.", KEY_PATH, AT(kto.reference), .fallback = "auto", .special = "auto", OF_LOSS(LOSS_KTO)},

    {"optimizer.name", "Chooses the optimizer.", KEY_ENUM, AT(optimizer.rule), .fallback = "adamw", .words = OPTIM_NAMES, .planned = PLANNED_OPTIMIZERS},
    {"optimizer.lr", "Sets the peak learning rate of the schedule.", KEY_NUMBER, AT(optimizer.lr), .fallback = "3e-4", FROM(0)},
    {"optimizer.lr_scaling", "Scales the learning rate with the number of data-parallel ranks: linear multiplies it by the number, sqrt by the number's square root.", KEY_ENUM, AT(scaling), .fallback = "none", WORDS([LR_SCALE_NONE] = "none", [LR_SCALE_LINEAR] = "linear", [LR_SCALE_SQRT] = "sqrt")},
    {"optimizer.betas", "Sets the decay rates of the moving averages of the gradient and of its square; the default depends on optimizer.name.", KEY_BETAS, AT(optimizer.beta1), .rules = ADAMS | 1u << UPDATE_LION},
    {"optimizer.momentum", "Sets the momentum of sgd.", KEY_NUMBER, AT(optimizer.beta1), .low = 0, .high = 1, .rules = 1u << UPDATE_SGD},
    {"optimizer.eps", "Sets the number that is added to the denominator of the update; the default depends on optimizer.name.", KEY_NUMBER, AT(optimizer.eps), FROM(0), .rules = ADAMS},
    {"optimizer.ema", "Keeps an exponential moving average of the weights with this decay, which checkpoints carry; 0 keeps none.", KEY_NUMBER, AT(optimizer.ema), .fallback = "0", .low = 0, .high = 1},
    {"optimizer.weight_decay", "Sets the weight decay coefficient; the default depends on optimizer.name.", KEY_NUMBER, AT(optimizer.weight_decay), FROM(0)},
    {"optimizer.decay", "Chooses the tensors that weight decay applies to: those of two or more dimensions (matrices), or all.", KEY_BOOL, AT(optimizer.decay_all), .fallback = "matrices", WORDS("matrices", "all")},

    {"lr_schedule.name", "Chooses the learning-rate schedule; schedules with DeepSpeed's names take DeepSpeed's parameters, and OptimizerParamScheduler Megatron-LM's.", KEY_ENUM, AT(lr.name), .fallback = "cosine", .words = LR_LABELS, .planned = PLANNED_SCHEDULES},
    {"lr_schedule.warmup_steps", "Raises the learning rate linearly over this many first steps; the default of constant is 0.", KEY_COUNT, .unit = "optimizer steps", AT(lr.warmup_steps), FROM(0), TRIREME},
    {"lr_schedule.warmup_ratio", "Sets the length of the warm-up as a fraction of the run's steps, rounded up, in place of the key that counts steps; 0 leaves it to that key.", KEY_NUMBER, AT(lr.warmup_ratio), .flags = KEY_OPTIONAL, .low = 0, .high = 1, OF_RATIO},
    {"lr_schedule.min_ratio", "Sets the final learning rate, as a fraction of optimizer.lr.", KEY_NUMBER, AT(lr.min_ratio), .low = 0, .high = 1, TRIREME},
    {"lr_schedule.decay_steps", "Sets the length of wsd's final decay; 0 decays over the last tenth of the run.", KEY_COUNT, .unit = "optimizer steps", AT(lr.decay_steps), FROM(0), TRIREME},
    {"lr_schedule.warmup_min_lr", "Sets the learning rate at the start of DeepSpeed's warm-up.", KEY_NUMBER, AT(lr.warmup.min_lr), FROM(0), DS_WARMUP},
    {"lr_schedule.warmup_max_lr", "Sets the learning rate at the end of DeepSpeed's warm-up; null takes optimizer.lr.", KEY_NUMBER, AT(lr.warmup.max_lr), FROM(0), .special = "null", .special_value = -1, DS_WARMUP},
    {"lr_schedule.warmup_num_steps", "Sets the length of DeepSpeed's warm-up.", KEY_COUNT, .unit = "optimizer steps", AT(lr.warmup.num_steps), FROM(1), DS_ALL_WARMUP},
    {"lr_schedule.warmup_type", "Chooses how the learning rate rises in DeepSpeed's warm-up: log raises it with the logarithm of the step, linear linearly.", KEY_BOOL, AT(lr.warmup.linear), WORDS("log", "linear"), DS_ALL_WARMUP},
    {"lr_schedule.total_num_steps", "Sets the step at which DeepSpeed's decay ends; null takes the last step of the run.", KEY_COUNT, .unit = "optimizer steps", AT(lr.warmup.total_num_steps), FROM(1), .special = "null", .special_value = 0, DS_TOTAL},
    {"lr_schedule.warmup_min_ratio", "Sets the first learning rate of WarmupCosineLR, as a fraction of optimizer.lr.", KEY_NUMBER, AT(lr.warmup.min_ratio), .low = 0, .high = 1, DS(LR_WARMUP_COSINE)},
    {"lr_schedule.cos_min_ratio", "Sets the final learning rate of WarmupCosineLR, as a fraction of optimizer.lr.", KEY_NUMBER, AT(lr.warmup.cos_min_ratio), .low = 0, .high = 1, DS(LR_WARMUP_COSINE)},
    {"lr_schedule.lr_range_test_min_lr", "Sets the first learning rate of LRRangeTest.", KEY_NUMBER, AT(lr.range_test.min_lr), FROM(0), DS(LR_RANGE_TEST)},
    {"lr_schedule.lr_range_test_step_size", "Sets the length of an interval of LRRangeTest.", KEY_COUNT, .unit = "optimizer steps", AT(lr.range_test.step_size), FROM(1), DS(LR_RANGE_TEST)},
    {"lr_schedule.lr_range_test_step_rate", "Raises LRRangeTest's learning rate by this fraction of its first value in each interval.", KEY_NUMBER, AT(lr.range_test.step_rate), FROM(0), DS(LR_RANGE_TEST)},
    {"lr_schedule.lr_range_test_staircase", "Raises LRRangeTest's learning rate once in each interval instead of at every step.", KEY_BOOL, AT(lr.range_test.staircase), .words = FALSE_TRUE, DS(LR_RANGE_TEST)},
    {"lr_schedule.cycle_min_lr", "Sets the learning rate at the start and at the end of OneCycle's cycle.", KEY_NUMBER, AT(lr.cycle.min_lr), FROM(0), DS(LR_ONE_CYCLE)},
    {"lr_schedule.cycle_max_lr", "Sets the highest learning rate of OneCycle's cycle.", KEY_NUMBER, AT(lr.cycle.max_lr), FROM(0), DS(LR_ONE_CYCLE)},
    {"lr_schedule.decay_lr_rate", "Sets how fast OneCycle's learning rate decays after the cycle.", KEY_NUMBER, AT(lr.cycle.decay_lr_rate), FROM(0), DS(LR_ONE_CYCLE)},
    {"lr_schedule.cycle_first_step_size", "Sets the length of the rising phase of OneCycle's cycle.", KEY_COUNT, .unit = "optimizer steps", AT(lr.cycle.first_step_size), FROM(1), DS(LR_ONE_CYCLE)},
    {"lr_schedule.cycle_second_step_size", "Sets the length of the falling phase of OneCycle's cycle; null takes the length of the rising phase.", KEY_COUNT, .unit = "optimizer steps", AT(lr.cycle.second_step_size), FROM(1), .special = "null", .special_value = 0, DS(LR_ONE_CYCLE)},
    {"lr_schedule.cycle_first_stair_count", "Divides the rising phase of OneCycle's cycle into this many stairs; 0 makes none.", KEY_COUNT, .unit = "stairs", AT(lr.cycle.first_stair_count), FROM(0), DS(LR_ONE_CYCLE)},
    {"lr_schedule.cycle_second_stair_count", "Divides the falling phase of OneCycle's cycle into this many stairs; null takes the stairs of the rising phase.", KEY_COUNT, .unit = "stairs", AT(lr.cycle.second_stair_count), FROM(0), .special = "null", .special_value = -1, DS(LR_ONE_CYCLE)},
    {"lr_schedule.decay_step_size", "Sets the length of an interval of OneCycle's decay; 0 turns the decay off.", KEY_COUNT, .unit = "optimizer steps", AT(lr.cycle.decay_step_size), FROM(0), DS(LR_ONE_CYCLE)},
    {"lr_schedule.cycle_momentum", "Moves OneCycle's momentum in the opposite direction of the learning rate.", KEY_BOOL, AT(lr.cycle.moves_momentum), .words = FALSE_TRUE, DS(LR_ONE_CYCLE)},
    {"lr_schedule.cycle_min_mom", "Sets the lowest momentum of OneCycle's cycle.", KEY_NUMBER, AT(lr.cycle.min_mom), .low = 0, .high = 1, DS(LR_ONE_CYCLE)},
    {"lr_schedule.cycle_max_mom", "Sets the highest momentum of OneCycle's cycle.", KEY_NUMBER, AT(lr.cycle.max_mom), .low = 0, .high = 1, DS(LR_ONE_CYCLE)},
    {"lr_schedule.decay_mom_rate", "Sets how fast OneCycle's momentum changes after the cycle.", KEY_NUMBER, AT(lr.cycle.decay_mom_rate), FROM(0), DS(LR_ONE_CYCLE)},

    {"lr_schedule.lr_decay_style", "Chooses how OptimizerParamScheduler lowers the learning rate after the warm-up.", KEY_ENUM, AT(lr.megatron.style), .words = LR_DECAY_STYLE_NAMES, MEGATRON},
    {"lr_schedule.lr_warmup_steps", "Sets the length of OptimizerParamScheduler's warm-up; steps need not be whole, as it counts samples.", KEY_NUMBER, .unit = "optimizer steps", AT(lr.megatron.warmup_steps), FROM(0), MEGATRON},
    {"lr_schedule.lr_decay_steps", "Sets the step at which OptimizerParamScheduler reaches min_lr; null takes the last step of the run.", KEY_NUMBER, .unit = "optimizer steps", AT(lr.megatron.decay_steps), FROM(0), .special = "null", .special_value = 0, MEGATRON},
    {"lr_schedule.init_lr", "Sets the learning rate at the start of OptimizerParamScheduler's warm-up.", KEY_NUMBER, AT(lr.megatron.init_lr), FROM(0), MEGATRON},
    {"lr_schedule.min_lr", "Sets the lowest learning rate of OptimizerParamScheduler after the warm-up.", KEY_NUMBER, AT(lr.megatron.min_lr), FROM(0), MEGATRON},
    {"lr_schedule.wsd_decay_steps", "Sets the length of the final decay of lr_decay_style WSD.", KEY_NUMBER, .unit = "optimizer steps", AT(lr.megatron.wsd_decay_steps), FROM(0), MEGATRON},
    {"lr_schedule.lr_wsd_decay_style", "Chooses the form of the final decay of lr_decay_style WSD.", KEY_ENUM, AT(lr.megatron.wsd_style), .words = LR_WSD_STYLE_NAMES, MEGATRON},

    {"parallel.dp", "Chooses the data-parallel strategy; fsdp, FULL_SHARD, SHARD_GRAD_OP, NO_SHARD, ZeRO stages 0 to 3, MirroredStrategy and others are aliases.", KEY_POLICIES, AT(strategy.dp), .flags = KEY_MAY_CHANGE, .fallback = "ddp", WORDS("ddp", "zero1", "zero2", "zero3", "fsdp_no_sync"), .also = DP_ALSO},
    {"parallel.dp_shard", "Sets the number of ranks that parallel.dp shards over; auto takes the ranks that the other axes leave.", KEY_INT, .unit = "ranks", AT(parallel.size[AXIS_DP_SHARD]), .flags = KEY_MAY_CHANGE, .fallback = "auto", RANKS, AUTO},
    {"parallel.dp_replicate", "Sets the number of replicas of the sharded state; more than 1 with a sharded dp is HYBRID_SHARD.", KEY_INT, .unit = "copies", AT(parallel.size[AXIS_DP_REPLICATE]), .flags = KEY_MAY_CHANGE, .fallback = "1", RANKS},
    {"parallel.tp", "Shards the matrices of each layer over this many ranks (tensor parallelism).", KEY_INT, .unit = "ranks", AT(parallel.size[AXIS_TP]), .flags = KEY_MAY_CHANGE, .fallback = "1", RANKS},
    {"parallel.sequence_parallel", "Shards activations along the sequence between tensor-parallel regions, as Megatron does; it needs parallel.tp 2 or more.", KEY_BOOL, AT(strategy.sequence_parallel), .flags = KEY_MAY_CHANGE, .fallback = "false", .words = FALSE_TRUE},
    {"parallel.cp", "Splits each sequence over this many ranks (context parallelism); data.seq_len must be a multiple of twice the number.", KEY_INT, .unit = "ranks", AT(parallel.size[AXIS_CP]), .flags = KEY_MAY_CHANGE, .fallback = "1", RANKS},
    {"parallel.pp", "Divides the layers into this many pipeline stages.", KEY_INT, .unit = "stages", AT(parallel.size[AXIS_PP]), .flags = KEY_MAY_CHANGE, .fallback = "1", RANKS},
    {"parallel.pp_schedule", "Chooses the order in which pipeline stages run forward and backward passes of micro-batches.", KEY_ENUM, AT(strategy.pipeline.schedule), .flags = KEY_MAY_CHANGE, .fallback = "1f1b", .words = PIPELINE_SCHEDULE_NAMES},
    {"parallel.virtual_stages", "Sets how many model chunks each pipeline stage runs under the interleaved schedule.", KEY_INT, .unit = "model chunks", AT(strategy.pipeline.virtual_stages), .flags = KEY_MAY_CHANGE, .fallback = "1", RANKS},
    {"parallel.split", "Sets the number of layers of each model chunk; auto balances the chunks by FLOPs.", KEY_SIZES, .unit = "layers", AT(parallel.split), .count_offset = (int)offsetof(job, parallel.splits), .flags = KEY_MAY_CHANGE, .fallback = "auto", .low = 1, .high = 1 << 20, AUTO},
    {"parallel.batch_split", "Sets how many sequences each data-parallel rank processes in one forward pass, in the order of the ranks, where their speeds differ; even gives all train.micro_batch, measured lets the ranks measure their speed before step 1 and choose numbers up to train.micro_batch.", KEY_SIZES, .unit = "sequences", AT(parallel.batch_split), .count_offset = (int)offsetof(job, parallel.batch_splits), .flags = KEY_MAY_CHANGE, .fallback = "even", .low = 1, .high = 1 << 20, .special = "even", .words = BATCH_SPLITS},
    {"parallel.reshard_after_forward", "Frees unsharded weights after forward and gathers them again for backward (zero3); a number K keeps them sharded over K ranks in between.", KEY_SWITCH, .unit = "ranks", AT(strategy.reshard_after_forward), .flags = KEY_MAY_CHANGE, .fallback = "true", .words = FALSE_TRUE, .low = 2, .high = MESH_RANKS},
    {"parallel.recompute", "Chooses the activations that backward computes again instead of loading saved ones: selective recomputes attention, full recomputes whole blocks.", KEY_ENUM, AT(strategy.recompute), .flags = KEY_MAY_CHANGE, .fallback = "none", .words = RECOMPUTE_NAMES},
    {"parallel.offload.weights", "Chooses the memory that holds the weights between uses.", KEY_ENUM, AT(strategy.offload.tier[PLAN_WEIGHTS]), .flags = KEY_MAY_CHANGE, .fallback = "device", .words = MEMORY_TIER_NAMES},
    {"parallel.offload.gradients", "Chooses the memory that holds the gradients between uses.", KEY_ENUM, AT(strategy.offload.tier[PLAN_GRADIENTS]), .flags = KEY_MAY_CHANGE, .fallback = "device", .words = MEMORY_TIER_NAMES},
    {"parallel.offload.optimizer", "Chooses the memory that holds the optimizer state between uses.", KEY_ENUM, AT(strategy.offload.tier[PLAN_OPTIMIZER_STATE]), .flags = KEY_MAY_CHANGE, .fallback = "device", .words = MEMORY_TIER_NAMES},
    {"parallel.offload.update", "Chooses the processor that updates weights whose optimizer state is on the host: device takes the state of one bucket after the other, host updates it where it lies; no difference where host and device are one memory.", KEY_BOOL, AT(strategy.offload.updates_on_host), .flags = KEY_MAY_CHANGE, .fallback = "device", WORDS("device", "host")},
    {"parallel.offload.path", "Names the folder for state that is offloaded to files; Trireme creates the folder where it does not exist.", KEY_PATH, AT(strategy.offload.path), .flags = KEY_MAY_CHANGE | KEY_OPTIONAL},
    {"parallel.offload.block_bytes", "Sets the size of a read or write request to a file, a multiple of 4Ki.", KEY_BYTES, .unit = "bytes", AT(strategy.offload.block_bytes), .flags = KEY_MAY_CHANGE, .fallback = "1Mi", .low = 4096, .high = 1 << 30},
    {"parallel.offload.depth", "Sets how many requests to a file are in flight.", KEY_COUNT, .unit = "requests", AT(strategy.offload.depth), .flags = KEY_MAY_CHANGE, .fallback = "8", .low = 1, .high = 1024},
    {"parallel.offload.slots", "Sets how many buckets of each offloaded state are in memory at once; more hide more of the transfers behind computation.", KEY_COUNT, .unit = "buckets", AT(strategy.offload.slots), .flags = KEY_MAY_CHANGE, .fallback = "3", .low = 2, .high = 1024},
    {"parallel.bucket_bytes", "Sets the size of a gradient bucket; ranks reduce one bucket at a time.", KEY_BYTES, .unit = "bytes", AT(strategy.bucket_bytes), .flags = KEY_MAY_CHANGE, .fallback = "25Mi", FROM(1)},
    {"parallel.hook.name", "Chooses how ranks compress gradients before they reduce them; parallel.hook: NAME is short for it.", KEY_ENUM, AT(strategy.hook.kind), .flags = KEY_MAY_CHANGE | KEY_OF_SECTION, .fallback = "none", .words = HOOK_NAMES},
    {"parallel.hook.rank", "Sets the rank of PowerSGD's low-rank approximation.", KEY_COUNT, AT(strategy.hook.rank), .flags = KEY_MAY_CHANGE, .fallback = "1", .low = 1, .high = 1 << 16, POWERSGD},
    {"parallel.hook.start_step", "Sets the step from which PowerSGD compresses; earlier steps reduce uncompressed gradients.", KEY_COUNT, .unit = "optimizer steps", AT(strategy.hook.start_step), .flags = KEY_MAY_CHANGE, .fallback = "1000", FROM(0), POWERSGD},
    {"parallel.hook.min_compression_rate", "Compresses only tensors that PowerSGD makes smaller by this factor or more.", KEY_NUMBER, AT(strategy.hook.min_compression_rate), .flags = KEY_MAY_CHANGE, .fallback = "2", FROM(0), POWERSGD},
    {"parallel.hook.error_feedback", "Adds the compression error of each step to the gradients of the next step.", KEY_BOOL, AT(strategy.hook.error_feedback), .flags = KEY_MAY_CHANGE, .fallback = "true", .words = FALSE_TRUE, POWERSGD},
    {"parallel.hook.warm_start", "Starts PowerSGD from the factors of the last step.", KEY_BOOL, AT(strategy.hook.warm_start), .flags = KEY_MAY_CHANGE, .fallback = "true", .words = FALSE_TRUE, POWERSGD},
    {"parallel.hook.epsilon", "Adds this to the norms by which PowerSGD divides when it orthogonalizes columns.", KEY_NUMBER, AT(strategy.hook.epsilon), .flags = KEY_MAY_CHANGE, .fallback = "0", FROM(0), POWERSGD},
    {"parallel.no_sync", "Sums the gradients of a step's micro-batches on each rank before ranks reduce them once; false reduces after each micro-batch; auto is false for zero2 and zero3 and true for other strategies.", KEY_ENUM, AT(strategy.no_sync), .flags = KEY_MAY_CHANGE, .fallback = "auto", .words = NO_SYNC_NAMES},
    {"parallel.unused_parameters", "Chooses what happens when a parameter gets no gradient: error refuses the job, zero takes a gradient of zero.", KEY_BOOL, AT(strategy.zero_unused_parameters), .flags = KEY_MAY_CHANGE, .fallback = "error", WORDS("error", "zero")},

    {"groups", "Lists parameter groups: sets of parameters with settings of their own, as the param_groups of torch.optim. A parameter belongs to the first group whose pattern matches its name.", KEY_GROUPS, AT(group), .count_offset = (int)offsetof(job, groups), .flags = KEY_OPTIONAL},

    {"memory.budget", "Limits the memory of a rank; auto takes the memory of the device.", KEY_BYTES, .unit = "bytes", AT(memory.budget), .flags = KEY_MAY_CHANGE, .fallback = "auto", FROM(1), AUTO},
    {"memory.fit", "Changes the strategy until the job fits in memory.budget, and reports the changes.", KEY_BOOL, AT(memory.fit), .flags = KEY_MAY_CHANGE, .fallback = "false", .words = FALSE_TRUE},

    {"launch.ranks", "Sets how many ranks start; auto starts one per GPU, or per core where ranks compute on the CPU, as far as the mesh and the batch divide.", KEY_INT, .unit = "ranks", AT(launch.ranks), .flags = KEY_MAY_CHANGE, .fallback = "auto", RANKS, AUTO},
    {"launch.threads_per_rank", "Sets how many threads a rank computes with; auto divides the cores among the ranks, and a rank never gets more threads than the process has cores.", KEY_INT, .unit = "threads", AT(launch.threads_per_rank), .flags = KEY_MAY_CHANGE | KEY_KEEP_AUTO, .fallback = "auto", .low = 1, .high = 1024, AUTO},
    {"launch.as", "Chooses whether a rank is a process or a thread.", KEY_BOOL, AT(launch.as_threads), .flags = KEY_MAY_CHANGE, .fallback = "processes", WORDS("processes", "threads")},
    {"launch.device", "Chooses the device that ranks compute on; auto takes GPUs (cuda) where this machine has any, else cpu.", KEY_WORD, AT(launch.device), .flags = KEY_MAY_CHANGE, .fallback = "auto", .words = DEVICE_WORDS},
    {"launch.comm", "Chooses the communicator of several ranks: local (shared memory), p2p (devices that read each other's memory), nccl (GPUs of any hosts, one for each rank, by NCCL), hier (local in each host; between hosts ucx over RDMA devices, else tls), tls (a network, encrypted with the job's secret), ucx (a trusted network, by UCX), or mpi (the MPI library of the site, under mpirun); auto takes local or p2p, as the device needs, and hier or nccl where ranks are on several hosts.", KEY_WORD, AT(launch.comm), .flags = KEY_MAY_CHANGE, .fallback = "auto", .words = COMM_WORDS},
    {"launch.cuda_graphs", "Records a step of a GPU once, as a CUDA graph, and replays it; false issues the kernels of every step.", KEY_BOOL, AT(launch.cuda_graphs), .flags = KEY_MAY_CHANGE, .fallback = "true", .words = FALSE_TRUE},

    {"checks.replicas_every", "Sets the number of steps between comparisons of the replicas' weights; 0 turns comparisons off.", KEY_COUNT, .unit = "optimizer steps", AT(checks.replicas_every), .flags = KEY_MAY_CHANGE, .fallback = "100", FROM(0)},
    {"checks.nonfinite", "Chooses what happens when the loss or a gradient is NaN or Inf: stop ends the run, skip leaves the step out.", KEY_ENUM, AT(checks.nonfinite), .flags = KEY_MAY_CHANGE, .fallback = "stop", WORDS([NONFINITE_STOP] = "stop", [NONFINITE_SKIP] = "skip")},
    {"checks.watchdog", "Reports a step that takes longer than this as hanging; 0 turns the watchdog off.", KEY_DURATION, .unit = "seconds", AT(checks.watchdog_ms), .flags = KEY_MAY_CHANGE, .fallback = "600s", .low = 0, .high = 1e12},
    {"checks.desync", "Compares the next operations of all ranks before they run.", KEY_BOOL, AT(checks.desync), .flags = KEY_MAY_CHANGE, .fallback = "off", .words = OFF_ON},
    {"checks.flight_recorder", "Sets how many of its last collectives and messages each rank records; a run that fails writes them to files. 0 turns the recorder off.", KEY_COUNT, .unit = "calls", AT(checks.record_calls), .flags = KEY_MAY_CHANGE, .fallback = "2000", .low = 0, .high = 1 << 20},
    {"checks.flight_recorder_prefix", "Names the files of the flight recorder, to which each rank's number is added, for torchfrtrace; without it they are flight_recorder/rank_0 and so on in train.out.", KEY_PATH, AT(checks.record_prefix), .flags = KEY_OPTIONAL | KEY_MAY_CHANGE},

    {"observe.trace_steps", "Chooses the steps that are traced into train.out/traces.", KEY_STEPS, .unit = "optimizer steps", AT(observe.trace_first), .flags = KEY_MAY_CHANGE, .fallback = "none", .low = 1, .high = 1e15, .special = "none"},
    {"observe.prometheus", "Serves the run's metrics to Prometheus at this address, under /metrics; without ADDRESS only this machine reaches it, and port 0 takes a free one.", KEY_SERVER, AT(observe.prometheus), .flags = KEY_MAY_CHANGE, .fallback = "off", .special = "off"},
    {"observe.textfile", "Writes the run's metrics into this file every 15 s and at the end of the run, for node_exporter's textfile collector, which takes names that end in .prom.", KEY_PATH, AT(observe.textfile), .flags = KEY_MAY_CHANGE, .fallback = "off", .special = "off"},
    {"observe.tensorboard", "Writes event files of TensorBoard into train.out/tensorboard.", KEY_BOOL, AT(observe.tensorboard), .flags = KEY_MAY_CHANGE, .fallback = "false", .words = FALSE_TRUE},
    {"observe.grad_norm_by_group", "Adds to each step the gradient norm of every entry of groups, and of the parameters in none.", KEY_BOOL, AT(observe.grad_norm_by_group), .flags = KEY_MAY_CHANGE, .fallback = "false", .words = FALSE_TRUE},
    {"observe.csv", "Writes a line for each step into train.out/metrics.csv.", KEY_BOOL, AT(observe.csv), .flags = KEY_MAY_CHANGE, .fallback = "false", .words = FALSE_TRUE},
};

const job_key GROUP_KEYS[] = {
    {"groups.match", "Names the parameters of the group: a pattern of tensor names as in model.safetensors, where * stands for any characters. An entry must have it.", KEY_TEXT, OF_GROUP(match)},
    {"groups.trainable", "Trains the parameters. false freezes them: they take no gradient, no optimizer state and no update.", KEY_BOOL, OF_GROUP(frozen), .flags = KEY_INVERTED, .fallback = "true", .words = FALSE_TRUE},
    {"groups.lr_scale", "Multiplies the learning rate.", KEY_NUMBER, OF_GROUP(lr_scale), .flags = KEY_OF_UPDATE, .fallback = "1", FROM(0)},
    {"groups.optimizer", "Chooses the optimizer. Another one than optimizer.name has its own defaults for betas, momentum, eps and weight_decay.", KEY_ENUM, OF_GROUP(optimizer.rule), .flags = KEY_OF_UPDATE, .inherits = "optimizer.name", .words = OPTIM_NAMES, .planned = PLANNED_OPTIMIZERS},
    {"groups.betas", "Sets the decay rates of the moving averages of the gradient and of its square.", KEY_BETAS, OF_GROUP(optimizer.beta1), .flags = KEY_OF_UPDATE, .inherits = "optimizer.betas", .rules = ADAMS | 1u << UPDATE_LION},
    {"groups.momentum", "Sets the momentum of sgd.", KEY_NUMBER, OF_GROUP(optimizer.beta1), .flags = KEY_OF_UPDATE, .inherits = "optimizer.momentum", .low = 0, .high = 1, .rules = 1u << UPDATE_SGD},
    {"groups.eps", "Sets the number that is added to the denominator of the update.", KEY_NUMBER, OF_GROUP(optimizer.eps), .flags = KEY_OF_UPDATE, .inherits = "optimizer.eps", FROM(0), .rules = ADAMS},
    {"groups.weight_decay", "Sets the weight decay coefficient. It applies to all parameters of the group, whatever their dimensions, as in torch.optim.", KEY_NUMBER, OF_GROUP(optimizer.weight_decay), .flags = KEY_OF_UPDATE, .inherits = "optimizer.weight_decay", FROM(0)},
    {"groups.decay", "Chooses the tensors that weight decay applies to, as optimizer.decay does; the default is all where the entry has weight_decay.", KEY_BOOL, OF_GROUP(optimizer.decay_all), .flags = KEY_OF_UPDATE, .inherits = "optimizer.decay", WORDS("matrices", "all")},
    {"groups.dtype", "Sets the number format of the compute weights: fp32 or train.precision.", KEY_ENUM, OF_GROUP(precision), .inherits = "train.precision", .words = PRECISIONS},
    {"groups.dp", "Chooses the data-parallel strategy, as parallel.dp does.", KEY_POLICIES, OF_GROUP(dp), .flags = KEY_MAY_CHANGE, .inherits = "parallel.dp", WORDS("ddp", "zero1", "zero2", "zero3", "fsdp_no_sync"), .also = DP_ALSO},
    {"groups.offload.weights", "Chooses the memory that holds the weights between uses.", KEY_ENUM, OF_GROUP(tier[PLAN_WEIGHTS]), .flags = KEY_MAY_CHANGE, .inherits = "parallel.offload.weights", .words = MEMORY_TIER_NAMES},
    {"groups.offload.gradients", "Chooses the memory that holds the gradients between uses.", KEY_ENUM, OF_GROUP(tier[PLAN_GRADIENTS]), .flags = KEY_MAY_CHANGE | KEY_OF_UPDATE, .inherits = "parallel.offload.gradients", .words = MEMORY_TIER_NAMES},
    {"groups.offload.optimizer", "Chooses the memory that holds the optimizer state between uses.", KEY_ENUM, OF_GROUP(tier[PLAN_OPTIMIZER_STATE]), .flags = KEY_MAY_CHANGE | KEY_OF_UPDATE, .inherits = "parallel.offload.optimizer", .words = MEMORY_TIER_NAMES},
};
// clang-format on
const int JOB_KEY_COUNT = sizeof JOB_KEYS / sizeof JOB_KEYS[0];
const int GROUP_KEY_COUNT = sizeof GROUP_KEYS / sizeof GROUP_KEYS[0];
