// node.h -- a YAML document as a tree that remembers lines. Private to config/.
#ifndef TRIREME_CONFIG_NODE_H
#define TRIREME_CONFIG_NODE_H

#include "base/err.h"
#include "base/text.h"

#include <jansson.h>
#include <stdbool.h>

typedef enum node_kind { NODE_SCALAR, NODE_LIST, NODE_MAP } node_kind;

typedef struct node {
    node_kind kind;
    char *key;    // of an entry of a map, else NULL
    char *scalar; // NODE_SCALAR
    bool quoted;  // a quoted scalar is text, whatever it looks like
    int line;     // of the key, or of the value where there is none; from 1
    struct node *first, *last, *next;
} node;

// Reads one YAML document; an empty one is an empty map. E_USAGE with "name:line:column: …" for
// what is not YAML, keys given twice in one map, aliases, and a second document.
status node_parse(const char *name, const char *s, size_t bytes, node **out, err *e);
node *node_scalar(const char *s, int line);
node *node_list(int line);
void node_append(node *parent, node *child);
void node_free(node *n); // with all below and after it; NULL allowed

bool node_is_null(const node *n);          // nothing, ~ or null
void node_text(const node *n, text *out);  // as flow YAML on one line
void node_quote(const char *s, text *out); // a scalar that reads back as this string
json_t *node_json(const node *n);          // numbers, true/false, null, strings; caller owns
const node *node_entry(const node *map, const char *key); // NULL when absent

#endif
