// rendezvous.h -- how the ranks of a group meet in a store: they learn each other's colors and keys,
// and the first rank of a new group tells the others what they need to join it.
//
// Called by communicators that open or split. It does not know how ranks exchange anything else, so
// it serves communicators of one machine and of a network. The keys of a rendezvous are removed when all
// ranks have read them.
#ifndef TRIREME_RENDEZVOUS_RENDEZVOUS_H
#define TRIREME_RENDEZVOUS_RENDEZVOUS_H

#include "rendezvous/failure.h"
#include "rendezvous/store.h"

// A group, as the store knows it. Each member has its own copy.
typedef struct comm_rendezvous {
    comm_store *store;
    const comm_failure *failure; // ends every wait; NULL: none
    int64_t group;               // its number in the store; 0: the group of all ranks
    int rank, size;
    int64_t splits; // so far
} comm_rendezvous;

// One of the groups that a split makes: that of the calling rank.
typedef struct comm_members {
    int *ranks;     // [size] of the old group, in the order of the new one; owned
    int size, rank; // of the new group
    int color;
} comm_members;

// In all calls deadline_ms is the time to wait for another rank, 0: for ever. Time in which the
// process was stopped does not count. E_PEER names the rank that did not come, or is the failure.

// Rank 0 of the group of all ranks passes a value [bytes], and the others receive it.
// Collective over r.
status comm_rendezvous_open(const comm_rendezvous *r, void *value, size_t bytes,
                            int64_t deadline_ms, err *e);
// Every rank of the group passes a value [bytes] of any length, and receives those of all ranks:
// (*all)[size][*block], each in a block of the longest one's length. The caller releases *all with free.
// Collective over r.
status comm_rendezvous_all_gather(const comm_rendezvous *r, const void *value, size_t bytes,
                                  int64_t deadline_ms, char **all, size_t *block, err *e);
// Tells the members of r a color and a key, and fills *out with the ranks of this color, ordered by
// key, then by rank. The caller releases out->ranks with free. Collective over r.
status comm_rendezvous_split(comm_rendezvous *r, int color, int key, int64_t deadline_ms,
                             comm_members *out, err *e);
// The second half of a split: the first rank of the new group m passes a value [bytes], and the
// others receive it. Fills *out with the new group. Collective over r.
status comm_rendezvous_join(const comm_rendezvous *r, const comm_members *m, void *value,
                            size_t bytes, int64_t deadline_ms, comm_rendezvous *out, err *e);

#endif
