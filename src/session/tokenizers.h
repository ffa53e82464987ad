// tokenizers.h -- checks that a job's token shards and its model have the same tokenizer. Private
// to session/.
#ifndef TRIREME_SESSION_TOKENIZERS_H
#define TRIREME_SESSION_TOKENIZERS_H

#include "session/session.h"

// Compares the hashes of the tokenizers of all shards and of the model's folder. E_USAGE names two
// that differ; where data.tokenizer_mismatch is allow, a warning names them. Also sets
// in->tokenizer_folder and data_tokenizer, and the model's end token where the job gives a family
// and no end token.
status session_inputs_check_tokenizers(job *j, session_inputs *in, err *e);

#endif
