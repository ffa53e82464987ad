// accelerate.c -- `trireme accelerate`: the subcommands of HuggingFace Accelerate's program, by the same names.
#include "cmd/command.h"

#include <stddef.h>

static const command *const SUBCOMMANDS[] = {
    &command_accelerate_config,
    &command_accelerate_env,
    &command_accelerate_estimate,
    &command_accelerate_merge,
    &command_accelerate_to_fsdp2,
    NULL, // the end
};

const command command_accelerate = {
    .name = "accelerate",
    .help = "Does what HuggingFace Accelerate's command does, without Python.",
    .subcommands = SUBCOMMANDS,
};
