// rope.c -- the rotary table, computed on the host and copied. See rope.h. Called when a trainer or a
// decoder opens.
#include "train/rope.h"

#include "base/size.h"

#include <stdlib.h>

size_t rope_bytes(const graph *g)
{
    return g ? size_mul(2 * sizeof(float), size_mul((uint64_t)g->rope_rows, (uint64_t)g->rope_half))
             : 0;
}

status rope_upload(const graph *g, device_stream *on, float *table, err *e)
{
    status result = OK;
    const size_t bytes = rope_bytes(g);
    if (bytes == 0) return OK;
    float *host = malloc(bytes);
    if (!host) FAIL(E_IO, "no memory for the rotary table (%zu bytes)", bytes);
    rope_table_fill(g, host);
    on->device->ops->copy(on, table, host, bytes);
    TRY(on->device->ops->sync(on, e));
done:
    free(host);
    return result;
}
