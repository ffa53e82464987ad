// yaml_node.h -- a YAML document as a tree whose nodes have line numbers. config/ reads job files and those of other systems with
// it, cmd/accelerate/ the files that it rewrites.
#ifndef TRIREME_CONFIG_YAML_NODE_H
#define TRIREME_CONFIG_YAML_NODE_H

#include "base/err.h"
#include "base/text.h"

#include <jansson.h>
#include <stdbool.h>

typedef enum yaml_node_kind { NODE_SCALAR, NODE_LIST, NODE_MAP } yaml_node_kind;

typedef struct yaml_node {
    yaml_node_kind kind;
    char *key;    // of an entry of a map, else NULL
    char *scalar; // NODE_SCALAR
    bool quoted;  // a quoted scalar is always text
    int line;     // from 1; of the key, or of a value without a key
    struct yaml_node *first, *last, *next;
} yaml_node;

// Reads one YAML document; an empty document becomes an empty map. E_USAGE "name:line:column: …"
// for broken YAML, a key given twice in one map, an alias, or a second document.
status yaml_node_parse(const char *name, const char *s, size_t bytes, yaml_node **out, err *e);
// The same of a text that may give a key twice in one map; both stand in the map.
status yaml_node_parse_repeats(const char *name, const char *s, size_t bytes, yaml_node **out,
                               err *e);
status yaml_node_scalar(const char *s, int line, yaml_node **out, err *e);
status yaml_node_list(int line, yaml_node **out, err *e);
// A copy of the node and of all nodes below it, without those after it.
status yaml_node_copy(const yaml_node *n, yaml_node **out, err *e);
void yaml_node_append(yaml_node *parent, yaml_node *child);
void yaml_node_free(yaml_node *n); // with all nodes below and after it; NULL allowed

bool yaml_node_is_null(const yaml_node *n);         // empty, ~ or null
void yaml_node_text(const yaml_node *n, text *out); // appends flow YAML on one line
void yaml_node_quote(const char *s, text *out);     // appends a scalar that reads back as `s`
json_t *yaml_node_json(const yaml_node *n);         // the caller owns it
const yaml_node *yaml_node_entry(const yaml_node *map, const char *key); // NULL when absent

#endif
