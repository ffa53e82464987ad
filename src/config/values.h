// values.h -- reads the value of a key from a YAML node into struct job or a parameter
// group (`owner`), and writes it as text.
// Private to config/.
#ifndef TRIREME_CONFIG_VALUES_H
#define TRIREME_CONFIG_VALUES_H

#include "config/keys.h"
#include "config/yaml_node.h"

// Checks `n` and stores its value. E_USAGE "found …; valid: …", to which the caller adds file, line
// and key.
status value_set(void *owner, const job_key *k, const yaml_node *n, err *e);
// Returns whether the words are equal; case does not count, and '-' equals '_'.
bool value_same_word(const char *a, const char *b);
// Appends the value as flow YAML that reads back to the same value.
void value_format(const void *owner, const job_key *k, text *out);
// False for an optional key without a value.
bool value_is_set(const void *owner, const job_key *k);
void value_free(void *owner, const job_key *k);
// KEY_NAMES and KEY_NUMBERS (names.c). names_set returns E_USAGE, without a text, for another form.
status names_set(void *owner, const job_key *k, const yaml_node *n, err *e);
void names_format(const void *owner, const job_key *k, text *out);
void names_free(void *owner, const job_key *k);
bool names_are_set(const void *owner, const job_key *k);
void value_describe_valid(const job_key *k, text *out);
status value_absolute(const char *path, char **out, err *e); // the caller owns the absolute path

#endif
