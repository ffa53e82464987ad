// vocab_special.c -- the special tokens of a folder as keys of a GGUF file: their ids, whether a text gets one before or
// behind it, and the chat template. The rules are those of llama.cpp's converter (gguf-py, SpecialVocab): the content of a token
// in tokenizer_config.json goes before an id in config.json, and a post-processor before both flags there.
#include "convert/vocab.h"

#include "base/file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum special { BOS_, EOS_, UNK_, SEP_, PAD_, CLS_, MASK_, EOT_, SPECIALS } special;
static const struct {
    const char *word, *key;
} SPECIAL[SPECIALS] = {{"bos", "bos"},     {"eos", "eos"}, {"unk", "unknown"}, {"sep", "seperator"},
                       {"pad", "padding"}, {"cls", "cls"}, {"mask", "mask"},   {"eot", "eot"}};

typedef struct specials {
    const char *token[SPECIALS]; // contents; NULL: none
    int64_t id[SPECIALS];        // -1: none
    int add[SPECIALS];           // -1: not said
} specials;

static const char *content_of(const json_t *entry)
{
    return json_string_value(json_is_object(entry) ? json_object_get(entry, "content") : entry);
}

static const char *special_of(const json_t *item)
{
    return json_string_value(json_object_get(json_object_get(item, "SpecialToken"), "id"));
}

static const char *sequence_of(const json_t *item)
{
    return json_string_value(json_object_get(json_object_get(item, "Sequence"), "id"));
}

static bool same(const char *a, const char *b)
{
    return a && b && strcmp(a, b) == 0;
}

// Between the two texts of a pair stands a separator.
static void read_pair(specials *s, const json_t *pair, const char *first, const char *last)
{
    size_t begin = 0, end = json_array_size(pair);
    if (first && same(special_of(json_array_get(pair, 0)), first)) begin++;
    if (last && end > 0 && same(special_of(json_array_get(pair, end - 1)), last)) end--;
    if (end < begin + 3 || !same(sequence_of(json_array_get(pair, begin)), "A") ||
        !same(sequence_of(json_array_get(pair, end - 1)), "B"))
        return;
    bool separated = false;
    for (size_t i = begin + 1; i < end - 1; i++) {
        const char *x = special_of(json_array_get(pair, i));
        const bool is_separator = same(x, s->token[SEP_]) || same(x, s->token[EOS_]);
        separated = separated || (is_separator && (i > begin + 1 || !last));
    }
    s->add[SEP_] = separated;
    if (separated && !s->token[SEP_]) s->token[SEP_] = s->token[EOS_];
}

static void read_template(specials *s, const json_t *processor)
{
    const json_t *single = json_object_get(processor, "single"),
                 *pair = json_object_get(processor, "pair");
    const size_t n = json_array_size(single);
    const char *first = n > 1 ? special_of(json_array_get(single, 0)) : NULL,
               *last = n > 1 ? special_of(json_array_get(single, n - 1)) : NULL;
    if (first && !same(first, s->token[BOS_]) && !same(first, s->token[CLS_])) {
        if (!s->token[BOS_]) s->token[BOS_] = first;
        if (!s->token[CLS_]) s->token[CLS_] = first;
    }
    if (first) s->add[BOS_] = same(first, s->token[BOS_]) || same(first, s->token[CLS_]);
    if (last && !same(last, s->token[EOS_])) {
        s->token[EOT_] = s->token[EOS_];
        s->token[EOS_] = last;
    }
    if (last) s->add[EOS_] = same(last, s->token[EOS_]);
    if (json_array_size(pair) > 0) read_pair(s, pair, first, last);
}

static void read_processors(specials *s, const json_t *post)
{
    const json_t *list = json_object_get(post, "processors");
    const size_t count = list ? json_array_size(list) : json_is_object(post) ? 1 : 0;
    for (size_t i = 0; i < count; i++) {
        const json_t *p = list ? json_array_get(list, i) : post;
        const char *type = json_string_value(json_object_get(p, "type"));
        if (same(type, "ByteLevel")) {
            if (s->add[BOS_] < 0) s->add[BOS_] = 0;
            if (s->add[EOS_] < 0) s->add[EOS_] = 0;
        } else if (same(type, "TemplateProcessing")) {
            read_template(s, p);
        }
    }
}

static int64_t id_of_content(const json_t *added, const char *content, int64_t vocab)
{
    size_t k;
    const json_t *x;
    json_array_foreach(added, k,
                       x) if (same(json_string_value(json_object_get(x, "content")), content))
    {
        const int64_t id = json_integer_value(json_object_get(x, "id"));
        return id < vocab ? id : -1;
    }
    return -1;
}

static void find_ids(specials *s, const json_t *added, const json_t *config, int64_t vocab)
{
    char key[32];
    const json_t *of_text = json_object_get(config, "text_config");
    for (int i = 0; i < SPECIALS; i++) {
        int64_t id = id_of_content(added, s->token[i], vocab);
        if (id < 0) {
            (void)snprintf(key, sizeof key, "%s_token_id", SPECIAL[i].word);
            const json_t *v = json_object_get(config, key);
            if (!v || json_is_null(v)) v = json_object_get(of_text, key);
            id = json_is_integer(v) ? json_integer_value(v) : -1;
        }
        s->id[i] = id >= 0 && id < vocab ? id : -1;
    }
}

// What converters of single families know of their published folders.
static status apply_rules(const convert_family *f, const char *folder, const json_t *root,
                          const json_t *config, int64_t vocab, specials *s, err *e)
{
    status result = OK;
    json_t *generation = NULL;
    const json_t *added = json_object_get(root, "added_tokens"),
                 *end = json_object_get(config, "eod_token_id");
    // Llama models with the vocabulary of StarCoder: their files never add a token.
    if (f->flags & PERMUTES && vocab == 49152) s->add[BOS_] = 0;
    if (f->flags & NO_BEGIN && s->add[BOS_] < 0) s->add[BOS_] = 0;
    // llama.cpp ends a text of Unigram with a token unless the file says no.
    if (vocab_is_type(json_object_get(root, "model"), "Unigram") && s->add[EOS_] < 0)
        s->add[EOS_] = 0;
    const char *const glm[SPECIALS] = {[BOS_] = f->flags & NO_BEGIN ? NULL : "<|endoftext|>",
                                       [EOS_] = "<|endoftext|>",
                                       [UNK_] = "<|endoftext|>",
                                       [EOT_] = "<|user|>"};
    for (int i = 0; i < SPECIALS && f->flags & GLM_TOKENS; i++)
        if (glm[i] && s->id[i] < 0) s->id[i] = id_of_content(added, glm[i], vocab);
    if (!(f->flags & ALPHA_BASE)) goto done;
    TRY(convert_read_json(folder, "generation_config.json", &generation, e));
    const json_t *ends = json_object_get(generation, "eos_token_id");
    if (json_is_integer(end)) s->id[EOS_] = json_integer_value(end);
    if (json_array_size(ends) > 1) s->id[EOT_] = json_integer_value(json_array_get(ends, 0));
done:
    json_decref(generation);
    return result;
}

static void add_keys(const specials *s, gguf_keys *out)
{
    char key[64];
    for (int i = 0; i < SPECIALS; i++) {
        if (s->id[i] < 0) continue;
        const bool as_typed = i == CLS_ || i == MASK_ || i == EOT_ || i == BOS_ || i == EOS_;
        (void)snprintf(key, sizeof key, "tokenizer.ggml.%s_token_id",
                       as_typed ? SPECIAL[i].word : SPECIAL[i].key);
        gguf_add_u32(out, key, (uint32_t)s->id[i]);
    }
    for (int i = 0; i < SPECIALS; i++) {
        if (s->add[i] < 0 || (i != BOS_ && i != EOS_ && i != SEP_)) continue;
        (void)snprintf(key, sizeof key, "tokenizer.ggml.add_%s_token", SPECIAL[i].word);
        gguf_add_bool(out, key, s->add[i]);
    }
}

// ---- The chat template

static void add_template(const char *name, const char *chars, size_t bytes, gguf_keys *out)
{
    char key[128];
    const bool is_default = strcmp(name, "default") == 0;
    (void)snprintf(key, sizeof key, "tokenizer.chat_template%s%s", is_default ? "" : ".",
                   is_default ? "" : name);
    gguf_add_string(out, key, chars, bytes);
}

static status add_templates(const json_t *list, gguf_keys *out, err *e)
{
    status result = OK;
    size_t i, named = 0;
    const json_t *x;
    json_array_foreach(list, i, x)
    {
        const char *name = json_string_value(json_object_get(x, "name")),
                   *source = json_string_value(json_object_get(x, "template"));
        if (!name || !source || strlen(name) > 60)
            FAIL(E_USAGE, "tokenizer_config.json: chat_template: found an entry without name or "
                          "template; valid: texts with a name");
        add_template(name, source, strlen(source), out);
        named += strcmp(name, "default") != 0;
    }
    if (named == 0) goto done;
    gguf_add_array(out, "tokenizer.chat_templates", GGUF_STRING, named);
    json_array_foreach(list, i, x)
    {
        const char *name = json_string_value(json_object_get(x, "name"));
        if (strcmp(name, "default") != 0) gguf_put_string(out, name, strlen(name));
    }
done:
    return result;
}

static status add_chat(const char *folder, const json_t *settings, gguf_keys *out, err *e)
{
    status result = OK;
    char *path = NULL, *chars = NULL;
    size_t bytes;
    const json_t *inner = json_object_get(settings, "chat_template");
    if (json_is_array(inner)) return add_templates(inner, out, e);
    if (json_is_string(inner)) {
        add_template("default", json_string_value(inner), json_string_length(inner), out);
        return OK;
    }
    TRY(file_join(folder, "chat_template.jinja", &path, e));
    if (!file_exists(path)) goto done;
    TRY(file_read_small(path, FILE_MOST_CONFIG, &chars, &bytes, e));
    add_template("default", chars, bytes, out);
done:
    free(chars);
    free(path);
    return result;
}

status vocab_export_special(const char *folder, const json_t *root, const convert_family *f,
                            int64_t vocab, gguf_keys *out, err *e)
{
    status result = OK;
    json_t *settings = NULL, *config = NULL;
    specials s;
    char key[32];
    TRY(convert_read_json(folder, "tokenizer_config.json", &settings, e));
    TRY(convert_read_json(folder, "config.json", &config, e));
    for (int i = 0; i < SPECIALS; i++) {
        (void)snprintf(key, sizeof key, "%s_token", SPECIAL[i].word);
        s.token[i] = i == EOT_ ? NULL : content_of(json_object_get(settings, key));
        s.add[i] = -1;
    }
    if (!s.token[BOS_]) s.token[BOS_] = s.token[CLS_];
    if (!s.token[EOS_]) s.token[EOS_] = s.token[SEP_];
    read_processors(&s, json_object_get(root, "post_processor"));
    for (int i = 0; i < SPECIALS; i++) {
        (void)snprintf(key, sizeof key, "add_%s_token", SPECIAL[i].word);
        const json_t *flag = json_object_get(settings, key);
        if (json_is_boolean(flag) && s.add[i] < 0) s.add[i] = json_is_true(flag);
    }
    find_ids(&s, json_object_get(root, "added_tokens"), config, vocab);
    TRY(apply_rules(f, folder, root, config, vocab, &s, e));
    add_keys(&s, out);
    TRY(add_chat(folder, settings, out, e));
done:
    json_decref(settings);
    json_decref(config);
    return result;
}
