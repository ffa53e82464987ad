// mutate.c -- see mutate.h.
#include "mutate.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS_MOST = 4096, WORD_MOST = 48 };

// ---- The corpus

static int by_name(const void *a, const void *b)
{
    return strcmp(((const corpus_file *)a)->name, ((const corpus_file *)b)->name);
}

static void *must(void *p, const char *what)
{
    if (p) return p;
    perror(what);
    exit(2);
}

static void read_file(const char *folder, const char *name, corpus_file *out)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = must(fopen(path, "rb"), path);
    *out = (corpus_file){.name = must(strdup(name), path), .bytes = must(malloc(INPUT_MOST), path)};
    out->count = fread(out->bytes, 1, INPUT_MOST, f);
    fclose(f);
}

static bool is_word(int c)
{
    return isalnum(c) || c == '_' || c == '.' || c == '-' || c >= 128;
}

static void take_words(corpus *c, const corpus_file *f)
{
    for (size_t at = 0, end; at < f->count && c->words < WORDS_MOST; at = end + 1) {
        for (end = at; end < f->count && is_word(f->bytes[end]);) end++;
        if (end - at < 2 || end - at > WORD_MOST) continue;
        char *word = must(strndup((const char *)f->bytes + at, end - at), "a word");
        bool known = false;
        for (int i = 0; i < c->words && !known; i++) known = strcmp(c->word[i], word) == 0;
        if (known)
            free(word);
        else
            c->word[c->words++] = word;
    }
}

void corpus_open(const char *folder, corpus *out)
{
    DIR *d = must(opendir(folder), folder);
    *out = (corpus){.word = must(calloc(WORDS_MOST, sizeof *out->word), folder)};
    for (struct dirent *entry = readdir(d); entry; entry = readdir(d)) {
        if (entry->d_name[0] == '.') continue;
        out->file = must(realloc(out->file, (size_t)(out->files + 1) * sizeof *out->file), folder);
        read_file(folder, entry->d_name, &out->file[out->files++]);
    }
    closedir(d);
    if (!out->files) {
        fprintf(stderr, "%s: no files in it\n", folder);
        exit(2);
    }
    qsort(out->file, (size_t)out->files, sizeof *out->file, by_name);
    for (int i = 0; i < out->files; i++) take_words(out, &out->file[i]);
}

void corpus_close(corpus *c)
{
    for (int i = 0; i < c->files; i++) free(c->file[i].name), free(c->file[i].bytes);
    for (int i = 0; i < c->words; i++) free(c->word[i]);
    free(c->file);
    free(c->word);
}

// ---- Changes of an input

typedef struct input {
    const corpus *c;
    uint64_t random;
    uint8_t *bytes;
    size_t count;
} input;

static uint64_t draw(input *x, uint64_t below)
{
    x->random += UINT64_C(0x9e3779b97f4a7c15); // SplitMix64
    uint64_t z = x->random;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    z ^= z >> 31;
    return below ? z % below : 0;
}

// Puts `count` bytes in place of `gone` bytes at `at`; what does not fit is left out.
static void replace(input *x, size_t at, size_t gone, const void *bytes, size_t count)
{
    if (at > x->count) at = x->count;
    if (gone > x->count - at) gone = x->count - at;
    if (count > INPUT_MOST - (x->count - gone)) return;
    memmove(x->bytes + at + count, x->bytes + at + gone, x->count - at - gone);
    if (count) memcpy(x->bytes + at, bytes, count);
    x->count += count - gone;
}

// A short range, seldom a long one.
static size_t range(input *x, size_t at)
{
    const size_t left = x->count - at;
    return left ? 1 + (size_t)draw(x, draw(x, 8) && left > 32 ? 32 : left) : 0;
}

// `count` bytes of the same input, or of another one, to a new place.
static void copy_range(input *x, size_t at, size_t gone, bool other)
{
    static uint8_t kept[INPUT_MOST];
    const corpus_file *f = &x->c->file[draw(x, (uint64_t)x->c->files)];
    const uint8_t *from = other ? f->bytes : x->bytes;
    const size_t all = other ? f->count : x->count, begin = (size_t)draw(x, all);
    size_t count = all - begin ? 1 + (size_t)draw(x, all - begin) : 0;
    if (draw(x, 4) && count > 64) count = 1 + count % 64;
    memcpy(kept, from + begin, count);
    replace(x, at, gone, kept, count);
}

static void change_bytes(input *x)
{
    const size_t at = (size_t)draw(x, x->count + 1);
    uint8_t byte = (uint8_t)draw(x, 256);
    switch (draw(x, 8)) {
    case 0:
        if (at < x->count) x->bytes[at] ^= (uint8_t)(1 << draw(x, 8));
        break;
    case 1:
        replace(x, at, 1, &byte, 1);
        break;
    case 2:
        replace(x, at, 0, &byte, 1);
        break;
    case 3:
        replace(x, at, range(x, at), NULL, 0);
        break;
    case 4:
        copy_range(x, at, 0, false);
        break;
    case 5:
        copy_range(x, at, range(x, at), true);
        break;
    case 6:
        copy_range(x, at, 0, true);
        break;
    default:
        if (!draw(x, 4)) x->count = at; // cut off
    }
}

// ---- Words of binary files

static uint64_t odd_number(input *x)
{
    const uint64_t odd[] = {0,
                            1,
                            2,
                            7,
                            0x7f,
                            0x80,
                            0xff,
                            0x7fff,
                            0xffff,
                            0x7fffffff,
                            0x80000000,
                            0xffffffff,
                            UINT64_C(1) << 32,
                            INT64_MAX,
                            UINT64_C(1) << 63,
                            UINT64_MAX,
                            UINT64_MAX - 7,
                            x->count,
                            x->count + 1,
                            x->count - 1,
                            x->count / 2,
                            UINT64_C(1) << 61};
    return odd[draw(x, sizeof odd / sizeof *odd)];
}

static void change_word(input *x)
{
    const size_t width = (size_t)1 << draw(x, 4);
    if (x->count < width) return;
    size_t at = (size_t)draw(x, x->count - width + 1);
    if (draw(x, 2)) at = (size_t)draw(x, x->count - width < 64 ? x->count - width + 1 : 64);
    if (draw(x, 4)) at -= at % width;
    uint64_t word = 0;
    memcpy(&word, x->bytes + at, width);
    switch (draw(x, 3)) {
    case 0:
        word = odd_number(x);
        break;
    case 1:
        word += draw(x, 5) - 2;
        break;
    default:
        word = draw(x, 0) << draw(x, 64);
    }
    memcpy(x->bytes + at, &word, width);
}

// ---- Text

static const char *const STRINGS[] = {"0",
                                      "-1",
                                      "1",
                                      "2",
                                      "255",
                                      "256",
                                      "65536",
                                      "2147483647",
                                      "2147483648",
                                      "4294967296",
                                      "9223372036854775807",
                                      "9223372036854775808",
                                      "-9223372036854775808",
                                      "18446744073709551615",
                                      "18446744073709551616",
                                      "1000000000000000019884624838656",
                                      "1e5",
                                      "1e308",
                                      "1e309",
                                      "1e-320",
                                      "-0",
                                      "-0.0",
                                      "0.5",
                                      "1.5",
                                      "nan",
                                      "inf",
                                      "-inf",
                                      "0x10",
                                      "007",
                                      "64Mi",
                                      "10k",
                                      "9Ei",
                                      "30s",
                                      "1e400s",
                                      "null",
                                      "true",
                                      "false",
                                      "auto",
                                      "~",
                                      "",
                                      "\"\"",
                                      "[]",
                                      "{}",
                                      "[[]]",
                                      "\\u0000",
                                      "\\ud800",
                                      "\xff\xfe",
                                      "\xed\xa0\x80",
                                      "\xc2\x85",
                                      "\xe2\x80\xa8",
                                      "\xf0\x9f\x9a\xa2",
                                      "\x1b[31m",
                                      "\r\n",
                                      "\n",
                                      "\t",
                                      ",",
                                      ":",
                                      ": ",
                                      "- ",
                                      "#",
                                      "&a ",
                                      "*a",
                                      "<<: *a",
                                      "!!int ",
                                      "|\n",
                                      ">\n",
                                      "---\n",
                                      "%YAML 9\n",
                                      "'",
                                      "..",
                                      "../..",
                                      "a.b.c",
                                      "*",
                                      "%s%n"};

static const char *some_string(input *x)
{
    if (x->c->words && draw(x, 2)) return x->c->word[draw(x, (uint64_t)x->c->words)];
    return STRINGS[draw(x, sizeof STRINGS / sizeof *STRINGS)];
}

// The word or number around or after a random place.
static void find_word(input *x, size_t *at, size_t *count)
{
    size_t begin = (size_t)draw(x, x->count + 1);
    const bool number = draw(x, 2);
    while (begin < x->count && !(number ? isdigit(x->bytes[begin]) != 0 : is_word(x->bytes[begin])))
        begin++;
    while (begin > 0 && begin < x->count && is_word(x->bytes[begin - 1])) begin--;
    size_t end = begin;
    while (end < x->count && is_word(x->bytes[end])) end++;
    *at = begin, *count = end - begin;
}

static void find_line(input *x, size_t *at, size_t *count)
{
    size_t begin = (size_t)draw(x, x->count + 1);
    while (begin > 0 && x->bytes[begin - 1] != '\n') begin--;
    const uint8_t *end = memchr(x->bytes + begin, '\n', x->count - begin);
    *at = begin, *count = (end ? (size_t)(end - x->bytes) + 1 : x->count) - begin;
}

// From a bracket or quote to its partner.
static void find_group(input *x, size_t *at, size_t *count)
{
    size_t begin = (size_t)draw(x, x->count + 1);
    while (begin < x->count && !strchr("[{\"", x->bytes[begin] ? x->bytes[begin] : 'x')) begin++;
    size_t end = begin;
    int depth = 0;
    for (; end < x->count; end++) {
        const uint8_t b = x->bytes[end];
        if (x->bytes[begin] == '"') {
            depth = end == begin || b != '"';
        } else {
            depth += b == '[' || b == '{';
            depth -= b == ']' || b == '}';
        }
        if (depth <= 0) break;
    }
    if (end < x->count) end++;
    *at = begin, *count = end - begin;
}

// Brackets within brackets.
static void nest(input *x, size_t at)
{
    char deep[4096];
    const size_t count = 1 + (size_t)draw(x, sizeof deep);
    static const char *const kinds[] = {"[", "{", "]", "- ", "[{", "\"\\", "(", "a:"};
    const char *kind = kinds[draw(x, sizeof kinds / sizeof *kinds)];
    for (size_t i = 0; i < count; i++) deep[i] = kind[i % strlen(kind)];
    replace(x, at, 0, deep, count);
}

static void change_text(input *x)
{
    static uint8_t kept[INPUT_MOST];
    size_t at, count;
    const char *s = some_string(x);
    switch (draw(x, 12)) {
    case 0:
    case 1:
    case 2:
    case 3:
        find_word(x, &at, &count);
        replace(x, at, count, s, strlen(s));
        return;
    case 4:
        replace(x, (size_t)draw(x, x->count + 1), 0, s, strlen(s));
        return;
    case 5:
        find_line(x, &at, &count);
        break;
    case 6:
        find_word(x, &at, &count);
        break;
    case 7:
        if (!draw(x, 8)) nest(x, (size_t)draw(x, x->count + 1));
        return;
    case 8:
        find_group(x, &at, &count);
        replace(x, at, count, s, strlen(s));
        return;
    default:
        find_group(x, &at, &count);
    }
    // A line, word or group once more, here or elsewhere, or never.
    memcpy(kept, x->bytes + at, count);
    const uint64_t what = draw(x, 3);
    if (what == 0) replace(x, at, count, NULL, 0);
    if (what == 1) replace(x, at, 0, kept, count);
    if (what == 2) replace(x, (size_t)draw(x, x->count + 1), 0, kept, count);
}

size_t corpus_mutate(const corpus *c, uint64_t seed, uint64_t number, bool binary, uint8_t *out)
{
    input x = {.c = c, .random = seed * UINT64_C(0xd1342543de82ef95) + number, .bytes = out};
    draw(&x, 0);
    const corpus_file *f = &c->file[draw(&x, (uint64_t)c->files)];
    memcpy(out, f->bytes, f->count);
    x.count = f->count;
    for (uint64_t changes = 1 + draw(&x, draw(&x, 4) ? 3 : 12); changes > 0; changes--) {
        const uint64_t kind = draw(&x, 8);
        if (kind < 2)
            change_bytes(&x);
        else if (binary && kind < 6)
            change_word(&x);
        else
            change_text(&x);
    }
    return x.count;
}
