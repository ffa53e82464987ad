// accelerate_file.h -- the configuration file of HuggingFace Accelerate as its own reader and writer treat it, for the
// subcommands of `trireme accelerate` that show, write and change it. The objects are JSON; a file is YAML, or JSON
// where its name ends with ".json". This folder does not know what a key means to a run: config/dialect/ does.
#ifndef TRIREME_CMD_ACCELERATE_ACCELERATE_FILE_H
#define TRIREME_CMD_ACCELERATE_ACCELERATE_FILE_H

#include "base/text.h"
#include "cmd/command.h"

#include <jansson.h>

// Returns the path that Accelerate uses without --config_file: accelerate/default_config.yaml in $HF_HOME, in
// $XDG_CACHE_HOME/huggingface or in ~/.cache/huggingface. The caller frees *out.
status accelerate_default_path(char **out, err *e);
// The file at that path, or beside it default_config.json where that alone exists. *out is NULL where there is none; the
// caller frees it.
status accelerate_find_config(char **out, err *e);
// Replaces a leading "~" by $HOME. The caller frees *out.
status accelerate_expand_home(const char *path, char **out, err *e);

// Reads a file as it is: an object, of scalars with the types of YAML 1.1, which PyYAML reads ("no" is false). The
// caller owns *out. E_USAGE where the file is no map.
status accelerate_read(const char *path, json_t **out, err *e);
// The same, and brings it into the newest form, as Accelerate's loader does: old keys become the new ones, missing keys
// get their defaults, and keys without a value are left out. An unquoted NO is the word, not false. E_USAGE: it has no
// distributed_type or an unknown one, an unknown key, or is for Amazon SageMaker.
status accelerate_load(const char *path, json_t **out, err *e);
// Adds what a file of `config` misses, in the order of Accelerate's fields, and removes what has no value. *out is a new
// object.
status accelerate_complete(const json_t *config, json_t **out, err *e);

// Writes the object with sorted keys, as PyYAML writes it, or as JSON where `as_json`.
void accelerate_print(const json_t *config, bool as_json, text *out);
// Appends a value as Python's str() prints it.
void accelerate_print_python(const json_t *value, text *out);
bool accelerate_is_json(const char *path);
// Replaces the file at once.
status accelerate_save(const char *path, const json_t *config, bool as_json, err *e);

// Asks Accelerate's questions for this machine on stdout, and reads an answer from each line of stdin. The caller owns
// *out, a complete configuration. E_USAGE: the answers end too early, or ask for what Trireme has not.
status accelerate_ask(json_t **out, err *e);

#endif
