// parse.h -- the parser's state, for its files; jinja.c calls jinja_parse.
#ifndef TRIREME_JINJA_PARSE_H
#define TRIREME_JINJA_PARSE_H

#include "base/lookup.h"
#include "jinja/lexer.h"
#include "jinja/tree.h"

typedef struct jinja_parser {
    struct jinja *t;
    const jinja_token *token; // the next one
    lookup names;
    int depth, loops, conditions; // open blocks of these kinds
    int line;                     // of an error
    int lists, pairs, callers;    // uses of varargs, kwargs and caller so far
} jinja_parser;

enum { PARSE_DEPTH_MOST = 400 };

// Makes the tree of t->memory. *line is the line of an error.
status jinja_parse(struct jinja *t, const char *source, size_t bytes, int *line, err *e);

// ---- What the files share
bool parse_is_op(const jinja_parser *p, int op);
bool parse_is_name(const jinja_parser *p, const char *name);
bool parse_skip_op(jinja_parser *p, int op);
bool parse_skip_name(jinja_parser *p, const char *name);
status parse_expect(jinja_parser *p, jinja_token_kind kind, const char *what, err *e);
status parse_expect_op(jinja_parser *p, int op, err *e);
status parse_unexpected(jinja_parser *p, const char *expected, err *e);
status parse_node(jinja_parser *p, jinja_node_kind kind, jinja_node **out, err *e);
// A node with one child.
status parse_node_of(jinja_parser *p, jinja_node_kind kind, jinja_node *a, jinja_node **out,
                     err *e);
// Adds a node to the end of a list.
void parse_append(jinja_node ***end, jinja_node *n);
// Gives the number of a name.
status parse_name(jinja_parser *p, const char *name, int *out, err *e);
// Takes a name that follows.
status parse_take_name(jinja_parser *p, jinja_node *n, err *e);

status parse_expression(jinja_parser *p, jinja_node **out, err *e);
// Several expressions with commas are a tuple. `choices`: "a if b else c" is allowed.
status parse_tuple(jinja_parser *p, bool choices, jinja_node **out, err *e);
// A value with its sign and its parts, and with `filters` the filters and tests behind it.
status parse_unary(jinja_parser *p, bool filters, jinja_node **out, err *e);
status parse_arguments(jinja_parser *p, jinja_node **first, err *e);
// The filters behind a value; *node is the value, and then the filters of it.
status parse_filters(jinja_parser *p, bool begun, jinja_node **node, err *e);
// Names, tuples of them, and with `fields` name.attribute, that a value is given to.
status parse_target(jinja_parser *p, bool fields, jinja_node **out, err *e);

#endif
