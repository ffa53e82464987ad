// protobuf.c -- see protobuf.h.
#include "base/protobuf.h"

#include <string.h>

enum { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };

void protobuf_add_varint(text *t, uint64_t value)
{
    unsigned char bytes[10];
    size_t count = 0;
    while (value > 127) {
        bytes[count++] = (unsigned char)(value & 127) | 128;
        value >>= 7;
    }
    bytes[count++] = (unsigned char)value;
    text_add_bytes(t, bytes, count);
}

static void add_key(text *t, int field, int wire)
{
    protobuf_add_varint(t, (uint64_t)field << 3 | (unsigned)wire);
}

// Adds the low `count` bytes of the number, the lowest first.
static void add_fixed(text *t, uint64_t value, size_t count)
{
    unsigned char bytes[8];
    for (size_t i = 0; i < count; i++) bytes[i] = (unsigned char)(value >> 8 * i);
    text_add_bytes(t, bytes, count);
}

void protobuf_add_uint(text *t, int field, uint64_t value)
{
    add_key(t, field, WIRE_VARINT);
    protobuf_add_varint(t, value);
}

void protobuf_add_fixed64(text *t, int field, uint64_t value)
{
    add_key(t, field, WIRE_FIXED64);
    add_fixed(t, value, sizeof value);
}

void protobuf_add_double(text *t, int field, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    protobuf_add_fixed64(t, field, bits);
}

void protobuf_add_float(text *t, int field, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    add_key(t, field, WIRE_FIXED32);
    add_fixed(t, bits, sizeof bits);
}

void protobuf_add_bytes(text *t, int field, const void *data, size_t bytes)
{
    add_key(t, field, WIRE_BYTES);
    protobuf_add_varint(t, bytes);
    if (bytes) text_add_bytes(t, data, bytes);
}

void protobuf_add_message(text *t, int field, const text *message)
{
    if (message->failed) text_fail(t);
    protobuf_add_bytes(t, field, message->chars, message->bytes);
}
