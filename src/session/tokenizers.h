// tokenizers.h -- do a job's shards and its model speak of the same tokens? Private to session/.
#ifndef TRIREME_SESSION_TOKENIZERS_H
#define TRIREME_SESSION_TOKENIZERS_H

#include "session/session.h"

// Compares the tokenizers of all shards and of the model's folder by their hashes. E_USAGE names
// both of two that differ, unless data.tokenizer_mismatch allows it: then a warning does. Also sets
// in->data_tokenizer, and the model's end token where a family was given and the job names none.
status session_inputs_check_tokenizers(job *j, session_inputs *in, err *e);

#endif
