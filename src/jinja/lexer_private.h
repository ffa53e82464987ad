// lexer_private.h -- the state of the lexer, for its two files.
#ifndef TRIREME_JINJA_LEXER_PRIVATE_H
#define TRIREME_JINJA_LEXER_PRIVATE_H

#include "base/text.h"
#include "jinja/lexer.h"

typedef struct jinja_lexer {
    jinja_memory *memory;
    jinja_tokens *out;
    const char *chars; // [bytes] with \n for every newline
    size_t bytes, offset;
    int line;
    bool line_starts; // what was read last ended with a newline, or nothing was
} jinja_lexer;

size_t jinja_skip_space(const jinja_lexer *x, size_t offset);
void jinja_count_lines(jinja_lexer *x, size_t from, size_t to);
status jinja_add_token(jinja_lexer *x, jinja_token t, err *e);
// Steps behind a tag that ends at `end`: over all white space, or over one newline.
void jinja_end_tag(jinja_lexer *x, size_t end, bool strips, bool trims);
// Reads the tokens from x->offset through the end of the statement or of the output.
status jinja_read_code(jinja_lexer *x, bool block, err *e);

#endif
