// json.h -- JSON that other programs wrote, read with jansson.
#ifndef TRIREME_BASE_JSON_H
#define TRIREME_BASE_JSON_H

#include <jansson.h>

// Like json_loadb, for files that Python wrote: it also takes the numbers that jansson refuses, so
// that a key which nobody asks for never breaks a file. An integer beyond 64 bits becomes a real;
// NaN, Infinity, -Infinity and a number beyond double become a string that spells them, which every
// key that wants a number refuses by its name. All other numbers are exact.
json_t *json_load_python(const char *at, size_t bytes, size_t flags, json_error_t *problem);

#endif
