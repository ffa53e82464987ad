// cuda_describe.c -- what plans and checks know of the cuda device before a rank opens it. Called by
// registry.c, in processes that fork the ranks later: it starts no CUDA in this one.
#include "base/text.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/cuda_gpus.h"
#include "device/cuda/cuda_own.h"
#include "device/cuda/libraries/cuda_dnn.h"

#include <stdio.h>
#include <string.h>

// Our kernels use what Ampere brought: copies from global to shared memory, and bf16.
enum { LEAST_MAJOR = 8 };

status cuda_device_describe(const device_options *o, device_description *out, err *e)
{
    status result = OK;
    cuda_gpus all;
    err lacks = {0};
    TRY(cuda_gpus_read(&all, e));
    const cuda_gpu *g = &all.gpu[o->index >= 0 && o->index < all.count ? o->index : 0];
    if (g->major < LEAST_MAJOR)
        FAIL(E_USAGE, "GPU %d (%s) has compute capability %d.%d; valid are %d.0 and above",
             (int)(g - all.gpu), g->name, g->major, g->minor, LEAST_MAJOR);
    *out = (device_description){.kind = g->major == LEAST_MAJOR ? "sm_80" : "sm_90",
                                .count = all.count,
                                .free_bytes = g->free_bytes,
                                .own_bytes = cuda_own_bytes(),
                                .has_tf32 = true, // Ampere brought it, too
                                .utilization = g->utilization,
                                .needs = &CUDA_NEEDS};
    snprintf(out->title, sizeof out->title, "%s", g->name);
    if (*all.visible) snprintf(out->note, sizeof out->note, "device cuda: %s\n", all.visible);
    if (cuda_dnn_find(&lacks) != OK) {
        const size_t used = strlen(out->note);
        out->needs = &CUDA_NEEDS_WITHOUT_CUDNN;
        snprintf(out->note + used, sizeof out->note - used,
                 "device cuda: %.*s; own kernels compute all attention\n",
                 TEXT_CUT(lacks.text, 300));
    }
done:
    if (result != OK) err_prefix(e, "device cuda: ");
    return result;
}
