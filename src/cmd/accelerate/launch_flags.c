// launch_flags.c -- the table of the flags of `trireme accelerate launch`, as `accelerate launch` has them. launch.c
// reads them.
#include "cmd/accelerate/launch.h"

#include <stddef.h>

#define AT(member) offsetof(launch_request, member)
#define TEXT(name, member, value, help)                                                            \
    {                                                                                              \
        (name), FLAG_TEXT, AT(member), (value), (help)                                             \
    }
#define SWITCH(name, member, help)                                                                 \
    {                                                                                              \
        (name), FLAG_SWITCH, AT(member), NULL, (help)                                              \
    }

// clang-format off
static const flag LAUNCH_FLAGS[] = {
    TEXT("--config-file", config_file, "FILE", "Names the file with the defaults of the flags (default: accelerate/default_config.yaml below HF_HOME)."),
    SWITCH("-q, --quiet", quiet, "Leaves warnings out."),
    SWITCH("-m, --module", module, "The program is a Python module, as for python -m."),
    SWITCH("--no-python", no_python, "The program is run as it is, without Python."),
    SWITCH("--debug", debug, "Compares operations of all ranks before they run."),
    SWITCH("--cpu", cpu, "Computes on the CPU."),
    SWITCH("--multi-gpu", multi_gpu, "Starts a rank for each of several GPUs."),
    SWITCH("--tpu", tpu, "Refused: there is no device for TPUs."),
    TEXT("--mixed-precision", mixed_precision, "no|fp16|bf16|fp8", "Sets the number format of activations."),
    TEXT("--num-processes", num_processes, "N", "Sets the number of ranks on all machines."),
    TEXT("--num-machines", num_machines, "N", "Sets the number of machines."),
    {"--num-cpu-threads-per-process", FLAG_COUNT, AT(threads), "N", "Sets OMP_NUM_THREADS, or launch.threads_per_rank of a job."},
    SWITCH("--enable-cpu-affinity", enable_cpu_affinity, "Binds each rank to the cores of a NUMA node."),
    TEXT("--dynamo-backend", dynamo_backend, "NAME", "Names the compiler of a PyTorch script."),
    TEXT("--dynamo-mode", dynamo_mode, "default|reduce-overhead|max-autotune", "Chooses the mode of the compiler."),
    SWITCH("--dynamo-use-fullgraph", dynamo_fullgraph, "Compiles the model as one graph."),
    SWITCH("--dynamo-use-dynamic", dynamo_dynamic, "Compiles for shapes that change."),
    SWITCH("--dynamo-use-regional-compilation", dynamo_regional, "Compiles repeated blocks once."),
    SWITCH("--use-deepspeed", use_deepspeed, "Trains with DeepSpeed."),
    SWITCH("--use-fsdp", use_fsdp, "Trains with FSDP."),
    SWITCH("--use-parallelism-config", use_parallelism_config, "Uses the sizes of --parallelism-config-*."),
    SWITCH("--use-megatron-lm", use_megatron_lm, "Trains with Megatron-LM."),
    TEXT("--gpu-ids", gpu_ids, "N,...|all", "Names the GPUs of this machine."),
    SWITCH("--same-network", same_network, "Accepted; nodes always meet by the address of the main process."),
    TEXT("--machine-rank", machine_rank, "N", "Sets the number of this machine, from 0."),
    TEXT("--main-process-ip", main_process_ip, "HOST", "Names machine 0."),
    TEXT("--main-process-port", main_process_port, "PORT", "Sets the port on which machines meet; on one machine, MASTER_PORT of the ranks (default: a free one)."),
    TEXT("-t, --tee", tee, "0|1|2|3|RANK:N,...", "Writes stdout (1), stderr (2) or both (3) to files and to the console."),
    TEXT("--log-dir", log_dir, "DIR", "Sets the folder of log files."),
    TEXT("--role", role, "NAME", "Names the role of the ranks (default: default)."),
    TEXT("--rdzv-backend", rdzv_backend, "static|c10d", "Says how machines get their numbers (default: static)."),
    TEXT("--rdzv-conf", rdzv_conf, "K=V,...", "Sets the times of rendezvous, as for trireme run."),
    {"--max-restarts", FLAG_COUNT, AT(max_restarts), "N", "Starts all ranks again up to so many times after a failure (default: 0)."},
    {"--monitor-interval", FLAG_NUMBER, AT(monitor_s), "S", "Accepted; without effect, because the end of a worker is noticed at once."},
    TEXT("--secret-file", secret_file, "FILE", "Names the file with the secret of the run, which several machines need (default: TRIREME_SECRET_FILE)."),
    TEXT("--main-training-function", main_training_function, "NAME", "Accepted; without effect: it is for TPUs."),
    SWITCH("--downcast-bf16", downcast_bf16, "Accepted; without effect: it is for TPUs."),
    TEXT("--mpirun-hostfile", mpirun_hostfile, "FILE", "Refused: mpirun itself takes a file of hosts."),

    TEXT("--deepspeed-config-file", deepspeed.config_file, "FILE", "Names a JSON file of DeepSpeed."),
    TEXT("--zero-stage", deepspeed.stage, "0|1|2|3", "Sets the stage of ZeRO (default: 2)."),
    TEXT("--offload-optimizer-device", deepspeed.optimizer_device, "none|cpu|nvme", "Chooses where the optimizer's state lies."),
    TEXT("--offload-param-device", deepspeed.param_device, "none|cpu|nvme", "Chooses where the weights lie."),
    TEXT("--offload-optimizer-nvme-path", deepspeed.optimizer_path, "DIR", "Names the folder of the optimizer's state."),
    TEXT("--offload-param-nvme-path", deepspeed.param_path, "DIR", "Names the folder of the weights."),
    TEXT("--gradient-accumulation-steps", deepspeed.accumulation, "N", "Sets how many micro-batches an optimizer step sums."),
    TEXT("--gradient-clipping", deepspeed.clipping, "X", "Clips gradients to this norm."),
    TEXT("--zero3-init-flag", deepspeed.init, "true|false", "Makes weights of stage 3 sharded from the start."),
    TEXT("--zero3-save-16bit-model", deepspeed.save, "true|false", "Saves 16-bit weights of stage 3."),
    TEXT("--deepspeed-hostfile", deepspeed.hostfile, "FILE", "Names the file with a host and its slots in each line."),
    TEXT("--deepspeed-exclusion-filter", deepspeed.exclude, "HOSTS", "Leaves these hosts and slots out."),
    TEXT("--deepspeed-inclusion-filter", deepspeed.include, "HOSTS", "Uses only these hosts and slots."),
    TEXT("--deepspeed-multinode-launcher", deepspeed.launcher, "pdsh|standard|nossh", "Says how other machines are reached (default: pdsh); standard: the same line is started on each."),
    TEXT("--deepspeed-moe-layer-cls-names", deepspeed.moe, "NAME,...", "Names layers of experts."),

    TEXT("--fsdp-version", fsdp.version, "1|2", "Sets the version of FSDP (default: 1)."),
    TEXT("--fsdp-offload-params", fsdp.offload, "true|false", "Keeps weights, gradients and optimizer state on the host."),
    TEXT("--fsdp-min-num-params", fsdp.min_params, "N", "Sets the size of modules that are wrapped."),
    TEXT("--fsdp-sharding-strategy", fsdp.strategy, "FULL_SHARD|...", "Sets the strategy of FSDP1."),
    TEXT("--fsdp-reshard-after-forward", fsdp.reshard, "true|false", "Frees gathered weights after forward (FSDP2)."),
    TEXT("--fsdp-auto-wrap-policy", fsdp.wrap, "NAME", "Chooses the modules that are wrapped."),
    TEXT("--fsdp-transformer-layer-cls-to-wrap", fsdp.layer, "NAME,...", "Names the classes of layers that are wrapped."),
    TEXT("--fsdp-backward-prefetch", fsdp.backward, "NAME", "Chooses when backward gathers ahead."),
    TEXT("--fsdp-state-dict-type", fsdp.state, "NAME", "Chooses the form of checkpoints."),
    TEXT("--fsdp-forward-prefetch", fsdp.forward, "true|false", "Gathers ahead in forward."),
    TEXT("--fsdp-use-orig-params", fsdp.orig, "true|false", "Keeps the parameters' own names."),
    TEXT("--fsdp-cpu-ram-efficient-loading", fsdp.loading, "true|false", "Loads a checkpoint on one rank."),
    TEXT("--fsdp-sync-module-states", fsdp.sync, "true|false", "Broadcasts weights from rank 0."),
    TEXT("--fsdp-activation-checkpointing", fsdp.checkpointing, "true|false", "Recomputes activations in backward."),
    TEXT("--fsdp-activation-checkpointing-offload", fsdp.checkpointing_offload, "true|false", "Keeps inputs of recomputed layers on the host."),

    TEXT("--megatron-lm-tp-degree", megatron.tp, "N", "Sets the ranks of tensor parallelism."),
    TEXT("--megatron-lm-pp-degree", megatron.pp, "N", "Sets the stages of the pipeline."),
    TEXT("--megatron-lm-use-custom-fsdp", megatron.custom_fsdp, "true|false", "Uses Megatron-LM's own FSDP."),
    TEXT("--megatron-lm-no-load-optim", megatron.no_load, "true|false", "Does not load optimizer state."),
    TEXT("--megatron-lm-no-save-optim", megatron.no_save, "true|false", "Does not save optimizer state."),
    TEXT("--megatron-lm-eod-mask-loss", megatron.eod, "true|false", "Leaves ends of documents out of the loss."),
    TEXT("--megatron-lm-overlap-cpu-optimizer-d2h-h2d", megatron.overlap, "true|false", "Overlaps transfers of an offloaded optimizer."),
    TEXT("--megatron-lm-optimizer-cpu-offload", megatron.cpu, "true|false", "Keeps optimizer state on the host."),
    TEXT("--megatron-lm-use-precision-aware-optimizer", megatron.precise, "true|false", "Keeps optimizer state in short types."),
    TEXT("--megatron-lm-decoder-last-pipeline-num-layers", megatron.last_layers, "N", "Sets the layers of the last stage."),
    TEXT("--megatron-lm-num-micro-batches", megatron.micros, "N", "Sets the micro-batches of a step."),
    TEXT("--megatron-lm-sequence-parallelism", megatron.sequence, "true|false", "Shards activations along the sequence."),
    TEXT("--megatron-lm-recompute-activations", megatron.recompute, "true|false", "Recomputes attention in backward."),
    TEXT("--megatron-lm-use-distributed-optimizer", megatron.sharded, "true|false", "Shards optimizer state (ZeRO-1)."),
    TEXT("--megatron-lm-gradient-clipping", megatron.clipping, "X", "Clips gradients to this norm (default: 1)."),
    TEXT("--megatron-lm-recompute-granularity", megatron.grain, "full|selective", "Chooses the activations that backward recomputes."),
    TEXT("--megatron-lm-recompute-method", megatron.method, "uniform|block", "Chooses the layers that are recomputed together."),
    TEXT("--megatron-lm-recompute-num-layers", megatron.layers, "N", "Sets how many layers are recomputed together."),
    TEXT("--megatron-lm-attention-backend", megatron.attention, "true|false", "Chooses the kernel of attention."),
    TEXT("--megatron-lm-expert-model-parallel-size", megatron.ep, "N", "Sets the ranks that share experts."),
    TEXT("--megatron-lm-expert-tensor-parallel-size", megatron.etp, "N", "Sets the ranks of an expert."),
    TEXT("--megatron-lm-context-parallel-size", megatron.cp, "N", "Sets the ranks of context parallelism."),
    TEXT("--megatron-lm-attention-dropout", megatron.attention_dropout, "X", "Sets the dropout of attention."),
    TEXT("--megatron-lm-hidden-dropout", megatron.dropout, "X", "Sets the dropout of blocks."),
    TEXT("--megatron-lm-attention-softmax-in-fp32", megatron.softmax, "true|false", "Computes softmax in fp32."),
    TEXT("--megatron-lm-calculate-per-token-loss", megatron.per_token, "true|false", "Averages the loss over tokens."),
    TEXT("--megatron-lm-use-rotary-position-embeddings", megatron.rotary, "true|false", "Rotates queries and keys by position."),

    TEXT("--parallelism-config-dp-replicate-size", axes.replicate, "N", "Sets the number of replicas."),
    TEXT("--parallelism-config-dp-shard-size", axes.shard, "N", "Sets the ranks that state is sharded over."),
    TEXT("--parallelism-config-tp-size", axes.tp, "N", "Sets the ranks of tensor parallelism."),
    TEXT("--parallelism-config-cp-size", axes.cp, "N", "Sets the ranks of context parallelism."),
    TEXT("--parallelism-config-cp-backend", axes.cp_backend, "torch", "Names the library of context parallelism."),
    TEXT("--parallelism-config-cp-comm-strategy", axes.cp_exchange, "allgather|alltoall", "Chooses how keys and values travel."),
    TEXT("--parallelism-config-sp-size", axes.sp, "N", "Sets the ranks of Ulysses' sequence parallelism."),
    TEXT("--parallelism-config-sp-backend", axes.sp_backend, "deepspeed", "Names the library of sequence parallelism."),
    TEXT("--parallelism-config-sp-seq-length", axes.sp_length, "N", "Sets the length of sequences."),
    TEXT("--parallelism-config-sp-seq-length-is-variable", axes.sp_variable, "true|false", "Says that batches differ in length."),
    TEXT("--parallelism-config-sp-attn-implementation", axes.sp_attention, "NAME", "Chooses the kernel of attention."),

    TEXT("--fp8-backend", fp8.backend, "ao|te|msamp", "Names the library of fp8."),
    SWITCH("--fp8-use-autocast-during-eval", fp8_eval, "Uses fp8 in evaluation, too."),
    TEXT("--fp8-margin", fp8.margin, "N", "Sets the margin of scaling."),
    TEXT("--fp8-interval", fp8.interval, "N", "Sets how often scales are computed."),
    TEXT("--fp8-format", fp8.format, "HYBRID|E4M3|E5M2", "Sets the format of fp8."),
    TEXT("--fp8-amax-history-len", fp8.history, "N", "Sets the length of the history of maxima."),
    TEXT("--fp8-amax-compute-algo", fp8.algo, "max|most_recent", "Chooses the maximum that sets the scale."),
    TEXT("--fp8-override-linear-precision", fp8.precision, "BOOL,BOOL,BOOL", "Computes products of forward, dgrad and wgrad in higher precision."),
    TEXT("--fp8-opt-level", fp8.level, "O1|O2", "Sets the level of MS-AMP."),
    TEXT("--fp8-enable-fsdp-float8-all-gather", fp8.gather, "true|false", "Gathers weights in fp8."),
    TEXT("--fp8-pad-inner-dim", fp8.pad, "true|false", "Pads inner dims of products."),
};
// clang-format on

const command command_accelerate_launch = {
    .name = "launch",
    .run = launch_run,
    .usage = "[--config-file FILE] [--num-processes N] [flags] SCRIPT|JOB.yaml [arguments]",
    .help = "Starts a PyTorch script, or a job of Trireme, as accelerate launch does.",
    .about = "Flags win over the file, and the file wins over Accelerate's defaults. A script runs "
             "unchanged, on ranks "
             "with torchrun's environment and Accelerate's (ACCELERATE_MIXED_PRECISION, "
             "FSDP_VERSION, ...). A job is "
             "trained by Trireme, with the meaning of the file and the flags laid over it; keys of "
             "the job may follow. "
             "distributed_type NO runs one process without ranks. On several machines the same "
             "line is started on each.",
    .flags = LAUNCH_FLAGS,
    .flag_count = sizeof LAUNCH_FLAGS / sizeof *LAUNCH_FLAGS,
    .takes_program = true,
};
