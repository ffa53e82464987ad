// composite.h -- the config.json of models of several parts, one of which is a text model (`text_config`): models that also
// read images or sound. Trireme computes the text model. Called by config.c.
#ifndef TRIREME_MODEL_COMPOSITE_H
#define TRIREME_MODEL_COMPOSITE_H

#include "base/err.h"

#include <jansson.h>

// Makes the config.json that the text model would have alone: text_config with what the parts share. *out is a new
// reference, and `root` itself where it is of no such model. E_USAGE names the field that is missing or not supported.
status model_composite_text(json_t *root, json_t **out, err *e);

#endif
