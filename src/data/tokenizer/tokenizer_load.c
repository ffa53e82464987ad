// tokenizer_load.c -- opens a tokenizer from a tokenizer.json, or a tokenizer.model, and the settings beside it. Commands
// and data preparation call it. tokenizer_train.c also calls tokenizer_parse with the JSON that it
// has made, so that a trained tokenizer behaves as the file that is saved. tokenizer_model.c reads
// the vocabulary and the merges.
#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "data/tokenizer/sentencepiece/tokenizer_sentencepiece.h"
#include "data/tokenizer/tokenizer_private.h"

#include <stdlib.h>
#include <string.h>

const char *const tokenizer_side_file_names[TOKENIZER_SIDE_FILES] = {
    "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja"};

void tokenizer_close(tokenizer *t)
{
    if (!t) return;
    free(t->entries);
    bpe_strings_close(&t->names);
    free(t->name_ids);
    text_clear(&t->decoded);
    tokenizer_unigram_close(t->unigram);
    bpe_pairs_close(&t->merges);
    bpe_pairs_close(&t->neighbors);
    tokenizer_normalizer_close(t->normalizer);
    tokenizer_splitter_close(t->split);
    tokenizer_decoder_clear(&t->decoder);
    tokenizer_added_close(t->raw);
    tokenizer_added_close(t->normalized);
    text_clear(&t->normalized_names);
    free(t->json);
    for (int i = 0; i < TOKENIZER_SIDE_FILES; i++) free(t->files[i].content);
    free(t->end_of_text);
    free(t);
}

static status read_root(tokenizer *t, const json_t *root, err *e)
{
    status result = OK;
    bool is_unigram = false;
    if (!json_is_object(root))
        FAIL(E_USAGE, "this is no tokenizer: the file must be a JSON object");
    TRY(tokenizer_check_model(json_object_get(root, "model"), &is_unigram, e));
    TRY(tokenizer_normalizer_open(json_object_get(root, "normalizer"), &t->normalizer, e));
    TRY(tokenizer_splitter_open(json_object_get(root, "pre_tokenizer"), &t->split, e));
    t->byte_level = tokenizer_splitter_spells_bytes(t->split);
    if (is_unigram && t->byte_level)
        FAIL(E_USAGE, "pre_tokenizer ends with ByteLevel, which is not supported with Unigram");
    TRY(tokenizer_decoder_read(json_object_get(root, "decoder"), t->byte_level, &t->decoder, e));
    TRY((is_unigram ? tokenizer_read_unigram
                    : tokenizer_read_model)(t, json_object_get(root, "model"), e));
    TRY(tokenizer_read_added(t, json_object_get(root, "added_tokens"), e));
    TRY(tokenizer_read_post(t, json_object_get(root, "post_processor"), e));
    tokenizer_set_hash(t, root);
done:
    return result;
}

// Makes an error one line when it quotes a token with line ends.
static void flatten(err *e)
{
    for (char *c = e ? e->text : ""; *c; c++) {
        if ((unsigned char)*c < ' ') *c = ' ';
    }
}

status tokenizer_parse(const char *json, size_t bytes, tokenizer **out, err *e)
{
    status result = OK;
    json_error_t broken;
    json_t *root = NULL;
    tokenizer *t = NULL;
    TRY(alloc_zeroed(&t, 1, sizeof *t, "a tokenizer", e));
    root = json_load_python(json, bytes, JSON_REJECT_DUPLICATES, &broken);
    if (!root) FAIL(E_USAGE, "line %d: broken JSON: %s", broken.line, broken.text);
    TRY(read_root(t, root, e));
    TRY(alloc_array(&t->json, bytes + 1, 1, "a tokenizer", e));
    memcpy(t->json, json, bytes);
    t->json[bytes] = 0;
    t->json_bytes = bytes;
    *out = t;
    t = NULL;
done:
    if (result != OK) flatten(e);
    json_decref(root);
    tokenizer_close(t);
    return result;
}

// Reads eos_token of the settings: a string, or an object with the string in `content`.
static status read_settings(tokenizer *t, err *e)
{
    status result = OK;
    const tokenizer_side_file *config = &t->files[TOKENIZER_SIDE_CONFIG];
    json_error_t broken;
    json_t *root = NULL;
    if (!config->content) goto done;
    root = json_load_python(config->content, config->bytes, JSON_ALLOW_NUL, &broken);
    if (!root) FAIL(E_USAGE, "line %d: broken JSON: %s", broken.line, broken.text);
    const json_t *end = json_object_get(root, "eos_token");
    const char *name =
        json_string_value(json_is_object(end) ? json_object_get(end, "content") : end);
    if (name) TRY(text_copy(name, &t->end_of_text, e));
done:
    json_decref(root);
    return result;
}

static bool is_sentencepiece(const char *path)
{
    const size_t bytes = strlen(path), ending = strlen(".model");
    return bytes > ending && strcmp(path + bytes - ending, ".model") == 0;
}

// Reads the settings beside a file tokenizer.json (in a model's folder) or P.tokenizer.json (beside
// the shards P).
static status read_side_files(tokenizer *t, const char *path, err *e)
{
    status result = OK;
    text side_file = {0};
    const char *own = is_sentencepiece(path) ? "tokenizer.model" : tokenizer_file_name(0);
    size_t bytes = strlen(path), start = bytes - strlen(own);
    if (bytes < strlen(own) || strcmp(path + start, own) != 0 ||
        (start > 0 && path[start - 1] != '/' && path[start - 1] != '.'))
        goto done;
    for (int i = 0; i < TOKENIZER_SIDE_FILES; i++) {
        text_clear(&side_file);
        text_add_bytes(&side_file, path, start);
        text_add(&side_file, tokenizer_side_file_names[i]);
        TRY(text_check(&side_file, e));
        if (!file_exists(side_file.chars)) continue;
        TRY(file_read_small(side_file.chars, FILE_MOST_TABLE, &t->files[i].content,
                            &t->files[i].bytes, e));
        if (i != TOKENIZER_SIDE_CONFIG) continue;
        result = read_settings(t, e);
        if (result != OK) {
            err_prefix(e, "%s: ", side_file.chars);
            goto done;
        }
    }
done:
    text_clear(&side_file);
    return result;
}

// Reads whether the settings beside a tokenizer.model want its control tokens around a text.
static status read_model_options(const char *path, tokenizer_sentencepiece_options *out, err *e)
{
    status result = OK;
    text settings = {0};
    char *content = NULL;
    size_t bytes;
    json_error_t broken;
    json_t *root = NULL;
    const char *slash = strrchr(path, '/');
    text_add_bytes(&settings, path, slash ? (size_t)(slash - path) + 1 : 0);
    text_add(&settings, tokenizer_side_file_names[TOKENIZER_SIDE_CONFIG]);
    TRY(text_check(&settings, e));
    if (!file_exists(settings.chars)) goto done;
    TRY(file_read_small(settings.chars, FILE_MOST_TABLE, &content, &bytes, e));
    root = json_load_python(content, bytes, JSON_ALLOW_NUL, &broken);
    if (!root)
        FAIL(E_USAGE, "%s: line %d: broken JSON: %s", settings.chars, broken.line, broken.text);
    out->adds_begin = json_is_true(json_object_get(root, "add_bos_token"));
    out->adds_end = json_is_true(json_object_get(root, "add_eos_token"));
done:
    json_decref(root);
    free(content);
    text_clear(&settings);
    return result;
}

// Replaces the content of a tokenizer.model by that of a tokenizer.json.
static status convert(const char *path, char **content, size_t *bytes, err *e)
{
    status result = OK;
    char *json = NULL;
    tokenizer_sentencepiece_options o = {.adds_begin = false};
    TRY(read_model_options(path, &o, e));
    result = tokenizer_sentencepiece_convert(*content, *bytes, &o, &json, e);
    if (result != OK) {
        err_prefix(e, "%s: ", path);
        goto done;
    }
    free(*content);
    *content = json;
    *bytes = strlen(json);
done:
    return result;
}

status tokenizer_folder_file(const char *folder, char **path, err *e)
{
    status result = OK;
    char *json = NULL, *model = NULL;
    TRY(file_join(folder, "tokenizer.json", &json, e));
    TRY(file_join(folder, "tokenizer.model", &model, e));
    const bool has_only_model = !file_exists(json) && file_exists(model);
    *path = has_only_model ? model : json;
    if (has_only_model)
        model = NULL;
    else
        json = NULL;
done:
    free(json);
    free(model);
    return result;
}

status tokenizer_load(const char *path, tokenizer **out, err *e)
{
    status result = OK;
    char *json = NULL;
    size_t bytes;
    tokenizer *t = NULL;
    TRY(file_read_small(path, FILE_MOST_TABLE, &json, &bytes, e));
    if (is_sentencepiece(path)) TRY(convert(path, &json, &bytes, e));
    result = tokenizer_parse(json, bytes, &t, e);
    if (result != OK) {
        err_prefix(e, "%s: ", path);
        goto done;
    }
    TRY(read_side_files(t, path, e));
    *out = t;
    t = NULL;
done:
    free(json);
    tokenizer_close(t);
    return result;
}
