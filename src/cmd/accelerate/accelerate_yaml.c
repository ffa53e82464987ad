// accelerate_yaml.c -- a file of Accelerate as objects and back: the types that YAML 1.1 gives to unquoted scalars, and
// the text that PyYAML writes, so that a file of Trireme and one of Accelerate differ in no byte. The exceptions are long
// lines, which PyYAML folds, and text beyond ASCII, which has other escapes. It does not know any key.
#include "cmd/accelerate/accelerate_yaml.h"

#include "base/alloc.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- types

static bool is_one_of(const char *s, const char *const *words)
{
    while (*words && strcmp(s, *words) != 0) words++;
    return *words != NULL;
}

static bool read_bool(const char *s, bool *out)
{
    static const char *const yes[] = {"yes",  "Yes", "YES", "true", "True",
                                      "TRUE", "on",  "On",  "ON",   NULL},
                             *const no[] = {"no",    "No",  "NO",  "false", "False",
                                            "FALSE", "off", "Off", "OFF",   NULL};
    *out = is_one_of(s, yes);
    return *out || is_one_of(s, no);
}

static bool is_null(const char *s)
{
    static const char *const words[] = {"", "~", "null", "Null", "NULL", NULL};
    return is_one_of(s, words);
}

// Copies s without underscores. Returns false where it is too long for a number.
static bool copy_digits(const char *s, char out[64])
{
    size_t count = 0;
    for (; *s; s++) {
        if (*s == '_') continue;
        if (count == 63) return false;
        out[count++] = *s;
    }
    out[count] = 0;
    return count > 0;
}

// A whole number: decimal, octal with a leading 0, hexadecimal with 0x, or binary with 0b.
static bool read_whole(const char *s, int64_t *out)
{
    char copy[64], *end;
    if (!copy_digits(s, copy)) return false;
    const char *digits = copy + (*copy == '-' || *copy == '+');
    int base = 10;
    if (digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'b'))
        base = digits[1] == 'x' ? 16 : 2, digits += 2;
    else if (digits[0] == '0' && digits[1])
        base = 8;
    if (!isxdigit((unsigned char)*digits)) return false;
    errno = 0;
    const long long value = strtoll(digits, &end, base);
    if (*end || errno) return false;
    *out = *copy == '-' ? -value : value;
    return true;
}

// A real number has a point, and a sign in its exponent: 1e8 is text to YAML 1.1.
static bool read_real(const char *s, double *out)
{
    char copy[64], *end;
    if (!strchr(s, '.') || !copy_digits(s, copy)) return false;
    const char *exponent = strpbrk(copy, "eE");
    if (exponent && exponent[1] != '+' && exponent[1] != '-') return false;
    if (copy[strspn(copy, "+-.0123456789eE")]) return false;
    *out = strtod(copy, &end);
    return end != copy && !*end && isfinite(*out);
}

// Returns whether PyYAML reads the unquoted scalar as something other than text.
static bool has_type(const char *s)
{
    bool truth;
    int64_t whole;
    double real;
    if (read_bool(s, &truth) || is_null(s) || read_whole(s, &whole) || read_real(s, &real))
        return true;
    // Infinities, sexagesimal numbers and dates.
    const char *rest = s + (*s == '-' || *s == '+');
    if (*rest == '.' && (strcasecmp(rest, ".inf") == 0 || strcasecmp(rest, ".nan") == 0))
        return true;
    return isdigit((unsigned char)*rest) && !rest[strspn(rest, "0123456789_:.-")] &&
           strpbrk(rest, ":-");
}

static json_t *scalar_value(const yaml_node *n)
{
    bool truth;
    int64_t whole;
    double real;
    if (n->quoted) return json_string(n->scalar);
    if (is_null(n->scalar)) return json_null();
    if (read_bool(n->scalar, &truth)) return json_boolean(truth);
    if (read_whole(n->scalar, &whole)) return json_integer(whole);
    if (read_real(n->scalar, &real)) return json_real(real);
    return json_string(n->scalar);
}

json_t *accelerate_value(const yaml_node *n)
{
    if (n->kind == NODE_SCALAR) return scalar_value(n);
    json_t *all = n->kind == NODE_LIST ? json_array() : json_object();
    for (const yaml_node *c = n->first; c; c = c->next) {
        if (n->kind == NODE_LIST)
            json_array_append_new(all, accelerate_value(c));
        else
            json_object_set_new(all, c->key, accelerate_value(c));
    }
    return all;
}

// ---- text

// Appends the shortest decimal that reads back as the same number, as Python's repr does.
static void print_real(double x, text *out)
{
    char digits[40];
    int precision = 0;
    do {
        snprintf(digits, sizeof digits, "%.*e", precision, x);
    } while (++precision < 17 && strtod(digits, NULL) != x);
    const int exponent = atoi(strchr(digits, 'e') + 1);
    if (exponent < -4 || exponent >= 16) {
        *strchr(digits, 'e') = 0;
        text_addf(out, "%s%se%+03d", digits, strchr(digits, '.') ? "" : ".0", exponent);
        return;
    }
    const int after = precision - 1 - exponent;
    text_addf(out, "%.*f", after > 0 ? after : 1, x);
}

// Returns whether text may stand without quotes, for PyYAML.
static bool is_plain(const char *s)
{
    static const char leading[] = "#,[]{}&*!|>'\"%@`";
    const size_t bytes = strlen(s);
    if (has_type(s) || strchr(leading, *s) || strcmp(s, "=") == 0 || strcmp(s, "<<") == 0)
        return false;
    if (strchr("-?:", *s) && (!s[1] || s[1] == ' ')) return false;
    if (strncmp(s, "---", 3) == 0 || strncmp(s, "...", 3) == 0) return false;
    return *s != ' ' && s[bytes - 1] != ' ' && s[bytes - 1] != ':' && !strstr(s, ": ") &&
           !strstr(s, " #");
}

static bool is_printable(const char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s < 0x20 || (unsigned char)*s > 0x7e) return false;
    return true;
}

static void print_text(const char *s, text *out)
{
    if (!is_printable(s)) {
        yaml_node_quote(s, out);
    } else if (is_plain(s)) {
        text_add(out, s);
    } else {
        text_add(out, "'");
        for (; *s; s++) text_addf(out, *s == '\'' ? "''" : "%c", *s);
        text_add(out, "'");
    }
}

static void print_scalar(const json_t *v, text *out)
{
    if (json_is_string(v))
        print_text(json_string_value(v), out);
    else if (json_is_integer(v))
        text_addf(out, "%lld", (long long)json_integer_value(v));
    else if (json_is_real(v))
        print_real(json_real_value(v), out);
    else if (json_is_boolean(v))
        text_add(out, json_is_true(v) ? "true" : "false");
    else
        text_add(out, json_is_null(v) ? "null" : json_is_array(v) ? "[]" : "{}");
}

static int compare_keys(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

// Lists the keys of an object in order. The caller frees *out; the keys are borrowed.
static status sort_keys(const json_t *object, const char ***out, err *e)
{
    size_t count = 0;
    const char *key;
    json_t *value;
    const status result =
        alloc_array(out, json_object_size(object), sizeof **out, "the keys of a file", e);
    if (result != OK) return result;
    json_object_foreach((json_t *)object, key, value)(*out)[count++] = key;
    qsort(*out, count, sizeof **out, compare_keys);
    return OK;
}

static bool is_block(const json_t *v)
{
    return (json_is_object(v) && json_object_size(v)) || (json_is_array(v) && json_array_size(v));
}

static void print_block(const json_t *v, int indent, text *out);

static void print_list(const json_t *list, int indent, text *out)
{
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item)
    {
        text_addf(out, "%*s- ", indent, "");
        if (is_block(item)) {
            // The first line of the item stands behind the dash.
            text below = {0};
            print_block(item, indent + 2, &below);
            if (below.failed) text_fail(out);
            if (below.bytes) text_add(out, below.chars + indent + 2);
            text_clear(&below);
        } else {
            print_scalar(item, out);
            text_add(out, "\n");
        }
    }
}

static void print_block(const json_t *v, int indent, text *out)
{
    const char **keys = NULL;
    if (json_is_array(v)) {
        print_list(v, indent, out);
        return;
    }
    if (sort_keys(v, &keys, NULL) != OK) {
        text_fail(out);
        return;
    }
    for (size_t i = 0; i < json_object_size(v); i++) {
        const json_t *value = json_object_get(v, keys[i]);
        text_addf(out, "%*s", indent, "");
        print_text(keys[i], out);
        text_add(out, is_block(value) ? ":\n" : ": ");
        if (is_block(value)) {
            print_block(value, indent + (json_is_object(value) ? 2 : 0), out);
        } else {
            print_scalar(value, out);
            text_add(out, "\n");
        }
    }
    free(keys);
}

void accelerate_print(const json_t *config, bool as_json, text *out)
{
    if (!as_json) {
        if (is_block(config)) print_block(config, 0, out);
        return;
    }
    char *chars = json_dumps(config, JSON_INDENT(2) | JSON_SORT_KEYS | JSON_ENSURE_ASCII);
    if (!chars) text_fail(out);
    text_addf(out, "%s\n", chars ? chars : "");
    free(chars);
}

void accelerate_print_python(const json_t *v, text *out)
{
    size_t i;
    int count = 0;
    json_t *item;
    const char *key;
    if (json_is_string(v)) {
        text_addf(out, "'%s'", json_string_value(v));
    } else if (json_is_array(v)) {
        text_add(out, "[");
        json_array_foreach(v, i, item)
        {
            if (i) text_add(out, ", ");
            accelerate_print_python(item, out);
        }
        text_add(out, "]");
    } else if (json_is_object(v)) {
        text_add(out, "{");
        json_object_foreach((json_t *)v, key, item)
        {
            text_addf(out, "%s'%s': ", count++ ? ", " : "", key);
            accelerate_print_python(item, out);
        }
        text_add(out, "}");
    } else if (json_is_boolean(v)) {
        text_add(out, json_is_true(v) ? "True" : "False");
    } else if (json_is_null(v)) {
        text_add(out, "None");
    } else {
        print_scalar(v, out);
    }
}
