// tokenizer_train.c -- trains a tokenizer: it counts words, learns merges, writes the result as the
// JSON of a tokenizer.json and opens that. Data preparation calls it. The ids have the order of
// HuggingFace's BpeTrainer: special tokens, bytes in the order of their characters, merges.
#include "data/tokenizer/bpe/bpe_bytes.h"
#include "data/tokenizer/bpe/bpe_learn.h"
#include "data/tokenizer/tokenizer_pattern.h"
#include "data/tokenizer/tokenizer_private.h"

#include <stdlib.h>
#include <string.h>

// The pre-tokenizer of a built-in pattern.
static json_t *pattern_json(tokenizer_builtin kind)
{
    bool gpt2 = kind == TOKENIZER_GPT2;
    json_t *byte_level = json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space",
                                   0, "trim_offsets", 1, "use_regex", gpt2);
    if (gpt2) return byte_level;
    return json_pack("{s:s, s:[{s:s, s:{s:s}, s:s, s:b}, o]}", "type", "Sequence", "pretokenizers",
                     "type", "Split", "pattern", "Regex", tokenizer_pattern_llama3, "behavior",
                     "Isolated", "invert", 0, byte_level);
}

static int by_character(const void *a, const void *b)
{
    uint32_t x = bpe_byte_character(*(const uint8_t *)a),
             y = bpe_byte_character(*(const uint8_t *)b);
    return (x > y) - (x < y);
}

static status add_first_names(const tokenizer_train_options *o, bpe_strings *names, err *e)
{
    status result = OK;
    uint8_t bytes[256];
    for (size_t i = 0; i < o->specials; i++) {
        size_t bad, length = strlen(o->special[i]);
        if (length == 0 || !text_is_utf8(o->special[i], length, &bad))
            FAIL(E_USAGE, "special token %zu is empty or not valid UTF-8", i);
        TRY(bpe_strings_add(names, o->special[i], length, NULL, e));
    }
    if (names->count != o->specials) FAIL(E_USAGE, "a special token is given twice");
    for (int i = 0; i < 256; i++) bytes[i] = (uint8_t)i;
    qsort(bytes, 256, 1, by_character);
    for (int i = 0; i < 256; i++) {
        char spelled[2];
        size_t length = bpe_spell((const char *)&bytes[i], 1, spelled);
        TRY(bpe_strings_add(names, spelled, length, NULL, e));
    }
    if (o->vocab < 0 || (size_t)o->vocab < names->count)
        FAIL(E_USAGE,
             "a vocabulary of %d is too small; the bytes and special tokens are %zu already",
             (int)o->vocab, names->count);
done:
    return result;
}

static json_t *added_json(const tokenizer_train_options *o)
{
    json_t *list = json_array();
    for (size_t i = 0; i < o->specials; i++) {
        json_array_append_new(list, json_pack("{s:i, s:s, s:b, s:b, s:b, s:b, s:b}", "id", (int)i,
                                              "content", o->special[i], "single_word", 0, "lstrip",
                                              0, "rstrip", 0, "normalized", 0, "special", 1));
    }
    return list;
}

static json_t *model_json(const bpe_learned *l)
{
    json_t *vocab = json_object(), *merges = json_array();
    const bpe_strings *n = &l->names;
    for (size_t i = 0; i < n->count; i++)
        json_object_set_new(vocab, n->bytes + n->spans[i].offset, json_integer((json_int_t)i));
    for (size_t i = 0; i < l->merge_count; i++) {
        json_array_append_new(merges,
                              json_pack("[s, s]", n->bytes + n->spans[l->merges[i] >> 32].offset,
                                        n->bytes + n->spans[(uint32_t)l->merges[i]].offset));
    }
    return json_pack("{s:s, s:n, s:n, s:n, s:n, s:b, s:b, s:b, s:o, s:o}", "type", "BPE", "dropout",
                     "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", 0,
                     "byte_fallback", 0, "ignore_merges", 0, "vocab", vocab, "merges", merges);
}

static status write_json(const tokenizer_train_options *o, const bpe_learned *l, char **out, err *e)
{
    json_t *decoder = json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 1,
                                "trim_offsets", 1, "use_regex", 1);
    json_t *root = json_pack("{s:s, s:n, s:n, s:o, s:n, s:o, s:n, s:o, s:o}", "version", "1.0",
                             "truncation", "padding", "added_tokens", added_json(o), "normalizer",
                             "pre_tokenizer", pattern_json(o->pattern), "post_processor", "decoder",
                             decoder, "model", model_json(l));
    *out = root ? json_dumps(root, JSON_INDENT(2)) : NULL;
    json_decref(root);
    return *out ? OK : err_set(e, E_MEMORY, "out of memory");
}

status tokenizer_train(const tokenizer_train_options *o, const tokenizer_document *docs,
                       size_t count, tokenizer **out, err *e)
{
    status result = OK;
    tokenizer_splitter *split = NULL;
    bpe_words words = {0};
    bpe_learned learned = {0};
    char *json = NULL;
    json_t *pre_tokenizer = pattern_json(o->pattern);
    TRY(add_first_names(o, &learned.names, e));
    TRY(tokenizer_splitter_open(pre_tokenizer, &split, e));
    TRY(bpe_count(split, docs, count, o->threads, o->progress, o->progress_arg, &words, e));
    TRY(bpe_learn(&words, (size_t)o->vocab, o->progress, o->progress_arg, &learned, e));
    TRY(write_json(o, &learned, &json, e));
    TRY(tokenizer_parse(json, strlen(json), out, e));
done:
    json_decref(pre_tokenizer);
    tokenizer_splitter_close(split);
    bpe_words_close(&words);
    bpe_learned_close(&learned);
    free(json);
    return result;
}
