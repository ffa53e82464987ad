// tree.h -- a template as a tree of statements and expressions. parse.c makes it, and rendering only reads it, so threads
// share it.
#ifndef TRIREME_JINJA_TREE_H
#define TRIREME_JINJA_TREE_H

#include "jinja/value.h"

typedef enum jinja_node_kind {
    // Expressions.
    NODE_CONSTANT,
    NODE_NAME,
    NODE_TUPLE,
    NODE_LIST,
    NODE_DICT,      // first: key, value, key, value, …
    NODE_ATTRIBUTE, // a.text
    NODE_ITEM,      // a[b]
    NODE_SLICE,     // a[b:c:d], each may be NULL
    NODE_CALL,      // a(first)
    NODE_FILTER,    // a|row(first)
    NODE_TEST,      // a is row(first)
    NODE_NOT,
    NODE_NEGATE,
    NODE_PLUS,
    NODE_BINARY, // a op b
    NODE_CONCAT, // first ~ second ~ …
    NODE_AND,
    NODE_OR,
    NODE_COMPARE, // a, then operands
    NODE_OPERAND, // op a
    NODE_CHOICE,  // b if a else c; c may be NULL
    NODE_BLOCK,   // the text of the block that a filter changes
    // Arguments.
    NODE_KEYWORD,      // text=a
    NODE_SPREAD,       // *a
    NODE_SPREAD_PAIRS, // **a
    NODE_PARAMETER,    // name, with the default a or NULL
    // Statements.
    NODE_TEXT,
    NODE_OUTPUT,       // {{ a }}
    NODE_IF,           // if a: body, else: other
    NODE_FOR,          // for a in b if c: body, else: other
    NODE_SET,          // a = b
    NODE_SET_BLOCK,    // a = body, changed by the filter b or NULL
    NODE_MACRO,        // name(first): body
    NODE_CALL_BLOCK,   // call a, with the macro b as its caller
    NODE_FILTER_BLOCK, // body changed by the filter a
    NODE_WITH,         // first: target, value, …
    NODE_BREAK,
    NODE_CONTINUE,
    NODE_GENERATION
} jinja_node_kind;

// Operators of NODE_OPERAND that are words.
enum { OPERATOR_IN = 1, OPERATOR_NOT_IN };

typedef struct jinja_node {
    jinja_node_kind kind;
    int line;
    int op;
    int name;         // number of a name of the template
    const char *text; // [bytes] the name, the attribute, the text
    size_t bytes;
    jinja_value constant;
    const struct jinja_row *row;
    struct jinja_node *a, *b, *c, *d;
    struct jinja_node *first, *body, *other; // lists, linked by `next`
    struct jinja_node *next;
    bool takes_list, takes_pairs, takes_caller; // of a macro: its body has varargs, kwargs, caller
} jinja_node;

struct jinja {
    char *file; // the name for messages
    jinja_memory memory;
    jinja_node *body;
    const char **names; // [name_count]
    size_t name_count, name_room;
    bool generation;
};

#endif
