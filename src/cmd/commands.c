// commands.c -- the table of commands, in the order in which help lists them. Planned commands are
// listed, so that users find out that they do not exist yet.
#include "cmd/command.h"

#include <stddef.h>

static const command *const DATA[] = {&command_data_prepare, &command_data_inspect, NULL};

const command command_data = {
    .name = "data",
    .help = "Writes token shards from text, and shows their contents.",
    .subcommands = DATA,
};

static const command *const BENCHES[] = {
    &command_bench_train,
    &command_bench_all_reduce,
    &command_bench_reduce_scatter,
    &command_bench_all_gather,
    &command_bench_broadcast,
    &command_bench_reduce,
    &command_bench_alltoall,
    &command_bench_sendrecv,
    &command_bench_scatter,
    &command_bench_gather,
    &command_bench_hypercube,
    &command_bench_tier,
    &command_bench_pipeline,
    &command_bench_kernels,
    &command_bench_scaling,
    &command_bench_link,
    &command_bench_calibrate,
    &command_bench_plan,
    NULL, // the end
};

const command command_bench = {
    .name = "bench",
    .help = "Measures training, collectives, links, disks, pipelines, kernels and the plans of "
            "others' runs.",
    .subcommands = BENCHES,
};

static const flag ILAB_FLAGS[] = {
    {"--config", FLAG_TEXT, 0, "FILE",
     "Names InstructLab's configuration, here or behind `train`."},
};

static const command *const ILAB_MODEL[] = {&command_ilab_model_train, NULL};

static const command command_ilab_model = {
    .name = "model",
    .help = "Holds the command of InstructLab that trains.",
    .flags = ILAB_FLAGS,
    .flag_count = sizeof ILAB_FLAGS / sizeof *ILAB_FLAGS,
    .subcommands = ILAB_MODEL,
};

static const command *const ILAB[] = {&command_ilab_model, NULL};

static const command command_ilab = {
    .name = "ilab",
    .help = "Holds the command of InstructLab that trains.",
    .flags = ILAB_FLAGS,
    .flag_count = sizeof ILAB_FLAGS / sizeof *ILAB_FLAGS,
    .subcommands = ILAB,
};

static const command *const COMMANDS[] = {
    &command_train,
    &command_explain,
    &command_plan,
    &command_translate,
    &command_data,
    &command_generate,
    &command_chat,
    &command_eval,
    &command_predict,
    &command_checkpoint,
    &command_curve,
    &command_top,
    &command_report,
    &command_trace,
    &command_bench,
    &command_help,
    &command_version,
    &command_completion,
    &command_run,
    &command_torchrun,
    &command_launch,
    &command_deepspeed,
    &command_accelerate,
    &command_ilab,
    &command_trl,
    &command_axolotl,
    &command_llamafactory,
    &command_doctor,
    &command_smoke,
    &command_env,
    &command_topo,
    &command_diagnose,
    NULL, // the end
};

const command command_trireme = {
    .name = "trireme",
    .help = "Trains neural networks on many devices.",
    .subcommands = COMMANDS,
};
