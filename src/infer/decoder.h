// decoder.h -- runs a model forward on one sequence, with a cache of keys and values. Used by
// `trireme generate`. It needs weights and a device, but neither ranks nor a trainer.
#ifndef TRIREME_INFER_DECODER_H
#define TRIREME_INFER_DECODER_H

#include "model/adapter.h"

#include "device/device.h"

typedef struct decoder decoder;

// Reads the weights of a HuggingFace folder, and the adapter (NULL: none) of another. There is room for max_tokens tokens, prompt and answer together; a layer
// whose attention has a window keeps keys and values of about 2 windows of them. E_USAGE when the model's inputs are not tokens, or when its longest sequence is
// shorter than max_tokens.
status decoder_open(device *d, const model_family *f, const void *config, dtype precision,
                    const safetensors *weights, const model_adapter *adapter, int64_t max_tokens,
                    decoder **out, err *e);
void decoder_close(decoder *x); // NULL allowed

int64_t decoder_vocab(const decoder *x);
int64_t decoder_position(const decoder *x); // tokens fed so far
// Forgets all tokens that were fed, except the first `keep`. They run again with the next feed where a layer with a
// window no longer has their keys and values.
void decoder_rewind(decoder *x, int64_t keep);

// Feeds ids[count]. *logits [vocab] F32 are the logits of the next token; the decoder owns them,
// and they are valid until the next call. E_USAGE when the tokens do not fit in max_tokens or an id
// is out of range.
status decoder_feed(decoder *x, const int32_t *ids, int64_t count, const float **logits, err *e);

// The options of drawing a token. Temperature 0 takes the most likely token. top_k (0: off) and then top_p
// (1: off) first remove unlikely tokens. Every (seed, stream) has its own random numbers: the
// samples of one prompt are streams 0, 1, 2 … of one seed.
typedef struct sample_options {
    double temperature, top_p;
    int64_t top_k;
    uint64_t seed, stream;
} sample_options;

// Draws a token from logits[vocab]. A pure function of logits, options and position.
status sample_token(const float *logits, int64_t vocab, const sample_options *o, uint64_t position,
                    int32_t *out, err *e);

#endif
