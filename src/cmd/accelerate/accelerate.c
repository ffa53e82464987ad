// accelerate.c -- the rows of `trireme accelerate`: the commands of HuggingFace Accelerate, by the same names.
#include "cmd/command.h"

#include <stddef.h>

static const command *const COMMANDS[] = {
    &command_accelerate_launch,
    &command_accelerate_config,
    &command_accelerate_env,
    &command_accelerate_estimate,
    &command_accelerate_merge,
    &command_accelerate_test,
    &command_accelerate_to_fsdp2,
    NULL, // the end
};

const command command_accelerate = {
    .name = "accelerate",
    .help = "Does what HuggingFace Accelerate's command does, without Python.",
    .subcommands = COMMANDS,
};
