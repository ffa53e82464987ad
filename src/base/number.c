// number.c -- reads numbers that people write: counts with exponents and suffixes, durations, yes
// and no. Configuration and command lines call it. It assumes the decimal point of the C locale.
#include "base/text.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

// An exact decimal number: digits * 10^exponent.
typedef struct decimal {
    bool negative;
    uint64_t digits;
    int exponent;
} decimal;

// Reads digits, which may have '_' between them. *count is the number of digits. Returns false if
// the number overflows 64 bits.
static bool read_digits(const char **s, decimal *d, int *count)
{
    *count = 0;
    for (;; (*s)++) {
        if (**s == '_' && *count > 0 && isdigit((unsigned char)(*s)[1])) continue;
        if (!isdigit((unsigned char)**s)) return true;
        uint64_t digit = (uint64_t)(**s - '0');
        if (d->digits > (UINT64_MAX - digit) / 10) return false;
        d->digits = d->digits * 10 + digit;
        (*count)++;
    }
}

static bool read_exponent(const char **s, decimal *d)
{
    const char *p = *s;
    if (*p != 'e' && *p != 'E') return true;
    p++;
    bool negative = *p == '-';
    if (*p == '-' || *p == '+') p++;
    if (!isdigit((unsigned char)*p)) return false;
    int value = 0;
    for (; isdigit((unsigned char)*p); p++) {
        value = value * 10 + (*p - '0');
        if (value > 1000) return false;
    }
    d->exponent += negative ? -value : value;
    *s = p;
    return true;
}

static bool read_decimal(const char **s, decimal *d)
{
    *d = (decimal){0};
    const char *p = *s;
    int whole = 0, fraction = 0;
    if (*p == '-' || *p == '+') d->negative = *p++ == '-';
    if (!read_digits(&p, d, &whole)) return false;
    if (*p == '.') {
        p++;
        if (!read_digits(&p, d, &fraction)) return false;
        d->exponent = -fraction;
    }
    if (whole + fraction == 0 || !read_exponent(&p, d)) return false;
    *s = p;
    return true;
}

// Computes digits * 10^exponent * unit. Returns false if the result is not whole or overflows.
static bool decimal_to_count(decimal d, int64_t unit, int64_t *out)
{
    unsigned __int128 value = (unsigned __int128)d.digits * (uint64_t)unit;
    for (; d.exponent > 0 && value; d.exponent--) {
        if (value > INT64_MAX) return false;
        value *= 10;
    }
    for (; d.exponent < 0 && value; d.exponent++) {
        if (value % 10) return false;
        value /= 10;
    }
    if (value > INT64_MAX) return false;
    *out = d.negative ? -(int64_t)value : (int64_t)value;
    return true;
}

bool text_to_count(const char *s, int64_t *out)
{
    static const struct {
        const char *suffix;
        int64_t unit;
    } units[] = {{"", 1},
                 {"k", 1000},
                 {"K", 1000},
                 {"M", 1000000},
                 {"G", 1000000000},
                 {"T", 1000000000000},
                 {"Ki", INT64_C(1) << 10},
                 {"Mi", INT64_C(1) << 20},
                 {"Gi", INT64_C(1) << 30},
                 {"Ti", INT64_C(1) << 40}};
    decimal d;
    if (!read_decimal(&s, &d)) return false;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (strcmp(s, units[i].suffix) == 0) return decimal_to_count(d, units[i].unit, out);
    return false;
}

bool text_to_duration_ms(const char *s, int64_t *out)
{
    static const struct {
        const char *suffix;
        int64_t ms;
    } units[] = {{"", 1000}, {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}};
    decimal d;
    if (!read_decimal(&s, &d)) return false;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (strcmp(s, units[i].suffix) == 0) return decimal_to_count(d, units[i].ms, out);
    return false;
}

bool text_to_double(const char *s, double *out)
{
    // strtod also accepts blanks, hexadecimal, "nan" and "infinity". This function refuses them.
    if (!*s || strspn(s, "0123456789+-.eE") != strlen(s)) return false;
    char *end;
    double value = strtod(s, &end);
    if (*end || !isfinite(value)) return false;
    *out = value;
    return true;
}

bool text_to_bool(const char *s, bool *out)
{
    static const char *const words[] = {"false", "true", "no", "yes", "off", "on", "0", "1"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcasecmp(s, words[i]) == 0) {
            *out = i % 2 == 1;
            return true;
        }
    }
    return false;
}
