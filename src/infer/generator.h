// generator.h -- a model folder that continues a text token by token: its weights, its tokenizer, and the tokens at which
// its text ends. The commands generate and chat use it. It knows no conversations and prints nothing.
#ifndef TRIREME_INFER_GENERATOR_H
#define TRIREME_INFER_GENERATOR_H

#include "data/tokenizer/tokenizer.h"
#include "infer/completion.h"
#include "infer/decoder.h"
#include "model/adapter.h"

typedef struct generator_options {
    const char *folder;  // a HuggingFace folder with tokenizer.json
    const char *adapter; // the folder of an adapter of it; NULL: none
    dtype type;          // of computation
    int threads;         // 0: all cores
} generator_options;

typedef struct generator {
    model_config config;
    tokenizer *tokenizer;
    int32_t *end; // [ends] the tokens that end a text
    int ends;
    // After generator_load:
    device *device;
    safetensors *weights;
    model_adapter *adapter; // NULL: none
    uint64_t mark;          // with an adapter: of the weights (model_folder_mark)
    decoder *decoder;
    int64_t room; // tokens of prompt and answer together

    generator_options o; // borrows the folders
} generator;

// Reads config.json, the tokenizer, which is that of the adapter where it has one, and the end tokens: those of config.json and of generation_config.json (eos_token_id, a
// number or a list), and the tokenizer's own. The owner calls generator_close, also after a failure.
status generator_open(const generator_options *o, generator *g, err *e);
// Opens the device and reads the weights, for at most `room` tokens.
status generator_load(generator *g, int64_t room, err *e);
void generator_close(generator *g);

// Returns whether the token ends a text.
bool generator_is_end(const generator *g, int32_t id);

// The reason why a text ended.
typedef enum generator_reason {
    GENERATOR_END_OF_TEXT,
    GENERATOR_STOP_STRING,
    GENERATOR_MODEL_LENGTH,
    GENERATOR_TOKENS,
    GENERATOR_STOPPED, // `take` has said so
    GENERATOR_REASONS
} generator_reason;
extern const char *const GENERATOR_REASON_NAMES[GENERATOR_REASONS];

typedef struct generator_draw_options {
    sample_options sample;
    int64_t tokens; // at most
    // Takes each token but the end token, with the text that may be shown after it. *stop ends the text.
    status (*take)(void *arg, int32_t id, const text *shown, bool *stop, err *e);
    void *arg;
} generator_draw_options;

// Continues what was fed, from the logits of its last token. *last gets the end token, or -1. `c` gets the bytes of the
// text, and ends at its stop strings; what it holds back at the end is taken with the id -1.
status generator_draw(generator *g, const float *logits, const generator_draw_options *o,
                      completion *c, generator_reason *why, int32_t *last, err *e);

#endif
