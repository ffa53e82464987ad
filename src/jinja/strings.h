// strings.h -- what filters and methods of strings share. They keep the origin of each byte. They know no calls.
#ifndef TRIREME_JINJA_STRINGS_H
#define TRIREME_JINJA_STRINGS_H

#include "jinja/state.h"
#include "jinja/unicode.h"

enum { STRIP_LEFT = 1, STRIP_RIGHT = 2 };

// chars: the characters that are stripped; NULL: white space.
status jinja_strip(jinja_state *s, const jinja_string *p, const jinja_string *chars, int sides,
                   jinja_value *out, err *e);
// most < 0: all.
status jinja_replace(jinja_state *s, const jinja_string *p, const jinja_string *from,
                     const jinja_string *to, int64_t most, jinja_value *out, err *e);
// The first character of words gets the case `first`, the others get `rest`. whole: the string is one word. `breaks` are
// the characters before a word, besides white space; NULL: all that are no letters.
status jinja_recase(jinja_state *s, const jinja_string *p, jinja_case first, jinja_case rest,
                    bool whole, const char *breaks, jinja_value *out, err *e);
// Cuts at a separator, or at runs of white space (NULL). most < 0: everywhere.
status jinja_split(jinja_state *s, const jinja_string *p, const jinja_string *separator,
                   int64_t most, jinja_value *out, err *e);
status jinja_split_last(jinja_state *s, const jinja_string *p, const jinja_string *separator,
                        int64_t most, jinja_value *out, err *e);
status jinja_split_lines(jinja_state *s, const jinja_string *p, bool keep, jinja_value *out,
                         err *e);
status jinja_join(jinja_state *s, const jinja_string *separator, const jinja_list *items,
                  jinja_value *out, err *e);

#endif
