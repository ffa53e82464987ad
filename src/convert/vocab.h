// vocab.h -- private to convert/: a tokenizer as keys of a GGUF file, and back.
#ifndef TRIREME_CONVERT_VOCAB_H
#define TRIREME_CONVERT_VOCAB_H

#include "convert/families.h"
#include "convert/output.h"

#define VOCAB_SPACE "\xe2\x96\x81" // stands for a space in pieces

// Types of tokens; the numbers are those of the files.
typedef enum vocab_token_type {
    VOCAB_NORMAL = 1,
    VOCAB_UNKNOWN = 2,
    VOCAB_CONTROL = 3,
    VOCAB_USER_DEFINED = 4,
    VOCAB_UNUSED = 5,
    VOCAB_BYTE = 6
} vocab_token_type;

// Adds the keys of the tokenizer of a folder. A folder without tokenizer.json gets a warning. E_USAGE names what a GGUF
// file cannot hold.
status vocab_export(const char *folder, const convert_family *f, const model_config *c,
                    gguf_keys *out, text *warnings, err *e);
// Adds the ids of special tokens, what is put around a text, and the chat template (vocab_special.c). `tokenizer` is
// tokenizer.json; ids are below `vocab`.
status vocab_export_special(const char *folder, const json_t *root, const convert_family *f,
                            int64_t vocab, gguf_keys *out, err *e);

// Returns whether a step of tokenizer.json is of a type.
bool vocab_is_type(const json_t *step, const char *type);

// ---- Unigram (vocab_unigram.c)

// Adds the keys of its steps. E_USAGE names a step that a file cannot say.
status vocab_export_unigram(const char *folder, const json_t *root, gguf_keys *out, err *e);

// ---- In

// Writes tokenizer.json, tokenizer_config.json, chat_template.jinja and generation_config.json. A file without a tokenizer
// gets a warning.
status vocab_import(const gguf *from, const model_config *c, const convert_output *o,
                    text *warnings, err *e);
// tokenizer_config.json, chat_template.jinja, generation_config.json (vocab_settings.c). `tokens` are the names.
status vocab_import_settings(const gguf *from, const model_config *c, const gguf_value *tokens,
                             const convert_output *o, err *e);

// ---- Names of the ways to split text into words (vocab_pre.c)

// Finds llama.cpp's name of the way: that of the published tokenizer with these ids of the converter's test text, else that
// of a way with the same pre-tokenizer. E_USAGE where neither is known.
status vocab_pre_find(const char *folder, const json_t *root, const char **out, err *e);
// The normalizer and the pre-tokenizer of a name, as tokenizer.json has them; both owned by the caller, NULL where the name
// is unknown. *ignore_merges is what goes with it.
void vocab_pre_make(const gguf_string *name, json_t **normalizer, json_t **pre_tokenizer,
                    bool *ignore_merges);
void vocab_pre_describe(text *out); // the names that vocab_pre_make knows

#endif
