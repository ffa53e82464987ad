// generator.c -- see generator.h.
#include "infer/generator.h"

#include "base/alloc.h"
#include "base/file.h"
#include "model/folder.h"

#include <stdlib.h>

const char *const GENERATOR_REASON_NAMES[GENERATOR_REASONS] = {
    [GENERATOR_END_OF_TEXT] = "end_of_text",   [GENERATOR_STOP_STRING] = "stop_string",
    [GENERATOR_MODEL_LENGTH] = "model_length", [GENERATOR_TOKENS] = "tokens",
    [GENERATOR_STOPPED] = "interrupted",
};

// ---- End tokens

// Adds a token, once.
static void add_end(generator *g, int64_t id)
{
    if (id < 0 || id >= g->config.vocab || generator_is_end(g, (int32_t)id)) return;
    g->end[g->ends++] = (int32_t)id;
}

// transformers' generate obeys generation_config.json before config.json.
static status find_ends(generator *g, err *e)
{
    status result = OK;
    int64_t *listed = NULL;
    size_t count;
    const model_config *c = &g->config;
    TRY(model_folder_ends(g->o.folder, "generation_config.json", &listed, &count, e));
    TRY(alloc_array(&g->end, count + (size_t)c->more_eos_count + 2, sizeof *g->end,
                    "the end tokens", e));
    for (size_t i = 0; i < count; i++) add_end(g, listed[i]);
    add_end(g, c->eos);
    for (int i = 0; i < c->more_eos_count; i++) add_end(g, c->more_eos[i]);
    add_end(g, tokenizer_end_of_text(g->tokenizer));
done:
    free(listed);
    return result;
}

bool generator_is_end(const generator *g, int32_t id)
{
    for (int i = 0; i < g->ends; i++)
        if (g->end[i] == id) return true;
    return false;
}

// ---- The folder

// PEFT's folders may lack a tokenizer.
static status find_tokenizer(const generator_options *o, char **path, err *e)
{
    status result = OK;
    if (o->adapter) TRY(tokenizer_folder_file(o->adapter, path, e));
    if (*path && file_exists(*path)) goto done;
    free(*path);
    *path = NULL;
    TRY(tokenizer_folder_file(o->folder, path, e));
done:
    return result;
}

status generator_open(const generator_options *o, generator *g, err *e)
{
    status result = OK;
    char *path = NULL;
    *g = (generator){.o = *o};
    TRY(find_tokenizer(o, &path, e));
    TRY(model_config_read(o->folder, &g->config, e));
    TRY(tokenizer_load(path, &g->tokenizer, e));
    TRY(find_ends(g, e));
done:
    free(path);
    return result;
}

status generator_load(generator *g, int64_t room, err *e)
{
    status result = OK;
    const device_options options = {.threads = g->o.threads};
    g->room = room;
    TRY(safetensors_open_weights(g->o.folder, &g->weights, e));
    if (g->o.adapter) {
        TRY(model_adapter_open(g->o.adapter, &g->adapter, e));
        TRY(model_folder_mark(g->weights, &g->mark, e));
    }
    TRY(device_open("auto", &options, &g->device, e));
    TRY(decoder_open(g->device, g->config.family, &g->config, g->o.type, g->weights, g->adapter,
                     room, &g->decoder, e));
done:
    return result;
}

void generator_close(generator *g)
{
    decoder_close(g->decoder);
    device_close(g->device);
    model_adapter_close(g->adapter);
    safetensors_close(g->weights);
    tokenizer_close(g->tokenizer);
    free(g->end);
    *g = (generator){.ends = 0};
}

// ---- The text

// Gives a token, and what may be shown after it.
static status give(const generator *g, const generator_draw_options *o, completion *c, int32_t id,
                   bool *stop, err *e)
{
    status result = OK;
    text token = {0}, shown = {0};
    if (id >= 0) {
        tokenizer_decode_next(g->tokenizer, id, true, &token);
        TRY(text_check(&token, e));
        completion_add(c, token.chars, token.bytes, &shown);
    } else {
        completion_end(c, &shown);
    }
    TRY(text_check(&shown, e));
    TRY(o->take(o->arg, id, &shown, stop, e));
done:
    text_clear(&token);
    text_clear(&shown);
    return result;
}

status generator_draw(generator *g, const float *logits, const generator_draw_options *o,
                      completion *c, generator_reason *why, int32_t *last, err *e)
{
    status result = OK;
    bool stop = false;
    *why = GENERATOR_TOKENS;
    *last = -1;
    for (int64_t i = 0; i < o->tokens; i++) {
        int32_t id;
        TRY(sample_token(logits, decoder_vocab(g->decoder), &o->sample,
                         (uint64_t)decoder_position(g->decoder), &id, e));
        *why = GENERATOR_END_OF_TEXT;
        if (generator_is_end(g, id)) {
            *last = id;
            break;
        }
        TRY(give(g, o, c, id, &stop, e));
        *why = c->found ? GENERATOR_STOP_STRING : stop ? GENERATOR_STOPPED : GENERATOR_TOKENS;
        if (c->found || stop || i + 1 == o->tokens) break;
        *why = GENERATOR_MODEL_LENGTH;
        if (decoder_position(g->decoder) == g->room) break;
        TRY(decoder_feed(g->decoder, &id, 1, &logits, e));
        *why = GENERATOR_TOKENS;
    }
    TRY(give(g, o, c, -1, &stop, e));
done:
    return result;
}
