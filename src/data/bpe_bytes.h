// bpe_bytes.h -- the spelling of bytes in a byte-level vocabulary: each byte is one printable
// character (space is U+0120), so that a token is readable JSON whatever its bytes.
#ifndef TRIREME_DATA_BPE_BYTES_H
#define TRIREME_DATA_BPE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The character of a byte: 33-126, 161-172 and 174-255 are themselves; the other 68, in increasing
// order, are U+0100 and following.
uint32_t bpe_byte_character(uint8_t byte);
// The bytes in their spelling (UTF-8); `out` has room for 2 x bytes. Returns the length.
size_t bpe_spell(const char *at, size_t bytes, char *out);
// The bytes that a spelling stands for; `out` has room for `bytes`. False when a character of it
// stands for no byte.
bool bpe_unspell(const char *at, size_t bytes, char *out, size_t *length);

#endif
