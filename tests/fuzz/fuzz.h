// fuzz.h -- a fuzz target hands arbitrary bytes to the code that reads a kind of file (or the
// arguments of a command). The code must accept the bytes or refuse them with one line. It must not
// crash, read outside of its memory, hang, or accept a file that it cannot write and read again.
//
// Each target_NAME.c becomes a program fuzz_NAME, with the driver of fuzz_main.c or with libFuzzer.
#ifndef TRIREME_TESTS_FUZZ_H
#define TRIREME_TESTS_FUZZ_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct fuzz_target {
    bool binary;        // the input is not text: numbers are words of 1 to 8 bytes
    void (*open)(void); // NULL allowed; called once, before the first input
    bool (*run)(const uint8_t *input, size_t bytes); // returns whether the input was accepted
    // NULL allowed. Changes a mutated input in place so that it passes the first check of the reader.
    void (*mend)(uint8_t *input, size_t bytes);
} fuzz_target;

extern const fuzz_target fuzz_this; // each program defines it

// Makes the scratch folder and opens the target.
void fuzz_begin(void);
void fuzz_end(void); // removes the scratch folder

// A path in the scratch folder; valid until the fourth call after this one.
const char *fuzz_path(const char *name);
void fuzz_put(const char *name, const void *bytes, size_t count); // writes that file

// Checks the error of a refused input: it has a text, and its code blames the input or the system.
// The text may quote the input unescaped, because the code that prints it escapes it.
void fuzz_refused(status s, const err *e);

// When the claim is false, prints it and ends the program as a crash would.
#define FUZZ_CLAIM(holds, ...)                                                                     \
    do {                                                                                           \
        if (!(holds)) fuzz_broken(#holds, __VA_ARGS__);                                            \
    } while (0)
void fuzz_broken(const char *claim, const char *format, ...) __attribute__((format(printf, 2, 3)))
__attribute__((noreturn));

#endif
