// vocab_settings.c -- what stands beside tokenizer.json in a folder that was a GGUF file: tokenizer_config.json,
// chat_template.jinja and generation_config.json, which lists every token at which text ends.
#include "convert/vocab.h"

#include <stdio.h>
#include <string.h>

static int64_t id_of(const gguf *from, const char *word, uint64_t count)
{
    char key[64];
    int64_t id;
    (void)snprintf(key, sizeof key, "tokenizer.ggml.%s_token_id", word);
    const gguf_value *v = gguf_value_find(from, key);
    return v && !v->is_array && gguf_value_int(v, 0, &id) && id >= 0 && (uint64_t)id < count ? id
                                                                                             : -1;
}

static status put_settings(const gguf *from, const model_config *c, const gguf_value *tokens,
                           const convert_output *o, err *e)
{
    status result = OK;
    static const char *const words[][2] = {{"bos", "bos_token"},
                                           {"eos", "eos_token"},
                                           {"unknown", "unk_token"},
                                           {"padding", "pad_token"}};
    json_t *root =
        json_pack("{s:s, s:I, s:b}", "tokenizer_class", "PreTrainedTokenizerFast",
                  "model_max_length", (json_int_t)c->max_seq, "clean_up_tokenization_spaces", 0);
    if (!root) FAIL(E_MEMORY, "no memory for tokenizer_config.json");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const int64_t id = id_of(from, words[i][0], tokens->count);
        if (id >= 0)
            json_object_set_new(root, words[i][1],
                                json_stringn(tokens->strings[id].chars, tokens->strings[id].bytes));
    }
    TRY(convert_output_put_json(o, "tokenizer_config.json", root, e));
done:
    json_decref(root);
    return result;
}

// Text ends at the end-of-text token, and at the tokens that end a turn or a message.
static json_t *list_ends(const gguf *from, uint64_t count)
{
    static const char *const words[] = {"eos", "eot", "eom"};
    json_t *ends = json_array();
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const int64_t id = id_of(from, words[i], count);
        bool listed = false;
        for (size_t k = 0; k < json_array_size(ends); k++)
            listed = listed || json_integer_value(json_array_get(ends, k)) == id;
        if (id >= 0 && !listed) json_array_append_new(ends, json_integer(id));
    }
    return ends;
}

static status put_generation(const gguf *from, const gguf_value *tokens, const convert_output *o,
                             err *e)
{
    status result = OK;
    static const struct {
        const char *key, *field;
    } sampling[] = {{"general.sampling.top_p", "top_p"},
                    {"general.sampling.min_p", "min_p"},
                    {"general.sampling.temp", "temperature"},
                    {"general.sampling.penalty_repeat", "repetition_penalty"}};
    json_t *root = json_object(), *ends = list_ends(from, tokens->count);
    const int64_t bos = id_of(from, "bos", tokens->count),
                  pad = id_of(from, "padding", tokens->count);
    if (bos >= 0) json_object_set_new(root, "bos_token_id", json_integer(bos));
    if (json_array_size(ends) == 1)
        json_object_set(root, "eos_token_id", json_array_get(ends, 0));
    else if (json_array_size(ends) > 1)
        json_object_set(root, "eos_token_id", ends);
    if (pad >= 0) json_object_set_new(root, "pad_token_id", json_integer(pad));
    for (size_t i = 0; i < sizeof sampling / sizeof *sampling; i++) {
        double x;
        const gguf_value *v = gguf_value_find(from, sampling[i].key);
        if (v && !v->is_array && gguf_value_real(v, 0, &x))
            json_object_set_new(root, sampling[i].field, json_real(x));
    }
    int64_t top_k;
    const gguf_value *v = gguf_value_find(from, "general.sampling.top_k");
    if (v && !v->is_array && gguf_value_int(v, 0, &top_k))
        json_object_set_new(root, "top_k", json_integer(top_k));
    TRY(convert_output_put_json(o, "generation_config.json", root, e));
done:
    json_decref(ends);
    json_decref(root);
    return result;
}

status vocab_import_settings(const gguf *from, const model_config *c, const gguf_value *tokens,
                             const convert_output *o, err *e)
{
    status result = OK;
    const gguf_value *chat = gguf_value_find(from, "tokenizer.chat_template");
    TRY(put_settings(from, c, tokens, o, e));
    TRY(put_generation(from, tokens, o, e));
    if (chat && chat->type == GGUF_STRING && !chat->is_array)
        TRY(convert_output_put(o, "chat_template.jinja", chat->strings[0].chars,
                               chat->strings[0].bytes, e));
done:
    return result;
}
