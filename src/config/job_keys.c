// job_keys.c -- the table of every key of the job file, in the order in which it is explained and
// written. Called through keys.h by the rest of config/. Does not know values.
#include "config/keys.h"

#include "comm/world.h"

#include <stddef.h>
#include <string.h>

#define AT(member)           .at = (int)offsetof(job, member)
#define PARTS(member, count) AT(member), .count_at = (int)offsetof(job, count)
#define LATER                .at = KEY_UNSTORED
#define WORDS(...)                                                                                 \
    .words = (const char *const[])                                                                 \
    {                                                                                              \
        __VA_ARGS__, NULL                                                                          \
    }
#define FROM(bound)   .low = (bound), .high = 1e308 // no bound but the type's
#define AUTO          .special = "auto", .special_value = 0
#define DS(name)      .schedules = 1u << (name)
#define DS_WARMUP     .schedules = 1u << LR_WARMUP | 1u << LR_WARMUP_DECAY
#define DS_ALL_WARMUP .schedules = 1u << LR_WARMUP | 1u << LR_WARMUP_DECAY | 1u << LR_WARMUP_COSINE
#define DS_TOTAL      .schedules = 1u << LR_WARMUP_DECAY | 1u << LR_WARMUP_COSINE
#define OWN           .schedules = 1u << LR_CONSTANT | 1u << LR_LINEAR | 1u << LR_COSINE | 1u << LR_WSD
#define ADAMS         1u << UPDATE_ADAMW | 1u << UPDATE_ADAM
#define POWERSGD      .hooks = 1u << HOOK_POWERSGD
#define FP16          .precisions = 1u << F16
#define RANKS         .low = 1, .high = WORLD_RANKS

static const char *const OFF_ON[] = {"off", "on", NULL};
static const char *const FALSE_TRUE[] = {"false", "true", NULL};
static const char *const TIER_WORDS[] = {"device", "host", "file", NULL};
static const char *const PRECISIONS[] = {"fp32", "bf16", "fp16", NULL};

// What other systems call the data-parallel policies.
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

// clang-format off
const job_key JOB_KEYS[] = {
    {"model.path", "HuggingFace folder: config.json, *.safetensors, tokenizer.json", KEY_PATH, AT(model.path), .flags = KEY_OPTIONAL},
    {"model.init", "where weights come from; auto: model.path's when it has any", KEY_WORD, AT(model.init), .fallback = "auto", WORDS("auto", "random", "checkpoint")},
    {"model.family", "instead of model.path: a family, then its sizes as model.layers …", KEY_ENUM, AT(model.config.family), WORDS("gpt2", "llama", "mlp")},

    {"data.train", "token shards PREFIX.bin/.idx, a *.safetensors file (mlp), mock, or a list of {path, weight}", KEY_PARTS, PARTS(data.train, data.trains), .flags = KEY_OPTIONAL},
    {"data.valid", "the same, for evaluation", KEY_PARTS, PARTS(data.valid, data.valids), .flags = KEY_OPTIONAL | KEY_MAY_CHANGE},
    {"data.seq_len", "tokens of a sequence, at most model.max_seq", KEY_COUNT, AT(data.seq_len), .fallback = "1024", .low = 1, .high = 1 << 24},
    {"data.order", "order of samples: by seed and epoch, as stored, or DistributedSampler's", KEY_ENUM, AT(data.order), .fallback = "shuffle", WORDS("shuffle", "sequential", "torch")},

    {"train.steps", "optimizer steps; or epochs, or tokens: one of the three", KEY_COUNT, AT(train.steps), .flags = KEY_OPTIONAL | KEY_MAY_CHANGE, .low = 1, .high = 1e15},
    {"train.epochs", "passes over data.train", KEY_NUMBER, AT(train.epochs), .flags = KEY_OPTIONAL | KEY_MAY_CHANGE | KEY_POSITIVE, .low = 0, .high = 1e9},
    {"train.tokens", "tokens to train on", KEY_COUNT, AT(train.tokens), .flags = KEY_OPTIONAL | KEY_MAY_CHANGE, FROM(1)},
    {"train.global_batch", "sequences of an optimizer step over all ranks", KEY_COUNT, AT(train.global_batch), .fallback = "64", .low = 1, .high = 1 << 30},
    {"train.micro_batch", "sequences of a rank and forward pass; auto: the largest that fits", KEY_COUNT, AT(train.micro_batch), .flags = KEY_MAY_CHANGE, .fallback = "auto", .low = 1, .high = 1 << 30, AUTO},
    {"train.seed", "of initial weights, dropout and data order", KEY_COUNT, AT(train.seed), .fallback = "0", FROM(0)},
    {"train.precision", "of computing; master weights are fp32", KEY_ENUM, AT(train.precision), .fallback = "fp32", .words = PRECISIONS},
    {"train.reduce_dtype", "of gradient sums between ranks", KEY_ENUM, AT(train.reduce_dtype), .fallback = "fp32", .words = PRECISIONS},
    {"train.fp16.loss_scale", "of precision fp16; 0: dynamic, by the keys below", KEY_NUMBER, AT(train.fp16.loss_scale), .low = 0, .high = 1e38, FP16},
    {"train.fp16.initial_scale_power", "the dynamic scale starts at 2 to this", KEY_INT, AT(train.fp16.initial_power), .low = 0, .high = 120, FP16},
    {"train.fp16.loss_scale_window", "steps without overflow before it doubles", KEY_COUNT, AT(train.fp16.window), FROM(1), FP16},
    {"train.fp16.hysteresis", "overflows before it halves", KEY_COUNT, AT(train.fp16.hysteresis), FROM(1), FP16},
    {"train.fp16.consecutive_hysteresis", "a good step starts that count again", KEY_BOOL, AT(train.fp16.consecutive_hysteresis), .words = FALSE_TRUE, FP16},
    {"train.fp16.min_loss_scale", "an overflow at this scale ends the run", KEY_NUMBER, AT(train.fp16.min_scale), .flags = KEY_POSITIVE, .low = 0, .high = 1e38, FP16},
    {"train.clip_grad_norm", "largest global gradient norm; 0: off", KEY_NUMBER, AT(train.clip_grad_norm), .fallback = "1.0", FROM(0)},
    {"train.eval_every", "steps between evaluations on data.valid; 0: never", KEY_COUNT, AT(train.eval_every), .flags = KEY_MAY_CHANGE, .fallback = "100", FROM(0)},
    {"train.eval_batches", "global batches of an evaluation; 0: all of data.valid", KEY_COUNT, AT(train.eval_batches), .flags = KEY_MAY_CHANGE, .fallback = "50", FROM(0)},
    {"train.save_every", "steps between checkpoints, and one at the end; 0: none", KEY_COUNT, AT(train.save_every), .flags = KEY_MAY_CHANGE, .fallback = "500", FROM(0)},
    {"train.keep", "newest checkpoints kept; 0: all", KEY_COUNT, AT(train.keep), .flags = KEY_MAY_CHANGE, .fallback = "2", FROM(0)},
    {"train.out", "folder of the run; default runs/NAME of the job file", KEY_PATH, AT(train.out), .flags = KEY_MAY_CHANGE},

    {"optimizer.name", "update rule", KEY_ENUM, AT(optimizer.rule), .fallback = "adamw", WORDS("adamw", "adam", "sgd", "lion")},
    {"optimizer.lr", "learning rate, the schedule's peak", KEY_NUMBER, AT(optimizer.lr), .fallback = "3e-4", FROM(0)},
    {"optimizer.lr_scaling", "of lr with the number of data-parallel ranks", KEY_ENUM, AT(scaling), .fallback = "none", WORDS("none", "linear", "sqrt")},
    {"optimizer.betas", "decay of the running averages; default by rule", KEY_BETAS, AT(optimizer.beta1), .rules = ADAMS | 1u << UPDATE_LION},
    {"optimizer.momentum", "of sgd", KEY_NUMBER, AT(optimizer.beta1), .low = 0, .high = 1, .rules = 1u << UPDATE_SGD},
    {"optimizer.eps", "added to the root of the second average; default by rule", KEY_NUMBER, AT(optimizer.eps), FROM(0), .rules = ADAMS},
    {"optimizer.weight_decay", "default by rule", KEY_NUMBER, AT(optimizer.weight_decay), FROM(0)},
    {"optimizer.decay", "which tensors decay: of two or more dimensions, or all", KEY_BOOL, AT(optimizer.decay_all), .fallback = "matrices", WORDS("matrices", "all")},

    {"lr_schedule.name", "own schedules, or DeepSpeed's with their own parameters", KEY_ENUM, AT(lr.name), .fallback = "cosine", WORDS("constant", "linear", "cosine", "wsd", "LRRangeTest", "OneCycle", "WarmupLR", "WarmupDecayLR", "WarmupCosineLR")},
    {"lr_schedule.warmup_steps", "steps of linear warm-up", KEY_COUNT, AT(lr.warmup_steps), FROM(0), OWN},
    {"lr_schedule.min_ratio", "lr at the end over lr", KEY_NUMBER, AT(lr.min_ratio), .low = 0, .high = 1, OWN},
    {"lr_schedule.decay_steps", "wsd: steps of the final decay; 0: a tenth of the run", KEY_COUNT, AT(lr.decay_steps), FROM(0), OWN},
    {"lr_schedule.warmup_min_lr", "DeepSpeed", KEY_NUMBER, AT(lr.warmup_min_lr), FROM(0), DS_WARMUP},
    {"lr_schedule.warmup_max_lr", "DeepSpeed; null: optimizer.lr", KEY_NUMBER, AT(lr.warmup_max_lr), FROM(0), .special = "null", .special_value = -1, DS_WARMUP},
    {"lr_schedule.warmup_num_steps", "DeepSpeed", KEY_COUNT, AT(lr.warmup_num_steps), FROM(1), DS_ALL_WARMUP},
    {"lr_schedule.warmup_type", "DeepSpeed", KEY_BOOL, AT(lr.warmup_linear), WORDS("log", "linear"), DS_ALL_WARMUP},
    {"lr_schedule.total_num_steps", "DeepSpeed; null: the run's steps", KEY_COUNT, AT(lr.total_num_steps), FROM(1), .special = "null", .special_value = 0, DS_TOTAL},
    {"lr_schedule.warmup_min_ratio", "DeepSpeed", KEY_NUMBER, AT(lr.warmup_min_ratio), .low = 0, .high = 1, DS(LR_WARMUP_COSINE)},
    {"lr_schedule.cos_min_ratio", "DeepSpeed", KEY_NUMBER, AT(lr.cos_min_ratio), .low = 0, .high = 1, DS(LR_WARMUP_COSINE)},
    {"lr_schedule.lr_range_test_min_lr", "DeepSpeed", KEY_NUMBER, AT(lr.lr_range_test_min_lr), FROM(0), DS(LR_RANGE_TEST)},
    {"lr_schedule.lr_range_test_step_size", "DeepSpeed", KEY_COUNT, AT(lr.lr_range_test_step_size), FROM(1), DS(LR_RANGE_TEST)},
    {"lr_schedule.lr_range_test_step_rate", "DeepSpeed", KEY_NUMBER, AT(lr.lr_range_test_step_rate), FROM(0), DS(LR_RANGE_TEST)},
    {"lr_schedule.lr_range_test_staircase", "DeepSpeed", KEY_BOOL, AT(lr.lr_range_test_staircase), .words = FALSE_TRUE, DS(LR_RANGE_TEST)},
    {"lr_schedule.cycle_min_lr", "DeepSpeed", KEY_NUMBER, AT(lr.cycle_min_lr), FROM(0), DS(LR_ONE_CYCLE)},
    {"lr_schedule.cycle_max_lr", "DeepSpeed", KEY_NUMBER, AT(lr.cycle_max_lr), FROM(0), DS(LR_ONE_CYCLE)},
    {"lr_schedule.decay_lr_rate", "DeepSpeed", KEY_NUMBER, AT(lr.decay_lr_rate), FROM(0), DS(LR_ONE_CYCLE)},
    {"lr_schedule.cycle_first_step_size", "DeepSpeed", KEY_COUNT, AT(lr.cycle_first_step_size), FROM(1), DS(LR_ONE_CYCLE)},
    {"lr_schedule.cycle_second_step_size", "DeepSpeed; null: the first's", KEY_COUNT, AT(lr.cycle_second_step_size), FROM(1), .special = "null", .special_value = 0, DS(LR_ONE_CYCLE)},
    {"lr_schedule.cycle_first_stair_count", "DeepSpeed", KEY_COUNT, AT(lr.cycle_first_stair_count), FROM(0), DS(LR_ONE_CYCLE)},
    {"lr_schedule.cycle_second_stair_count", "DeepSpeed; null: the first's", KEY_COUNT, AT(lr.cycle_second_stair_count), FROM(0), .special = "null", .special_value = -1, DS(LR_ONE_CYCLE)},
    {"lr_schedule.decay_step_size", "DeepSpeed", KEY_COUNT, AT(lr.decay_step_size), FROM(0), DS(LR_ONE_CYCLE)},
    {"lr_schedule.cycle_momentum", "DeepSpeed", KEY_BOOL, AT(lr.cycle_momentum), .words = FALSE_TRUE, DS(LR_ONE_CYCLE)},
    {"lr_schedule.cycle_min_mom", "DeepSpeed", KEY_NUMBER, AT(lr.cycle_min_mom), .low = 0, .high = 1, DS(LR_ONE_CYCLE)},
    {"lr_schedule.cycle_max_mom", "DeepSpeed", KEY_NUMBER, AT(lr.cycle_max_mom), .low = 0, .high = 1, DS(LR_ONE_CYCLE)},
    {"lr_schedule.decay_mom_rate", "DeepSpeed", KEY_NUMBER, AT(lr.decay_mom_rate), FROM(0), DS(LR_ONE_CYCLE)},

    {"parallel.dp", "data-parallel policy; fsdp, FULL_SHARD, NO_SHARD, stages 0 to 3, MirroredStrategy … are aliases", KEY_POLICIES, AT(parallel.dp), .flags = KEY_MAY_CHANGE, .fallback = "ddp", WORDS("ddp", "zero1", "zero2", "zero3", "fsdp_no_sync"), .also = DP_ALSO},
    {"parallel.dp_shard", "ranks of the sharded axis; auto: what the others leave", KEY_INT, AT(parallel.dp_shard), .flags = KEY_MAY_CHANGE, .fallback = "auto", RANKS, AUTO},
    {"parallel.dp_replicate", "copies of the sharded axis; more than 1 with a sharded dp: HYBRID_SHARD", KEY_INT, AT(parallel.dp_replicate), .flags = KEY_MAY_CHANGE, .fallback = "1", RANKS},
    {"parallel.tp", "ranks of the tensor-parallel axis", KEY_INT, AT(parallel.tp), .flags = KEY_MAY_CHANGE, .fallback = "1", RANKS},
    {"parallel.sequence_parallel", "split activations between tensor-parallel regions", KEY_BOOL, AT(parallel.sequence_parallel), .flags = KEY_MAY_CHANGE, .fallback = "false", .words = FALSE_TRUE},
    {"parallel.pp", "pipeline stages", KEY_INT, AT(parallel.pp), .flags = KEY_MAY_CHANGE, .fallback = "1", RANKS},
    {"parallel.pp_schedule", "order of micro-batches in the pipeline", KEY_ENUM, AT(parallel.schedule), .flags = KEY_MAY_CHANGE, .fallback = "1f1b", WORDS("gpipe", "1f1b", "interleaved", "zb")},
    {"parallel.virtual_stages", "interleaved: parts of the model on each pipeline rank", KEY_INT, AT(parallel.virtual_stages), .flags = KEY_MAY_CHANGE, .fallback = "1", RANKS},
    {"parallel.split", "layers of each part of the pipeline, as [6, 6]; auto: balanced by cost", KEY_SIZES, AT(parallel.split), .count_at = (int)offsetof(job, parallel.splits), .flags = KEY_MAY_CHANGE, .fallback = "auto", .low = 1, .high = 1 << 20, AUTO},
    {"parallel.reshard_after_forward", "zero3: release gathered weights between forward and backward; K: keep parts among K neighbours", KEY_SWITCH, AT(parallel.reshard_after_forward), .flags = KEY_MAY_CHANGE, .fallback = "true", .words = FALSE_TRUE, .low = 2, .high = WORLD_RANKS},
    {"parallel.recompute", "activations computed again in backward instead of kept", KEY_WORD, AT(parallel.recompute), .flags = KEY_MAY_CHANGE, .fallback = "none", WORDS("none", "selective", "full")},
    {"parallel.offload.weights", "memory that they live in", KEY_ENUM, AT(parallel.tier[TIERED_WEIGHTS]), .flags = KEY_MAY_CHANGE, .fallback = "device", .words = TIER_WORDS},
    {"parallel.offload.gradients", "memory that they live in", KEY_ENUM, AT(parallel.tier[TIERED_GRADIENTS]), .flags = KEY_MAY_CHANGE, .fallback = "device", .words = TIER_WORDS},
    {"parallel.offload.optimizer", "memory that its state lives in", KEY_ENUM, AT(parallel.tier[TIERED_OPTIMIZER]), .flags = KEY_MAY_CHANGE, .fallback = "device", .words = TIER_WORDS},
    {"parallel.offload.path", "folder of the file tier", KEY_PATH, AT(parallel.offload_path), .flags = KEY_MAY_CHANGE | KEY_OPTIONAL},
    {"parallel.offload.block_bytes", "file tier: of one request, a multiple of 4Ki", KEY_BYTES, AT(parallel.offload_block_bytes), .flags = KEY_MAY_CHANGE, .fallback = "1Mi", .low = 4096, .high = 1 << 30},
    {"parallel.offload.depth", "file tier: requests in flight", KEY_COUNT, AT(parallel.offload_depth), .flags = KEY_MAY_CHANGE, .fallback = "8", .low = 1, .high = 1024},
    {"parallel.bucket_bytes", "gradients that are reduced at once", KEY_BYTES, AT(parallel.bucket_bytes), .flags = KEY_MAY_CHANGE, .fallback = "25Mi", FROM(1)},
    {"parallel.hook.name", "compression of gradients between ranks; also hook: NAME", KEY_ENUM, AT(parallel.hook.kind), .flags = KEY_MAY_CHANGE | KEY_OF_SECTION, .fallback = "none", WORDS("none", "fp16", "bf16", "powersgd")},
    {"parallel.hook.rank", "powersgd: of the approximation", KEY_COUNT, AT(parallel.hook.rank), .flags = KEY_MAY_CHANGE, .fallback = "1", .low = 1, .high = 1 << 16, POWERSGD},
    {"parallel.hook.start_step", "powersgd: plain sums before this step", KEY_COUNT, AT(parallel.hook.start_step), .flags = KEY_MAY_CHANGE, .fallback = "1000", FROM(0), POWERSGD},
    {"parallel.hook.min_compression_rate", "powersgd: smaller gains are not worth it", KEY_NUMBER, AT(parallel.hook.min_compression_rate), .flags = KEY_MAY_CHANGE, .fallback = "2", FROM(0), POWERSGD},
    {"parallel.hook.error_feedback", "powersgd: what one step loses is added in the next", KEY_BOOL, AT(parallel.hook.error_feedback), .flags = KEY_MAY_CHANGE, .fallback = "true", .words = FALSE_TRUE, POWERSGD},
    {"parallel.hook.warm_start", "powersgd: start from the last step's factors", KEY_BOOL, AT(parallel.hook.warm_start), .flags = KEY_MAY_CHANGE, .fallback = "true", .words = FALSE_TRUE, POWERSGD},
    {"parallel.hook.epsilon", "powersgd: added when columns are made orthogonal", KEY_NUMBER, AT(parallel.hook.epsilon), .flags = KEY_MAY_CHANGE, .fallback = "0", FROM(0), POWERSGD},
    {"parallel.no_sync", "sum the gradients of several micro-batches before they are reduced; false: reduce each", KEY_BOOL, AT(parallel.no_sync), .flags = KEY_MAY_CHANGE, .fallback = "true", .words = FALSE_TRUE},
    {"parallel.unused_parameters", "parameters without a gradient: an error, or a gradient of zero", KEY_WORD, AT(parallel.unused_parameters), .flags = KEY_MAY_CHANGE, .fallback = "error", WORDS("error", "zero")},

    {"memory.budget", "bytes of a rank; auto: the device's own", KEY_BYTES, AT(memory.budget), .flags = KEY_MAY_CHANGE, .fallback = "auto", FROM(1), AUTO},
    {"memory.fit", "change the strategy until it fits", KEY_BOOL, AT(memory.fit), .flags = KEY_MAY_CHANGE, .fallback = "false", .words = FALSE_TRUE},

    {"launch.ranks", "ranks to start; auto: one a core, as far as mesh and batch divide", KEY_INT, AT(launch.ranks), .flags = KEY_MAY_CHANGE, .fallback = "auto", RANKS, AUTO},
    {"launch.threads_per_rank", "auto: cores over ranks; at most the cores that the process may use", KEY_INT, AT(launch.threads_per_rank), .flags = KEY_MAY_CHANGE | KEY_KEEP_AUTO, .fallback = "auto", .low = 1, .high = 1024, AUTO},
    {"launch.as", "what a rank is", KEY_BOOL, AT(launch.as_threads), .flags = KEY_MAY_CHANGE, .fallback = "processes", WORDS("processes", "threads")},
    {"launch.device", "what ranks compute on", KEY_WORD, AT(launch.device), .flags = KEY_MAY_CHANGE, .fallback = "auto", WORDS("auto", "cpu", "cuda"), .only = "auto|cpu"},

    {"checks.replicas_every", "steps between comparisons of the replicas' weights; 0: never", KEY_COUNT, AT(checks.replicas_every), .flags = KEY_MAY_CHANGE, .fallback = "100", FROM(0)},
    {"checks.nonfinite", "NaN or Inf in loss or gradients: stop, or skip the step", KEY_ENUM, AT(checks.nonfinite), .flags = KEY_MAY_CHANGE, .fallback = "stop", WORDS("stop", "skip")},
    {"checks.watchdog", "a step longer than this is reported as hanging; 0: off", KEY_DURATION, AT(checks.watchdog_ms), .flags = KEY_MAY_CHANGE, .fallback = "600s", FROM(0)},
    {"checks.desync", "compare what ranks are about to do", KEY_BOOL, LATER, .flags = KEY_MAY_CHANGE, .fallback = "off", .words = OFF_ON, .only = "off"},
};
// clang-format on
const int JOB_KEY_COUNT = sizeof JOB_KEYS / sizeof JOB_KEYS[0];
