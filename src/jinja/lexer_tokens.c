// lexer_tokens.c -- reads the tokens between two delimiters: names, strings, numbers and operators, as Python spells
// them. lexer.c calls it.
#include "jinja/lexer_private.h"

#include "jinja/unicode.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { BRACKETS_MOST = 256 };

// ---- Strings

static int hex_digits(const char *s, size_t bytes, size_t count, uint32_t *out)
{
    *out = 0;
    for (size_t i = 0; i < count; i++) {
        if (i >= bytes || !isxdigit((unsigned char)s[i])) return 0;
        const char c = (char)tolower((unsigned char)s[i]);
        *out = *out * 16 + (uint32_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    return 1;
}

static size_t octal_digits(const char *s, size_t bytes, uint32_t *out)
{
    size_t i = 0;
    for (*out = 0; i < 3 && i < bytes && s[i] >= '0' && s[i] <= '7'; i++)
        *out = *out * 8 + (uint32_t)(s[i] - '0');
    return i;
}

// One escape, behind its backslash: the character, or 0xffffffff where the backslash stays. Returns the bytes that are
// read, or 0 where it is malformed.
static size_t read_escape(const char *s, size_t bytes, uint32_t *out)
{
    static const char SHORT[] = "\\'\"abfnrtv", MEANING[] = "\\'\"\a\b\f\n\r\t\v";
    const char *known = strchr(SHORT, s[0]);
    *out = UINT32_MAX;
    if (s[0] && known) {
        *out = (unsigned char)MEANING[known - SHORT];
        return 1;
    }
    if (s[0] >= '0' && s[0] <= '7') return octal_digits(s, bytes, out);
    if (s[0] != 'x' && s[0] != 'u' && s[0] != 'U') return s[0] == 'N' ? 0 : 1;
    const size_t digits = s[0] == 'x' ? 2 : s[0] == 'u' ? 4 : 8;
    if (!hex_digits(s + 1, bytes - 1, digits, out) || *out > 0x10ffff ||
        (*out >= 0xd800 && *out < 0xe000))
        return 0;
    return digits + 1;
}

static status unescape(jinja_lexer *x, const char *s, size_t bytes, jinja_token *t, err *e)
{
    status result = OK;
    char *out = NULL;
    size_t n = 0;
    TRY(jinja_take(x->memory, &out, 2 * bytes + 1, e));
    for (size_t i = 0; i < bytes;) {
        uint32_t c;
        if (s[i] != '\\') {
            out[n++] = s[i++];
            continue;
        }
        if (s[i + 1] == '\n') { // a line that goes on
            i += 2;
            continue;
        }
        const size_t used = read_escape(s + i + 1, bytes - i - 1, &c);
        if (!used) FAIL(E_USAGE, "the escape \\%c of a string is malformed", s[i + 1]);
        if (c == UINT32_MAX)
            out[n++] = s[i], out[n++] = s[i + 1];
        else
            n += jinja_encode(c, out + n);
        i += used + 1;
    }
    t->chars = out;
    t->bytes = n;
done:
    return result;
}

static status read_string(jinja_lexer *x, err *e)
{
    status result = OK;
    const char quote = x->chars[x->offset];
    const size_t from = x->offset + 1;
    size_t end = from;
    jinja_token t = {.kind = TOKEN_STRING, .line = x->line};
    while (end < x->bytes && x->chars[end] != quote) end += x->chars[end] == '\\' ? 2 : 1;
    if (end >= x->bytes) FAIL(E_USAGE, "a string has no closing %c", quote);
    TRY(unescape(x, x->chars + from, end - from, &t, e));
    jinja_count_lines(x, from, end);
    x->offset = end + 1;
    TRY(jinja_add_token(x, t, e));
done:
    return result;
}

// ---- Numbers and names

// Copies digits of a base without the underscores between them. Returns the offset behind them.
static size_t digits(const jinja_lexer *x, size_t i, const char *valid, char *out, size_t *n)
{
    const size_t most = 400;
    while (i < x->bytes && *n < most) {
        if (x->chars[i] && strchr(valid, tolower((unsigned char)x->chars[i])))
            out[(*n)++] = x->chars[i++];
        else if (x->chars[i] == '_' && i + 1 < x->bytes && x->chars[i + 1] &&
                 strchr(valid, tolower((unsigned char)x->chars[i + 1])))
            i++;
        else
            break;
    }
    return i;
}

static bool is_digit_at(const jinja_lexer *x, size_t i)
{
    return i < x->bytes && isdigit((unsigned char)x->chars[i]);
}

// The fraction and the exponent of a number, if it has any.
static size_t read_fraction(const jinja_lexer *x, size_t i, char *out, size_t *n)
{
    if (i < x->bytes && x->chars[i] == '.' && is_digit_at(x, i + 1)) {
        out[(*n)++] = '.';
        i = digits(x, i + 1, "0123456789", out, n);
    }
    if (i < x->bytes && (x->chars[i] == 'e' || x->chars[i] == 'E')) {
        const size_t sign = i + 1 < x->bytes && (x->chars[i + 1] == '-' || x->chars[i + 1] == '+');
        if (!is_digit_at(x, i + 1 + sign)) return i;
        out[(*n)++] = 'e';
        if (sign) out[(*n)++] = x->chars[i + 1];
        i = digits(x, i + 1 + sign, "0123456789", out, n);
    }
    return i;
}

static status read_number(jinja_lexer *x, bool after_dot, err *e)
{
    status result = OK;
    char s[1024] = "";
    size_t n = 0, i = x->offset;
    jinja_token t = {.kind = TOKEN_INT};
    int base = 10;
    const char prefix =
        x->chars[i] == '0' && i + 2 < x->bytes ? (char)tolower((unsigned char)x->chars[i + 1]) : 0;
    if (prefix == 'x' || prefix == 'o' || prefix == 'b')
        base = prefix == 'x' ? 16 : prefix == 'o' ? 8 : 2;
    if (base != 10)
        i = digits(x, i + 2,
                   base == 16  ? "0123456789abcdef"
                   : base == 8 ? "01234567"
                               : "01",
                   s, &n);
    else
        i = digits(x, i, "0123456789", s, &n);
    if (base == 10 && !after_dot) i = read_fraction(x, i, s, &n);
    s[n] = 0;
    errno = 0;
    if (strpbrk(s, ".e") && base == 10) {
        t.kind = TOKEN_FLOAT;
        t.real = strtod(s, NULL);
    } else {
        t.whole = strtoll(s, NULL, base);
        if (errno) FAIL(E_USAGE, "the number %.*s is beyond 64 bits", TEXT_CUT(s, 40));
    }
    x->offset = i;
    TRY(jinja_add_token(x, t, e));
done:
    return result;
}

static size_t name_end(const jinja_lexer *x, size_t i)
{
    while (i < x->bytes) {
        uint32_t c;
        const size_t n = jinja_decode(x->chars + i, x->bytes - i, &c);
        if (c != '_' && !jinja_is_alnum(c)) break;
        i += n;
    }
    return i;
}

static status read_name(jinja_lexer *x, size_t end, err *e)
{
    status result = OK;
    char *chars = NULL;
    const size_t bytes = end - x->offset;
    TRY(jinja_take_copy(x->memory, x->chars + x->offset, bytes, &chars, e));
    x->offset = end;
    TRY(jinja_add_token(x, (jinja_token){.kind = TOKEN_NAME, .chars = chars, .bytes = bytes}, e));
done:
    return result;
}

// ---- Operators

static status read_operator(jinja_lexer *x, char *open, size_t *depth, err *e)
{
    static const char ONE[] = "+-/*%~[](){}><=.:|,;", TWO[] = "//**==!=>=<=";
    status result = OK;
    const char *s = x->chars + x->offset;
    int op = 0;
    for (const char *p = TWO; *p && !op && x->offset + 1 < x->bytes; p += 2)
        if (s[0] == p[0] && s[1] == p[1]) op = OPERATOR(s[0], s[1]);
    if (!op && s[0] && strchr(ONE, s[0])) op = s[0];
    if (!op)
        FAIL(E_USAGE, "'%.*s' is no operator",
             (int)jinja_decode(s, x->bytes - x->offset, &(uint32_t){0}), s);
    if (op == '(' || op == '[' || op == '{') {
        if (*depth == BRACKETS_MOST) FAIL(E_USAGE, "brackets are nested too deeply");
        open[(*depth)++] = (char)(op == '(' ? ')' : op + 2);
    } else if (op == ')' || op == ']' || op == '}') {
        if (!*depth) FAIL(E_USAGE, "unexpected '%c'", op);
        if (open[--*depth] != op) FAIL(E_USAGE, "unexpected '%c'; expected '%c'", op, open[*depth]);
    }
    x->offset += op >> 8 ? 2 : 1;
    TRY(jinja_add_token(x, (jinja_token){.kind = TOKEN_OPERATOR, .op = op}, e));
done:
    return result;
}

// Returns whether the statement or output ends at x->offset. Then it steps behind the end.
static bool ends(jinja_lexer *x, bool block)
{
    const char *s = x->chars + x->offset;
    const size_t left = x->bytes - x->offset;
    const char *end = block ? "%}" : "}}";
    if (left >= 2 && memcmp(s, end, 2) == 0) {
        jinja_end_tag(x, x->offset + 2, false, block);
        return true;
    }
    if (left < 3 || memcmp(s + 1, end, 2) != 0 || (s[0] != '-' && (s[0] != '+' || !block)))
        return false;
    jinja_end_tag(x, x->offset + 3, s[0] == '-', false);
    return true;
}

status jinja_read_code(jinja_lexer *x, bool block, err *e)
{
    status result = OK;
    char open[BRACKETS_MOST];
    size_t depth = 0;
    while (x->offset < x->bytes) {
        const int line = x->line;
        if (!depth && ends(x, block)) {
            TRY(jinja_add_token(
                x, (jinja_token){.kind = block ? TOKEN_BLOCK_END : TOKEN_OUTPUT_END, .line = line},
                e));
            goto done;
        }
        const size_t next = jinja_skip_space(x, x->offset), end = name_end(x, x->offset);
        const char c = x->chars[x->offset];
        const bool after_dot = x->offset && x->chars[x->offset - 1] == '.';
        if (next > x->offset) {
            jinja_count_lines(x, x->offset, next);
            x->offset = next;
        } else if (isdigit((unsigned char)c)) {
            TRY(read_number(x, after_dot, e));
        } else if (end > x->offset) {
            TRY(read_name(x, end, e));
        } else if (c == '\'' || c == '"') {
            TRY(read_string(x, e));
        } else {
            TRY(read_operator(x, open, &depth, e));
        }
    }
    FAIL(E_USAGE, "%s is not closed", block ? "{%" : "{{");
done:
    return result;
}
