// mutate.c -- reads a corpus and makes inputs of it; mutate.h describes how. fuzz_main.c calls it.
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
    return strcmp(((const fuzz_corpus_file *)a)->name, ((const fuzz_corpus_file *)b)->name);
}

static void *must(void *p, const char *what)
{
    if (p) return p;
    perror(what);
    exit(2);
}

static void read_file(const char *folder, const char *name, fuzz_corpus_file *out)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = must(fopen(path, "rb"), path);
    *out = (fuzz_corpus_file){.name = must(strdup(name), path),
                              .bytes = must(malloc(FUZZ_INPUT_MAX), path)};
    out->count = fread(out->bytes, 1, FUZZ_INPUT_MAX, f);
    fclose(f);
}

static bool is_word(int c)
{
    return isalnum(c) || c == '_' || c == '.' || c == '-' || c >= 128;
}

static void add_words(fuzz_corpus *c, const fuzz_corpus_file *f)
{
    for (size_t offset = 0, end; offset < f->count && c->words < WORDS_MOST; offset = end + 1) {
        for (end = offset; end < f->count && is_word(f->bytes[end]);) end++;
        if (end - offset < 2 || end - offset > WORD_MOST) continue;
        char *word = must(strndup((const char *)f->bytes + offset, end - offset), "a word");
        bool known = false;
        for (int i = 0; i < c->words && !known; i++) known = strcmp(c->word[i], word) == 0;
        if (known)
            free(word);
        else
            c->word[c->words++] = word;
    }
}

void fuzz_corpus_open(const char *folder, fuzz_corpus *out)
{
    DIR *d = must(opendir(folder), folder);
    *out = (fuzz_corpus){.word = must(calloc(WORDS_MOST, sizeof *out->word), folder)};
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
    for (int i = 0; i < out->files; i++) add_words(out, &out->file[i]);
}

void fuzz_corpus_close(fuzz_corpus *c)
{
    for (int i = 0; i < c->files; i++) free(c->file[i].name), free(c->file[i].bytes);
    for (int i = 0; i < c->words; i++) free(c->word[i]);
    free(c->file);
    free(c->word);
}

// ---- Changes of an input

typedef struct fuzz_input {
    const fuzz_corpus *c;
    uint64_t random;
    uint8_t *bytes;
    size_t count;
} fuzz_input;

static uint64_t draw(fuzz_input *x, uint64_t below)
{
    x->random += UINT64_C(0x9e3779b97f4a7c15); // SplitMix64
    uint64_t z = x->random;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    z ^= z >> 31;
    return below ? z % below : 0;
}

// Replaces `gone` bytes at `offset` by `count` bytes. Does nothing when the result would not fit.
static void replace(fuzz_input *x, size_t offset, size_t gone, const void *bytes, size_t count)
{
    if (offset > x->count) offset = x->count;
    if (gone > x->count - offset) gone = x->count - offset;
    if (count > FUZZ_INPUT_MAX - (x->count - gone)) return;
    memmove(x->bytes + offset + count, x->bytes + offset + gone, x->count - offset - gone);
    if (count) memcpy(x->bytes + offset, bytes, count);
    x->count += count - gone;
}

// The length of a random range, mostly a short one.
static size_t range(fuzz_input *x, size_t offset)
{
    const size_t left = x->count - offset;
    return left ? 1 + (size_t)draw(x, draw(x, 8) && left > 32 ? 32 : left) : 0;
}

// Copies a random range of this input, or of a file of the corpus, to `offset`.
static void copy_range(fuzz_input *x, size_t offset, size_t gone, bool other)
{
    static uint8_t kept[FUZZ_INPUT_MAX];
    const fuzz_corpus_file *f = &x->c->file[draw(x, (uint64_t)x->c->files)];
    const uint8_t *from = other ? f->bytes : x->bytes;
    const size_t all = other ? f->count : x->count, begin = (size_t)draw(x, all);
    size_t count = all - begin ? 1 + (size_t)draw(x, all - begin) : 0;
    if (draw(x, 4) && count > 64) count = 1 + count % 64;
    memcpy(kept, from + begin, count);
    replace(x, offset, gone, kept, count);
}

static void change_bytes(fuzz_input *x)
{
    const size_t offset = (size_t)draw(x, x->count + 1);
    uint8_t byte = (uint8_t)draw(x, 256);
    switch (draw(x, 8)) {
    case 0:
        if (offset < x->count) x->bytes[offset] ^= (uint8_t)(1 << draw(x, 8));
        break;
    case 1:
        replace(x, offset, 1, &byte, 1);
        break;
    case 2:
        replace(x, offset, 0, &byte, 1);
        break;
    case 3:
        replace(x, offset, range(x, offset), NULL, 0);
        break;
    case 4:
        copy_range(x, offset, 0, false);
        break;
    case 5:
        copy_range(x, offset, range(x, offset), true);
        break;
    case 6:
        copy_range(x, offset, 0, true);
        break;
    default:
        if (!draw(x, 4)) x->count = offset; // truncates
    }
}

// ---- Words of binary files

static uint64_t odd_number(fuzz_input *x)
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

static void change_word(fuzz_input *x)
{
    const size_t width = (size_t)1 << draw(x, 4);
    if (x->count < width) return;
    size_t offset = (size_t)draw(x, x->count - width + 1);
    if (draw(x, 2)) offset = (size_t)draw(x, x->count - width < 64 ? x->count - width + 1 : 64);
    if (draw(x, 4)) offset -= offset % width;
    uint64_t word = 0;
    memcpy(&word, x->bytes + offset, width);
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
    memcpy(x->bytes + offset, &word, width);
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

static const char *some_string(fuzz_input *x)
{
    if (x->c->words && draw(x, 2)) return x->c->word[draw(x, (uint64_t)x->c->words)];
    return STRINGS[draw(x, sizeof STRINGS / sizeof *STRINGS)];
}

// Finds the word or number at a random offset or after it.
static void find_word(fuzz_input *x, size_t *offset, size_t *count)
{
    size_t begin = (size_t)draw(x, x->count + 1);
    const bool number = draw(x, 2);
    while (begin < x->count && !(number ? isdigit(x->bytes[begin]) != 0 : is_word(x->bytes[begin])))
        begin++;
    while (begin > 0 && begin < x->count && is_word(x->bytes[begin - 1])) begin--;
    size_t end = begin;
    while (end < x->count && is_word(x->bytes[end])) end++;
    *offset = begin, *count = end - begin;
}

static void find_line(fuzz_input *x, size_t *offset, size_t *count)
{
    size_t begin = (size_t)draw(x, x->count + 1);
    while (begin > 0 && x->bytes[begin - 1] != '\n') begin--;
    const uint8_t *end = memchr(x->bytes + begin, '\n', x->count - begin);
    *offset = begin, *count = (end ? (size_t)(end - x->bytes) + 1 : x->count) - begin;
}

// Finds the range from a bracket or quote to its closing one.
static void find_group(fuzz_input *x, size_t *offset, size_t *count)
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
    *offset = begin, *count = end - begin;
}

// Inserts many opening brackets, or the like.
static void nest(fuzz_input *x, size_t offset)
{
    char deep[4096];
    const size_t count = 1 + (size_t)draw(x, sizeof deep);
    static const char *const kinds[] = {"[", "{", "]", "- ", "[{", "\"\\", "(", "a:"};
    const char *kind = kinds[draw(x, sizeof kinds / sizeof *kinds)];
    for (size_t i = 0; i < count; i++) deep[i] = kind[i % strlen(kind)];
    replace(x, offset, 0, deep, count);
}

static void change_text(fuzz_input *x)
{
    static uint8_t kept[FUZZ_INPUT_MAX];
    size_t offset, count;
    const char *s = some_string(x);
    switch (draw(x, 12)) {
    case 0:
    case 1:
    case 2:
    case 3:
        find_word(x, &offset, &count);
        replace(x, offset, count, s, strlen(s));
        return;
    case 4:
        replace(x, (size_t)draw(x, x->count + 1), 0, s, strlen(s));
        return;
    case 5:
        find_line(x, &offset, &count);
        break;
    case 6:
        find_word(x, &offset, &count);
        break;
    case 7:
        if (!draw(x, 8)) nest(x, (size_t)draw(x, x->count + 1));
        return;
    case 8:
        find_group(x, &offset, &count);
        replace(x, offset, count, s, strlen(s));
        return;
    default:
        find_group(x, &offset, &count);
    }
    // Removes a line, word or group, or copies it to the same or another position.
    memcpy(kept, x->bytes + offset, count);
    const uint64_t what = draw(x, 3);
    if (what == 0) replace(x, offset, count, NULL, 0);
    if (what == 1) replace(x, offset, 0, kept, count);
    if (what == 2) replace(x, (size_t)draw(x, x->count + 1), 0, kept, count);
}

size_t fuzz_mutate(const fuzz_corpus *c, uint64_t seed, uint64_t number, bool binary, uint8_t *out)
{
    fuzz_input x = {.c = c, .random = seed * UINT64_C(0xd1342543de82ef95) + number, .bytes = out};
    draw(&x, 0);
    const fuzz_corpus_file *f = &c->file[draw(&x, (uint64_t)c->files)];
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
