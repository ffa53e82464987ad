// builder.h -- text that is put together, with the origin of each byte, and pieces of strings. What prints, computes
// strings or emits text uses it. It knows no templates.
#ifndef TRIREME_JINJA_BUILDER_H
#define TRIREME_JINJA_BUILDER_H

#include "jinja/value.h"

// {0} is an empty text. Its memory is the rendering's.
typedef struct jinja_builder {
    char *chars;
    size_t bytes, room;
    jinja_run *run;
    size_t runs, run_room;
    size_t closed; // runs that do not grow any more
} jinja_builder;

// The origin of text that the template or the interpreter writes.
#define JINJA_OWN ((jinja_run){.string = -1})

struct jinja_state;
// Appends bytes of the origin of `like`.
status jinja_append(struct jinja_state *s, jinja_builder *b, const char *chars, size_t bytes,
                    jinja_run like, err *e);
status jinja_append_text(struct jinja_state *s, jinja_builder *b, const char *chars, err *e);
// Appends bytes [from, to) of a string.
status jinja_append_part(struct jinja_state *s, jinja_builder *b, const jinja_string *p,
                         size_t from, size_t to, err *e);
status jinja_append_string(struct jinja_state *s, jinja_builder *b, const jinja_string *p, err *e);
// Appends text of one origin with every byte of & < > " ' as HTML writes it.
status jinja_append_escaped(struct jinja_state *s, jinja_builder *b, const jinja_string *p, err *e);
// Makes the string; the builder is not used after it.
status jinja_build(struct jinja_state *s, const jinja_builder *b, bool markup, jinja_value *out,
                   err *e);

// A string of borrowed bytes with one origin.
status jinja_borrow(struct jinja_state *s, const char *chars, size_t bytes, int32_t string,
                    jinja_value *out, err *e);
// A string of the interpreter.
status jinja_string_of(struct jinja_state *s, const char *chars, jinja_value *out, err *e);
// Bytes [from, to) of a string, which they borrow.
status jinja_part(struct jinja_state *s, const jinja_string *p, size_t from, size_t to,
                  jinja_value *out, err *e);
// The byte of a character; p->bytes for one behind the end.
size_t jinja_byte_of(const jinja_string *p, size_t point);
// The first occurrence of b in bytes [from, to) of a, or SIZE_MAX.
size_t jinja_search(const jinja_string *a, const jinja_string *b, size_t from, size_t to);
// The last one.
size_t jinja_search_last(const jinja_string *a, const jinja_string *b, size_t from, size_t to);
// The origin of a byte of a string.
jinja_run jinja_origin(const jinja_string *p, size_t byte);

// str(v) and repr(v), appended.
status jinja_print(struct jinja_state *s, jinja_builder *b, jinja_value v, err *e);
status jinja_print_quoted(struct jinja_state *s, jinja_builder *b, jinja_value v, err *e);
// str(v): a string stays as it is.
status jinja_to_string(struct jinja_state *s, jinja_value v, const jinja_string **out, err *e);
// Writes repr of a float.
void jinja_write_float(double x, char out[32]);

typedef struct jinja_json_format {
    bool ascii, sorted;
    const jinja_string *indent;      // NULL: one line
    const jinja_string *item, *pair; // separators; NULL: the usual ones
} jinja_json_format;
// json.dumps(v), appended.
status jinja_print_json(struct jinja_state *s, jinja_builder *b, const jinja_json_format *f,
                        jinja_value v, err *e);

#endif
