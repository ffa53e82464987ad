// config_fields.h -- private to model/: the table of config fields, for setting and for listing.
#ifndef TRIREME_MODEL_CONFIG_FIELDS_H
#define TRIREME_MODEL_CONFIG_FIELDS_H

#include "model/config.h"

// Does HuggingFace's configuration class of this family have a field of this name that
// model_config_set understands? (trireme_mlp: Trireme's own names.)
bool config_field_is_of_file(family f, const char *word);

// A value as it may stand in a message: one line, not too long.
enum { SHOWN_BYTES = 80 };
const char *config_show(const json_t *value, char out[SHOWN_BYTES]);

// rope_scaling of transformers 4 or rope_parameters of 5: {rope_type or type, factor, …}.
status config_set_rope(model_config *c, const char *field, const json_t *value, err *e);

#endif
