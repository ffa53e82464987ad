// tokenizer_hash.c -- a hash of everything that decides the ids of a text. tokenizer_load.c calls
// it. Two files of the same tokenizer have the same hash although their formatting, settings or
// post-processors differ, because the ids in a token shard do not show these differences.
#include "data/tokenizer/tokenizer_private.h"

#include <string.h>
#include <xxhash.h>

static uint64_t add(uint64_t hash, const void *data, size_t bytes)
{
    return XXH3_64bits_withSeed(data, bytes, hash + bytes);
}

// "left right" and ["left", "right"] are the same merge.
static uint64_t add_merges(uint64_t hash, const json_t *merges)
{
    text line = {0};
    for (size_t i = 0; i < json_array_size(merges); i++) {
        const json_t *merge = json_array_get(merges, i);
        const char *line_form = json_string_value(merge);
        if (line_form && strncmp(line_form, "#version", 8) == 0) continue;
        line.bytes = 0;
        if (line_form)
            text_add(&line, line_form);
        else
            text_addf(&line, "%s %s", json_string_value(json_array_get(merge, 0)),
                      json_string_value(json_array_get(merge, 1)));
        hash = add(hash, line.chars, line.bytes);
    }
    text_clear(&line);
    return hash;
}

static uint64_t add_scores(uint64_t hash, const json_t *vocab)
{
    for (size_t i = 0; i < json_array_size(vocab); i++) {
        const double score = json_number_value(json_array_get(json_array_get(vocab, i), 1));
        hash = add(hash, &score, sizeof score);
    }
    return hash;
}

static uint64_t flag_of(const json_t *token, const char *key, bool absent)
{
    const json_t *value = json_object_get(token, key);
    return value ? json_is_true(value) : absent;
}

// Adds up the hashes of the added tokens, so that their order in the file does not matter.
static uint64_t added_hash(const json_t *list)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *token = json_array_get(list, i);
        const char *content = json_string_value(json_object_get(token, "content"));
        uint64_t how = (uint64_t)json_integer_value(json_object_get(token, "id")) << 4 |
                       flag_of(token, "normalized", !flag_of(token, "special", false)) << 3 |
                       flag_of(token, "single_word", false) << 2 |
                       flag_of(token, "lstrip", false) << 1 | flag_of(token, "rstrip", false);
        sum += add(how, content, strlen(content));
    }
    return sum;
}

void tokenizer_set_hash(tokenizer *t, const json_t *root)
{
    const json_t *model = json_object_get(root, "model");
    int64_t facts[5] = {t->vocab, t->unknown, t->fuse_unknown, t->ignore_merges,
                        (int64_t)added_hash(json_object_get(root, "added_tokens"))};
    uint64_t hash = tokenizer_splitter_hash(t->split);
    hash = add(hash, facts, sizeof facts);
    for (int32_t id = 0; id < t->vocab; id++) {
        uint32_t name = t->entries[id].name;
        const bpe_span *span = name ? &t->names.spans[name - 1] : NULL;
        hash = add(hash, span ? t->names.bytes + span->offset : "", span ? span->bytes + 1 : 0);
    }
    hash = add_merges(hash, json_object_get(model, "merges"));
    if (t->unigram) hash = add_scores(hash, json_object_get(model, "vocab"));
    const uint64_t more[2] = {tokenizer_normalizer_hash(t->normalizer), t->byte_fallback};
    if (more[0] || more[1]) hash = add(hash, more, sizeof more);
    t->hash = hash;
}

uint64_t tokenizer_hash(const tokenizer *t)
{
    return t->hash;
}
