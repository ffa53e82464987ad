// protobuf.h -- writes messages of Protocol Buffers, field after field, without a schema and without a library.
// Writers of TensorBoard's event files and of Perfetto's traces call it. It does not read messages, and it does not
// know which fields a message has.
#ifndef TRIREME_BASE_PROTOBUF_H
#define TRIREME_BASE_PROTOBUF_H

#include "base/text.h"

// A message that is being written is a text. Each function appends one field, whose number is from 1 to 2^29 - 1. A
// packed field of several numbers is a field of bytes that protobuf_add_varint has filled.
void protobuf_add_varint(text *t, uint64_t value);          // a bare number, without a field
void protobuf_add_uint(text *t, int field, uint64_t value); // varint: also int64, bool and enums
void protobuf_add_double(text *t, int field, double value); // fixed64
void protobuf_add_float(text *t, int field, float value);   // fixed32
void protobuf_add_fixed64(text *t, int field, uint64_t value);
void protobuf_add_bytes(text *t, int field, const void *data, size_t bytes); // also strings
// A message that has failed fails `t`, too.
void protobuf_add_message(text *t, int field, const text *message);

#endif
