// patience.h -- how long ranks of a test wait for each other. A message that is lost, or a rank that does not come,
// becomes the line of the watchdog within this time, where it would be a test that hangs until its time limit. It is far
// longer than ranks of a test are apart on a busy machine.
#ifndef TRIREME_TESTS_PATIENCE_H
#define TRIREME_TESTS_PATIENCE_H

#include "comm/registry.h"

#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
enum { TEST_PATIENCE_MS = 120000 };
#else
enum { TEST_PATIENCE_MS = 30000 };
#endif

// world_open with a watchdog.
static inline status test_world_open(int ranks, bool as_threads, world **out, err *e)
{
    const status result = world_open(ranks, as_threads, out, e);
    if (result == OK) comm_watchdog_set((*out)->watchdog, TEST_PATIENCE_MS);
    return result;
}

// Options of a rank that waits no longer for the others to open their communicators.
static inline comm_options test_world_options(world *w, int rank, device *d)
{
    return comm_world_options(w, rank, d, TEST_PATIENCE_MS);
}

#endif
