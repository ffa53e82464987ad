// unicode.c -- see unicode.h; the tables are utf8proc's.
#include "jinja/unicode.h"

#include <utf8proc.h>

size_t jinja_decode(const char *s, size_t bytes, uint32_t *c)
{
    const unsigned char *p = (const unsigned char *)s;
    const size_t n = p[0] < 0x80 ? 1 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
    if (n == 1 || n > bytes) {
        *c = p[0];
        return 1;
    }
    *c = p[0] & (0xffu >> (n + 1));
    for (size_t i = 1; i < n; i++) *c = *c << 6 | (p[i] & 0x3f);
    return n;
}

size_t jinja_encode(uint32_t c, char *out)
{
    return (size_t)utf8proc_encode_char((utf8proc_int32_t)c, (utf8proc_uint8_t *)out);
}

size_t jinja_count(const char *s, size_t bytes)
{
    size_t n = 0;
    for (size_t i = 0; i < bytes; i++) n += ((unsigned char)s[i] & 0xc0) != 0x80;
    return n;
}

bool jinja_is_space(uint32_t c)
{
    if (c < 0x80) return (c >= 9 && c <= 13) || (c >= 28 && c <= 32);
    return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
           c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

static utf8proc_category_t category(uint32_t c)
{
    return utf8proc_category((utf8proc_int32_t)c);
}

bool jinja_is_alpha(uint32_t c)
{
    const utf8proc_category_t k = category(c);
    return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO;
}

bool jinja_is_digit(uint32_t c)
{
    return category(c) == UTF8PROC_CATEGORY_ND;
}

bool jinja_is_alnum(uint32_t c)
{
    const utf8proc_category_t k = category(c);
    return jinja_is_alpha(c) || (k >= UTF8PROC_CATEGORY_ND && k <= UTF8PROC_CATEGORY_NO);
}

bool jinja_is_upper(uint32_t c)
{
    return category(c) == UTF8PROC_CATEGORY_LU;
}

bool jinja_is_lower(uint32_t c)
{
    return category(c) == UTF8PROC_CATEGORY_LL;
}

bool jinja_is_printable(uint32_t c)
{
    const utf8proc_category_t k = category(c);
    return c == ' ' || (k != UTF8PROC_CATEGORY_CN && k < UTF8PROC_CATEGORY_ZS);
}

size_t jinja_change_case(uint32_t c, jinja_case to, uint32_t out[2])
{
    if (c == 0xdf && to != CASE_LOWER) {
        out[0] = 'S';
        out[1] = to == CASE_UPPER ? 'S' : 's';
        return 2;
    }
    const utf8proc_int32_t x = (utf8proc_int32_t)c;
    out[0] = (uint32_t)(to == CASE_LOWER   ? utf8proc_tolower(x)
                        : to == CASE_UPPER ? utf8proc_toupper(x)
                                           : utf8proc_totitle(x));
    return 1;
}
