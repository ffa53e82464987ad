// bpe_bytes.c -- the one-to-one map between bytes and the characters of a byte-level vocabulary.
// Loading, training and the look-up of whole words call it. It does not know tokens.
#include "data/tokenizer/bpe/bpe_bytes.h"

uint32_t bpe_byte_character(uint8_t byte)
{
    if (byte <= 32) return 256u + byte;
    if (byte >= 127 && byte <= 160) return 256u + 33 + (byte - 127u);
    if (byte == 173) return 256u + 67;
    return byte;
}

static bool byte_of(uint32_t character, uint8_t *byte)
{
    if (character >= 256 && character < 256 + 33)
        *byte = (uint8_t)(character - 256);
    else if (character >= 256 + 33 && character < 256 + 67)
        *byte = (uint8_t)(character - 289 + 127);
    else if (character == 256 + 67)
        *byte = 173;
    else if (character < 256 && bpe_byte_character((uint8_t)character) == character)
        *byte = (uint8_t)character;
    else
        return false;
    return true;
}

size_t bpe_spell(const char *raw, size_t bytes, char *out)
{
    size_t n = 0;
    for (size_t i = 0; i < bytes; i++) {
        uint32_t character = bpe_byte_character((uint8_t)raw[i]);
        if (character < 0x80) {
            out[n++] = (char)character;
        } else {
            out[n++] = (char)(0xC0 | character >> 6);
            out[n++] = (char)(0x80 | (character & 0x3F));
        }
    }
    return n;
}

bool bpe_unspell(const char *spelling, size_t bytes, char *out, size_t *length)
{
    size_t n = 0;
    for (size_t i = 0; i < bytes; n++) {
        uint32_t character = (uint8_t)spelling[i++];
        if (character >= 0xE0) return false; // three or more bytes encode a character above U+07FF
        if (character >= 0x80) {
            if (i == bytes) return false;
            character = (character & 0x1F) << 6 | ((uint8_t)spelling[i++] & 0x3F);
        }
        uint8_t byte;
        if (!byte_of(character, &byte)) return false;
        out[n] = (char)byte;
    }
    *length = n;
    return true;
}
