// bpe_bytes.h -- how a byte-level vocabulary spells bytes: each byte is one printable character (the
// space is U+0120), so that every token is readable JSON.
#ifndef TRIREME_DATA_BPE_BYTES_H
#define TRIREME_DATA_BPE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The character of a byte. The bytes 33-126, 161-172 and 174-255 spell themselves; the other 68
// bytes, in increasing order, are U+0100 and the characters after it.
uint32_t bpe_byte_character(uint8_t byte);
// Spells bytes as UTF-8; `out` has room for 2 * bytes. Returns the length.
size_t bpe_spell(const char *raw, size_t bytes, char *out);
// Converts a spelling back to its bytes; `out` has room for `bytes`. False when one of the
// characters spells no byte.
bool bpe_unspell(const char *spelling, size_t bytes, char *out, size_t *length);

#endif
