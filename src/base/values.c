// values.c -- the two forms of a document. See values.h. In JSON each value of the two outer levels has a line of its own.
#include "base/values.h"

#include <inttypes.h>
#include <string.h>

enum { LINES_DEPTH = 2 };

// The opcodes of protocol 2 that are used. A list or an object is opened with a mark, and its values are added at once
// when it is closed.
enum {
    OP_TRUE = 0x88,
    OP_FALSE = 0x89,
    OP_LONG1 = 0x8a,
    OP_INT = 'J',
    OP_DOUBLE = 'G',
    OP_TEXT = 'X',
    OP_NONE = 'N',
    OP_DICT = '}',
    OP_LIST = ']',
    OP_MARK = '(',
    OP_SETITEMS = 'u',
    OP_APPENDS = 'e',
    OP_STOP = '.',
};

static const char PROTOCOL_2[] = "\x80\x02"; // begins a pickle

static void add_op(values *v, int op)
{
    const char byte = (char)op;
    if (v->out.bytes == 0 && !v->out.failed) text_add_bytes(&v->out, PROTOCOL_2, 2);
    text_add_bytes(&v->out, &byte, 1);
}

static void add_number(values *v, uint64_t n, int bytes)
{
    char b[8];
    for (int i = 0; i < bytes; i++) b[i] = (char)(n >> (8 * i));
    text_add_bytes(&v->out, b, (size_t)bytes);
}

static bool is_json(const values *v)
{
    return v->form == VALUES_JSON;
}

// Before a value or a key.
static void begin(values *v)
{
    if (is_json(v) && v->follows) text_add(&v->out, v->depth <= LINES_DEPTH ? ",\n" : ", ");
    v->follows = true;
}

static void add_text(values *v, const char *s)
{
    text valid = {0};
    if (is_json(v)) {
        text_add_json(&v->out, s);
        return;
    }
    const bool is_utf8 = text_is_utf8(s, strlen(s), NULL);
    for (const char *c = s; *c; c++)
        if (!is_utf8 && (*c & 0x80))
            text_add(&valid, "\xef\xbf\xbd");
        else
            text_add_bytes(&valid, c, 1);
    if (valid.failed) text_fail(&v->out);
    add_op(v, OP_TEXT);
    add_number(v, valid.bytes, 4);
    text_add_bytes(&v->out, valid.chars ? valid.chars : "", valid.bytes);
    text_clear(&valid);
}

static void open(values *v, const char *json, int op)
{
    begin(v);
    v->follows = false;
    v->depth++;
    if (is_json(v)) {
        text_add(&v->out, json);
        return;
    }
    add_op(v, op);
    add_op(v, OP_MARK);
}

static void close(values *v, const char *json, int op)
{
    v->follows = true;
    v->depth--;
    if (is_json(v))
        text_add(&v->out, json);
    else
        add_op(v, op);
}

void values_open_object(values *v)
{
    open(v, "{", OP_DICT);
}

void values_close_object(values *v)
{
    close(v, "}", OP_SETITEMS);
}

void values_open_list(values *v)
{
    open(v, "[", OP_LIST);
}

void values_close_list(values *v)
{
    close(v, "]", OP_APPENDS);
}

void values_key(values *v, const char *key)
{
    begin(v);
    add_text(v, key);
    if (is_json(v)) text_add(&v->out, ": ");
    v->follows = false;
}

void values_text(values *v, const char *s)
{
    begin(v);
    add_text(v, s);
}

void values_int(values *v, int64_t n)
{
    begin(v);
    if (is_json(v)) {
        text_addf(&v->out, "%" PRId64, n);
    } else if (n >= INT32_MIN && n <= INT32_MAX) {
        add_op(v, OP_INT);
        add_number(v, (uint64_t)n, 4);
    } else {
        add_op(v, OP_LONG1);
        add_number(v, 8, 1);
        add_number(v, (uint64_t)n, 8);
    }
}

void values_double(values *v, double x)
{
    uint64_t bits, swapped = 0;
    begin(v);
    if (is_json(v)) {
        text_addf(&v->out, "%.9g", x);
        return;
    }
    memcpy(&bits, &x, sizeof bits);
    for (int i = 0; i < 8; i++) swapped = swapped << 8 | (bits >> (8 * i) & 0xff);
    add_op(v, OP_DOUBLE);
    add_number(v, swapped, 8);
}

void values_bool(values *v, bool b)
{
    begin(v);
    if (is_json(v))
        text_add(&v->out, b ? "true" : "false");
    else
        add_op(v, b ? OP_TRUE : OP_FALSE);
}

void values_none(values *v)
{
    begin(v);
    if (is_json(v))
        text_add(&v->out, "null");
    else
        add_op(v, OP_NONE);
}

void values_end(values *v)
{
    if (is_json(v))
        text_add(&v->out, "\n");
    else
        add_op(v, OP_STOP);
}
