// verify.h -- checks the instruction lists of all pipeline stages before anything runs: the stages
// do not deadlock, and no instruction uses a value that does not exist.
#ifndef TRIREME_PARALLEL_VERIFY_H
#define TRIREME_PARALLEL_VERIFY_H

#include "parallel/schedule.h"

// of_stage[i] and plan_of_stage[i] belong to stage i. Every data-parallel and tensor-parallel
// coordinate has the same lists, so one of each suffices.
//
// Between stages (replay.h): every message goes to the right stage and is received in the order in
// which it was sent; no stage waits for ever.
// Within a list, every effect of the table of instructions (instructions.h) holds: a value that is
// read exists, a slot that is allocated is free, a slot that is freed or read holds the expected
// value, a result is written once, and no gradient is added to a bucket after its last
// reduction. At the end of a list every pass has run, every updated bucket is gathered and every
// slot is free.
//
// `sends_wait` is the kind of the communicator's sends (replay.h). Lists that were made for sends that
// wait are valid for both kinds.
//
// E_INTERNAL names stage, instruction (its number from 0, and its line) and what is wrong.
status schedule_verify(const schedule *const *of_stage, const plan *const *plan_of_stage,
                       int stages, bool sends_wait, err *e);

#endif
