// tokenizer.h -- byte-level BPE: train, load and save tokenizer.json, encode, decode. Ids equal
// those of HuggingFace's tokenizers.
//
// A tokenizer is immutable once open; encoding needs a tokenizer_work per thread.
#ifndef TRIREME_DATA_TOKENIZER_H
#define TRIREME_DATA_TOKENIZER_H

#include "base/err.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct tokenizer tokenizer;
typedef struct tokenizer_work tokenizer_work;

typedef enum split_pattern { PATTERN_GPT2, PATTERN_LLAMA3 } split_pattern;

// Reads a tokenizer.json: added and special tokens, ignore_merges, ByteLevel with or without its
// own regex, Split with a pattern, Digits. Normalisers (NFC, …) are refused. E_USAGE names file and
// field of what is broken or not supported.
status tokenizer_load(const char *path, tokenizer **out, err *e);
void tokenizer_close(tokenizer *t); // NULL allowed
// The file byte for byte as it was loaded, or as a trained tokenizer writes it.
status tokenizer_save(const tokenizer *t, const char *path, err *e);
// The files of a tokenizer: tokenizer.json, and the settings that lay beside it. Of a tokenizer
// called P.tokenizer.json these are P.tokenizer_config.json and so on.
enum { TOKENIZER_FILES = 4 };
const char *tokenizer_file_name(int i);
// The content of file i, as it was loaded; borrowed. NULL: this tokenizer has no such file.
const char *tokenizer_file(const tokenizer *t, int i, size_t *bytes);
// tokenizer.json and tokenizer_config.json in an existing folder, as transformers opens them. The
// settings (tokenizer_config.json, special_tokens_map.json, chat_template.jinja) that lay beside a
// loaded tokenizer.json are written again as they were.
status tokenizer_save_folder(const tokenizer *t, const char *folder, err *e);

int32_t tokenizer_vocab(const tokenizer *t); // ids are in [0, vocab)
// `token` as the vocabulary spells it (a blank is U+0120); -1 when there is none.
int32_t tokenizer_id(const tokenizer *t, const char *token);
// eos_token of a tokenizer_config.json beside the file, else "<|endoftext|>", "<|end_of_text|>",
// "</s>", …; -1 when none.
int32_t tokenizer_end_of_text(const tokenizer *t);

status tokenizer_work_open(const tokenizer *t, tokenizer_work **out, err *e);
void tokenizer_work_close(tokenizer_work *w); // NULL allowed
// Ids of UTF-8 text; *ids is owned by the work area and valid until its next use. E_USAGE on
// invalid UTF-8 with the byte offset. Special tokens in the text become their ids, as in
// HuggingFace. No post-processor (BOS) is applied.
status tokenizer_encode(tokenizer_work *w, const char *text, size_t bytes, const int32_t **ids,
                        size_t *count, err *e);
// The same with the ids that the post-processor puts around a text, as HuggingFace's
// tokenizer(text) and its add_special_tokens do.
status tokenizer_encode_with_special_tokens(tokenizer_work *w, const char *text, size_t bytes,
                                            const int32_t **ids, size_t *count, err *e);
bool tokenizer_adds_special_tokens(const tokenizer *t); // has it a post-processor that adds ids?
// Of what decides the ids of a text: vocabulary, merges, pre-tokenizer, added tokens. The layout of
// the file, settings and post-processor do not change it.
uint64_t tokenizer_hash(const tokenizer *t);
// Bytes of ids, appended to `out` (may end inside a UTF-8 character). Special tokens are skipped
// when skip_special.
void tokenizer_decode(const tokenizer *t, const int32_t *ids, size_t count, bool skip_special,
                      text *out);

// Called with a share in [0, 1] and what is being done, now and then, on the calling thread.
typedef void (*tokenizer_progress)(void *arg, const char *what, double done);

typedef struct tokenizer_train_options {
    int32_t vocab; // 256 byte tokens + special tokens + merges; fewer when the text gives no more
                   // merges
    split_pattern pattern;
    const char *const *special; // e.g. "<|endoftext|>"
    size_t specials;
    int threads;                 // 0 = all
    tokenizer_progress progress; // NULL allowed
    void *progress_arg;
} tokenizer_train_options;

// Learns merges from documents (borrowed until return). Merge choice: highest pair count, ties by
// lowest pair of ids, as tokenizers' BpeTrainer.
typedef struct document {
    const char *at;
    size_t bytes;
} document;
status tokenizer_train(const tokenizer_train_options *o, const document *docs, size_t count,
                       tokenizer **out, err *e);

#endif
