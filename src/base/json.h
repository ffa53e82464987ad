// json.h -- JSON that other programs wrote, read with jansson, and texts written with it.
#ifndef TRIREME_BASE_JSON_H
#define TRIREME_BASE_JSON_H

#include <jansson.h>

// Like json_loadb, for files that Python wrote. It also accepts the numbers that jansson refuses,
// so that an unused key never makes a file unreadable. An integer beyond 64 bits becomes a real.
// NaN, Infinity, -Infinity and numbers beyond the range of double become strings. If a caller
// expects a number there, it refuses the string and names the key. All other numbers are exact.
json_t *json_load_python(const char *chars, size_t bytes, size_t flags, json_error_t *problem);

// A text of the user, such as a path, as a JSON string. Bytes that are not UTF-8 are left out.
json_t *json_of_text(const char *s);

#endif
