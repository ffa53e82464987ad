// accelerate.c -- the rows of `trireme accelerate`: the commands of HuggingFace Accelerate.
#include "cmd/command.h"

#include <stddef.h>

static const command *const COMMANDS[] = {&command_accelerate_launch, NULL};

const command command_accelerate = {
    .name = "accelerate",
    .help =
        "Starts ranks as HuggingFace Accelerate does, with its flags and its default_config.yaml.",
    .subcommands = COMMANDS,
};
