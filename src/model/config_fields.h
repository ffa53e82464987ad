// config_fields.h -- private to model/: what the files that read and write config.json share.
#ifndef TRIREME_MODEL_CONFIG_FIELDS_H
#define TRIREME_MODEL_CONFIG_FIELDS_H

#include "model/config.h"

// Is `name` a field of this family's config.json that model_config_set understands?
bool model_field_in_file(model_family_kind f, const char *name);

// Writes a value for a message: on one line, shortened to the buffer. Returns out.
enum { SHOWN_BYTES = 80 };
const char *model_show_value(const json_t *value, char out[SHOWN_BYTES]);

// Sets all rope_* fields from rope_scaling of transformers 4 or rope_parameters of 5: an object
// {rope_type or type, factor, ...}. `field` names the object in messages.
status model_config_set_rope(model_config *c, const char *field, const json_t *value, err *e);

#endif
