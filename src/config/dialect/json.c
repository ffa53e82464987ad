// json.c -- reads JSON with the freedoms of hjson into a tree with line numbers. dialect.c calls it. jansson has neither
// lines nor comments. See dialect_parse_json in dialect.h.
#include "config/dialect/private.h"

#include "base/alloc.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 16, KEYS_MAX = 1024 };

typedef struct json_parser {
    const char *name;
    const char *at, *end;
    int line, depth;
} json_parser;

static status broken(const json_parser *p, err *e, const char *what)
{
    text found = {0};
    const size_t rest = (size_t)(p->end - p->at);
    if (rest)
        text_add_printable(&found, p->at, rest < 24 ? rest : 24, "");
    else
        text_add(&found, "the end of the file");
    err_set(e, E_USAGE, "%s:%d: broken JSON: found %.*s; valid: %s", p->name, p->line,
            TEXT_CUT(found.chars, 100), what);
    text_clear(&found);
    return E_USAGE;
}

static bool sees(const json_parser *p, const char *word)
{
    const size_t bytes = strlen(word);
    return (size_t)(p->end - p->at) >= bytes && memcmp(p->at, word, bytes) == 0;
}

static void step(json_parser *p)
{
    if (*p->at++ == '\n') p->line++;
}

static void skip_line(json_parser *p)
{
    while (p->at < p->end && *p->at != '\n') p->at++;
}

// Skips white space and comments.
static status skip(json_parser *p, err *e)
{
    while (p->at < p->end) {
        if (isspace((unsigned char)*p->at)) {
            step(p);
        } else if (*p->at == '#' || sees(p, "//")) {
            skip_line(p);
        } else if (sees(p, "/*")) {
            while (p->at < p->end && !sees(p, "*/")) step(p);
            if (p->at == p->end) return broken(p, e, "*/ behind a comment");
            p->at += 2;
        } else {
            break;
        }
    }
    return OK;
}

static int hex_of(const json_parser *p)
{
    int value = 0;
    if (p->end - p->at < 4) return -1;
    for (int i = 0; i < 4; i++) {
        if (!isxdigit((unsigned char)p->at[i])) return -1;
        const int c = tolower((unsigned char)p->at[i]);
        value = value * 16 + (isdigit(c) ? c - '0' : c - 'a' + 10);
    }
    return value;
}

static void add_code_point(text *out, uint32_t c)
{
    char bytes[4];
    size_t n = 0;
    if (c < 0x80) {
        bytes[n++] = (char)c;
    } else {
        if (c >= 0x10000) bytes[n++] = (char)(0xf0 | c >> 18);
        if (c >= 0x800)
            bytes[n++] =
                (char)((c >= 0x10000 ? 0x80 : 0xe0) | (c >> 12 & (c >= 0x10000 ? 0x3f : 0xf)));
        bytes[n++] = (char)((c >= 0x800 ? 0x80 : 0xc0) | (c >> 6 & (c >= 0x800 ? 0x3f : 0x1f)));
        bytes[n++] = (char)(0x80 | (c & 0x3f));
    }
    text_add_bytes(out, bytes, n);
}

// What follows the backslash of an escape.
static status take_escape(json_parser *p, text *out, err *e)
{
    static const char letters[] = "\"'\\/bfnrt", meant[] = "\"'\\/\b\f\n\r\t";
    const char *letter = p->at < p->end && *p->at ? strchr(letters, *p->at) : NULL;
    if (letter) {
        text_add_bytes(out, &meant[letter - letters], 1);
        p->at++;
        return OK;
    }
    const bool is_hex = p->at < p->end && *p->at++ == 'u';
    int c = is_hex ? hex_of(p) : -1;
    if (c <= 0) return broken(p, e, "an escape of JSON");
    p->at += 4;
    if (c >= 0xd800 && c < 0xdc00 && sees(p, "\\u")) {
        p->at += 2;
        const int low = hex_of(p);
        if (low < 0xdc00 || low > 0xdfff)
            return broken(p, e, "the second half of a surrogate pair");
        p->at += 4;
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    }
    if (c >= 0xd800 && c < 0xe000) return broken(p, e, "a surrogate pair");
    add_code_point(out, (uint32_t)c);
    return OK;
}

static status take_quoted(json_parser *p, text *out, err *e)
{
    status result = OK;
    const char quote = *p->at++;
    while (p->at < p->end && *p->at != quote) {
        if (*p->at == '\n') return broken(p, e, "a quote at the end of the text");
        if (*p->at == '\\') {
            p->at++;
            TRY(take_escape(p, out, e));
        } else {
            text_add_bytes(out, p->at++, 1);
        }
    }
    if (p->at == p->end) return broken(p, e, "a quote at the end of the text");
    p->at++;
done:
    return result;
}

// Text without quotes: a number, true, false or null up to a comma, a bracket or a comment; else all of the line.
static void take_bare(json_parser *p, text *out)
{
    const char *from = p->at, *word_end;
    double number;
    skip_line(p);
    word_end = from;
    while (word_end < p->at && !strchr(",}]#/ \t\r", *word_end)) word_end++;
    text_add_bytes(out, from, (size_t)(word_end - from));
    const char *word = out->chars ? out->chars : "";
    const bool is_literal = text_to_double(word, &number) || strcmp(word, "null") == 0 ||
                            strcmp(word, "true") == 0 || strcmp(word, "false") == 0;
    if (is_literal) {
        p->at = word_end;
        return;
    }
    while (p->at > from && isspace((unsigned char)p->at[-1])) p->at--;
    text_clear(out);
    text_add_bytes(out, from, (size_t)(p->at - from));
}

// A scalar, or the key of an entry. *quoted says whether it stands in quotes.
static status take_text(json_parser *p, bool is_key, text *out, bool *quoted, err *e)
{
    status result = OK;
    *quoted = p->at < p->end && (*p->at == '"' || *p->at == '\'');
    if (*quoted) {
        TRY(take_quoted(p, out, e));
    } else if (is_key) {
        while (p->at < p->end && !isspace((unsigned char)*p->at) && !strchr(",:{}[]\"'", *p->at))
            text_add_bytes(out, p->at++, 1);
        if (!out->bytes) return broken(p, e, "a key");
    } else {
        if (p->at == p->end || strchr(",:{}[]", *p->at)) return broken(p, e, "a value");
        take_bare(p, out);
    }
    TRY(text_check(out, e));
    const size_t bytes = out->bytes;
    if (bytes && (strlen(out->chars) != bytes || !text_is_utf8(out->chars, bytes, NULL)))
        return broken(p, e, "text in UTF-8");
done:
    return result;
}

static status take_value(json_parser *p, yaml_node **out, err *e);

static status take_entry(json_parser *p, yaml_node *map, int keys, err *e)
{
    status result = OK;
    text key = {0};
    yaml_node *n = NULL;
    bool quoted;
    const int line = p->line;
    TRY(take_text(p, true, &key, &quoted, e));
    if (keys >= KEYS_MAX)
        FAIL(E_USAGE, "%s:%d: more than %d keys in one section", p->name, line, KEYS_MAX);
    const yaml_node *earlier = yaml_node_entry(map, key.chars ? key.chars : "");
    if (earlier)
        FAIL(E_USAGE, "%s:%d: key %s is given twice; the first is in line %d", p->name, line,
             key.chars, earlier->line);
    TRY(skip(p, e));
    if (p->at == p->end || *p->at != ':') {
        result = broken(p, e, "a colon behind the key");
        goto done;
    }
    p->at++;
    TRY(skip(p, e));
    TRY(take_value(p, &n, e));
    n->line = line;
    TRY(text_take(&key, &n->key, e));
    yaml_node_append(map, n);
    n = NULL;
done:
    text_clear(&key);
    yaml_node_free(n);
    return result;
}

// What stands between the brackets of a map or a list. `close` is 0 for a map without brackets, at the top.
static status take_items(json_parser *p, yaml_node *into, char close, err *e)
{
    status result = OK;
    for (int items = 0;; items++) {
        TRY(skip(p, e));
        if (p->at == p->end && close) return broken(p, e, close == '}' ? "}" : "]");
        if (p->at == p->end || *p->at == close) break;
        if (into->kind == NODE_MAP) {
            TRY(take_entry(p, into, items, e));
        } else {
            yaml_node *n = NULL;
            TRY(take_value(p, &n, e));
            yaml_node_append(into, n);
        }
        TRY(skip(p, e));
        if (p->at < p->end && *p->at == ',') p->at++;
    }
    if (close) p->at++;
done:
    return result;
}

static status take_value(json_parser *p, yaml_node **out, err *e)
{
    status result = OK;
    yaml_node *n = NULL;
    text scalar = {0};
    const int line = p->line;
    const char open = p->at < p->end ? *p->at : 0;
    if (open == '{' || open == '[') {
        if (p->depth == DEPTH_MAX)
            FAIL(E_USAGE, "%s:%d: more than %d levels of nesting", p->name, p->line, DEPTH_MAX);
        p->depth++;
        p->at++;
        TRY(yaml_node_list(line, &n, e));
        n->kind = open == '{' ? NODE_MAP : NODE_LIST;
        TRY(take_items(p, n, open == '{' ? '}' : ']', e));
        p->depth--;
    } else {
        bool quoted;
        TRY(take_text(p, false, &scalar, &quoted, e));
        TRY(yaml_node_scalar(scalar.chars ? scalar.chars : "", line, &n, e));
        n->quoted = quoted;
    }
    *out = n;
    n = NULL;
done:
    text_clear(&scalar);
    yaml_node_free(n);
    return result;
}

status dialect_parse_json(const char *name, const char *s, size_t bytes, yaml_node **out, err *e)
{
    status result = OK;
    yaml_node *n = NULL;
    json_parser p = {.name = name, .at = s, .end = s + bytes, .line = 1};
    if (sees(&p, "\xef\xbb\xbf")) p.at += 3;
    TRY(skip(&p, e));
    if (p.at < p.end && (*p.at == '{' || *p.at == '[')) {
        TRY(take_value(&p, &n, e));
        TRY(skip(&p, e));
        if (p.at < p.end) {
            result = broken(&p, e, "nothing behind the last bracket");
            goto done;
        }
    } else {
        TRY(yaml_node_list(1, &n, e));
        n->kind = NODE_MAP;
        TRY(take_items(&p, n, 0, e));
    }
    *out = n;
    n = NULL;
done:
    yaml_node_free(n);
    return result;
}

bool dialect_decode_base64(const char *s, text *out)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    uint32_t bits = 0;
    int held = 0;
    for (; *s && *s != '='; s++) {
        const char *letter = strchr(letters, *s);
        if (!letter) return false;
        bits = bits << 6 | (uint32_t)(letter - letters);
        held += 6;
        if (held < 8) continue;
        held -= 8;
        const char byte = (char)(bits >> held & 0xff);
        text_add_bytes(out, &byte, 1);
    }
    return s[strspn(s, "=")] == 0 && out->chars && out->chars[strspn(out->chars, " \t\r\n")] == '{';
}
