// ref_rope.c -- rotary position embedding in place, in plain C. The angles come as a table: which
// scaling of frequencies a model uses is not known here.
#include "device/cpu/ref.h"

void ref_rope(const cpu_context *x, const void *args)
{
    (void)x;
    const kernel_rope_args *p = args;
    int64_t half = p->rot / 2;
    for (int64_t r = 0; r < p->rows; r++) {
        const float *angles = p->table + (p->pos0 + r % p->seq) * half * 2;
        for (int64_t h = 0; h < p->heads; h++) {
            int64_t at = r * p->stride + h * p->head_dim;
            for (int64_t i = 0; i < half; i++) {
                float c = angles[2 * i], s = p->inverse ? -angles[2 * i + 1] : angles[2 * i + 1];
                float low = ref_load(p->x, at + i, p->type);
                float high = ref_load(p->x, at + i + half, p->type);
                ref_store(p->x, at + i, p->type, low * c - high * s);
                ref_store(p->x, at + i + half, p->type, high * c + low * s);
            }
        }
    }
}
