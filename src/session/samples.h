// samples.h -- opens the samples that a job names: JSONL, encoded with the tokenizer and the chat template of the model's
// folder, and shards with labels. Private to session/.
#ifndef TRIREME_SESSION_SAMPLES_H
#define TRIREME_SESSION_SAMPLES_H

#include "session/session.h"

// Returns whether data.train or data.valid names samples. Then both are rows of documents.
bool session_has_samples(const job *j);

// Opens in->train, where `train`, and in->valid, where `valid`. Appends what became of the lines, and how a turn ends, to
// in->samples_notes, and lines that were cut or left out to in->train_warnings.
status session_open_samples(const job *j, session_inputs *in, int32_t vocab, bool train, bool valid,
                            err *e);

#endif
