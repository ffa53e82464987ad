// values.h -- writes a document of objects, lists and plain values, as JSON or as a pickle of Python (protocol 2).
//
// Called by what writes a file for other programs in both forms. It knows no keys. Pickles have only what JSON has:
// dicts, lists, texts, numbers, booleans and None, so reading one runs no code.
#ifndef TRIREME_BASE_VALUES_H
#define TRIREME_BASE_VALUES_H

#include "base/text.h"

typedef enum values_form { VALUES_JSON, VALUES_PICKLE } values_form;

// {.form = form} is a writer. The owner clears `out` and checks it (text_check). The document is complete when as much
// was closed as was opened, and values_end was called.
typedef struct values {
    values_form form;
    text out;
    int depth;    // open objects and lists
    bool follows; // a value stands before the next one in its object or list
} values;

// Each key of an object is followed by one value. Text that is not UTF-8 is written with U+FFFD for its bytes above 0x7f.
void values_open_object(values *v);
void values_close_object(values *v);
void values_open_list(values *v);
void values_close_list(values *v);
void values_key(values *v, const char *key);
void values_text(values *v, const char *s);
void values_int(values *v, int64_t n);
void values_double(values *v, double x); // finite
void values_bool(values *v, bool b);
void values_none(values *v);
void values_end(values *v);

#endif
