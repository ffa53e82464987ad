// own_data.c -- makes a dataset of a program's trm_dataset: its shapes and its callback. The
// session checks the ids, because it knows the sizes of the model's tables.
#include "api/api.h"
#include "device/kernels.h"

#include <inttypes.h>
#include <string.h>

// No token is predicted from a token of another document.
static void ignore_last_tokens(const dataset *d, const int32_t *in, int32_t *labels)
{
    const int64_t positions = d->shape.inputs / 2;
    const int32_t *start = in + positions;
    for (int64_t i = 1; d->shape.documents && i < positions; i++)
        if (start[i] == i) labels[i - 1] = IGNORED_LABEL;
}

static status own_read(dataset *d, uint64_t sample, void *in, void *labels, err *e)
{
    const trm_dataset *of = &((api_data *)d)->of;
    trm_error why = {.code = TRM_OK};
    const trm_status s = of->read(of->context, sample, in, labels, &why);
    if (s == TRM_END)
        return err_set(e, E_USAGE, "read returned TRM_END; valid: only read_own may return it");
    if (s == TRM_OK) ignore_last_tokens(d, in, labels);
    return api_take(s, &why, e);
}

static status own_read_own(dataset *d, int rank, int ranks, uint64_t index, void *in, void *labels,
                           bool *ended, err *e)
{
    const trm_dataset *of = &((api_data *)d)->of;
    trm_error why = {.code = TRM_OK};
    const trm_status s = of->read_own(of->context, rank, ranks, index, in, labels, &why);
    *ended = s == TRM_END;
    if (s == TRM_OK) ignore_last_tokens(d, in, labels);
    return *ended ? OK : api_take(s, &why, e);
}

// Nothing to free: the program owns the context.
static void own_close(dataset *d)
{
    (void)d;
}

static status check_size(const char *what, int64_t found, int64_t least, err *e)
{
    enum { MOST = 1 << 24 };
    if (found >= least && found <= MOST) return OK;
    return err_set(e, E_USAGE, "data: %s is %" PRId64 "; valid: %" PRId64 " to %d", what, found,
                   least, MOST);
}

// Exactly one of read and read_own must be set, and samples only with read.
static status check_reading(const trm_dataset *of, bool train, err *e)
{
    if (of->read_own && !train)
        return err_set(e, E_USAGE, "data: read_own is for training; valid: read");
    if (of->read_own && (of->read || of->samples > 0))
        return err_set(e, E_USAGE,
                       "data: read_own and %s are both set; valid: read NULL, samples 0",
                       of->read ? "read" : "samples");
    if (of->read_own) return OK;
    if (of->samples == 0) return err_set(e, E_USAGE, "data: samples is 0; valid: 1 or more");
    if (!of->read)
        return err_set(e, E_USAGE, "data: read is NULL; valid: the function that reads a sample");
    return OK;
}

status api_data_make(api_data *d, const trm_dataset *of, bool train, err *e)
{
    status result = OK;
    TRY(check_size("positions", of->positions, 1, e));
    TRY(check_size("features", of->features, 0, e));
    TRY(check_size("targets", of->targets, 0, e));
    TRY(check_reading(of, train, e));
    if (of->packed && (of->features > 0 || of->targets > 0))
        FAIL(E_USAGE, "data: packed with %s; valid: token ids and labels that are token ids",
             of->features > 0 ? "features" : "targets");
    const bool ids = of->features == 0, classes = of->targets == 0;
    *d = (api_data){.base = {.shape = {.inputs = of->positions * (of->packed ? 2
                                                                  : ids      ? 1
                                                                             : of->features),
                                       .documents = of->packed,
                                       .input_type = ids ? I32 : F32,
                                       .unlabelled = classes,
                                       .labels = of->positions * (classes ? 1 : of->targets),
                                       .label_type = classes ? I32 : F32},
                             .samples = of->samples,
                             .max_id = -1,
                             .read = own_read,
                             .read_own = of->read_own ? own_read_own : NULL,
                             .close = own_close},
                    .of = *of};
done:
    return result;
}
