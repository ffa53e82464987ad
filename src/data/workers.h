// workers.h -- one function on several threads at once, and the join. For work that claims its own
// pieces (an atomic counter), so that any number of threads gives the same result.
#ifndef TRIREME_DATA_TEAM_H
#define TRIREME_DATA_TEAM_H

typedef void (*team_work)(void *arg, int member); // member: 0 … size-1, 0 is the calling thread

// The processors that this process may use, at least 1.
int team_default_size(void);

// Runs work(arg, m) on up to `size` threads (at least the calling one: where the system grants no
// more threads, fewer members run) and returns when all have returned.
void team_run(int size, team_work work, void *arg);

#endif
