// tokenizer_regex.c -- rewrites a pattern from Oniguruma's syntax and character sets, which
// tokenizer.json uses, to those of PCRE2. tokenizer_pattern.c calls it. Syntax that both engines read
// alike stays. Syntax that they read differently is rewritten or refused, because a pattern with
// another meaning would give wrong ids.
#include "data/tokenizer/tokenizer_pattern.h"
#include "data/tokenizer/tokenizer_unicode.h"

#include <ctype.h>
#include <string.h>

typedef struct tokenizer_regex_reader {
    const char *start, *ptr; // the pattern, and the next character of it
    text *out;
    bool in_class; // between [ and ]
} tokenizer_regex_reader;

void tokenizer_pattern_quote(const char *s, text *out)
{
    for (; *s; s++) {
        if (ispunct((unsigned char)*s)) text_add(out, "\\");
        text_add_bytes(out, s, 1);
    }
}

static status refuse(const tokenizer_regex_reader *r, const char *what, err *e)
{
    return err_set(e, E_USAGE, "the pattern \"%s\" has %s (character %zu), which is not supported",
                   r->start, what, (size_t)(r->ptr - r->start) + 1);
}

// Rewrites \p{Lu} and \P{L}; r->ptr points to the backslash.
static status read_property(tokenizer_regex_reader *r, err *e)
{
    status result = OK;
    bool negative = r->ptr[1] == 'P';
    const char *name = r->ptr + 3, *end = r->ptr[2] == '{' ? strchr(name, '}') : NULL;
    if (!end) FAIL(E_USAGE, "the pattern \"%s\" has \\%c without {category}", r->start, r->ptr[1]);
    if (negative && r->in_class) TRY(refuse(r, "\\P{...} inside [...]", e));
    if (!r->in_class) text_add(r->out, negative ? "[^" : "[");
    if (!unicode_add_category(r->out, name, (size_t)(end - name)))
        FAIL(E_USAGE,
             "the pattern \"%s\" has the property {%.*s}; valid are general categories like L, Lu, "
             "N, Nd, P",
             r->start, (int)(end - name), name);
    if (!r->in_class) text_add(r->out, "]");
    r->ptr = end + 1;
done:
    return result;
}

// Rewrites \xHH, \x{H…} and \uHHHH.
static status read_hex(tokenizer_regex_reader *r, err *e)
{
    bool brace = r->ptr[1] == 'x' && r->ptr[2] == '{';
    const char *digits = r->ptr + 2 + brace;
    size_t length = strspn(digits, "0123456789abcdefABCDEF"), most = r->ptr[1] == 'u' ? 4 : 2;
    if (!brace && length > most) length = most;
    bool fine = brace ? length > 0 && length <= 6 && digits[length] == '}' : length == most;
    // Oniguruma's \xHH is a byte of the text, not a character.
    if (fine && !brace && most == 2 && digits[0] >= '8') fine = false;
    if (!fine) return refuse(r, "such a \\x or \\u", e);
    text_addf(r->out, "\\x{%.*s}", (int)length, digits);
    r->ptr = digits + length + brace;
    return OK;
}

static status read_escape(tokenizer_regex_reader *r, err *e)
{
    status result = OK;
    char c = r->ptr[1];
    bool in = r->in_class;
    if (c == 'p' || c == 'P') {
        TRY(read_property(r, e));
        goto done;
    }
    if (c == 'x' || c == 'u') {
        TRY(read_hex(r, e));
        goto done;
    }
    if (c == 's')
        text_add(r->out, in ? UNICODE_WHITE_SPACE : "[" UNICODE_WHITE_SPACE "]");
    else if (c == 'S')
        text_add(r->out, in ? UNICODE_NOT_WHITE_SPACE : "[^" UNICODE_WHITE_SPACE "]");
    else if (c == 'd' || (c == 'D' && !in)) {
        if (!in) text_add(r->out, c == 'd' ? "[" : "[^");
        unicode_add_category(r->out, "Nd", 2);
        if (!in) text_add(r->out, "]");
    } else if (c && ((!in && strchr("Az", c)) || strchr("nrtf", c) || ispunct((unsigned char)c)))
        text_add_bytes(r->out, r->ptr, 2);
    else
        TRY(refuse(r, "such a backslash sequence", e));
    r->ptr += 2;
done:
    return result;
}

// A class inside a class adds its characters, so its brackets are left out.
static status read_class(tokenizer_regex_reader *r, err *e)
{
    status result = OK;
    int depth = 1;
    r->in_class = true;
    size_t head = r->ptr[1] == '^' ? 2 : 1;
    text_add_bytes(r->out, r->ptr, head);
    r->ptr += head;
    if (*r->ptr == ']') TRY(refuse(r, "an empty [] or a bare ] in it", e));
    while (*r->ptr && depth > 0) {
        if (r->ptr[0] == '&' && r->ptr[1] == '&') TRY(refuse(r, "&& inside [...]", e));
        if (*r->ptr == '[') {
            if (r->ptr[1] && strchr("^:]", r->ptr[1])) TRY(refuse(r, "such a [ inside [...]", e));
            depth++;
            r->ptr++;
        } else if (*r->ptr == ']') {
            depth--;
            r->ptr++;
        } else if (*r->ptr == '\\') {
            TRY(read_escape(r, e));
        } else {
            text_add_bytes(r->out, r->ptr++, 1);
        }
    }
    if (depth > 0) TRY(refuse(r, "a [ without ]", e));
    text_add(r->out, "]");
    r->in_class = false;
done:
    return result;
}

static status read_group(tokenizer_regex_reader *r, err *e)
{
    static const char *const heads[] = {"?:", "?=", "?!", "?>", "?<=", "?<!", "?i:"};
    const char *after = r->ptr + 1;
    size_t head = 0;
    if (*after == '*') return refuse(r, "(*", e);
    if (*after == '?') {
        for (size_t i = 0; i < sizeof heads / sizeof *heads && head == 0; i++) {
            if (strncmp(after, heads[i], strlen(heads[i])) == 0) head = strlen(heads[i]);
        }
        // Only at the start does (?i) apply to the same characters in both engines.
        if (head == 0 && r->ptr == r->start && strncmp(after, "?i)", 3) == 0) head = 3;
        if (head == 0) return refuse(r, "such a (?", e);
    }
    text_add_bytes(r->out, r->ptr, 1 + head);
    r->ptr += 1 + head;
    return OK;
}

// Copies {n}, {n,} or {n,m}.
static status read_repeat(tokenizer_regex_reader *r, err *e)
{
    size_t digits = strspn(r->ptr + 1, "0123456789");
    const char *end = r->ptr + 1 + digits;
    if (digits > 0 && *end == ',') end += 1 + strspn(end + 1, "0123456789");
    if (digits == 0 || *end != '}') return refuse(r, "a { that is not {n}, {n,} or {n,m}", e);
    if (end[1] == '+' || end[1] == '?') return refuse(r, "{n,m} followed by + or ?", e);
    text_add_bytes(r->out, r->ptr, (size_t)(end + 1 - r->ptr));
    r->ptr = end + 1;
    return OK;
}

status tokenizer_pattern_translate(const char *source, text *out, err *e)
{
    status result = OK;
    tokenizer_regex_reader r = {.start = source, .ptr = source, .out = out};
    if (!*source) FAIL(E_USAGE, "the pattern is empty");
    while (*r.ptr) {
        switch (*r.ptr) {
        case '\\':
            TRY(read_escape(&r, e));
            break;
        case '[':
            TRY(read_class(&r, e));
            break;
        case '(':
            TRY(read_group(&r, e));
            break;
        case '{':
            TRY(read_repeat(&r, e));
            break;
        default:
            text_add_bytes(out, r.ptr++, 1);
        }
    }
    TRY(text_check(out, e));
done:
    return result;
}
