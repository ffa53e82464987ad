// mutate.h -- inputs of a fuzz target, each a pure function of the corpus, a seed and a number: a
// file of the corpus, changed in a few places by rules that know numbers, words, lines and brackets
// of text, and words of binary files.
#ifndef TRIREME_TESTS_FUZZ_MUTATE_H
#define TRIREME_TESTS_FUZZ_MUTATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { INPUT_MOST = 1 << 18 }; // bytes of an input

typedef struct corpus_file {
    char *name;
    uint8_t *bytes;
    size_t count;
} corpus_file;

typedef struct corpus {
    corpus_file *file; // by name
    int files;
    char **word; // of all text in it: what stands between spaces, quotes and the like
    int words;
} corpus;

// Ends the program with exit code 2 where the folder cannot be read or is empty.
void corpus_open(const char *folder, corpus *out);
void corpus_close(corpus *c);

// Writes input `number` of `seed` to `out`, which has room for INPUT_MOST; returns its bytes.
size_t corpus_mutate(const corpus *c, uint64_t seed, uint64_t number, bool binary, uint8_t *out);

#endif
