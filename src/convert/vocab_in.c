// vocab_in.c -- the tokenizer of a GGUF file as tokenizer.json. Import calls it. The ids of a text are those of llama.cpp,
// except where llama.cpp's way to split differs from the published one.
#include "convert/vocab.h"

#include "base/alloc.h"
#include "data/tokenizer/sentencepiece/tokenizer_sentencepiece.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct reader {
    const gguf *from;
    const gguf_value *tokens, *types, *scores;
    bool of_characters, is_unigram;
    json_t *vocab, *added, *merges;
    json_t *normalizer, *pre_tokenizer, *post;
    bool ignore_merges;
} reader;

static void reader_clear(reader *r)
{
    json_decref(r->vocab);
    json_decref(r->added);
    json_decref(r->merges);
    json_decref(r->normalizer);
    json_decref(r->pre_tokenizer);
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

// ---- Tokens

static bool is_filler(const gguf_string *s, uint64_t id)
{
    char name[40];
    (void)snprintf(name, sizeof name, "[PAD%" PRIu64 "]", id);
    return gguf_string_is(s, name);
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
done:
    text_clear(&valid);
    return result;
}

static status read_flag(const reader *r, const char *key, bool *out, err *e)
{
    const gguf_value *flag = gguf_value_find(r->from, key);
    if (!flag || gguf_value_bool(flag, out)) return OK;
    return err_set(e, E_USAGE, "%s: %s is no flag", gguf_path(r->from), key);
}

// Takes what the keys say beside the pieces. The defaults are those of llama.cpp.
static status read_steps(const reader *r, tokenizer_pieces *m, err *e)
{
    status result = OK;
    const gguf_value *map = gguf_value_find(r->from, "tokenizer.ggml.precompiled_charsmap");
    m->adds_prefix = r->of_characters;
    m->escapes = true;
    TRY(read_flag(r, "tokenizer.ggml.add_space_prefix", &m->adds_prefix, e));
    if (!r->is_unigram) goto done;
    TRY(read_flag(r, "tokenizer.ggml.remove_extra_whitespaces", &m->removes_spaces, e));
    if (!map) goto done;
    if (!map->is_array || (map->type != GGUF_U8 && map->type != GGUF_I8))
        FAIL(E_USAGE, "%s: tokenizer.ggml.precompiled_charsmap is no list of bytes",
             gguf_path(r->from));
    m->map = (const char *)map->data;
    m->map_bytes = map->count;
done:
    return result;
}

// A filler is a row of the table without a piece. BPE finds its pieces by name; Unigram has one for every row up to the
// last.
static status list_pieces(const reader *r, tokenizer_pieces *m, err *e)
{
    status result = OK;
    const gguf_value *unknown = gguf_value_find(r->from, "tokenizer.ggml.unknown_token_id");
    m->unknown = -1;
    if (unknown && (unknown->is_array || !gguf_value_int(unknown, 0, &m->unknown) ||
                    m->unknown < 0 || (uint64_t)m->unknown >= r->tokens->count))
        m->unknown = -1;
    TRY(alloc_zeroed(&m->pieces, r->tokens->count, sizeof *m->pieces, "the pieces", e));
    for (uint64_t i = 0; i < r->tokens->count; i++) {
        tokenizer_piece *piece = &m->pieces[i];
        const gguf_string *name = &r->tokens->strings[i];
        double score;
        int64_t type = VOCAB_NORMAL;
        if (r->types) (void)gguf_value_int(r->types, i, &type);
        if (!gguf_value_real(r->scores, i, &score) || !isfinite(score))
            FAIL(E_USAGE, "%s: tokenizer.ggml.scores: item %" PRIu64 " is no number",
                 gguf_path(r->from), i);
        const json_t *id = json_object_getn(r->vocab, name->chars, name->bytes);
        const bool own = id && (uint64_t)json_integer_value(id) == i,
                   filler = type == VOCAB_UNUSED && is_filler(name, i);
        if (r->is_unigram && !own && !filler)
            FAIL(E_USAGE, "%s: tokenizer.ggml.tokens: token %" PRIu64 " has the name of another",
                 gguf_path(r->from), i);
        *piece = (tokenizer_piece){.chars = name->chars,
                                   .bytes = own || r->is_unigram ? name->bytes : 0,
                                   .score = (float)score,
                                   .kind = (uint64_t)type};
        if (type == VOCAB_UNKNOWN && m->unknown < 0) m->unknown = (int64_t)i;
        m->byte_fallback = m->byte_fallback || type == VOCAB_BYTE;
        if (!filler || (int64_t)i == m->unknown) m->count = i + 1;
    }
    if (r->is_unigram && m->unknown < 0)
        FAIL(E_USAGE, "%s: tokenizer.ggml.token_type: found no unknown token, which t5 has",
             gguf_path(r->from));
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

static status make_of_bytes(reader *r, json_t **out, err *e)
{
    status result = OK;
    TRY(read_bytes_kind(r, e));
    *out =
        json_pack("{s:s, s:n, s:n, s:O, s:O, s:O, s:O, s:{s:s, s:b, s:b, s:b}, s:{s:s, s:n, s:n, "
                  "s:n, s:b, s:b, "
                  "s:b, s:O, s:O}}",
                  "version", "1.0", "truncation", "padding", "added_tokens", r->added, "normalizer",
                  r->normalizer, "pre_tokenizer", r->pre_tokenizer, "post_processor", r->post,
                  "decoder", "type", "ByteLevel", "add_prefix_space", 0, "trim_offsets", 1,
                  "use_regex", 1, "model", "type", "BPE", "dropout", "continuing_subword_prefix",
                  "end_of_word_suffix", "fuse_unk", 0, "byte_fallback", 0, "ignore_merges",
                  r->ignore_merges, "vocab", r->vocab, "merges", r->merges);
done:
    return result;
}

static status make_of_pieces(reader *r, json_t **out, err *e)
{
    status result = OK;
    const tokenizer_sentencepiece_options none = {false, false};
    tokenizer_pieces m = {.kind = r->is_unigram ? MODEL_UNIGRAM : MODEL_BPE};
    if (!r->scores)
        FAIL(E_USAGE, "%s: tokenizer.ggml.scores is missing or no list of fp32 numbers",
             gguf_path(r->from));
    TRY(read_steps(r, &m, e));
    TRY(list_pieces(r, &m, e));
    TRY(tokenizer_pieces_write(&m, &none, out, e));
    json_object_set(*out, "post_processor", r->post);
done:
    free(m.pieces);
    return result;
}

static status put_file(reader *r, const convert_output *o, err *e)
{
    status result = OK;
    json_t *root = NULL;
    make_post(r);
    if (r->of_characters || r->is_unigram)
        TRY(make_of_pieces(r, &root, e));
    else
        TRY(make_of_bytes(r, &root, e));
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
    if (!kind || gguf_string_is(kind, "none") || gguf_string_is(kind, "no_vocab")) {
        text_addf(warnings, "%s has no tokenizer, so the folder has none\n", gguf_path(from));
        return text_check(warnings, e);
    }
    r.of_characters = gguf_string_is(kind, "llama");
    r.is_unigram = gguf_string_is(kind, "t5");
    if (!r.of_characters && !r.is_unigram && !gguf_string_is(kind, "gpt2"))
        FAIL(E_USAGE, "%s: tokenizer.ggml.model: found \"%.*s\"; valid: gpt2, llama, t5, none",
             gguf_path(from), (int)(kind->bytes < 60 ? kind->bytes : 60), kind->chars);
    r.vocab = json_object();
    r.added = json_array();
    r.merges = json_array();
    TRY(read_tokens(&r, c, e));
    if (gguf_value_find(from, "tokenizer.chat_templates"))
        text_addf(
            warnings,
            "%s has chat templates of other names beside its own, which the folder does not get\n",
            gguf_path(from));
    TRY(put_file(&r, o, e));
    TRY(vocab_import_settings(from, c, r.tokens, o, e));
done:
    reader_clear(&r);
    return result;
}
