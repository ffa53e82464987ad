// values.h -- one value of one key: from a node into struct job, and back to text. Private to
// config/.
#ifndef TRIREME_CONFIG_VALUES_H
#define TRIREME_CONFIG_VALUES_H

#include "config/keys.h"
#include "config/yaml_node.h"

// Checks `n` and stores it. E_USAGE "found …; valid: …": the caller puts file, line and key before.
status value_set(job *j, const job_key *k, const yaml_node *n, err *e);
// Case, and '-' against '_', do not matter.
bool value_same_word(const char *a, const char *b);
// Appends the value as flow YAML, in the one form that reads back to the same value.
void value_format(const job *j, const job_key *k, text *out);
// Is there a value? False for keys that are optional and not given.
bool value_is_set(const job *j, const job_key *k);
void value_free(job *j, const job_key *k);
void value_describe_valid(const job_key *k, text *out);
void value_number(double value, text *out); // the shortest form that reads back to the same bits
status value_absolute(const char *path, char **out, err *e); // owned by the caller

#endif
