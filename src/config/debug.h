// debug.h -- which messages the environment asks for: NCCL_DEBUG, NCCL_DEBUG_SUBSYS, TORCH_DISTRIBUTED_DEBUG and
// TORCH_CPP_LOG_LEVEL. The commands and environment.c ask it.
#ifndef TRIREME_CONFIG_DEBUG_H
#define TRIREME_CONFIG_DEBUG_H

#include <stdbool.h>

// The last three have the names of NCCL's subsystems.
typedef enum debug_kind {
    DEBUG_VERSION, // of the program
    DEBUG_INIT,    // the communicator
    DEBUG_NET,     // by what its ranks reach each other
    DEBUG_ENV,     // variables that have no effect
} debug_kind;

// Returns whether the environment asks for messages of this kind. At INFO it asks for all, of which NCCL_DEBUG_SUBSYS chooses:
// "INIT,NET" these, "^ENV" all others. NCCL_DEBUG=VERSION asks for the version alone.
bool debug_says(debug_kind kind);

#endif
