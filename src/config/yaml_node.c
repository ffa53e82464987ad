// yaml_node.c -- makes nodes and writes them as text and as JSON. See yaml_node.h. yaml.c reads
// YAML. It does not know what a key means.
#include "config/yaml_node.h"

#include "base/alloc.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

status yaml_node_scalar(const char *s, int line, yaml_node **out, err *e)
{
    status result = OK;
    yaml_node *n = NULL;
    TRY(alloc_zeroed(&n, 1, sizeof *n, "a YAML text", e));
    n->kind = NODE_SCALAR;
    n->line = line;
    TRY(text_copy(s, &n->scalar, e));
    *out = n;
    n = NULL;
done:
    yaml_node_free(n);
    return result;
}

status yaml_node_list(int line, yaml_node **out, err *e)
{
    const status result = alloc_zeroed(out, 1, sizeof **out, "a YAML text", e);
    if (result != OK) return result;
    (*out)->kind = NODE_LIST;
    (*out)->line = line;
    return OK;
}

status yaml_node_copy(const yaml_node *n, yaml_node **out, err *e)
{
    status result = OK;
    yaml_node *copy = NULL, *below;
    TRY(yaml_node_list(n->line, &copy, e));
    copy->kind = n->kind;
    copy->quoted = n->quoted;
    if (n->key) TRY(text_copy(n->key, &copy->key, e));
    if (n->scalar) TRY(text_copy(n->scalar, &copy->scalar, e));
    for (const yaml_node *c = n->first; c; c = c->next) {
        TRY(yaml_node_copy(c, &below, e));
        yaml_node_append(copy, below);
    }
    *out = copy;
    copy = NULL;
done:
    yaml_node_free(copy);
    return result;
}

void yaml_node_append(yaml_node *parent, yaml_node *child)
{
    if (parent->last)
        parent->last->next = child;
    else
        parent->first = child;
    parent->last = child;
}

void yaml_node_free(yaml_node *n)
{
    while (n) {
        yaml_node *next = n->next;
        yaml_node_free(n->first);
        free(n->key);
        free(n->scalar);
        free(n);
        n = next;
    }
}

bool yaml_node_is_null(const yaml_node *n)
{
    return n->kind == NODE_SCALAR && !n->quoted &&
           (!n->scalar[0] || strcmp(n->scalar, "~") == 0 || strcasecmp(n->scalar, "null") == 0);
}

const yaml_node *yaml_node_entry(const yaml_node *map, const char *key)
{
    for (const yaml_node *n = map->first; n; n = n->next)
        if (n->key && strcmp(n->key, key) == 0) return n;
    return NULL;
}

// Returns whether every YAML reader takes the unquoted scalar for this string.
static bool is_plain(const char *s)
{
    bool flag;
    if (!isalpha((unsigned char)s[0]) && s[0] != '/') return false;
    for (const char *p = s; *p; p++)
        if (!isalnum((unsigned char)*p) && !strchr("_./-", *p)) return false;
    return !text_to_bool(s, &flag) && strcasecmp(s, "null") && strcasecmp(s, "y") &&
           strcasecmp(s, "n");
}

// The code point at *p, which moves behind it. For bytes that are not UTF-8 it returns some number.
static uint32_t take_code_point(const char **p)
{
    const unsigned char *s = (const unsigned char *)*p;
    const int more = s[0] < 0xc0 ? 0 : s[0] < 0xe0 ? 1 : s[0] < 0xf0 ? 2 : 3;
    uint32_t c = more ? s[0] & (0x3fu >> more) : s[0];
    int i = 1;
    for (; i <= more && (s[i] & 0xc0u) == 0x80; i++) c = c << 6 | (s[i] & 0x3fu);
    *p += i;
    return c;
}

// Returns whether YAML readers refuse the unescaped character, or take it for a line break.
static bool needs_escape(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x2028 || c == 0x2029 || c == 0xfeff ||
           c == 0xfffe || c == 0xffff;
}

void yaml_node_quote(const char *s, text *out)
{
    if (is_plain(s)) {
        text_add(out, s);
        return;
    }
    text_add(out, "\"");
    while (*s) {
        const char *from = s;
        uint32_t c = take_code_point(&s);
        if (c == '"' || c == '\\')
            text_addf(out, "\\%c", (char)c);
        else if (needs_escape(c))
            text_addf(out, c < 0x100 ? "\\x%02x" : "\\u%04x", c);
        else
            text_add_bytes(out, from, (size_t)(s - from));
    }
    text_add(out, "\"");
}

// Returns whether text without quotes reads back between brackets as the same text.
static bool is_plain_item(const char *s)
{
    const size_t bytes = strlen(s);
    if (!bytes || strchr("&*!|>%@#?: ", s[0]) || strchr(": ", s[bytes - 1])) return false;
    if (s[0] == '-' && (bytes == 1 || s[1] == ' ')) return false;
    if (strpbrk(s, ",[]{}\"'`") || strstr(s, ": ") || strstr(s, " #")) return false;
    while (*s)
        if (needs_escape(take_code_point(&s))) return false;
    return true;
}

// Appends a scalar that stands between brackets.
static void add_item(const yaml_node *n, text *out)
{
    if (yaml_node_is_null(n))
        text_add(out, "null");
    else if (n->quoted || !is_plain_item(n->scalar))
        yaml_node_quote(n->scalar, out);
    else
        text_add(out, n->scalar);
}

void yaml_node_text(const yaml_node *n, text *out)
{
    static const char *const brackets[] = {[NODE_LIST] = "[]", [NODE_MAP] = "{}"};
    if (n->kind == NODE_SCALAR) {
        if (n->quoted)
            yaml_node_quote(n->scalar, out);
        else
            text_add(out, n->scalar);
        return;
    }
    text_add_bytes(out, brackets[n->kind], 1);
    for (const yaml_node *c = n->first; c; c = c->next) {
        if (c->key) {
            yaml_node_quote(c->key, out);
            text_add(out, ": ");
        }
        if (c->kind == NODE_SCALAR)
            add_item(c, out);
        else
            yaml_node_text(c, out);
        if (c->next) text_add(out, ", ");
    }
    text_add_bytes(out, brackets[n->kind] + 1, 1);
}

static json_t *scalar_json(const yaml_node *n)
{
    int64_t count;
    double number;
    bool flag;
    if (n->quoted) return json_string(n->scalar);
    if (yaml_node_is_null(n)) return json_null();
    if (text_to_count(n->scalar, &count)) return json_integer(count);
    if (text_to_double(n->scalar, &number)) return json_real(number);
    if (text_to_bool(n->scalar, &flag)) return json_boolean(flag);
    return json_string(n->scalar);
}

json_t *yaml_node_json(const yaml_node *n)
{
    if (n->kind == NODE_SCALAR) return scalar_json(n);
    json_t *all = n->kind == NODE_LIST ? json_array() : json_object();
    for (const yaml_node *c = n->first; c; c = c->next) {
        if (n->kind == NODE_LIST)
            json_array_append_new(all, yaml_node_json(c));
        else
            json_object_set_new(all, c->key, yaml_node_json(c));
    }
    return all;
}
