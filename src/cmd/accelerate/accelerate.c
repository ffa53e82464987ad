// accelerate.c -- `trireme accelerate`: the subcommands of HuggingFace Accelerate's program, by the same names.
#include "cmd/accelerate/accelerate.h"

#include <stddef.h>

static const command *const SUBCOMMANDS[] = {
    &command_accelerate_launch,
    &command_accelerate_config,
    &command_accelerate_env,
    &command_accelerate_estimate,
    &command_accelerate_merge,
    &command_accelerate_to_fsdp2,
    NULL, // the end
};

const command command_accelerate = {
    .name = "accelerate",
    .help = "Starts ranks as HuggingFace Accelerate does, with its flags, its default_config.yaml "
            "and its other commands.",
    .subcommands = SUBCOMMANDS,
};
