// recompute.h -- the activations that the backward pass recomputes instead of saving them. The
// strategy chooses the mode and the graph follows it. Neither folder includes the other.
#ifndef TRIREME_BASE_RECOMPUTE_H
#define TRIREME_BASE_RECOMPUTE_H

typedef enum recompute_mode {
    RECOMPUTE_NONE,      // recomputes only the outputs of norms and activation functions
    RECOMPUTE_SELECTIVE, // recomputes attention, too
    RECOMPUTE_FULL,      // recomputes everything: a block saves only its input
    RECOMPUTES
} recompute_mode;

#endif
