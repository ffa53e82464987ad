// memory_tier.c -- the table of memory tiers. See memory_tier.h. plan_groups.c, plan.c, plan_print.c and
// train/tiers/tiers.c read it. A new tier is a row here, its name, and a row in train/tiers/tiers.c.
#include "parallel/memory_tier.h"

#include <stddef.h>

const char *const MEMORY_TIER_NAMES[TIERS + 1] = {
    [TIER_DEVICE] = "device", [TIER_HOST] = "host", [TIER_FILE] = "file"};

static const memory_tier_row ONE_MEMORY[TIERS] = {
    [TIER_DEVICE] = {KIND_DEVICE, false, false, "on the device", NULL},
    [TIER_HOST] = {KIND_DEVICE, false, false,
                   "on the host (on cpu ranks that is the device's own memory)",
                   "on cpu ranks that is the device's own memory"},
    [TIER_FILE] = {KIND_FILE, true, false, "in files", NULL},
};

static const memory_tier_row TWO_MEMORIES[TIERS] = {
    [TIER_DEVICE] = {KIND_DEVICE, false, false, "on the device", NULL},
    [TIER_HOST] = {KIND_HOST, true, true, "on the host", NULL},
    [TIER_FILE] = {KIND_FILE, true, false, "in files", NULL},
};

const memory_tier_row *memory_tier_row_of(memory_tier t, bool host_is_apart)
{
    return host_is_apart ? &TWO_MEMORIES[t] : &ONE_MEMORY[t];
}
