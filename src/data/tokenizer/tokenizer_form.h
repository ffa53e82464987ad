// tokenizer_form.h -- Unicode's normal forms (by utf8proc), with the tables of Unicode 9 that HuggingFace's tokenizers use.
#ifndef TRIREME_DATA_TOKENIZER_FORM_H
#define TRIREME_DATA_TOKENIZER_FORM_H

#include "base/text.h"
#include "data/tokenizer/tokenizer_span.h"

typedef enum tokenizer_form {
    TOKENIZER_NFC,
    TOKENIZER_NFD,
    TOKENIZER_NFKC,
    TOKENIZER_NFKD,
    TOKENIZER_FORMS
} tokenizer_form;
extern const char *const tokenizer_form_words[TOKENIZER_FORMS];

// Workspace, one per thread; start with {0}.
typedef struct tokenizer_form_workspace {
    int32_t *points; // characters
    size_t point_room;
    text changed;
} tokenizer_form_workspace;

void tokenizer_form_workspace_clear(tokenizer_form_workspace *w);
// Writes the piece out->from in a form.
status tokenizer_form_run(tokenizer_form form, tokenizer_form_workspace *w, tokenizer_copy *out,
                          err *e);

#endif
