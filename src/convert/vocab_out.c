// vocab_out.c -- a tokenizer.json as the keys of a GGUF file: kind, way to split, names and types of all tokens, scores or
// merges. Export calls it. Facts of llama.cpp's converter.
//
// Three kinds: "gpt2", BPE of bytes, has merges. "llama", BPE of characters with bytes to fall back to, has scores, which
// say in which order pieces merge; tokenizer.json has merges, so a score is minus the rank of the first merge that makes the
// piece, as in SentencePiece's files. "t5", Unigram (vocab_unigram.c), has the scores of its pieces.
#include "convert/vocab.h"

#include "base/alloc.h"
#include "base/file.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NO_SCORE     (-1000.0f)
#define UNUSED_SCORE (-10000.0f)

typedef struct token {
    const char *name; // borrowed from the JSON, or of `texts`
    int32_t type;
    float score;
} token;

typedef struct vocab {
    const char *folder;
    json_t *root;
    const json_t *model;
    token *tokens; // [count]
    int64_t count;
    char **texts; // [text_count] names that are made
    size_t text_count, text_room;
    bool of_characters; // the kind "llama"
    bool is_unigram;    // the kind "t5"
    bool has_bytes;     // pieces such as <0x0A> are bytes
} vocab;

static void vocab_close(vocab *v)
{
    for (size_t i = 0; i < v->text_count; i++) free(v->texts[i]);
    free(v->texts);
    free(v->tokens);
    json_decref(v->root);
}

static status make_name(vocab *v, text *from, const char **out, err *e)
{
    status result = OK;
    TRY(alloc_grow(&v->texts, &v->text_room, v->text_count + 1, sizeof *v->texts, "names of tokens",
                   e));
    TRY(text_take(from, &v->texts[v->text_count], e));
    *out = v->texts[v->text_count++];
done:
    text_clear(from);
    return result;
}

// ---- Kinds

bool vocab_is_type(const json_t *step, const char *type)
{
    const char *word = json_string_value(json_object_get(step, "type"));
    return word && strcmp(word, type) == 0;
}

static status find_kind(vocab *v, err *e)
{
    v->model = json_object_get(v->root, "model");
    const char *type = json_string_value(json_object_get(v->model, "type"));
    const json_t *pieces = json_object_get(v->model, "vocab");
    const bool fallback = json_is_true(json_object_get(v->model, "byte_fallback"));
    const bool bpe =
        !type ? json_is_array(json_object_get(v->model, "merges")) : strcmp(type, "BPE") == 0;
    v->is_unigram = type && strcmp(type, "Unigram") == 0 && json_is_array(pieces);
    if (!v->is_unigram && (!bpe || !json_is_object(pieces)))
        return err_set(e, E_USAGE, "%s/tokenizer.json: model.type: found %s; valid: BPE, Unigram",
                       v->folder, type ? type : "nothing");
    v->of_characters =
        bpe && fallback && vocab_is_type(json_object_get(v->root, "decoder"), "Sequence");
    v->has_bytes = v->of_characters || (v->is_unigram && fallback);
    return OK;
}

// ---- Tokens

// Marks that llama.cpp's converter takes for control tokens where the folder does not say so.
static bool looks_special(const char *s)
{
    static const char *const whole[] = {"<pad>", "<mask>", "<2mass>", "[@BOS@]"};
    static const char *const around[][2] = {{"<|", "|>"}, {"<｜", "｜>"}, {"<unused", ">"}};
    const size_t n = strlen(s);
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
        if (strcmp(s, whole[i]) == 0) return true;
    for (size_t i = 0; i < sizeof around / sizeof *around; i++) {
        const size_t a = strlen(around[i][0]), b = strlen(around[i][1]);
        if (n >= a && n >= b && strncmp(s, around[i][0], a) == 0 &&
            strcmp(s + n - b, around[i][1]) == 0)
            return true;
    }
    return false;
}

static bool is_byte(const char *s)
{
    return strlen(s) == 6 && strncmp(s, "<0x", 3) == 0 && isxdigit((unsigned char)s[3]) &&
           isxdigit((unsigned char)s[4]) && s[5] == '>';
}

static status put_token(vocab *v, const json_t *id, const char *name, const char *field,
                        token **out, err *e)
{
    const int64_t i = json_is_integer(id) ? json_integer_value(id) : -1;
    if (i < 0 || i >= v->count)
        return err_set(e, E_USAGE,
                       "%s/tokenizer.json: %s: token \"%.*s\" has no id below the %" PRId64
                       " of config.json's vocab_size",
                       v->folder, field, TEXT_CUT(name, 60), v->count);
    *out = &v->tokens[i];
    (*out)->name = name;
    return OK;
}

static status read_pieces(vocab *v, err *e)
{
    status result = OK;
    const json_t *pieces = json_object_get(v->model, "vocab"),
                 *unknown = json_object_get(v->model, "unk_id");
    for (size_t i = 0; i < json_array_size(pieces); i++) {
        const json_t *piece = json_array_get(pieces, i), *score = json_array_get(piece, 1);
        const char *name = json_string_value(json_array_get(piece, 0));
        if (!name || !json_is_number(score))
            FAIL(E_USAGE, "%s/tokenizer.json: model.vocab[%zu]: found no piece with a score",
                 v->folder, i);
        if ((int64_t)i >= v->count)
            FAIL(E_USAGE,
                 "%s/tokenizer.json: model.vocab: found %zu pieces; valid: at most the %" PRId64
                 " of config.json's vocab_size",
                 v->folder, json_array_size(pieces), v->count);
        const bool is_unknown =
            json_is_integer(unknown) && (size_t)json_integer_value(unknown) == i;
        v->tokens[i] = (token){.name = name,
                               .type = is_unknown                      ? VOCAB_UNKNOWN
                                       : v->has_bytes && is_byte(name) ? VOCAB_BYTE
                                                                       : VOCAB_NORMAL,
                               .score = (float)json_number_value(score)};
    }
done:
    return result;
}

static status read_vocab(vocab *v, err *e)
{
    status result = OK;
    const char *name;
    json_t *id;
    if (v->is_unigram) return read_pieces(v, e);
    json_object_foreach((json_t *)json_object_get(v->model, "vocab"), name, id)
    {
        token *t = NULL;
        TRY(put_token(v, id, name, "model.vocab", &t, e));
        t->type = v->has_bytes && is_byte(name) ? VOCAB_BYTE : VOCAB_NORMAL;
        t->score = NO_SCORE;
    }
done:
    return result;
}

// A user's token is compared with text, which has spaces where pieces have U+2581.
static status put_spaces(vocab *v, token *t, err *e)
{
    text made = {0};
    for (const char *s = t->name; *s;) {
        if (strncmp(s, "\xe2\x96\x81", 3) == 0) {
            text_add(&made, " ");
            s += 3;
        } else {
            text_add_bytes(&made, s++, 1);
        }
    }
    return make_name(v, &made, &t->name, e);
}

static status read_added(vocab *v, err *e)
{
    status result = OK;
    size_t i;
    const json_t *x;
    json_array_foreach(json_object_get(v->root, "added_tokens"), i, x)
    {
        const char *name = json_string_value(json_object_get(x, "content"));
        token *t = NULL;
        if (!name) FAIL(E_USAGE, "%s/tokenizer.json: added_tokens: found no content", v->folder);
        TRY(put_token(v, json_object_get(x, "id"), name, "added_tokens", &t, e));
        // A piece of Unigram keeps its score.
        const bool is_piece = v->is_unigram && t->type != 0;
        if (is_piece && t->type == VOCAB_UNKNOWN) continue;
        const bool control = json_is_true(json_object_get(x, "special")) || looks_special(name);
        t->type = control ? VOCAB_CONTROL : VOCAB_USER_DEFINED;
        if (!is_piece) t->score = NO_SCORE;
        if (!control) TRY(put_spaces(v, t, e));
    }
done:
    return result;
}

// Rows of the table behind the vocabulary have names that no text spells.
static status fill_unused(vocab *v, err *e)
{
    status result = OK;
    for (int64_t i = 0; i < v->count; i++) {
        if (v->tokens[i].name) continue;
        text made = {0};
        text_addf(&made, "[PAD%" PRId64 "]", i);
        TRY(make_name(v, &made, &v->tokens[i].name, e));
        v->tokens[i].type = VOCAB_UNUSED;
        v->tokens[i].score = UNUSED_SCORE;
    }
done:
    return result;
}

// ---- Merges

// The two parts of a merge, which is a pair or "LEFT RIGHT".
static bool merge_parts(const json_t *merge, const char **left, size_t *left_bytes,
                        const char **right)
{
    if (json_is_array(merge) && json_array_size(merge) == 2) {
        *left = json_string_value(json_array_get(merge, 0));
        *right = json_string_value(json_array_get(merge, 1));
        if (!*left || !*right) return false;
        *left_bytes = strlen(*left);
        return true;
    }
    *left = json_string_value(merge);
    const char *space = *left ? strchr(*left, ' ') : NULL;
    if (!space) return false;
    *left_bytes = (size_t)(space - *left);
    *right = space + 1;
    return true;
}

// A space within a part would look like the one between them, so it becomes U+0120.
static void add_part(text *t, const char *s, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (s[i] == ' ')
            text_add(t, "\xc4\xa0");
        else
            text_add_bytes(t, s + i, 1);
}

static status add_merges(const vocab *v, gguf_keys *out, err *e)
{
    status result = OK;
    const json_t *merges = json_object_get(v->model, "merges");
    text line = {0};
    if (json_array_size(merges) == 0) goto done;
    gguf_add_array(out, "tokenizer.ggml.merges", GGUF_STRING, json_array_size(merges));
    for (size_t i = 0; i < json_array_size(merges); i++) {
        const char *left, *right;
        size_t bytes;
        if (!merge_parts(json_array_get(merges, i), &left, &bytes, &right))
            FAIL(E_USAGE, "%s/tokenizer.json: model.merges[%zu]: found no pair", v->folder, i);
        line.bytes = 0;
        add_part(&line, left, bytes);
        text_add(&line, " ");
        add_part(&line, right, strlen(right));
        TRY(text_check(&line, e));
        gguf_put_string(out, line.chars, line.bytes);
    }
done:
    text_clear(&line);
    return result;
}

// Scores fall with the rank of the merge that first makes a piece; pieces that no merge makes follow by id.
static status make_scores(vocab *v, err *e)
{
    status result = OK;
    const json_t *merges = json_object_get(v->model, "merges"),
                 *ids = json_object_get(v->model, "vocab");
    text joined = {0};
    int64_t rank = 0;
    for (size_t i = 0; i < json_array_size(merges); i++) {
        const char *left, *right;
        size_t bytes;
        if (!merge_parts(json_array_get(merges, i), &left, &bytes, &right))
            FAIL(E_USAGE, "%s/tokenizer.json: model.merges[%zu]: found no pair", v->folder, i);
        joined.bytes = 0;
        text_add_bytes(&joined, left, bytes);
        text_add(&joined, right);
        TRY(text_check(&joined, e));
        const json_t *id = json_object_get(ids, joined.chars);
        token *t = id ? &v->tokens[json_integer_value(id)] : NULL;
        if (!t || t->type != VOCAB_NORMAL || t->score != NO_SCORE) continue;
        t->score = -(float)rank++;
    }
    for (int64_t i = 0; i < v->count; i++)
        if (v->tokens[i].type == VOCAB_NORMAL && v->tokens[i].score == NO_SCORE)
            v->tokens[i].score = -(float)rank++;
    for (int64_t i = 0; i < v->count; i++)
        if (v->tokens[i].type == VOCAB_BYTE) v->tokens[i].score = 0;
done:
    text_clear(&joined);
    return result;
}

// ---- The keys

static void add_tokens(const vocab *v, gguf_keys *out)
{
    const uint64_t n = (uint64_t)v->count;
    gguf_add_array(out, "tokenizer.ggml.tokens", GGUF_STRING, n);
    for (uint64_t i = 0; i < n; i++)
        gguf_put_string(out, v->tokens[i].name, strlen(v->tokens[i].name));
    if (v->of_characters || v->is_unigram) {
        gguf_add_array(out, "tokenizer.ggml.scores", GGUF_REAL32, n);
        for (uint64_t i = 0; i < n; i++) gguf_put(out, &v->tokens[i].score, sizeof(float));
    }
    gguf_add_array(out, "tokenizer.ggml.token_type", GGUF_I32, n);
    for (uint64_t i = 0; i < n; i++) gguf_put(out, &v->tokens[i].type, sizeof(int32_t));
}

// Llama's converter says whether a space stands before a text; Gemma's says that none does.
static status add_prefix(const vocab *v, const convert_family *f, gguf_keys *out, err *e)
{
    status result = OK;
    json_t *settings = NULL;
    TRY(convert_read_json(v->folder, "tokenizer_config.json", &settings, e));
    const json_t *flag = json_object_get(settings, "add_prefix_space");
    if (f->flags & PLUS_ONE && v->of_characters)
        gguf_add_bool(out, "tokenizer.ggml.add_space_prefix", false);
    else if (f->flags & PERMUTES && json_is_boolean(flag))
        gguf_add_bool(out, "tokenizer.ggml.add_space_prefix", json_is_true(flag));
done:
    json_decref(settings);
    return result;
}

static status add_all(vocab *v, const convert_family *f, gguf_keys *out, err *e)
{
    status result = OK;
    const char *pre = "default", *kind = v->is_unigram ? "t5" : v->of_characters ? "llama" : "gpt2";
    const bool of_bytes = !v->is_unigram && !v->of_characters;
    if (v->is_unigram)
        TRY(vocab_export_unigram(v->folder, v->root, out, e));
    else
        TRY(add_prefix(v, f, out, e));
    gguf_add_string(out, "tokenizer.ggml.model", kind, strlen(kind));
    if (of_bytes) TRY(vocab_pre_find(v->folder, v->root, &pre, e));
    gguf_add_string(out, "tokenizer.ggml.pre", pre, strlen(pre));
    if (v->of_characters) TRY(make_scores(v, e));
    add_tokens(v, out);
    if (of_bytes) TRY(add_merges(v, out, e));
    TRY(vocab_export_special(v->folder, v->root, f, v->count, out, e));
done:
    return result;
}

status vocab_export(const char *folder, const convert_family *f, const model_config *c,
                    gguf_keys *out, text *warnings, err *e)
{
    status result = OK;
    vocab v = {.folder = folder, .count = c->vocab};
    TRY(convert_read_json(folder, "tokenizer.json", &v.root, e));
    if (!v.root) {
        text_addf(warnings, "%s has no tokenizer.json, so the GGUF file has no tokenizer\n",
                  folder);
        gguf_add_string(out, "tokenizer.ggml.model", "none", 4);
        goto done;
    }
    TRY(find_kind(&v, e));
    TRY(alloc_zeroed(&v.tokens, (size_t)v.count, sizeof *v.tokens, "the vocabulary", e));
    TRY(read_vocab(&v, e));
    TRY(read_added(&v, e));
    TRY(fill_unused(&v, e));
    TRY(add_all(&v, f, out, e));
done:
    vocab_close(&v);
    return result;
}
