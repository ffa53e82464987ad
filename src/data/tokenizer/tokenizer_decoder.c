// tokenizer_decoder.c -- the decoders ByteLevel, Metaspace, Replace, ByteFallback, Fuse and Strip, and sequences of them.
// tokenizer_load.c decodes every name once, when a tokenizer is opened; tokenizer.c joins them.
#define _GNU_SOURCE // memmem
#include "data/tokenizer/tokenizer_decoder.h"

#include "base/alloc.h"
#include "data/tokenizer/bpe/bpe_bytes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void tokenizer_decoder_clear(tokenizer_decoder *d)
{
    for (int i = 0; i < d->replaces; i++) {
        free(d->replace[i].from);
        free(d->replace[i].to);
    }
    free(d->strip);
    *d = (tokenizer_decoder){.byte_level = false};
}

// ---- The field

static status add_replace(tokenizer_decoder *d, const char *field, const char *from, const char *to,
                          err *e)
{
    status result = OK;
    if (d->byte_fallback || d->strip || d->replaces == DECODER_REPLACES)
        FAIL(E_USAGE, "%s: Replace after ByteFallback or Strip is not supported", field);
    d->replaces++;
    TRY(text_copy(from, &d->replace[d->replaces - 1].from, e));
    TRY(text_copy(to, &d->replace[d->replaces - 1].to, e));
done:
    return result;
}

static status read_metaspace(tokenizer_decoder *d, const json_t *object, const char *field, err *e)
{
    status result = OK;
    const char *replacement = json_string_value(json_object_get(object, "replacement")),
               *scheme = json_string_value(json_object_get(object, "prepend_scheme"));
    const bool never = scheme ? strcmp(scheme, "never") == 0
                              : json_is_false(json_object_get(object, "add_prefix_space"));
    if (!replacement || !*replacement) FAIL(E_USAGE, "%s.replacement must be a character", field);
    TRY(add_replace(d, field, replacement, " ", e));
    if (never) goto done;
    TRY(text_copy(" ", &d->strip, e));
    d->strips_first = true;
done:
    return result;
}

// The pieces are one text by now (Fuse), so only its beginning is stripped.
static status read_strip(tokenizer_decoder *d, const json_t *object, const char *field, bool fused,
                         err *e)
{
    status result = OK;
    const char *content = json_string_value(json_object_get(object, "content"));
    const json_t *start = json_object_get(object, "start"), *stop = json_object_get(object, "stop");
    if (!content || !*content || !json_is_integer(start))
        FAIL(E_USAGE, "%s must have content and start", field);
    if (!fused || d->strip || json_integer_value(stop) != 0)
        FAIL(E_USAGE, "%s: Strip is supported once, after Fuse, with stop 0", field);
    TRY(text_copy(content, &d->strip, e));
    d->strips = json_integer_value(start);
done:
    return result;
}

static status read_one(tokenizer_decoder *d, const json_t *object, const char *field, bool *fused,
                       err *e)
{
    status result = OK;
    const char *type = json_string_value(json_object_get(object, "type"));
    const json_t *what = json_object_get(object, "pattern");
    const char *from = json_string_value(json_object_get(what, "String")),
               *to = json_string_value(json_object_get(object, "content"));
    if (!type) FAIL(E_USAGE, "%s.type is missing", field);
    if (strcmp(type, "Metaspace") == 0) {
        TRY(read_metaspace(d, object, field, e));
    } else if (strcmp(type, "Replace") == 0) {
        if (!from || !*from || !to)
            FAIL(E_USAGE, "%s must have a pattern {\"String\": text} and content", field);
        TRY(add_replace(d, field, from, to, e));
    } else if (strcmp(type, "Strip") == 0) {
        TRY(read_strip(d, object, field, *fused, e));
    } else if (strcmp(type, "ByteFallback") == 0) {
        d->byte_fallback = true;
    } else if (strcmp(type, "Fuse") == 0) {
        *fused = true;
    } else if (strcmp(type, "ByteLevel") == 0) {
        d->byte_level = true;
    } else {
        FAIL(
            E_USAGE,
            "%s is %s, which is not supported here; valid are ByteLevel, Metaspace, and a Sequence "
            "of Replace, ByteFallback, Fuse and Strip",
            field, type);
    }
done:
    return result;
}

status tokenizer_decoder_read(const json_t *decoder, bool spells_bytes, tokenizer_decoder *out,
                              err *e)
{
    status result = OK;
    const char *type = json_string_value(json_object_get(decoder, "type"));
    const json_t *list = json_object_get(decoder, "decoders");
    bool fused = false;
    *out = (tokenizer_decoder){.byte_level = spells_bytes};
    if (spells_bytes) {
        if (!decoder || json_is_null(decoder) || (type && strcmp(type, "ByteLevel") == 0))
            return OK;
        FAIL(E_USAGE, "decoder is %s, which is not supported; valid are ByteLevel and null",
             type ? type : "no type");
    }
    if (!decoder || json_is_null(decoder))
        FAIL(E_USAGE,
             "decoder is missing; a tokenizer without ByteLevel in pre_tokenizer needs one");
    if (!type || strcmp(type, "Sequence") != 0) {
        TRY(read_one(out, decoder, "decoder", &fused, e));
        goto done;
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        char field[64];
        snprintf(field, sizeof field, "decoder.decoders[%zu]", i);
        TRY(read_one(out, json_array_get(list, i), field, &fused, e));
    }
done:
    return result;
}

// ---- A name

static int hex(char c)
{
    const char *digits = "0123456789ABCDEF", *found = c ? strchr(digits, c) : NULL;
    return found ? (int)(found - digits) : -1;
}

// Returns the byte of a name such as <0xE4>; -1: it is no such name.
static int byte_of(const char *name, size_t bytes)
{
    if (bytes != 6 || memcmp(name, "<0x", 3) != 0 || name[5] != '>') return -1;
    const int high = hex(name[3]), low = hex(name[4]);
    return high < 0 || low < 0 ? -1 : 16 * high + low;
}

// Appends the name after its replacements from `first` on.
static void add_replaced(const tokenizer_decoder *d, int first, const char *s, size_t bytes,
                         text *out)
{
    if (first == d->replaces) {
        text_add_bytes(out, s, bytes);
        return;
    }
    const char *from = d->replace[first].from, *end = s + bytes, *found;
    text replaced = {0};
    while ((found = memmem(s, (size_t)(end - s), from, strlen(from)))) {
        text_add_bytes(&replaced, s, (size_t)(found - s));
        text_add(&replaced, d->replace[first].to);
        s = found + strlen(from);
    }
    text_add_bytes(&replaced, s, (size_t)(end - s));
    if (replaced.failed) text_fail(out);
    add_replaced(d, first + 1, replaced.chars, replaced.bytes, out);
    text_clear(&replaced);
}

void tokenizer_decoder_add(const tokenizer_decoder *d, const char *name, size_t bytes, bool added,
                           text *out)
{
    const int byte = d->byte_fallback ? byte_of(name, bytes) : -1;
    if (byte >= 0) {
        text_add_bytes(out, &(char){(char)byte}, 1);
    } else if (d->byte_level) {
        char *raw;
        size_t length;
        if (alloc_array(&raw, bytes, 1, "a tokenizer", NULL) != OK) {
            text_fail(out);
            return;
        }
        // A name that spells no bytes decodes to itself.
        if (!added && bpe_unspell(name, bytes, raw, &length))
            text_add_bytes(out, raw, length);
        else
            text_add_bytes(out, name, bytes);
        free(raw);
    } else {
        add_replaced(d, 0, name, bytes, out);
    }
}

void tokenizer_decoder_strip(const tokenizer_decoder *d, text *out, size_t start,
                             size_t first_bytes)
{
    if (!d->strip || out->failed || out->bytes == start) return;
    const size_t bytes = strlen(d->strip);
    const size_t end = d->strips_first ? start + first_bytes : out->bytes;
    size_t kept = start, i = start;
    for (int64_t n = 0; i + bytes <= end && (d->strips_first || n < d->strips);) {
        const bool is_strip = memcmp(out->chars + i, d->strip, bytes) == 0;
        if (!is_strip && !d->strips_first) break;
        if (is_strip)
            i += bytes, n++;
        else
            out->chars[kept++] = out->chars[i++];
    }
    memmove(out->chars + kept, out->chars + i, out->bytes - i + 1);
    out->bytes -= i - kept;
}
