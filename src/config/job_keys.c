// job_keys.c -- the table of every key of the job file, in the order in which it is explained and
// written. Called through keys.h by the rest of config/. Does not know values.
#include "config/keys.h"

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
#define RANKS         .low = 1, .high = MESH_RANKS

static const char *const OFF_ON[] = {"off", "on", NULL};
static const char *const FALSE_TRUE[] = {"false", "true", NULL};
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
    {"model.path", "Names a HuggingFace folder (config.json, *.safetensors, tokenizer.json) to take the model from.", KEY_PATH, AT(model.path), .flags = KEY_OPTIONAL},
    {"model.init", "Chooses where initial weights come from: random draws them from train.seed, checkpoint reads model.path, and auto reads model.path when it holds weights.", KEY_WORD, AT(model.init), .fallback = "auto", WORDS("auto", "random", "checkpoint")},
    {"model.family", "Names a family of models, instead of model.path; its sizes are given as model.layers, model.hidden and so on.", KEY_ENUM, AT(model.config.family), WORDS("gpt2", "llama", "mlp")},

    {"data.train", "Names the training data: token shards PREFIX.bin and PREFIX.idx, a *.safetensors file (mlp), mock for random tokens, or a list of {path, weight}.", KEY_PARTS, PARTS(data.train, data.trains), .flags = KEY_OPTIONAL},
    {"data.valid", "Names the validation data, in the same forms as data.train.", KEY_PARTS, PARTS(data.valid, data.valids), .flags = KEY_OPTIONAL | KEY_MAY_CHANGE},
    {"data.seq_len", "Sets the length of a training sequence, at most model.max_seq.", KEY_COUNT, .unit = "tokens", AT(data.seq_len), .fallback = "1024", .low = 1, .high = 1 << 24},
    {"data.tokenizer_mismatch", "Says what happens when shards were made with another tokenizer than each other or than the model has.", KEY_BOOL, AT(data.allow_tokenizer_mismatch), .flags = KEY_MAY_CHANGE, .fallback = "error", WORDS("error", "allow")},
    {"data.order", "Chooses the order of samples: shuffled by seed and epoch, sequential as stored, or that of PyTorch's DistributedSampler.", KEY_ENUM, AT(data.order), .fallback = "shuffle", WORDS("shuffle", "sequential", "torch")},

    {"train.steps", "Trains for this many optimizer steps; give one of train.steps, train.epochs and train.tokens.", KEY_COUNT, .unit = "optimizer steps", AT(train.steps), .flags = KEY_OPTIONAL | KEY_MAY_CHANGE, .low = 1, .high = 1e15},
    {"train.epochs", "Trains for this many passes over data.train.", KEY_NUMBER, .unit = "epochs", AT(train.epochs), .flags = KEY_OPTIONAL | KEY_MAY_CHANGE | KEY_POSITIVE, .low = 0, .high = 1e9},
    {"train.tokens", "Trains on this many tokens.", KEY_COUNT, .unit = "tokens", AT(train.tokens), .flags = KEY_OPTIONAL | KEY_MAY_CHANGE, FROM(1)},
    {"train.global_batch", "Sets how many sequences an optimizer step takes, over all ranks.", KEY_COUNT, .unit = "sequences", AT(train.global_batch), .fallback = "64", .low = 1, .high = 1 << 30},
    {"train.micro_batch", "Sets how many sequences a rank takes in one forward pass; auto takes the most that fit.", KEY_COUNT, .unit = "sequences", AT(train.micro_batch), .flags = KEY_MAY_CHANGE, .fallback = "auto", .low = 1, .high = 1 << 30, AUTO},
    {"train.seed", "Seeds initial weights, dropout and the order of samples.", KEY_COUNT, AT(train.seed), .fallback = "0", .low = 0, .high = 0x1p63},
    {"train.precision", "Sets the number format of activations and compute weights; master weights stay fp32.", KEY_ENUM, AT(train.precision), .fallback = "fp32", .words = PRECISIONS},
    {"train.reduce_dtype", "Sets the number format in which ranks sum gradients.", KEY_ENUM, AT(strategy.reduce_dtype), .fallback = "fp32", .words = PRECISIONS},
    {"train.fp16.loss_scale", "Sets a fixed loss scale for precision fp16; 0 scales dynamically, by the other keys of train.fp16.", KEY_NUMBER, AT(train.fp16.loss_scale), .low = 0, .high = 1e38, FP16},
    {"train.fp16.initial_scale_power", "Starts the dynamic loss scale at 2 to this power.", KEY_INT, AT(train.fp16.initial_power), .low = 0, .high = 120, FP16},
    {"train.fp16.loss_scale_window", "Doubles the loss scale after this many steps without overflow.", KEY_COUNT, .unit = "optimizer steps", AT(train.fp16.window), FROM(1), FP16},
    {"train.fp16.hysteresis", "Halves the loss scale after this many overflows.", KEY_COUNT, .unit = "overflows", AT(train.fp16.hysteresis), FROM(1), FP16},
    {"train.fp16.consecutive_hysteresis", "Starts the count of overflows again after each step without one.", KEY_BOOL, AT(train.fp16.consecutive_hysteresis), .words = FALSE_TRUE, FP16},
    {"train.fp16.min_loss_scale", "Sets the smallest loss scale; an overflow at this scale ends the run.", KEY_NUMBER, AT(train.fp16.min_scale), .flags = KEY_POSITIVE, .low = 0, .high = 1e38, FP16},
    {"train.clip_grad_norm", "Clips gradients to this global norm; 0 turns clipping off.", KEY_NUMBER, AT(train.clip_grad_norm), .fallback = "1.0", FROM(0)},
    {"train.eval_every", "Evaluates on data.valid each time this many steps are done; 0 never evaluates.", KEY_COUNT, .unit = "optimizer steps", AT(train.eval_every), .flags = KEY_MAY_CHANGE, .fallback = "100", FROM(0)},
    {"train.eval_batches", "Limits an evaluation to this many global batches; 0 takes all of data.valid.", KEY_COUNT, .unit = "global batches", AT(train.eval_batches), .flags = KEY_MAY_CHANGE, .fallback = "50", FROM(0)},
    {"train.save_every", "Saves a checkpoint each time this many steps are done, and at the end; 0 saves none.", KEY_COUNT, .unit = "optimizer steps", AT(train.save_every), .flags = KEY_MAY_CHANGE, .fallback = "500", FROM(0)},
    {"train.keep", "Keeps this many of the newest checkpoints; 0 keeps all.", KEY_COUNT, .unit = "checkpoints", AT(train.keep), .flags = KEY_MAY_CHANGE, .fallback = "2", FROM(0)},
    {"train.out", "Names the folder that the run writes into; the default is runs/ and the name of the job file.", KEY_PATH, AT(train.out), .flags = KEY_MAY_CHANGE},

    {"optimizer.name", "Chooses the optimizer.", KEY_ENUM, AT(optimizer.rule), .fallback = "adamw", WORDS("adamw", "adam", "sgd", "lion")},
    {"optimizer.lr", "Sets the learning rate at the peak of the schedule.", KEY_NUMBER, AT(optimizer.lr), .fallback = "3e-4", FROM(0)},
    {"optimizer.lr_scaling", "Multiplies the learning rate by the number of data-parallel ranks (linear), by its square root (sqrt), or not.", KEY_ENUM, AT(scaling), .fallback = "none", WORDS("none", "linear", "sqrt")},
    {"optimizer.betas", "Sets the decay rates of the running averages of the gradient and of its square; the default depends on optimizer.name.", KEY_BETAS, AT(optimizer.beta1), .rules = ADAMS | 1u << UPDATE_LION},
    {"optimizer.momentum", "Sets the momentum of sgd.", KEY_NUMBER, AT(optimizer.beta1), .low = 0, .high = 1, .rules = 1u << UPDATE_SGD},
    {"optimizer.eps", "Adds this to the square root of the second average; the default depends on optimizer.name.", KEY_NUMBER, AT(optimizer.eps), FROM(0), .rules = ADAMS},
    {"optimizer.weight_decay", "Sets the weight decay; the default depends on optimizer.name.", KEY_NUMBER, AT(optimizer.weight_decay), FROM(0)},
    {"optimizer.decay", "Chooses which tensors decay: those of two or more dimensions (matrices), or all.", KEY_BOOL, AT(optimizer.decay_all), .fallback = "matrices", WORDS("matrices", "all")},

    {"lr_schedule.name", "Chooses the learning-rate schedule; DeepSpeed's names take DeepSpeed's parameters.", KEY_ENUM, AT(lr.name), .fallback = "cosine", WORDS("constant", "linear", "cosine", "wsd", "LRRangeTest", "OneCycle", "WarmupLR", "WarmupDecayLR", "WarmupCosineLR")},
    {"lr_schedule.warmup_steps", "Raises the learning rate linearly over this many first steps.", KEY_COUNT, .unit = "optimizer steps", AT(lr.warmup_steps), FROM(0), OWN},
    {"lr_schedule.min_ratio", "Sets the learning rate at the end, as a fraction of optimizer.lr.", KEY_NUMBER, AT(lr.min_ratio), .low = 0, .high = 1, OWN},
    {"lr_schedule.decay_steps", "Sets the length of wsd's final decay; 0 takes a tenth of the run.", KEY_COUNT, .unit = "optimizer steps", AT(lr.decay_steps), FROM(0), OWN},
    {"lr_schedule.warmup_min_lr", "Sets the learning rate at which DeepSpeed's warm-up starts.", KEY_NUMBER, AT(lr.warmup_min_lr), FROM(0), DS_WARMUP},
    {"lr_schedule.warmup_max_lr", "Sets the learning rate at which DeepSpeed's warm-up ends; null takes optimizer.lr.", KEY_NUMBER, AT(lr.warmup_max_lr), FROM(0), .special = "null", .special_value = -1, DS_WARMUP},
    {"lr_schedule.warmup_num_steps", "Sets the length of DeepSpeed's warm-up.", KEY_COUNT, .unit = "optimizer steps", AT(lr.warmup_num_steps), FROM(1), DS_ALL_WARMUP},
    {"lr_schedule.warmup_type", "Chooses how the learning rate rises in DeepSpeed's warm-up: with the logarithm of the step, or linearly.", KEY_BOOL, AT(lr.warmup_linear), WORDS("log", "linear"), DS_ALL_WARMUP},
    {"lr_schedule.total_num_steps", "Sets the step at which DeepSpeed's decay ends; null takes the run's last step.", KEY_COUNT, .unit = "optimizer steps", AT(lr.total_num_steps), FROM(1), .special = "null", .special_value = 0, DS_TOTAL},
    {"lr_schedule.warmup_min_ratio", "Sets the learning rate at which WarmupCosineLR starts, as a fraction of optimizer.lr.", KEY_NUMBER, AT(lr.warmup_min_ratio), .low = 0, .high = 1, DS(LR_WARMUP_COSINE)},
    {"lr_schedule.cos_min_ratio", "Sets the learning rate at which WarmupCosineLR ends, as a fraction of optimizer.lr.", KEY_NUMBER, AT(lr.cos_min_ratio), .low = 0, .high = 1, DS(LR_WARMUP_COSINE)},
    {"lr_schedule.lr_range_test_min_lr", "Sets the learning rate at which LRRangeTest starts.", KEY_NUMBER, AT(lr.lr_range_test_min_lr), FROM(0), DS(LR_RANGE_TEST)},
    {"lr_schedule.lr_range_test_step_size", "Sets the length of one interval of LRRangeTest.", KEY_COUNT, .unit = "optimizer steps", AT(lr.lr_range_test_step_size), FROM(1), DS(LR_RANGE_TEST)},
    {"lr_schedule.lr_range_test_step_rate", "Raises LRRangeTest's learning rate by this fraction of its first value in each interval.", KEY_NUMBER, AT(lr.lr_range_test_step_rate), FROM(0), DS(LR_RANGE_TEST)},
    {"lr_schedule.lr_range_test_staircase", "Raises LRRangeTest's learning rate once in each interval instead of at every step.", KEY_BOOL, AT(lr.lr_range_test_staircase), .words = FALSE_TRUE, DS(LR_RANGE_TEST)},
    {"lr_schedule.cycle_min_lr", "Sets the learning rate at which OneCycle's cycle starts and ends.", KEY_NUMBER, AT(lr.cycle_min_lr), FROM(0), DS(LR_ONE_CYCLE)},
    {"lr_schedule.cycle_max_lr", "Sets the highest learning rate of OneCycle's cycle.", KEY_NUMBER, AT(lr.cycle_max_lr), FROM(0), DS(LR_ONE_CYCLE)},
    {"lr_schedule.decay_lr_rate", "Sets how fast OneCycle's learning rate decays after the cycle.", KEY_NUMBER, AT(lr.decay_lr_rate), FROM(0), DS(LR_ONE_CYCLE)},
    {"lr_schedule.cycle_first_step_size", "Sets the length of the first half of OneCycle's cycle.", KEY_COUNT, .unit = "optimizer steps", AT(lr.cycle_first_step_size), FROM(1), DS(LR_ONE_CYCLE)},
    {"lr_schedule.cycle_second_step_size", "Sets the length of the second half of OneCycle's cycle; null takes that of the first.", KEY_COUNT, .unit = "optimizer steps", AT(lr.cycle_second_step_size), FROM(1), .special = "null", .special_value = 0, DS(LR_ONE_CYCLE)},
    {"lr_schedule.cycle_first_stair_count", "Splits the first half of OneCycle's cycle into this many stairs; 0 makes none.", KEY_COUNT, .unit = "stairs", AT(lr.cycle_first_stair_count), FROM(0), DS(LR_ONE_CYCLE)},
    {"lr_schedule.cycle_second_stair_count", "Splits the second half of OneCycle's cycle into this many stairs; null takes those of the first.", KEY_COUNT, .unit = "stairs", AT(lr.cycle_second_stair_count), FROM(0), .special = "null", .special_value = -1, DS(LR_ONE_CYCLE)},
    {"lr_schedule.decay_step_size", "Sets the length of one interval of OneCycle's decay; 0 turns the decay off.", KEY_COUNT, .unit = "optimizer steps", AT(lr.decay_step_size), FROM(0), DS(LR_ONE_CYCLE)},
    {"lr_schedule.cycle_momentum", "Lets OneCycle move the momentum against the learning rate.", KEY_BOOL, AT(lr.cycle_momentum), .words = FALSE_TRUE, DS(LR_ONE_CYCLE)},
    {"lr_schedule.cycle_min_mom", "Sets the lowest momentum of OneCycle's cycle.", KEY_NUMBER, AT(lr.cycle_min_mom), .low = 0, .high = 1, DS(LR_ONE_CYCLE)},
    {"lr_schedule.cycle_max_mom", "Sets the highest momentum of OneCycle's cycle.", KEY_NUMBER, AT(lr.cycle_max_mom), .low = 0, .high = 1, DS(LR_ONE_CYCLE)},
    {"lr_schedule.decay_mom_rate", "Sets how fast OneCycle's momentum changes after the cycle.", KEY_NUMBER, AT(lr.decay_mom_rate), FROM(0), DS(LR_ONE_CYCLE)},

    {"parallel.dp", "Chooses the data-parallel strategy; fsdp, FULL_SHARD, SHARD_GRAD_OP, NO_SHARD, ZeRO stages 0 to 3, MirroredStrategy and others are aliases.", KEY_POLICIES, AT(strategy.dp), .flags = KEY_MAY_CHANGE, .fallback = "ddp", WORDS("ddp", "zero1", "zero2", "zero3", "fsdp_no_sync"), .also = DP_ALSO},
    {"parallel.dp_shard", "Sets how many ranks share one copy of what is sharded; auto takes the ranks that the other axes leave.", KEY_INT, .unit = "ranks", AT(parallel.dp_shard), .flags = KEY_MAY_CHANGE, .fallback = "auto", RANKS, AUTO},
    {"parallel.dp_replicate", "Sets how many copies there are of what is sharded; more than 1 with a sharded dp is HYBRID_SHARD.", KEY_INT, .unit = "copies", AT(parallel.dp_replicate), .flags = KEY_MAY_CHANGE, .fallback = "1", RANKS},
    {"parallel.tp", "Splits the matrices of each layer over this many ranks (tensor parallelism).", KEY_INT, .unit = "ranks", AT(parallel.tp), .flags = KEY_MAY_CHANGE, .fallback = "1", RANKS},
    {"parallel.sequence_parallel", "Splits activations along the sequence between tensor-parallel regions, as Megatron does; it needs parallel.tp 2 or more.", KEY_BOOL, AT(strategy.sequence_parallel), .flags = KEY_MAY_CHANGE, .fallback = "false", .words = FALSE_TRUE},
    {"parallel.pp", "Splits the layers into this many pipeline stages.", KEY_INT, .unit = "stages", AT(parallel.pp), .flags = KEY_MAY_CHANGE, .fallback = "1", RANKS},
    {"parallel.pp_schedule", "Chooses the order of micro-batches in the pipeline.", KEY_ENUM, AT(strategy.pipeline.schedule), .flags = KEY_MAY_CHANGE, .fallback = "1f1b", WORDS("gpipe", "1f1b", "interleaved", "zb")},
    {"parallel.virtual_stages", "Sets how many model chunks each pipeline rank has under the interleaved schedule.", KEY_INT, .unit = "model chunks", AT(strategy.pipeline.virtual_stages), .flags = KEY_MAY_CHANGE, .fallback = "1", RANKS},
    {"parallel.split", "Sets the number of layers of each model chunk; auto balances the chunks by FLOPs.", KEY_SIZES, .unit = "layers", AT(parallel.split), .count_at = (int)offsetof(job, parallel.splits), .flags = KEY_MAY_CHANGE, .fallback = "auto", .low = 1, .high = 1 << 20, AUTO},
    {"parallel.reshard_after_forward", "Frees unsharded weights between forward and backward (zero3); a number K keeps them sharded among K ranks instead.", KEY_SWITCH, .unit = "ranks", AT(strategy.reshard_after_forward), .flags = KEY_MAY_CHANGE, .fallback = "true", .words = FALSE_TRUE, .low = 2, .high = MESH_RANKS},
    {"parallel.recompute", "Chooses which activations backward computes again instead of having them saved.", KEY_ENUM, AT(strategy.recompute), .flags = KEY_MAY_CHANGE, .fallback = "none", .words = RECOMPUTE_NAMES},
    {"parallel.offload.weights", "Chooses the memory that holds the weights between uses.", KEY_ENUM, AT(strategy.offload.tier[PLAN_WEIGHTS]), .flags = KEY_MAY_CHANGE, .fallback = "device", .words = MEMORY_TIER_NAMES},
    {"parallel.offload.gradients", "Chooses the memory that holds the gradients between uses.", KEY_ENUM, AT(strategy.offload.tier[PLAN_GRADIENTS]), .flags = KEY_MAY_CHANGE, .fallback = "device", .words = MEMORY_TIER_NAMES},
    {"parallel.offload.optimizer", "Chooses the memory that holds the optimizer state between uses.", KEY_ENUM, AT(strategy.offload.tier[PLAN_OPTIMIZER_STATE]), .flags = KEY_MAY_CHANGE, .fallback = "device", .words = MEMORY_TIER_NAMES},
    {"parallel.offload.path", "Names the folder for what is offloaded to files; Trireme creates it where it does not exist.", KEY_PATH, AT(strategy.offload.path), .flags = KEY_MAY_CHANGE | KEY_OPTIONAL},
    {"parallel.offload.block_bytes", "Sets the size of one request to a file, a multiple of 4Ki.", KEY_BYTES, .unit = "bytes", AT(strategy.offload.block_bytes), .flags = KEY_MAY_CHANGE, .fallback = "1Mi", .low = 4096, .high = 1 << 30},
    {"parallel.offload.depth", "Sets how many requests to a file are in flight.", KEY_COUNT, .unit = "requests", AT(strategy.offload.depth), .flags = KEY_MAY_CHANGE, .fallback = "8", .low = 1, .high = 1024},
    {"parallel.bucket_bytes", "Sets the size of a gradient bucket, which is reduced at once.", KEY_BYTES, .unit = "bytes", AT(strategy.bucket_bytes), .flags = KEY_MAY_CHANGE, .fallback = "25Mi", FROM(1)},
    {"parallel.hook.name", "Chooses how gradients are compressed between ranks; parallel.hook: NAME is short for it.", KEY_ENUM, AT(strategy.hook.kind), .flags = KEY_MAY_CHANGE | KEY_OF_SECTION, .fallback = "none", .words = HOOK_NAMES},
    {"parallel.hook.rank", "Sets the rank of PowerSGD's approximation.", KEY_COUNT, AT(strategy.hook.rank), .flags = KEY_MAY_CHANGE, .fallback = "1", .low = 1, .high = 1 << 16, POWERSGD},
    {"parallel.hook.start_step", "Sets the step from which PowerSGD compresses; earlier steps sum gradients as they are.", KEY_COUNT, .unit = "optimizer steps", AT(strategy.hook.start_step), .flags = KEY_MAY_CHANGE, .fallback = "1000", FROM(0), POWERSGD},
    {"parallel.hook.min_compression_rate", "Compresses only the tensors that PowerSGD makes smaller by this factor or more.", KEY_NUMBER, AT(strategy.hook.min_compression_rate), .flags = KEY_MAY_CHANGE, .fallback = "2", FROM(0), POWERSGD},
    {"parallel.hook.error_feedback", "Adds what compression lost in one step to the gradients of the next.", KEY_BOOL, AT(strategy.hook.error_feedback), .flags = KEY_MAY_CHANGE, .fallback = "true", .words = FALSE_TRUE, POWERSGD},
    {"parallel.hook.warm_start", "Starts PowerSGD from the factors of the last step.", KEY_BOOL, AT(strategy.hook.warm_start), .flags = KEY_MAY_CHANGE, .fallback = "true", .words = FALSE_TRUE, POWERSGD},
    {"parallel.hook.epsilon", "Adds this to the norms with which PowerSGD makes columns orthogonal.", KEY_NUMBER, AT(strategy.hook.epsilon), .flags = KEY_MAY_CHANGE, .fallback = "0", FROM(0), POWERSGD},
    {"parallel.no_sync", "Sums the gradients of all micro-batches on each rank before ranks reduce them; false reduces after each micro-batch; auto is false for zero2 and zero3 and true for other strategies.", KEY_ENUM, AT(strategy.no_sync), .flags = KEY_MAY_CHANGE, .fallback = "auto", .words = NO_SYNC_NAMES},
    {"parallel.unused_parameters", "Chooses what happens when a parameter gets no gradient: an error, or a gradient of zero.", KEY_BOOL, AT(strategy.zero_unused_parameters), .flags = KEY_MAY_CHANGE, .fallback = "error", WORDS("error", "zero")},

    {"memory.budget", "Limits the memory of a rank; auto takes what the device has.", KEY_BYTES, .unit = "bytes", AT(memory.budget), .flags = KEY_MAY_CHANGE, .fallback = "auto", FROM(1), AUTO},
    {"memory.fit", "Changes the strategy until the job fits in memory.budget, and says what was changed.", KEY_BOOL, AT(memory.fit), .flags = KEY_MAY_CHANGE, .fallback = "false", .words = FALSE_TRUE},

    {"launch.ranks", "Starts this many ranks; auto starts one a core, as far as mesh and batch divide.", KEY_INT, .unit = "ranks", AT(launch.ranks), .flags = KEY_MAY_CHANGE, .fallback = "auto", RANKS, AUTO},
    {"launch.threads_per_rank", "Sets how many threads a rank computes with; auto shares the cores among the ranks, and no rank gets more than the process may use.", KEY_INT, .unit = "threads", AT(launch.threads_per_rank), .flags = KEY_MAY_CHANGE | KEY_KEEP_AUTO, .fallback = "auto", .low = 1, .high = 1024, AUTO},
    {"launch.as", "Chooses whether a rank is a process or a thread.", KEY_BOOL, AT(launch.as_threads), .flags = KEY_MAY_CHANGE, .fallback = "processes", WORDS("processes", "threads")},
    {"launch.device", "Chooses the device that ranks compute on.", KEY_WORD, AT(launch.device), .flags = KEY_MAY_CHANGE, .fallback = "auto", WORDS("auto", "cpu", "cuda"), .only = "auto|cpu"},

    {"checks.replicas_every", "Compares the weights of replicas each time this many steps are done; 0 never compares.", KEY_COUNT, .unit = "optimizer steps", AT(checks.replicas_every), .flags = KEY_MAY_CHANGE, .fallback = "100", FROM(0)},
    {"checks.nonfinite", "Chooses what NaN or Inf in loss or gradients does: stop the run, or skip the step.", KEY_ENUM, AT(checks.nonfinite), .flags = KEY_MAY_CHANGE, .fallback = "stop", WORDS("stop", "skip")},
    {"checks.watchdog", "Reports a step that takes longer than this as hanging; 0 turns the watchdog off.", KEY_DURATION, .unit = "seconds", AT(checks.watchdog_ms), .flags = KEY_MAY_CHANGE, .fallback = "600s", .low = 0, .high = 1e12},
    {"checks.desync", "Compares what ranks are about to do before they do it.", KEY_BOOL, LATER, .flags = KEY_MAY_CHANGE, .fallback = "off", .words = OFF_ON, .only = "off"},
};
// clang-format on
const int JOB_KEY_COUNT = sizeof JOB_KEYS / sizeof JOB_KEYS[0];
