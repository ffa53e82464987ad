// vocab_in.c -- the tokenizer of a GGUF file as tokenizer.json. Import calls it. The ids of a text are those of llama.cpp,
// except where llama.cpp's way to split differs from the published one.
#include "convert/vocab.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef struct reader {
    const gguf *from;
    const gguf_value *tokens, *types, *scores;
    bool of_characters, is_unigram;
    json_t *vocab, *added, *merges, *unigram;
    json_t *normalizer, *pre_tokenizer, *decoder, *post;
    char *unknown; // borrowed from `vocab`'s keys; NULL: none
    bool ignore_merges;
} reader;

static void reader_clear(reader *r)
{
    json_decref(r->vocab);
    json_decref(r->added);
    json_decref(r->merges);
    json_decref(r->unigram);
    json_decref(r->normalizer);
    json_decref(r->pre_tokenizer);
    json_decref(r->decoder);
    json_decref(r->post);
}

static const gguf_value *find_array(const gguf *from, const char *key, gguf_type type)
{
    const gguf_value *v = gguf_value_find(from, key);
    return v && v->is_array && v->type == type ? v : NULL;
}

static const gguf_string *find_text(const gguf *from, const char *key)
{
    const gguf_value *v = gguf_value_find(from, key);
    return v && !v->is_array && v->type == GGUF_STRING ? &v->strings[0] : NULL;
}

static bool is_text(const gguf_string *s, const char *word)
{
    return s && s->bytes == strlen(word) && memcmp(s->chars, word, s->bytes) == 0;
}

// ---- Tokens

static bool is_filler(const gguf_string *s, uint64_t id)
{
    char name[40];
    (void)snprintf(name, sizeof name, "[PAD%" PRIu64 "]", id);
    return is_text(s, name);
}

static status add_token(reader *r, uint64_t i, err *e)
{
    status result = OK;
    const gguf_string *s = &r->tokens->strings[i];
    int64_t type = VOCAB_NORMAL;
    if (r->types) (void)gguf_value_int(r->types, i, &type);
    if (type == VOCAB_UNUSED && is_filler(s, i)) goto done;
    if (!text_is_utf8(s->chars, s->bytes, NULL) || memchr(s->chars, 0, s->bytes))
        FAIL(E_USAGE, "%s: tokenizer.ggml.tokens: token %" PRIu64 " is not UTF-8 text",
             gguf_path(r->from), i);
    json_t *name = json_stringn(s->chars, s->bytes);
    // Of two tokens with one name the first is the one that a text gets.
    if (!json_object_get(r->vocab, json_string_value(name)) &&
        json_object_set_new(r->vocab, json_string_value(name), json_integer((json_int_t)i))) {
        json_decref(name);
        FAIL(E_MEMORY, "no memory for the vocabulary");
    }
    if (type == VOCAB_UNKNOWN && !r->unknown) r->unknown = (char *)s->chars;
    if (type == VOCAB_CONTROL || type == VOCAB_USER_DEFINED || type == VOCAB_UNKNOWN)
        json_array_append_new(r->added,
                              json_pack("{s:I, s:O, s:b, s:b, s:b, s:b, s:b}", "id", (json_int_t)i,
                                        "content", name, "single_word", 0, "lstrip", 0, "rstrip", 0,
                                        "normalized", 0, "special", type != VOCAB_USER_DEFINED));
    json_decref(name);
done:
    return result;
}

static status read_tokens(reader *r, const model_config *c, err *e)
{
    status result = OK;
    r->tokens = find_array(r->from, "tokenizer.ggml.tokens", GGUF_STRING);
    r->types = find_array(r->from, "tokenizer.ggml.token_type", GGUF_I32);
    r->scores = find_array(r->from, "tokenizer.ggml.scores", GGUF_REAL32);
    if (!r->tokens || (int64_t)r->tokens->count < 1)
        FAIL(E_USAGE, "%s: tokenizer.ggml.tokens is missing or no list of texts",
             gguf_path(r->from));
    if ((r->types && r->types->count != r->tokens->count) ||
        (r->scores && r->scores->count != r->tokens->count))
        FAIL(E_USAGE,
             "%s: tokenizer.ggml.token_type or .scores has not the %" PRIu64 " items of .tokens",
             gguf_path(r->from), r->tokens->count);
    for (uint64_t i = 0; i < r->tokens->count; i++) {
        int64_t type = VOCAB_NORMAL;
        if (r->types) (void)gguf_value_int(r->types, i, &type);
        if ((int64_t)i >= c->vocab && type != VOCAB_UNUSED)
            FAIL(E_USAGE,
                 "%s: token %" PRIu64 " has no row in token_embd.weight, which has %" PRId64,
                 gguf_path(r->from), i, c->vocab);
        TRY(add_token(r, i, e));
    }
done:
    return result;
}

// ---- The kinds

static status read_merges(reader *r, err *e)
{
    status result = OK;
    const gguf_value *v = find_array(r->from, "tokenizer.ggml.merges", GGUF_STRING);
    if (!v)
        FAIL(E_USAGE, "%s: tokenizer.ggml.merges is missing or no list of texts",
             gguf_path(r->from));
    for (uint64_t i = 0; i < v->count; i++) {
        const gguf_string *s = &v->strings[i];
        const char *space = s->bytes > 2 ? memchr(s->chars + 1, ' ', s->bytes - 1) : NULL;
        if (!space || space + 1 == s->chars + s->bytes || !text_is_utf8(s->chars, s->bytes, NULL) ||
            memchr(s->chars, 0, s->bytes))
            FAIL(E_USAGE,
                 "%s: tokenizer.ggml.merges: item %" PRIu64 " is no pair with a space between",
                 gguf_path(r->from), i);
        const size_t left = (size_t)(space - s->chars);
        if (json_array_append_new(
                r->merges, json_pack("[s%, s%]", s->chars, left, space + 1, s->bytes - left - 1)))
            FAIL(E_MEMORY, "no memory for the merges");
    }
done:
    return result;
}

static status read_bytes_kind(reader *r, err *e)
{
    status result = OK;
    text valid = {0};
    const gguf_string *pre = find_text(r->from, "tokenizer.ggml.pre");
    vocab_pre_describe(&valid);
    if (pre) vocab_pre_make(pre, &r->normalizer, &r->pre_tokenizer, &r->ignore_merges);
    if (!r->pre_tokenizer)
        FAIL(E_USAGE, "%s: tokenizer.ggml.pre: found \"%.*s\"; valid are %s", gguf_path(r->from),
             pre ? (int)(pre->bytes < 60 ? pre->bytes : 60) : 7, pre ? pre->chars : "nothing",
             valid.chars ? valid.chars : "");
    TRY(read_merges(r, e));
    r->decoder = json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0,
                           "trim_offsets", 1, "use_regex", 1);
done:
    text_clear(&valid);
    return result;
}

json_t *vocab_replacement(const char *kind, const char *pattern, const char *content)
{
    return json_pack("{s:s, s:{s:s}, s:s}", "type", "Replace", "pattern", kind, pattern, "content",
                     content);
}

static status read_flag(const reader *r, const char *key, bool *out, err *e)
{
    const gguf_value *flag = gguf_value_find(r->from, key);
    if (!flag || gguf_value_bool(flag, out)) return OK;
    return err_set(e, E_USAGE, "%s: %s is no flag", gguf_path(r->from), key);
}

static json_t *pieces_decoder(bool prefix)
{
    json_t *made = json_pack("{s:s, s:[o, {s:s}, {s:s}]}", "type", "Sequence", "decoders",
                             vocab_replacement("String", VOCAB_SPACE, " "), "type", "ByteFallback",
                             "type", "Fuse");
    if (prefix)
        json_array_append_new(json_object_get(made, "decoders"),
                              json_pack("{s:s, s:s, s:i, s:i}", "type", "Strip", "content", " ",
                                        "start", 1, "stop", 0));
    return made;
}

// SentencePiece's: a space becomes U+2581, one stands before the text unless the file says no.
static status read_scored_kind(reader *r, err *e)
{
    status result = OK;
    bool prefix = true, removes = true;
    TRY(read_flag(r, "tokenizer.ggml.add_space_prefix", &prefix, e));
    TRY(read_flag(r, "tokenizer.ggml.remove_extra_whitespaces", &removes, e));
    if (!r->scores)
        FAIL(E_USAGE, "%s: tokenizer.ggml.scores is missing or no list of fp32 numbers",
             gguf_path(r->from));
    r->decoder = pieces_decoder(prefix);
    if (r->is_unigram) {
        TRY(vocab_unigram_normalizer(r->from, prefix, removes, &r->normalizer, e));
        TRY(vocab_unigram_model(r->from, r->tokens, r->types, r->scores, r->vocab, &r->unigram, e));
        r->pre_tokenizer =
            prefix ? json_pack("{s:s, s:s, s:s, s:b}", "type", "Metaspace", "replacement",
                               VOCAB_SPACE, "prepend_scheme", "always", "split", 0)
                   : json_null();
        goto done;
    }
    json_decref(r->merges);
    r->merges = NULL;
    TRY(vocab_merges_of_scores(r->from, r->tokens, r->scores, r->vocab, &r->merges, e));
    json_t *spaces = vocab_replacement("String", " ", VOCAB_SPACE);
    r->normalizer = prefix
                        ? json_pack("{s:s, s:[{s:s, s:s}, o]}", "type", "Sequence", "normalizers",
                                    "type", "Prepend", "prepend", VOCAB_SPACE, spaces)
                        : spaces;
    r->pre_tokenizer = json_null();
done:
    return result;
}

// ---- What stands around a text

// The name of the special token whose id is the value of a key; NULL: none.
static json_t *token_of(const reader *r, const char *key)
{
    int64_t id;
    const gguf_value *v = gguf_value_find(r->from, key);
    if (!v || v->is_array || !gguf_value_int(v, 0, &id) || id < 0 ||
        (uint64_t)id >= r->tokens->count)
        return NULL;
    return json_stringn(r->tokens->strings[id].chars, r->tokens->strings[id].bytes);
}

static bool says(const reader *r, const char *key, bool otherwise)
{
    bool flag = otherwise;
    const gguf_value *v = gguf_value_find(r->from, key);
    if (v) (void)gguf_value_bool(v, &flag);
    return flag;
}

static void add_special(json_t *to, json_t *name)
{
    json_array_append_new(to,
                          json_pack("{s:{s:O, s:i}}", "SpecialToken", "id", name, "type_id", 0));
}

static json_t *template_of(json_t *bos, json_t *eos)
{
    json_t *single = json_array(), *pair = json_array(), *tokens = json_object();
    for (int k = 0; k < 2; k++) {
        json_t *to = k ? pair : single;
        for (int text_no = 0; text_no <= k; text_no++) {
            if (bos) add_special(to, bos);
            json_array_append_new(to, json_pack("{s:{s:s, s:i}}", "Sequence", "id",
                                                text_no ? "B" : "A", "type_id", text_no));
            if (eos) add_special(to, eos);
        }
    }
    json_t *made =
        json_pack("{s:s, s:o, s:o}", "type", "TemplateProcessing", "single", single, "pair", pair);
    json_object_set_new(made, "special_tokens", tokens);
    return made;
}

// The ids of the tokens of a template, as tokenizer.json lists them.
static void add_template_ids(const reader *r, json_t *post, json_t *name)
{
    json_object_set_new(json_object_get(post, "special_tokens"), json_string_value(name),
                        json_pack("{s:O, s:[O], s:[O]}", "id", name, "ids",
                                  json_object_get(r->vocab, json_string_value(name)), "tokens",
                                  name));
}

static void make_post(reader *r)
{
    json_t *bos = token_of(r, "tokenizer.ggml.bos_token_id"),
           *eos = token_of(r, "tokenizer.ggml.eos_token_id");
    const bool before = bos && says(r, "tokenizer.ggml.add_bos_token", r->of_characters),
               behind = eos && says(r, "tokenizer.ggml.add_eos_token", r->is_unigram);
    if (before || behind) {
        r->post = template_of(before ? bos : NULL, behind ? eos : NULL);
        if (before) add_template_ids(r, r->post, bos);
        if (behind) add_template_ids(r, r->post, eos);
    } else if (!r->of_characters && !r->is_unigram) {
        r->post = json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 1,
                            "trim_offsets", 0, "use_regex", 1);
    } else {
        r->post = json_null();
    }
    json_decref(bos);
    json_decref(eos);
}

// ---- The file

static json_t *bpe_of(const reader *r)
{
    json_t *unknown = r->of_characters ? token_of(r, "tokenizer.ggml.unknown_token_id") : NULL;
    return json_pack("{s:s, s:n, s:o*, s:n, s:n, s:b, s:b, s:b, s:O, s:O}", "type", "BPE",
                     "dropout", "unk_token", unknown, "continuing_subword_prefix",
                     "end_of_word_suffix", "fuse_unk", r->of_characters, "byte_fallback",
                     r->of_characters, "ignore_merges", r->ignore_merges, "vocab", r->vocab,
                     "merges", r->merges);
}

static status write_file(reader *r, const convert_output *o, err *e)
{
    status result = OK;
    json_t *body = r->unigram ? json_incref(r->unigram) : bpe_of(r);
    json_t *root = json_pack("{s:s, s:n, s:n, s:O, s:O, s:O, s:O, s:O, s:o}", "version", "1.0",
                             "truncation", "padding", "added_tokens", r->added, "normalizer",
                             r->normalizer, "pre_tokenizer", r->pre_tokenizer, "post_processor",
                             r->post, "decoder", r->decoder, "model", body);
    if (!root) FAIL(E_MEMORY, "no memory for tokenizer.json");
    TRY(convert_output_put_json(o, "tokenizer.json", root, e));
done:
    json_decref(root);
    return result;
}

status vocab_import(const gguf *from, const model_config *c, const convert_output *o,
                    text *warnings, err *e)
{
    status result = OK;
    reader r = {.from = from};
    const gguf_string *kind = find_text(from, "tokenizer.ggml.model");
    if (!kind || is_text(kind, "none") || is_text(kind, "no_vocab")) {
        text_addf(warnings, "%s has no tokenizer, so the folder has none\n", gguf_path(from));
        return text_check(warnings, e);
    }
    r.of_characters = is_text(kind, "llama");
    r.is_unigram = is_text(kind, "t5");
    if (!r.of_characters && !r.is_unigram && !is_text(kind, "gpt2"))
        FAIL(E_USAGE, "%s: tokenizer.ggml.model: found \"%.*s\"; valid: gpt2, llama, t5, none",
             gguf_path(from), (int)(kind->bytes < 60 ? kind->bytes : 60), kind->chars);
    r.vocab = json_object();
    r.added = json_array();
    r.merges = json_array();
    TRY(read_tokens(&r, c, e));
    if (r.of_characters || r.is_unigram)
        TRY(read_scored_kind(&r, e));
    else
        TRY(read_bytes_kind(&r, e));
    if (gguf_value_find(from, "tokenizer.chat_templates"))
        text_addf(
            warnings,
            "%s has chat templates of other names beside its own, which the folder does not get\n",
            gguf_path(from));
    make_post(&r);
    TRY(write_file(&r, o, e));
    TRY(vocab_import_settings(from, c, r.tokens, o, e));
done:
    reader_clear(&r);
    return result;
}
