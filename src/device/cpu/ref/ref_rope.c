// ref_rope.c -- reference of the rotary position embedding, in place. The angles come as a table.
// It does not know how a model scales its frequencies.
#include "device/cpu/ref/ref.h"

void ref_rope(const cpu_context *x, const void *args)
{
    (void)x;
    const kernel_rope_args *p = args;
    int64_t half = p->rot / 2;
    for (int64_t r = 0; r < p->rows; r++) {
        const float *angles = p->table + kernel_document_position(&p->row_tokens, r) * half * 2;
        for (int64_t h = 0; h < p->heads; h++) {
            int64_t offset = r * p->stride + h * p->head_dim;
            for (int64_t i = 0; i < half; i++) {
                ref_real c = angles[2 * i], s = p->inverse ? -angles[2 * i + 1] : angles[2 * i + 1];
                int64_t a = offset + (p->interleaved ? 2 * i : i);
                int64_t b = p->interleaved ? a + 1 : a + half;
                ref_real low = ref_load(p->x, a, p->type), high = ref_load(p->x, b, p->type);
                ref_store(p->x, a, p->type, low * c - high * s);
                ref_store(p->x, b, p->type, high * c + low * s);
            }
        }
    }
}
