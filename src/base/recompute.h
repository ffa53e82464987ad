// recompute.h -- which activations the backward pass computes again instead of having them saved.
// The strategy chooses it and the graph follows it; neither of the two folders includes the other.
#ifndef TRIREME_BASE_RECOMPUTE_H
#define TRIREME_BASE_RECOMPUTE_H

typedef enum recompute_mode {
    RECOMPUTE_NONE,      // outputs of norms and activation functions alone, which are cheap
    RECOMPUTE_SELECTIVE, // attention, too
    RECOMPUTE_FULL,      // everything: a block saves its input alone
    RECOMPUTES
} recompute_mode;

#endif
