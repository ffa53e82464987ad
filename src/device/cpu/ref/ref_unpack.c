// ref_unpack.c -- reference of the kernel that unpacks NF4 rows. Specified in device/kernel_nf4.h.
#include "base/nf4.h"
#include "device/cpu/ref/ref.h"

static void unpack_row(const kernel_unpack_nf4_args *p, int64_t row)
{
    const uint32_t *packed = (const uint32_t *)p->packed + row * nf4_row_words(p->cols);
    const nf4_row r = nf4_row_of(packed, p->cols / NF4_BLOCK);
    float absmax = 0;
    for (int64_t c = 0; c < p->cols; c++) {
        const int byte = r.codes[c / 2], code = c % 2 ? byte & 15 : byte >> 4;
        if (c % NF4_BLOCK == 0) absmax = nf4_absmax(&r, c / NF4_BLOCK);
        const float value = NF4_VALUE[code] * absmax;
        ref_store(p->y, row * p->cols + c, p->type, value);
    }
}

void ref_unpack_nf4(const cpu_context *x, const void *args)
{
    (void)x;
    const kernel_unpack_nf4_args *p = args;
    for (int64_t row = 0; row < p->rows; row++) unpack_row(p, row);
}
