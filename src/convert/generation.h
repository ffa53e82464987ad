// generation.h -- private to convert/: where a model that is exported stops.
#ifndef TRIREME_CONVERT_GENERATION_H
#define TRIREME_CONVERT_GENERATION_H

#include "convert/output.h"
#include "model/model.h"

// Writes generation_config.json. It is that of the folder, byte for byte, unless the chat template ends a turn with a token
// that is not among its eos_token_id, which is then added, or the folder has none: then config.json says which tokens end
// a text. `tokenizer_folder` has the tokenizer and its template.
status convert_put_generation(const char *folder, const char *tokenizer_folder,
                              const model_config *c, const convert_output *o, text *warnings,
                              err *e);

#endif
