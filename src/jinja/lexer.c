// lexer.c -- cuts a template into text, output and statements, and applies the rules for white space: the newline behind
// a statement is removed (trim_blocks), spaces before a statement that stands first on its line are (lstrip_blocks), and
// a sign beside a delimiter strips all of it or keeps it. lexer_tokens.c reads what stands between the delimiters.
// Source: Jinja 3.1, "Whitespace Control".
#include "jinja/lexer.h"

#include "jinja/lexer_private.h"
#include "jinja/unicode.h"

#include <stdio.h>
#include <string.h>

// Copies the source with its newlines as \n, and without one at its end.
static status normalize(jinja_lexer *x, const char *source, size_t bytes, err *e)
{
    status result = OK;
    char *s = NULL;
    size_t n = 0;
    TRY(jinja_take(x->memory, &s, bytes + 1, e));
    for (size_t i = 0; i < bytes; i++) {
        if (source[i] == '\r') {
            if (i + 1 < bytes && source[i + 1] == '\n') continue;
            s[n++] = '\n';
        } else {
            s[n++] = source[i];
        }
    }
    if (n && s[n - 1] == '\n') s[--n] = 0;
    x->chars = s;
    x->bytes = n;
done:
    return result;
}

static bool starts(const jinja_lexer *x, size_t offset, const char *word)
{
    const size_t n = strlen(word);
    return x->bytes - offset >= n && memcmp(x->chars + offset, word, n) == 0;
}

size_t jinja_skip_space(const jinja_lexer *x, size_t offset)
{
    while (offset < x->bytes) {
        uint32_t c;
        const size_t n = jinja_decode(x->chars + offset, x->bytes - offset, &c);
        if (!jinja_is_space(c)) break;
        offset += n;
    }
    return offset;
}

void jinja_count_lines(jinja_lexer *x, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) x->line += x->chars[i] == '\n';
}

status jinja_add_token(jinja_lexer *x, jinja_token t, err *e)
{
    status result = OK;
    jinja_tokens *out = x->out;
    t.line = t.line ? t.line : x->line;
    if (out->count == out->room) {
        jinja_token *more = NULL;
        const size_t room = out->room ? 2 * out->room : 64;
        TRY(jinja_take(x->memory, &more, room * sizeof *more, e));
        if (out->count) memcpy(more, out->token, out->count * sizeof *more);
        out->token = more;
        out->room = room;
    }
    out->token[out->count++] = t;
done:
    return result;
}

static status add_data(jinja_lexer *x, size_t from, size_t to, err *e)
{
    status result = OK;
    char *chars = NULL;
    if (to <= from) goto done;
    TRY(jinja_take_copy(x->memory, x->chars + from, to - from, &chars, e));
    TRY(jinja_add_token(x, (jinja_token){.kind = TOKEN_DATA, .chars = chars, .bytes = to - from},
                        e));
done:
    return result;
}

// The end of the text [from, tag) when white space before a tag is stripped as its sign says.
static size_t strip_before(const jinja_lexer *x, size_t from, size_t tag, char sign, bool output)
{
    size_t end = tag;
    if (sign == '+' || (output && sign != '-')) return end;
    while (end > from) {
        size_t first = end - 1;
        uint32_t c;
        while (first > from && ((unsigned char)x->chars[first] & 0xc0) == 0x80) first--;
        jinja_decode(x->chars + first, end - first, &c);
        if (!jinja_is_space(c) || (sign != '-' && c == '\n')) break;
        end = first;
    }
    if (sign == '-') return end;
    const bool line_begins = end > from ? x->chars[end - 1] == '\n' : x->line_starts;
    return line_begins ? end : tag;
}

// Returns whether a statement of one word stands at `offset`, behind "{%" and a sign. *close is the offset of its "%}".
static bool is_word_block(const jinja_lexer *x, size_t offset, const char *word, size_t *close)
{
    size_t i = jinja_skip_space(x, offset);
    if (!starts(x, i, word)) return false;
    i = jinja_skip_space(x, i + strlen(word));
    *close = i + !starts(x, i, "%}");
    return starts(x, i, "-%}") || starts(x, i, "%}") || starts(x, i, "+%}");
}

static char sign_of(const jinja_lexer *x, size_t offset)
{
    if (offset < x->bytes && (x->chars[offset] == '-' || x->chars[offset] == '+'))
        return x->chars[offset];
    return 0;
}

// Steps over text that ends at `to`, and notes whether a line begins there.
static void pass(jinja_lexer *x, size_t to)
{
    jinja_count_lines(x, x->offset, to);
    x->line_starts = to > x->offset && x->chars[to - 1] == '\n';
    x->offset = to;
}

void jinja_end_tag(jinja_lexer *x, size_t end, bool strips, bool trims)
{
    if (strips)
        end = jinja_skip_space(x, end);
    else if (trims && end < x->bytes && x->chars[end] == '\n')
        end++;
    pass(x, end);
}

// Steps behind the statement of one word whose "%}" is at `close`.
static void end_word_block(jinja_lexer *x, size_t close, bool trims)
{
    const char sign = x->chars[close - 1];
    jinja_end_tag(x, close + 2, sign == '-', trims && sign != '+');
}

// The text between {% raw %} and {% endraw %}.
static status read_raw(jinja_lexer *x, err *e)
{
    status result = OK;
    const size_t from = x->offset;
    for (size_t i = from; i + 1 < x->bytes; i++) {
        size_t close = 0;
        if (!starts(x, i, "{%")) continue;
        const char sign = sign_of(x, i + 2);
        if (!is_word_block(x, i + 2 + (sign != 0), "endraw", &close)) continue;
        TRY(add_data(x, from, strip_before(x, from, i, sign, false), e));
        end_word_block(x, close, true);
        goto done;
    }
    FAIL(E_USAGE, "{%% raw %%} has no {%% endraw %%}");
done:
    return result;
}

static status skip_comment(jinja_lexer *x, err *e)
{
    status result = OK;
    for (size_t i = x->offset; i + 1 < x->bytes; i++) {
        if (!starts(x, i, "#}")) continue;
        const char sign = i > x->offset ? x->chars[i - 1] : 0;
        jinja_end_tag(x, i + 2, sign == '-', sign != '+');
        goto done;
    }
    FAIL(E_USAGE, "a comment {# has no #}");
done:
    return result;
}

// One tag at `tag`, which begins with "{%", "{{" or "{#", and the text before it.
static status read_tag(jinja_lexer *x, size_t tag, err *e)
{
    status result = OK;
    const char kind = x->chars[tag + 1], sign = sign_of(x, tag + 2);
    size_t end = tag + 2 + (sign != 0), raw = 0;
    const size_t from = x->offset;
    TRY(add_data(x, from, strip_before(x, from, tag, sign, kind == '{'), e));
    pass(x, tag);
    if (kind == '%' && is_word_block(x, end, "raw", &raw)) {
        end_word_block(x, raw, false);
        TRY(read_raw(x, e));
        goto done;
    }
    pass(x, end);
    if (kind == '#') {
        TRY(skip_comment(x, e));
        goto done;
    }
    TRY(jinja_add_token(
        x, (jinja_token){.kind = kind == '%' ? TOKEN_BLOCK_BEGIN : TOKEN_OUTPUT_BEGIN}, e));
    TRY(jinja_read_code(x, kind == '%', e));
done:
    return result;
}

status jinja_read_tokens(jinja_memory *m, const char *source, size_t bytes, jinja_tokens *out,
                         int *line, err *e)
{
    status result = OK;
    jinja_lexer x = {.memory = m, .out = out, .line = 1, .line_starts = true};
    *out = (jinja_tokens){0};
    TRY(normalize(&x, source, bytes, e));
    while (x.offset < x.bytes) {
        size_t tag = x.offset;
        while (tag < x.bytes && !starts(&x, tag, "{%") && !starts(&x, tag, "{{") &&
               !starts(&x, tag, "{#"))
            tag++;
        if (tag == x.bytes) {
            TRY(add_data(&x, x.offset, x.bytes, e));
            x.offset = x.bytes;
        } else {
            TRY(read_tag(&x, tag, e));
        }
    }
    TRY(jinja_add_token(&x, (jinja_token){.kind = TOKEN_END}, e));
done:
    *line = x.line;
    return result;
}

void jinja_describe_token(const jinja_token *t, char *out, size_t room)
{
    switch (t->kind) {
    case TOKEN_END:
        snprintf(out, room, "the end of the template");
        break;
    case TOKEN_DATA:
        snprintf(out, room, "text");
        break;
    case TOKEN_BLOCK_BEGIN:
    case TOKEN_BLOCK_END:
        snprintf(out, room, "'%s'", t->kind == TOKEN_BLOCK_END ? "%}" : "{%");
        break;
    case TOKEN_OUTPUT_BEGIN:
    case TOKEN_OUTPUT_END:
        snprintf(out, room, "'%s'", t->kind == TOKEN_OUTPUT_END ? "}}" : "{{");
        break;
    case TOKEN_OPERATOR:
        snprintf(out, room, "'%c%c'", t->op & 255, t->op >> 8 ? t->op >> 8 : 0);
        if (!(t->op >> 8)) snprintf(out, room, "'%c'", t->op & 255);
        break;
    case TOKEN_STRING:
        snprintf(out, room, "the string '%.*s'", TEXT_CUT(t->chars, 40));
        break;
    case TOKEN_NAME:
        snprintf(out, room, "'%.*s'", TEXT_CUT(t->chars, 60));
        break;
    default:
        snprintf(out, room, "a number");
    }
}
