// lexer.h -- the source of a template as a list of tokens, with the environment's rules for white space. parse.c calls
// it. It knows no statements.
#ifndef TRIREME_JINJA_LEXER_H
#define TRIREME_JINJA_LEXER_H

#include "jinja/memory.h"

#include <stdint.h>

typedef enum jinja_token_kind {
    TOKEN_END,
    TOKEN_DATA,         // text of the template
    TOKEN_BLOCK_BEGIN,  // {%
    TOKEN_BLOCK_END,    // %}
    TOKEN_OUTPUT_BEGIN, // {{
    TOKEN_OUTPUT_END,   // }}
    TOKEN_NAME,
    TOKEN_STRING,
    TOKEN_INT,
    TOKEN_FLOAT,
    TOKEN_OPERATOR
} jinja_token_kind;

// The bytes of an operator as one number, so that a switch can name them.
#define OPERATOR(a, b) ((a) | (b) << 8)

typedef struct jinja_token {
    jinja_token_kind kind;
    int line;
    int op;            // of an operator
    const char *chars; // of a name, a string or data: ends with a zero byte
    size_t bytes;
    int64_t whole;
    double real;
} jinja_token;

typedef struct jinja_tokens {
    jinja_token *token; // [count] the last one is TOKEN_END
    size_t count, room;
} jinja_tokens;

// Reads a source in UTF-8. *line is the line of an error.
status jinja_read_tokens(jinja_memory *m, const char *source, size_t bytes, jinja_tokens *out,
                         int *line, err *e);
// Describes a token in messages: "'endif'", "the end of the template".
void jinja_describe_token(const jinja_token *t, char *out, size_t room);

#endif
