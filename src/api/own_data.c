// own_data.c -- a program's samples as a dataset: shapes and one callback. Ids are checked by the
// session, which knows the model's tables.
#include "api/api.h"

#include <inttypes.h>
#include <string.h>

static status own_read(dataset *d, uint64_t sample, void *in, void *labels, err *e)
{
    const trm_dataset *of = &((own_data *)d)->of;
    trm_error why = {.code = TRM_OK};
    return api_take(of->read(of->context, sample, in, labels, &why), &why, e);
}

// The program owns what it reads from.
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

status own_data_make(own_data *d, const trm_dataset *of, err *e)
{
    status result = OK;
    TRY(check_size("positions", of->positions, 1, e));
    TRY(check_size("features", of->features, 0, e));
    TRY(check_size("targets", of->targets, 0, e));
    if (of->samples == 0) FAIL(E_USAGE, "data: samples is 0; valid: 1 or more");
    if (!of->read) FAIL(E_USAGE, "data: read is NULL; valid: the function that reads a sample");
    const bool ids = of->features == 0, classes = of->targets == 0;
    *d = (own_data){.base = {.shape = {.inputs = of->positions * (ids ? 1 : of->features),
                                       .input_type = ids ? I32 : F32,
                                       .labels = of->positions * (classes ? 1 : of->targets),
                                       .label_type = classes ? I32 : F32},
                             .samples = of->samples,
                             .max_id = -1,
                             .read = own_read,
                             .close = own_close},
                    .of = *of};
done:
    return result;
}
