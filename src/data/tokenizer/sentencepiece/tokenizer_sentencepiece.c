// tokenizer_sentencepiece.c -- reads a model of SentencePiece, a protobuf. tokenizer_load.c calls it.
#include "data/tokenizer/sentencepiece/tokenizer_sentencepiece.h"

#include "base/alloc.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

typedef struct sentencepiece_field {
    uint32_t number;
    uint64_t value;    // of a number
    const char *chars; // [bytes] of anything else
    size_t bytes;
} sentencepiece_field;

static bool read_varint(const char **p, const char *end, uint64_t *out)
{
    *out = 0;
    for (int shift = 0; *p < end && shift < 64; shift += 7) {
        const uint8_t byte = (uint8_t) * *p;
        ++*p;
        *out |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) return true;
    }
    return false;
}

// Reads the next field. False where the message is broken.
static bool read_field(const char **p, const char *end, sentencepiece_field *out)
{
    uint64_t tag, size = 0;
    *out = (sentencepiece_field){.chars = NULL};
    if (!read_varint(p, end, &tag)) return false;
    out->number = (uint32_t)(tag >> 3);
    switch (tag & 7) {
    case 0:
        return read_varint(p, end, &out->value);
    case 1:
        size = 8;
        break;
    case 2:
        if (!read_varint(p, end, &size)) return false;
        break;
    case 5:
        size = 4;
        break;
    default:
        return false;
    }
    if (size > (uint64_t)(end - *p)) return false;
    out->chars = *p;
    out->bytes = (size_t)size;
    *p += size;
    return true;
}

static status broken(err *e)
{
    return err_set(e, E_USAGE, "this is no model of SentencePiece, or it is cut off");
}

static status read_piece(tokenizer_pieces *m, const sentencepiece_field *message, err *e)
{
    status result = OK;
    sentencepiece_field f;
    tokenizer_piece piece = {.kind = PIECE_NORMAL, .chars = ""};
    const char *p = message->chars, *end = p + message->bytes;
    while (p < end) {
        if (!read_field(&p, end, &f)) return broken(e);
        if (f.number == 1 && f.chars) piece.chars = f.chars, piece.bytes = f.bytes;
        if (f.number == 2 && f.bytes == 4) memcpy(&piece.score, f.chars, 4);
        if (f.number == 3) piece.kind = f.value;
    }
    if (!text_is_utf8(piece.chars, piece.bytes, NULL) || memchr(piece.chars, 0, piece.bytes))
        FAIL(E_USAGE, "piece %zu is not UTF-8, or has a zero byte", m->count);
    TRY(alloc_grow(&m->pieces, &m->room, m->count + 1, sizeof *m->pieces, "a tokenizer", e));
    m->pieces[m->count++] = piece;
done:
    return result;
}

static status read_trainer(tokenizer_pieces *m, const sentencepiece_field *message, err *e)
{
    sentencepiece_field f;
    const char *p = message->chars, *end = p + message->bytes;
    while (p < end) {
        if (!read_field(&p, end, &f)) return broken(e);
        switch (f.number) {
        case 3:
            m->kind = f.value;
            break;
        case 35:
            m->byte_fallback = f.value != 0;
            break;
        case 40:
            m->unknown = (int64_t)f.value;
            break;
        case 41:
            m->begin = (int64_t)f.value;
            break;
        case 42:
            m->end = (int64_t)f.value;
            break;
        default:
            break;
        }
    }
    return OK;
}

static status read_normalizer(tokenizer_pieces *m, const sentencepiece_field *message, err *e)
{
    sentencepiece_field f;
    const char *p = message->chars, *end = p + message->bytes;
    while (p < end) {
        if (!read_field(&p, end, &f)) return broken(e);
        if (f.number == 2) m->map = f.chars, m->map_bytes = f.bytes;
        if (f.number == 3) m->adds_prefix = f.value != 0;
        if (f.number == 4) m->removes_spaces = f.value != 0;
        if (f.number == 5) m->escapes = f.value != 0;
    }
    return OK;
}

static status read_model(tokenizer_pieces *m, const char *model, size_t bytes, err *e)
{
    status result = OK;
    sentencepiece_field f;
    const char *p = model, *end = p + bytes;
    while (p < end) {
        if (!read_field(&p, end, &f)) return broken(e);
        if (f.number >= 1 && f.number <= 3 && !f.chars) return broken(e);
        if (f.number == 1) TRY(read_piece(m, &f, e));
        if (f.number == 2) TRY(read_trainer(m, &f, e));
        if (f.number == 3) TRY(read_normalizer(m, &f, e));
    }
    if (m->count == 0) return broken(e);
    if (m->kind != MODEL_UNIGRAM && m->kind != MODEL_BPE)
        FAIL(E_USAGE, "trainer_spec.model_type is %d; valid are 1 (unigram) and 2 (bpe)",
             (int)m->kind);
    if (m->unknown < 0 || m->unknown >= (int64_t)m->count)
        FAIL(E_USAGE, "trainer_spec.unk_id must be the id of a piece");
done:
    return result;
}

status tokenizer_sentencepiece_convert(const char *model, size_t bytes,
                                       const tokenizer_sentencepiece_options *o, char **json,
                                       err *e)
{
    status result = OK;
    tokenizer_pieces m = {.kind = MODEL_UNIGRAM,
                          .begin = 1,
                          .end = 2,
                          .adds_prefix = true,
                          .removes_spaces = true,
                          .escapes = true};
    json_t *root = NULL;
    TRY(read_model(&m, model, bytes, e));
    TRY(tokenizer_pieces_write(&m, o, &root, e));
    *json = root ? json_dumps(root, JSON_INDENT(1)) : NULL;
    if (!*json) FAIL(E_MEMORY, "out of memory");
done:
    free(m.pieces);
    json_decref(root);
    return result;
}
