// npy.c -- NumPy's array file: "\x93NUMPY", version 1.0, the header's length as 16 bits, and a
// Python literal padded with blanks to a multiple of 64 bytes. Called by `trireme predict`. See
// npy.h.
#include "store/npy.h"

#include <inttypes.h>
#include <string.h>

static const char *descr_of(dtype t)
{
    switch (t) {
    case F64:
        return "<f8";
    case F32:
        return "<f4";
    case F16:
        return "<f2";
    case I64:
        return "<i8";
    case I32:
        return "<i4";
    case U8:
        return "|u1";
    default:
        return NULL;
    }
}

status npy_head(dtype type, int dims, const int64_t *dim, text *out, err *e)
{
    enum { BEFORE = 10, ALIGN = 64 };
    const char *descr = descr_of(type);
    text header = {0};
    if (!descr || dims < 1 || dims > NPY_DIMS_MAX)
        return err_set(e, E_INTERNAL, "npy: %d dimensions of %s", dims, dtype_name(type));
    text_addf(&header, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
    for (int i = 0; i < dims; i++) text_addf(&header, "%s%" PRId64, i ? ", " : "", dim[i]);
    // A tuple of one element ends with a comma.
    text_addf(&header, "%s), }", dims == 1 ? "," : "");
    while ((BEFORE + header.bytes + 1) % ALIGN) text_add(&header, " ");
    text_add(&header, "\n");
    const unsigned char before[BEFORE] = {
        0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, header.bytes & 0xff, header.bytes >> 8 & 0xff};
    text_add_bytes(out, before, sizeof before);
    text_add_bytes(out, header.chars, header.bytes);
    text_clear(&header);
    return OK;
}
