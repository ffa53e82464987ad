// mutate.h -- makes the inputs of a fuzz target. An input is a pure function of the corpus, a seed and
// a number: a file of the corpus, changed at a few positions by rules for the numbers, words, lines
// and brackets of text and for the words of binary files.
#ifndef TRIREME_TESTS_FUZZ_MUTATE_H
#define TRIREME_TESTS_FUZZ_MUTATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FUZZ_INPUT_MAX = 1 << 18 }; // bytes

typedef struct fuzz_corpus_file {
    char *name;
    uint8_t *bytes;
    size_t count;
} fuzz_corpus_file;

typedef struct fuzz_corpus {
    fuzz_corpus_file *file; // by name
    int files;
    char **word; // [words] the words of all files, which spaces, quotes and the like separate
    int words;
} fuzz_corpus;

// Reads all files of a folder. Ends the program with exit code 2 when the folder cannot be read or is
// empty.
void fuzz_corpus_open(const char *folder, fuzz_corpus *out);
void fuzz_corpus_close(fuzz_corpus *c);

// Makes input `number` of `seed` in out [FUZZ_INPUT_MAX]. Returns its size in bytes.
size_t fuzz_mutate(const fuzz_corpus *c, uint64_t seed, uint64_t number, bool binary, uint8_t *out);

#endif
