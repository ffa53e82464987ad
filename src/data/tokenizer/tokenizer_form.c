// tokenizer_form.c -- the normalizers NFC, NFD, NFKC and NFKD. tokenizer_normalize.c calls it. A text is a row of segments,
// each a character that joins none before it and those that may join it; most are one character that stays as it is.
#include "data/tokenizer/tokenizer_form.h"

#include "base/alloc.h"
#include "data/tokenizer/tokenizer_characters.h"
#include "data/tokenizer/tokenizer_unicode.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

const char *const tokenizer_form_words[TOKENIZER_FORMS] = {"NFC", "NFD", "NFKC", "NFKD"};

void tokenizer_form_workspace_clear(tokenizer_form_workspace *w)
{
    free(w->points);
    text_clear(&w->changed);
    *w = (tokenizer_form_workspace){.points = NULL};
}

static bool is_compatible(tokenizer_form form)
{
    return form == TOKENIZER_NFKC || form == TOKENIZER_NFKD;
}

static bool composes(tokenizer_form form)
{
    return form == TOKENIZER_NFC || form == TOKENIZER_NFKC;
}

// Sets w->changed to a text in a form.
static status change(tokenizer_form form, tokenizer_form_workspace *w, const char *string,
                     size_t bytes, err *e)
{
    status result = OK;
    const utf8proc_option_t how =
        (utf8proc_option_t)(UTF8PROC_STABLE |
                            (composes(form) ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) |
                            (is_compatible(form) ? UTF8PROC_COMPAT : 0));
    utf8proc_ssize_t count = 0, room;
    TRY(alloc_grow(&w->points, &w->point_room, bytes, sizeof *w->points, "a tokenizer", e));
    for (;;) {
        room = (utf8proc_ssize_t)w->point_room;
        count = utf8proc_decompose((const utf8proc_uint8_t *)string, (utf8proc_ssize_t)bytes,
                                   w->points, room, how);
        if (count <= room) break;
        TRY(alloc_grow(&w->points, &w->point_room, (size_t)count, sizeof *w->points, "a tokenizer",
                       e));
    }
    if (count >= 0) count = utf8proc_normalize_utf32(w->points, count, how);
    if (count < 0)
        FAIL(E_USAGE, "%s fails on this text: %s", tokenizer_form_words[form],
             utf8proc_errmsg(count));
    w->changed.bytes = 0;
    for (utf8proc_ssize_t i = 0; i < count; i++) {
        utf8proc_uint8_t character[4];
        const utf8proc_ssize_t n = utf8proc_encode_char(w->points[i], character);
        text_add_bytes(&w->changed, character, (size_t)n);
    }
    TRY(text_check(&w->changed, e));
done:
    return result;
}

// Returns whether a character may join one before it: it is a mark, or a vowel or a last consonant of Hangul, or compatible
// with one.
static bool joins_before(const utf8proc_property_t *p, uint32_t character)
{
    return p->combining_class != 0 || p->category == UTF8PROC_CATEGORY_MN ||
           p->category == UTF8PROC_CATEGORY_MC || (character >= 0x1160 && character <= 0x11FF) ||
           (character >= 0x3131 && character <= 0x318E) ||
           (character >= 0xFF9E && character <= 0xFFDC);
}

// Returns whether a character that stands alone is itself in the form.
static bool stays(tokenizer_form form, const utf8proc_property_t *p, uint32_t character)
{
    if (character >= 0xAC00 && character <= 0xD7A3) return composes(form); // syllables of Hangul
    return p->decomp_seqindex == UINT16_MAX || (p->decomp_type != 0 && !is_compatible(form));
}

// Writes bytes [first, end) of the piece.
static status run_segment(tokenizer_form form, tokenizer_form_workspace *w, tokenizer_copy *out,
                          size_t first, size_t end, err *e)
{
    status result = OK;
    const char *s = out->from->ptr + first;
    if (first == end) goto done;
    TRY(change(form, w, s, end - first, e));
    if (w->changed.bytes == end - first && memcmp(w->changed.chars, s, end - first) == 0)
        TRY(tokenizer_copy_keep(out, first, end - first, e));
    else
        TRY(tokenizer_copy_put(out, w->changed.chars, w->changed.bytes, end, e));
done:
    return result;
}

// Where the segment that begins at `first` ends. *unchanged: it is one character, which stays.
static size_t segment_end(tokenizer_form form, const tokenizer_span *s, size_t first,
                          bool *unchanged)
{
    size_t length;
    uint32_t character = unicode_read(s->ptr + first, &length);
    size_t end = first + length;
    // To those tables it is no character at all.
    if (unicode_is_new(character)) {
        *unchanged = true;
        return end;
    }
    *unchanged =
        character < 0x80 || stays(form, utf8proc_get_property((int32_t)character), character);
    while (end < s->bytes && (uint8_t)s->ptr[end] >= 0x80) {
        character = unicode_read(s->ptr + end, &length);
        if (!joins_before(utf8proc_get_property((int32_t)character), character) ||
            unicode_is_new(character))
            break;
        *unchanged = false;
        end += length;
    }
    return end;
}

status tokenizer_form_run(tokenizer_form form, tokenizer_form_workspace *w, tokenizer_copy *out,
                          err *e)
{
    status result = OK;
    const tokenizer_span *s = out->from;
    size_t kept = 0; // what lies between `kept` and i stays, and is not yet written
    for (size_t i = 0, end; i < s->bytes; i = end) {
        bool unchanged = true;
        // A character of ASCII before another one stays.
        if ((uint8_t)s->ptr[i] < 0x80 && (i + 1 == s->bytes || (uint8_t)s->ptr[i + 1] < 0x80))
            end = i + 1;
        else
            end = segment_end(form, s, i, &unchanged);
        if (unchanged) continue;
        TRY(tokenizer_copy_keep(out, kept, i - kept, e));
        TRY(run_segment(form, w, out, i, end, e));
        kept = end;
    }
    TRY(tokenizer_copy_keep(out, kept, s->bytes - kept, e));
done:
    return result;
}
