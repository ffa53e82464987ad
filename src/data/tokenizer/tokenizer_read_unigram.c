// tokenizer_read_unigram.c -- reads a Unigram model of a tokenizer.json. tokenizer_load.c calls it.
#include "base/alloc.h"
#include "base/text.h"
#include "data/tokenizer/tokenizer_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// HuggingFace's tokenizers read a number as its digits, a whole number, times or through a power of ten, so that the last bit
// may differ. A sum of such scores decides between rows of pieces that are nearly equal.
static double rounded_twice(double value)
{
    char digits[32];
    for (int precision = 14; precision <= 16; precision++) {
        snprintf(digits, sizeof digits, "%.*e", precision, value);
        if (strtod(digits, NULL) == value) break;
    }
    const char *exponent = strchr(digits, 'e');
    const bool negative = digits[0] == '-';
    uint64_t whole = 0;
    int power = exponent ? atoi(exponent + 1) : 0, behind_point = 0;
    bool point = false;
    for (const char *c = digits + negative; c < exponent; c++) {
        if (*c == '.') {
            point = true;
            continue;
        }
        whole = 10 * whole + (uint64_t)(*c - '0');
        behind_point += point;
    }
    power -= behind_point;
    char scale_text[16];
    snprintf(scale_text, sizeof scale_text, "1e%d", power < 0 ? -power : power);
    const double scale = strtod(scale_text, NULL);
    const double size = power < 0 ? (double)whole / scale : (double)whole * scale;
    return negative ? -size : size;
}

static status read_piece(tokenizer *t, const json_t *pair, size_t index, double *score, err *e)
{
    status result = OK;
    const char *name = json_string_value(json_array_get(pair, 0));
    const json_t *value = json_array_get(pair, 1);
    if (!name || !json_is_number(value))
        FAIL(E_USAGE, "model.vocab[%zu] must be [\"piece\", score]", index);
    if (index < (size_t)t->vocab && t->entries[index].name)
        FAIL(E_USAGE, "model.vocab[%zu] is given twice", index);
    const int64_t known = bpe_strings_find(&t->names, name, strlen(name));
    if (known >= 0)
        FAIL(E_USAGE, "model.vocab[%zu]: \"%.*s\" is also piece %d", index, TEXT_CUT(name, 100),
             (int)t->name_ids[known]);
    *score = json_is_integer(value) ? (double)json_integer_value(value)
                                    : rounded_twice(json_real_value(value));
    TRY(tokenizer_add_name(t, name, strlen(name), (int32_t)index, false, e));
done:
    return result;
}

static status read_unknown(tokenizer *t, const json_t *model, err *e)
{
    const json_t *id = json_object_get(model, "unk_id"),
                 *fallback = json_object_get(model, "byte_fallback");
    t->unknown = -1;
    if (fallback && !json_is_null(fallback) && !json_is_boolean(fallback))
        return err_set(e, E_USAGE, "model.byte_fallback must be true or false");
    if (id && !json_is_null(id)) {
        if (!json_is_integer(id) || json_integer_value(id) < 0 ||
            json_integer_value(id) >= t->vocab)
            return err_set(e, E_USAGE,
                           "model.unk_id must be null or a whole number below the vocabulary, %d",
                           (int)t->vocab);
        t->unknown = (int32_t)json_integer_value(id);
    }
    t->byte_fallback = json_is_true(fallback);
    // Where one byte of an unknown text is missing, the text is the unknown id.
    for (int byte = 0; byte < 256; byte++) {
        char spelled[8];
        snprintf(spelled, sizeof spelled, "<0x%02X>", (unsigned)byte);
        t->byte_id[byte] = tokenizer_name_id(t, spelled, strlen(spelled));
    }
    return OK;
}

status tokenizer_read_unigram(tokenizer *t, const json_t *model, err *e)
{
    status result = OK;
    const json_t *vocab = json_object_get(model, "vocab");
    const size_t count = json_array_size(vocab);
    tokenizer_unigram_piece *pieces = NULL;
    if (!json_is_array(vocab) || count == 0 || count > TOKENIZER_IDS)
        FAIL(E_USAGE, "model.vocab must be a list of [\"piece\", score], of at most %d",
             TOKENIZER_IDS);
    TRY(alloc_zeroed(&pieces, count, sizeof *pieces, "a tokenizer", e));
    for (size_t i = 0; i < count; i++)
        TRY(read_piece(t, json_array_get(vocab, i), i, &pieces[i].score, e));
    t->model_names = t->names.count;
    TRY(read_unknown(t, model, e));
    for (size_t i = 0; i < count; i++) {
        const bpe_span *span = &t->names.spans[t->entries[i].name - 1];
        pieces[i].chars = t->names.bytes + span->offset;
        pieces[i].bytes = span->bytes;
        pieces[i].id = (int32_t)i;
    }
    TRY(tokenizer_unigram_open(pieces, count, t->unknown, &t->unigram, e));
done:
    free(pieces);
    return result;
}
