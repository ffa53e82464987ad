// tier_rate.h -- how fast the file tier writes and reads the disk of a folder: `trireme bench tier` prints it, and the doctor
// compares it. Two requests are in flight at a time, as in a training step that computes on one buffer while the other is transferred.
#ifndef TRIREME_STORE_TIER_RATE_H
#define TRIREME_STORE_TIER_RATE_H

#include "base/text.h"
#include "store/tier.h"

typedef struct tier_rate {
    double write_s, read_s; // of all bytes
    double cpu_share;       // of a core, which the tier's thread took
    text note;              // tier_note; the caller clears it
} tier_rate;

// Writes a file of o->bytes from front to back, then reads and checks it; it has no name. o->bytes is a multiple of
// TIER_ALIGN and o->block_bytes is not 0. E_IO where a block is not the one that was written.
status tier_rate_measure(const tier_options *o, tier_rate *out, err *e);

#endif
