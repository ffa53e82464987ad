// jinja.h -- renders the Jinja templates with which models write conversations as text: a lexer, a tree, and a walk over
// JSON values, with the strings, numbers and truth of Python. data/chat calls it. It knows no tokenizers and no roles.
//
// The environment is that of transformers' apply_chat_template: trim_blocks, lstrip_blocks, loop controls, the sandbox's
// immutable values, tojson without HTML escapes, raise_exception, strftime_now, and the statement `generation`. Every
// character of the result has an origin. Templates come from strangers: their steps and their memory have limits.
// Source: Jinja 3.1 (docs "Template Designer Documentation"), transformers utils/chat_template_utils.py.
#ifndef TRIREME_JINJA_JINJA_H
#define TRIREME_JINJA_JINJA_H

#include "base/err.h"
#include "base/json.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct jinja jinja;

// A run of bytes of the result with one origin.
typedef struct jinja_run {
    size_t bytes;
    // The number of the input string that the bytes come from. The strings of `variables`, and the keys of its objects,
    // are numbered in the order in which a walk over the JSON meets them: a key before its value (jinja_string_path says
    // which one it is). What filters and methods compute from a string keeps its origin. -1: text of the template, and
    // what is written for numbers and for other values.
    int32_t string;
    bool generation; // inside {% generation %}
} jinja_run;

typedef struct jinja_output {
    text chars;
    jinja_run *run; // [runs] they cover `chars`
    size_t runs, room;
} jinja_output;

typedef struct jinja_limits {
    uint64_t steps; // nodes that a rendering evaluates; 0: 50 million
    size_t bytes;   // memory of a rendering; 0: 256 MiB
} jinja_limits;

// Reads a template. E_USAGE "name:line: …" names a syntax error, an unknown statement, filter or test, with a
// did-you-mean. Within {% if %} an unknown filter or test is an error of the rendering that comes to it, as in Jinja. The
// owner calls jinja_close.
status jinja_open(const char *name, const char *source, size_t bytes, jinja **out, err *e);
void jinja_close(jinja *t); // NULL allowed
// Returns whether the template has a {% generation %} block.
bool jinja_marks_generation(const jinja *t);

// Renders the template with the members of the object `variables`. `now` is the time of strftime_now (seconds since
// 1970, local time). Replaces *out, which the owner clears. Threads may render one template at the same time. E_USAGE
// "name:line: …" for an error of the template (raise_exception's message included), an undefined operation, or a limit
// that is reached.
status jinja_render(const jinja *t, const json_t *variables, int64_t now,
                    const jinja_limits *limits, jinja_output *out, err *e);
void jinja_output_clear(jinja_output *o);
// Appends "messages[3].content" for a string's number, and the same for the key. Nothing for -1.
void jinja_string_path(const json_t *variables, int32_t string, text *out);
// The number of strings and keys in a value.
int32_t jinja_count_strings(const json_t *j);

#endif
