// yaml_node.h -- a YAML document as a tree that remembers lines. Private to config/.
#ifndef TRIREME_CONFIG_NODE_H
#define TRIREME_CONFIG_NODE_H

#include "base/err.h"
#include "base/text.h"

#include <jansson.h>
#include <stdbool.h>

typedef enum node_kind { NODE_SCALAR, NODE_LIST, NODE_MAP } node_kind;

typedef struct yaml_node {
    node_kind kind;
    char *key;    // of an entry of a map, else NULL
    char *scalar; // NODE_SCALAR
    bool quoted;  // a quoted scalar is text, whatever it looks like
    int line;     // of the key, or of the value where there is none; from 1
    struct yaml_node *first, *last, *next;
} yaml_node;

// Reads one YAML document; an empty one is an empty map. E_USAGE with "name:line:column: …" for
// what is not YAML, keys given twice in one map, aliases, and a second document.
status yaml_node_parse(const char *name, const char *s, size_t bytes, yaml_node **out, err *e);
status yaml_node_scalar(const char *s, int line, yaml_node **out, err *e);
status yaml_node_list(int line, yaml_node **out, err *e);
void yaml_node_append(yaml_node *parent, yaml_node *child);
void yaml_node_free(yaml_node *n); // with all below and after it; NULL allowed

bool yaml_node_is_null(const yaml_node *n);         // nothing, ~ or null
void yaml_node_text(const yaml_node *n, text *out); // as flow YAML on one line
void yaml_node_quote(const char *s, text *out);     // a scalar that reads back as this string
json_t *yaml_node_json(const yaml_node *n); // numbers, true/false, null, strings; caller owns
const yaml_node *yaml_node_entry(const yaml_node *map, const char *key); // NULL when absent

#endif
