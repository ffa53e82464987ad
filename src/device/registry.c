// registry.c -- the devices that this version has: their names, how each is described, and how it is
// opened. See device.h. A new back end is one row. Called by the checks of a job, which describe a
// device before ranks are forked, and by each rank, which opens it. Of a back end it knows no more than
// its row. A back end that a program does not link has a row, too, with functions that are NULL.
#include "device/device.h"

#include "device/cpu/cpu.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/needs/cuda_needs.h"

#include <string.h>

typedef struct registry_row {
    const char *name;
    status (*describe)(const device_options *o, device_description *out, err *e);
    status (*open)(const device_options *o, device **out, err *e);
    void (*describe_absent)(device_description *out);
    bool is_optional; // a machine may lack it
} registry_row;

// "auto" is the first that the machine has.
static const registry_row ROWS[] = {
    {"cuda", cuda_device_describe, cuda_device_open, cuda_describe_absent, true},
    {"cpu", cpu_device_describe, cpu_device_open, NULL, false},
};
enum { ROW_COUNT = sizeof ROWS / sizeof *ROWS };

const char *const DEVICE_WORDS[] = {"auto", "cpu", "cuda", NULL};
const char DEVICE_WORDS_SUPPORTED[] = "auto|cpu|cuda";

static status describe(const registry_row *row, const device_options *o, device_description *out,
                       err *e)
{
    if (row->describe) return row->describe(o, out, e);
    return err_set(e, E_USAGE, "device %s: this program was built without it", row->name);
}

// The last row is what `auto` means where the machine has no other, also where its options are wrong.
static const registry_row *find(const char *word, err *why)
{
    const bool any = strcmp(word, "auto") == 0;
    const device_options first = {.threads = 0};
    for (int i = 0; i < ROW_COUNT; i++) {
        device_description d;
        if (any ? i == ROW_COUNT - 1 || describe(&ROWS[i], &first, &d, why) == OK
                : strcmp(ROWS[i].name, word) == 0)
            return &ROWS[i];
    }
    return NULL;
}

const char *device_resolve(const char *word, err *why)
{
    const registry_row *row = find(word, why);
    return row ? row->name : NULL;
}

static status check_local_rank(const char *name, const device_options *o, err *e)
{
    const int ranks = o->local_ranks > 0 ? o->local_ranks : 1;
    if (o->local_rank >= 0 && o->local_rank < ranks) return OK;
    return err_set(e, E_USAGE, "device %s: local rank %d; valid are 0 to %d", name, o->local_rank,
                   ranks - 1);
}

status device_describe(const char *word, const device_options *options, device_description *out,
                       err *e)
{
    status result = OK;
    const registry_row *row = find(word, NULL);
    const device_options o = options ? *options : (device_options){0};
    *out = (device_description){0};
    if (!row) FAIL(E_USAGE, "device %s: valid is %s", word, DEVICE_WORDS_SUPPORTED);
    TRY(check_local_rank(row->name, &o, e));
    TRY(describe(row, &o, out, e));
    out->name = row->name;
    out->index = o.index;
    if (o.index < 0 || o.index >= out->count)
        FAIL(E_USAGE, "device %s: index %d; valid are 0 to %d", row->name, o.index, out->count - 1);
done:
    return result;
}

status device_describe_absent(const char *word, device_description *out, err *e)
{
    const registry_row *row = find(word, NULL);
    if (row && !row->is_optional) return device_describe(word, NULL, out, e);
    if (!row) return err_set(e, E_USAGE, "device %s: valid is %s", word, DEVICE_WORDS_SUPPORTED);
    // A program that does not link the device knows nothing of the needs of its kernels.
    *out = (device_description){.kind = "", .count = 1, .has_tf32 = true, .utilization = -1};
    if (row->describe_absent) row->describe_absent(out);
    out->name = row->name;
    return OK;
}

status device_open(const char *word, const device_options *options, device **out, err *e)
{
    status result = OK;
    device_description described;
    const device_options o = options ? *options : (device_options){0};
    *out = NULL;
    TRY(device_describe(word, &o, &described, e));
    TRY(find(described.name, NULL)->open(&o, out, e));
done:
    return result;
}
