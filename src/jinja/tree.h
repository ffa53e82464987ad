// tree.h -- a template as a tree of statements and expressions. parse.c makes it, and rendering only reads it, so threads
// share it.
#ifndef TRIREME_JINJA_TREE_H
#define TRIREME_JINJA_TREE_H

#include "jinja/value.h"

typedef enum jinja_node_kind {
    // Expressions.
    JINJA_NODE_CONSTANT,
    JINJA_NODE_NAME,
    JINJA_NODE_TUPLE,
    JINJA_NODE_LIST,
    JINJA_NODE_DICT,      // first: key, value, key, value, …
    JINJA_NODE_ATTRIBUTE, // a.text
    JINJA_NODE_ITEM,      // a[b]
    JINJA_NODE_SLICE,     // a[b:c:d], each may be NULL
    JINJA_NODE_CALL,      // a(first)
    JINJA_NODE_FILTER,    // a|row(first)
    JINJA_NODE_TEST,      // a is row(first)
    JINJA_NODE_NOT,
    JINJA_NODE_NEGATE,
    JINJA_NODE_PLUS,
    JINJA_NODE_BINARY, // a op b
    JINJA_NODE_CONCAT, // first ~ second ~ …
    JINJA_NODE_AND,
    JINJA_NODE_OR,
    JINJA_NODE_COMPARE, // a, then operands
    JINJA_NODE_OPERAND, // op a
    JINJA_NODE_CHOICE,  // b if a else c; c may be NULL
    JINJA_NODE_BLOCK,   // the text of the block that a filter changes
    // Arguments.
    JINJA_NODE_KEYWORD,      // text=a
    JINJA_NODE_SPREAD,       // *a
    JINJA_NODE_SPREAD_PAIRS, // **a
    JINJA_NODE_PARAMETER,    // name, with the default a or NULL
    // Statements.
    JINJA_NODE_TEXT,
    JINJA_NODE_OUTPUT,       // {{ a }}
    JINJA_NODE_IF,           // if a: body, else: other
    JINJA_NODE_FOR,          // for a in b if c: body, else: other
    JINJA_NODE_SET,          // a = b
    JINJA_NODE_SET_BLOCK,    // a = body, changed by the filter b or NULL
    JINJA_NODE_MACRO,        // name(first): body
    JINJA_NODE_CALL_BLOCK,   // call a, with the macro b as its caller
    JINJA_NODE_FILTER_BLOCK, // body changed by the filter a
    JINJA_NODE_WITH,         // first: target, value, …
    JINJA_NODE_BREAK,
    JINJA_NODE_CONTINUE,
    JINJA_NODE_GENERATION
} jinja_node_kind;

// Operators of JINJA_NODE_OPERAND that are words.
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
