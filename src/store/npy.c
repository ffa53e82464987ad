// npy.c -- NumPy's array file. `trireme predict` calls it. It does not know the elements.
//
//   OFFSET   SIZE   FIELD
//   0        6      magic "\x93NUMPY"
//   6        2      version: 1, 0
//   8        2      H, the header's length: u16, little-endian
//   10       H      header: a Python literal {'descr': TYPE, 'fortran_order': False, 'shape': (…), },
//                   spaces, and a newline; 10 + H is a multiple of 64
//   10 + H          elements in C order, little-endian
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

status npy_header(dtype type, int dims, const int64_t *dim, text *out, err *e)
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
    while (!header.failed && (BEFORE + header.bytes + 1) % ALIGN) text_add(&header, " ");
    text_add(&header, "\n");
    const unsigned char before[BEFORE] = {
        0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, header.bytes & 0xff, header.bytes >> 8 & 0xff};
    text_add_bytes(out, before, sizeof before);
    text_add_bytes(out, header.chars, header.bytes);
    if (header.failed) text_fail(out);
    text_clear(&header);
    return text_check(out, e);
}
