// prompts.h -- a data set of pairs in which the prompts of chosen answers have labels, too (PROMPT_LABEL), for ORPO.
// preference.c wraps with it. It knows no model.
#ifndef TRIREME_SESSION_PREFERENCE_PROMPTS_H
#define TRIREME_SESSION_PREFERENCE_PROMPTS_H

#include "data/dataset.h"

// Takes ownership of *data, which has documents, and reads all samples once. `key` names the data.
status prompts_wrap(dataset **data, const char *key, err *e);
// The pairs of these samples divided by the labels of their chosen documents.
double prompts_share(const dataset *data, const uint64_t *sample, uint64_t samples);

#endif
