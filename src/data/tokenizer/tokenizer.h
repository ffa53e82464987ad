// tokenizer.h -- BPE of bytes or of characters, and Unigram: loads and saves tokenizer.json, encodes and decodes, and trains
// BPE of bytes. The ids equal those of HuggingFace's tokenizers.
//
// An open tokenizer is immutable, so threads share it. Encoding needs one tokenizer_workspace per
// thread.
#ifndef TRIREME_DATA_TOKENIZER_H
#define TRIREME_DATA_TOKENIZER_H

#include "base/err.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct tokenizer tokenizer;
typedef struct tokenizer_workspace tokenizer_workspace;

// The built-in patterns that split text into words.
typedef enum tokenizer_builtin { TOKENIZER_GPT2, TOKENIZER_LLAMA3 } tokenizer_builtin;

// Reads a tokenizer.json, or a file *.model of SentencePiece, which becomes a tokenizer.json as transformers converts it;
// docs/what-loads.md#tokenizers lists what of it is read. The owner calls tokenizer_close. E_USAGE names the file and the
// field that is broken or not supported.
status tokenizer_load(const char *path, tokenizer **out, err *e);
// The file of a folder's tokenizer: tokenizer.json, or tokenizer.model where it has only that. The caller frees *path.
status tokenizer_folder_file(const char *folder, char **path, err *e);
void tokenizer_close(tokenizer *t); // NULL allowed
// Writes tokenizer.json: the bytes that were loaded, or those that training made.
status tokenizer_save(const tokenizer *t, const char *path, err *e);
// The files of a tokenizer: tokenizer.json, and the settings beside it. For a tokenizer called
// P.tokenizer.json they are P.tokenizer_config.json and so on.
enum { TOKENIZER_FILES = 4 };
const char *tokenizer_file_name(int i);
// The content of file i as it was loaded, borrowed. NULL when the tokenizer has no such file.
const char *tokenizer_file(const tokenizer *t, int i, size_t *bytes);
// Writes tokenizer.json and tokenizer_config.json into an existing folder, so that transformers can
// open it. The settings that lay beside a loaded tokenizer.json (tokenizer_config.json,
// special_tokens_map.json, chat_template.jinja) keep their bytes.
status tokenizer_save_folder(const tokenizer *t, const char *folder, err *e);

int32_t tokenizer_vocab(const tokenizer *t); // ids are in [0, vocab)
// The id of `token` as the vocabulary spells it (a space is U+0120); -1 when there is none.
int32_t tokenizer_id(const tokenizer *t, const char *token);
// The id of the end-of-text token: eos_token of the tokenizer_config.json beside the file, else the
// first of "<|endoftext|>", "<|end_of_text|>", "</s>", … that exists; -1 when there is none.
int32_t tokenizer_end_of_text(const tokenizer *t);

status tokenizer_workspace_open(const tokenizer *t, tokenizer_workspace **out, err *e);
void tokenizer_workspace_close(tokenizer_workspace *w); // NULL allowed
// Encodes UTF-8 text. *ids [*count] belongs to the workspace and is valid until its next use. Special
// tokens in the text become their ids, as in HuggingFace. The post-processor (BOS) is not applied.
// E_USAGE on invalid UTF-8 names the byte offset.
status tokenizer_encode(tokenizer_workspace *w, const char *text, size_t bytes, const int32_t **ids,
                        size_t *count, err *e);
// A run of bytes of a text.
typedef struct tokenizer_range {
    size_t first, bytes;
} tokenizer_range;
// Encodes a text of which some ranges, ascending and apart, are literal: an added token with the flag `special` that begins
// in one is encoded as the text that it spells. Other added tokens (runs of spaces, <think>) are found everywhere, as with
// HuggingFace's split_special_tokens. (*ends)[i] is the byte of the text behind token i, which never falls from one token to
// the next; it belongs to the workspace, like the ids. It is behind the characters that the token came from, also where a
// normalizer changed the text. Where a token ends inside a character, it is behind the bytes of it so far, or, where the
// normalizer changed it, behind the character. A token of what stands not in the text (a space before it) ends where the
// token before it does.
status tokenizer_encode_literal(tokenizer_workspace *w, const char *text, size_t bytes,
                                const tokenizer_range *literal, size_t literals,
                                const int32_t **ids, const uint32_t **ends, size_t *count, err *e);
// Also adds the ids of the post-processor, as HuggingFace's add_special_tokens=True.
status tokenizer_encode_with_special_tokens(tokenizer_workspace *w, const char *text, size_t bytes,
                                            const int32_t **ids, size_t *count, err *e);
// Returns whether the tokenizer has a post-processor that adds ids.
bool tokenizer_adds_special_tokens(const tokenizer *t);
// A hash of what decides the ids of a text: vocabulary, merges, pre-tokenizer, added tokens. The
// formatting of the file, settings and post-processor do not change it.
uint64_t tokenizer_hash(const tokenizer *t);
// Appends the bytes of ids [count] to `out`; they may end inside a UTF-8 character. The ids are a text from its beginning
// on, which has no space where a tokenizer has put one before the text.
void tokenizer_decode(const tokenizer *t, const int32_t *ids, size_t count, bool skip_special,
                      text *out);
// The same for one id that follows others.
void tokenizer_decode_next(const tokenizer *t, int32_t id, bool skip_special, text *out);

// Called now and then on the calling thread, with the current task and the share of it that is done,
// in [0, 1].
typedef void (*tokenizer_progress)(void *arg, const char *what, double done);

typedef struct tokenizer_train_options {
    // 256 bytes + special tokens + merges. The vocabulary is smaller when the text has fewer merges.
    int32_t vocab;
    tokenizer_builtin pattern;
    const char *const *special; // for example "<|endoftext|>"
    size_t specials;
    int threads;                 // 0 means one per processor
    tokenizer_progress progress; // NULL allowed
    void *progress_arg;
} tokenizer_train_options;

// One text to train on or to encode.
typedef struct tokenizer_document {
    const char *chars;
    size_t bytes;
} tokenizer_document;
// Learns merges from documents, which are borrowed until the return. The next merge is the pair with
// the highest count, and the lowest pair of ids among equals, as in tokenizers' BpeTrainer.
status tokenizer_train(const tokenizer_train_options *o, const tokenizer_document *docs,
                       size_t count, tokenizer **out, err *e);

#endif
