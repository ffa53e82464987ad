// decoder.c -- trm_decoder, which holds the decoder of train/ with its device and weights, and
// trm_tokenizer, which holds a tokenizer with its workspace.
#include "api/api.h"

#include "base/alloc.h"
#include "data/tokenizer/tokenizer.h"
#include "infer/decoder.h"
#include "session/adapter.h"

#include <stdlib.h>
#include <string.h>

struct trm_decoder {
    model_config built_in; // the model, if it is of a family of Trireme
    api_model custom;      // the model, if it is of a family of the calling program
    device *device;
    safetensors *weights;
    model_adapter *adapter; // NULL: none
    decoder *inner;
    const float *logits; // [vocab] of the token after the sequence; NULL: no token was fed yet
};

// Where the folder is an adapter of a built-in family's model, *out has its base, too.
static status open_folder(const char *folder, bool own, trm_decoder *d, session_folders *out,
                          err *e)
{
    status result = OK;
    uint64_t mark;
    TRY(session_folders_find(&(session_model_names){.folder = folder}, out, e));
    if (!own) TRY(model_config_read(out->base, &d->built_in, e));
    TRY(safetensors_open_weights(out->base, &d->weights, e));
    if (!out->adapter) goto done;
    TRY(model_adapter_open(out->adapter, &d->adapter, e));
    TRY(model_folder_mark(d->weights, &mark, e));
    TRY(session_adapter_check_mark(out->adapter, mark, e));
done:
    return result;
}

static status open_decoder(const char *folder, const trm_family *family, const void *config,
                           int64_t max_tokens, trm_decoder **out, err *e)
{
    status result = OK;
    const device_options options = {.threads = 0};
    session_folders found = {.base = NULL};
    trm_decoder *d = NULL;
    TRY(alloc_zeroed(&d, 1, sizeof *d, "a decoder", e));
    if (family) TRY(api_model_make(&d->custom, family, config, e));
    TRY(open_folder(folder, family != NULL, d, &found, e));
    TRY(device_open("auto", &options, &d->device, e));
    result = decoder_open(d->device, family ? &d->custom.ops : d->built_in.family,
                          family ? (const void *)&d->custom : &d->built_in, F32, d->weights,
                          d->adapter, max_tokens, &d->inner, e);
    if (result != OK) {
        err_prefix(e, "%s: ", found.base);
        goto done;
    }
    *out = d;
    d = NULL;
done:
    trm_decoder_close(d);
    session_folders_clear(&found);
    return result;
}

trm_status trm_decoder_open(const char *folder, const trm_family *family, const void *config,
                            int64_t max_tokens, trm_decoder **out, trm_error *error)
{
    err e = {.code = OK};
    *out = NULL;
    return api_give(open_decoder(folder, family, config, max_tokens, out, &e), &e, error);
}

void trm_decoder_close(trm_decoder *d)
{
    if (!d) return;
    decoder_close(d->inner);
    device_close(d->device);
    model_adapter_close(d->adapter);
    safetensors_close(d->weights);
    free(d);
}

trm_status trm_decoder_feed(trm_decoder *d, const int32_t *ids, int64_t count, const float **logits,
                            trm_error *error)
{
    err e = {.code = OK};
    status result = decoder_feed(d->inner, ids, count, &d->logits, &e);
    if (result == OK && logits) *logits = d->logits;
    return api_give(result, &e, error);
}

trm_status trm_decoder_sample(trm_decoder *d, double temperature, int64_t top_k, double top_p,
                              uint64_t seed, int32_t *id, trm_error *error)
{
    err e = {.code = OK};
    status result;
    const sample_options o = {
        .temperature = temperature, .top_k = top_k, .top_p = top_p, .seed = seed};
    if (!d->logits)
        result = err_set(&e, E_USAGE,
                         "trm_decoder_sample: no token was fed yet; valid: after trm_decoder_feed");
    else
        result = sample_token(d->logits, decoder_vocab(d->inner), &o,
                              (uint64_t)decoder_position(d->inner), id, &e);
    return api_give(result, &e, error);
}

int64_t trm_decoder_vocab(const trm_decoder *d)
{
    return decoder_vocab(d->inner);
}

void trm_decoder_rewind(trm_decoder *d)
{
    decoder_rewind(d->inner, 0);
    d->logits = NULL;
}

struct trm_tokenizer {
    tokenizer *inner;
    tokenizer_workspace *work;
    text decoded;
};

static status open_tokenizer(const char *path, trm_tokenizer **out, err *e)
{
    status result = OK;
    trm_tokenizer *t = NULL;
    TRY(alloc_zeroed(&t, 1, sizeof *t, "a tokenizer", e));
    TRY(tokenizer_load(path, &t->inner, e));
    TRY(tokenizer_workspace_open(t->inner, &t->work, e));
    *out = t;
    t = NULL;
done:
    trm_tokenizer_close(t);
    return result;
}

trm_status trm_tokenizer_open(const char *path, trm_tokenizer **out, trm_error *error)
{
    err e = {.code = OK};
    *out = NULL;
    return api_give(open_tokenizer(path, out, &e), &e, error);
}

void trm_tokenizer_close(trm_tokenizer *t)
{
    if (!t) return;
    tokenizer_workspace_close(t->work);
    tokenizer_close(t->inner);
    text_clear(&t->decoded);
    free(t);
}

trm_status trm_tokenizer_encode(trm_tokenizer *t, const char *chars, size_t bytes,
                                const int32_t **ids, size_t *count, trm_error *error)
{
    err e = {.code = OK};
    return api_give(tokenizer_encode(t->work, chars, bytes, ids, count, &e), &e, error);
}

const char *trm_tokenizer_decode(trm_tokenizer *t, const int32_t *ids, size_t count)
{
    text_clear(&t->decoded);
    tokenizer_decode(t->inner, ids, count, true, &t->decoded);
    return t->decoded.chars ? t->decoded.chars : "";
}

int32_t trm_tokenizer_end(const trm_tokenizer *t)
{
    return tokenizer_end_of_text(t->inner);
}
