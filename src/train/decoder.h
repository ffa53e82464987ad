// decoder.h -- runs a model forward, one sequence, with a cache of keys and values: what `trireme
// generate` uses. It needs weights and a device, and neither ranks nor a trainer.
#ifndef TRIREME_TRAIN_DECODER_H
#define TRIREME_TRAIN_DECODER_H

#include "model/model.h"

#include "device/device.h"

typedef struct decoder decoder;

// Reads the weights of a HuggingFace folder. max_tokens: the cache's room, prompt and answer
// together. E_USAGE when the model takes no tokens, or fewer.
status decoder_open(device *d, const model_family *f, const void *config, dtype precision,
                    const safetensors *weights, int64_t max_tokens, decoder **out, err *e);
void decoder_close(decoder *x); // NULL allowed

int64_t decoder_vocab(const decoder *x);
int64_t decoder_position(const decoder *x); // tokens fed so far
// Forgets all tokens but the first `keep` of those that were fed.
void decoder_rewind(decoder *x, int64_t keep);

// Feeds `count` tokens and gives the logits [vocab] (fp32, owned by the decoder until the next
// call) of what follows the last. E_USAGE when they do not fit in max_tokens or an id is out of
// range.
status decoder_feed(decoder *x, const int32_t *ids, int64_t count, const float **logits, err *e);

// How a token is drawn: temperature 0 takes the most likely; top_k and top_p (0 and 1 = off) cut
// the tail first. Every (seed, stream) has random numbers of its own: the samples of one prompt are
// the streams 0, 1, 2 … of one seed.
typedef struct sample_options {
    double temperature, top_p;
    int64_t top_k;
    uint64_t seed, stream;
} sample_options;

// Draws a token. A pure function of logits, options and position.
status sample_token(const float *logits, int64_t vocab, const sample_options *o, uint64_t position,
                    int32_t *out, err *e);

#endif
