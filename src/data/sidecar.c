// Sidecar: the small JSON file beside a token shard. Called by prepare (write), tokens (text bytes)
// and the inspect command. It deliberately does not know the shard: the readers compare the counts.
#include "data/sidecar.h"

#include "base/file.h"
#include "base/text.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

// The folder part of a path with its slash, as a length.
static size_t folder_length(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) + 1 : 0;
}

status sidecar_write(const char *path, const sidecar *s, err *e)
{
    status result = OK;
    char *dump = NULL;
    file_writer *w = NULL;
    json_t *root = json_pack("{s:I, s:I, s:I, s:i, s:b, s:b}", "tokens", (json_int_t)s->tokens,
                             "documents", (json_int_t)s->documents, "text_bytes",
                             (json_int_t)s->text_bytes, "vocab", (int)s->vocab, "append_eod",
                             (int)s->append_eod, "add_special_tokens", (int)s->add_special_tokens);
    if (s->eod >= 0) json_object_set_new(root, "eod", json_integer(s->eod));
    if (s->tokenizer_hash)
        json_object_set_new(root, "tokenizer_hash", json_sprintf("%016" PRIx64, s->tokenizer_hash));
    if (s->tokenizer) {
        // A file name that is not UTF-8 cannot be written as JSON; the field is then left out.
        json_t *name = json_string(s->tokenizer + folder_length(s->tokenizer));
        if (name) json_object_set_new(root, "tokenizer", name);
    }
    dump = root ? json_dumps(root, JSON_INDENT(1)) : NULL;
    if (!dump) FAIL(E_IO, "%s: out of memory", path);
    TRY(file_create(path, &w, e));
    TRY(file_write(w, dump, strlen(dump), e));
    TRY(file_write(w, "\n", 1, e));
    file_writer *closing = w;
    w = NULL;
    TRY(file_finish(closing, e));
done:
    file_abandon(w);
    free(dump);
    json_decref(root);
    return result;
}

static status count_get(const json_t *root, const char *path, const char *key, uint64_t *out,
                        err *e)
{
    const json_t *v = json_object_get(root, key);
    if (!json_is_integer(v) || json_integer_value(v) < 0)
        return err_set(e, E_USAGE, "%s: %s: %s, valid is a whole number >= 0", path, key,
                       v ? "found something else" : "missing");
    *out = (uint64_t)json_integer_value(v);
    return OK;
}

// What earlier versions did not write.
static status later_fields(const json_t *root, const char *path, sidecar *s, err *e)
{
    const json_t *eod = json_object_get(root, "eod"),
                 *hash = json_object_get(root, "tokenizer_hash");
    const char *digits = json_string_value(hash);
    char *end = NULL;
    s->append_eod = json_is_true(json_object_get(root, "append_eod"));
    s->add_special_tokens = json_is_true(json_object_get(root, "add_special_tokens"));
    s->eod = eod ? (int32_t)json_integer_value(eod) : -1;
    if (eod && (!json_is_integer(eod) || json_integer_value(eod) < 0 ||
                json_integer_value(eod) >= s->vocab))
        return err_set(e, E_USAGE, "%s: eod: valid is a token id below vocab, which is %d", path,
                       (int)s->vocab);
    if (digits) s->tokenizer_hash = strtoull(digits, &end, 16);
    if (hash && (!digits || strlen(digits) != 16 || *end))
        return err_set(e, E_USAGE, "%s: tokenizer_hash: valid are 16 hexadecimal digits", path);
    return OK;
}

status sidecar_read(const char *given, sidecar *out, bool *found, err *e)
{
    status result = OK;
    json_t *root = NULL;
    char *raw = NULL;
    size_t bytes = 0;
    text path = {0};
    sidecar s = {.eod = -1};
    size_t n = strlen(given);
    if (n > 4 && (strcmp(given + n - 4, ".bin") == 0 || strcmp(given + n - 4, ".idx") == 0)) n -= 4;
    text_add_bytes(&path, given, n);
    text_add(&path, ".json");
    TRY(text_check(&path, e));
    *found = file_exists(path.chars);
    if (!*found) goto done;
    TRY(file_read_small(path.chars, FILE_MOST_CONFIG, &raw, &bytes, e));
    json_error_t why;
    root = json_loadb(raw, bytes, JSON_REJECT_DUPLICATES, &why);
    if (!json_is_object(root))
        FAIL(E_USAGE, "%s:%d: not a JSON object: %s", path.chars, root ? 1 : why.line,
             root ? "found another value" : why.text);
    uint64_t vocab = 0;
    TRY(count_get(root, path.chars, "tokens", &s.tokens, e));
    TRY(count_get(root, path.chars, "documents", &s.documents, e));
    TRY(count_get(root, path.chars, "text_bytes", &s.text_bytes, e));
    TRY(count_get(root, path.chars, "vocab", &vocab, e));
    if (vocab > INT32_MAX)
        FAIL(E_USAGE, "%s: vocab: found %llu, valid is at most %d", path.chars,
             (unsigned long long)vocab, INT32_MAX);
    s.vocab = (int32_t)vocab;
    TRY(later_fields(root, path.chars, &s, e));
    const char *name = json_string_value(json_object_get(root, "tokenizer"));
    if (name) {
        text full = {0};
        if (name[0] != '/') text_add_bytes(&full, given, folder_length(given));
        text_add(&full, name);
        TRY(text_take(&full, &s.tokenizer, e));
    }
    *out = s;
done:
    text_clear(&path);
    free(raw);
    json_decref(root);
    return result;
}

void sidecar_clear(sidecar *s)
{
    free(s->tokenizer);
    *s = (sidecar){0};
}
