// fuzz.h -- what a fuzz target is: bytes that stand for a file (or the arguments of a command) are
// handed to the code that reads such a file. Whatever they are, the code accepts them or refuses
// them with one line; it does not crash, read outside of its memory, hang, or accept what it cannot
// write and read again.
//
// Each target_NAME.c becomes a program fuzz_NAME, with the driver of fuzz_main.c or with libFuzzer.
#ifndef TRIREME_TESTS_FUZZ_H
#define TRIREME_TESTS_FUZZ_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct fuzz_target {
    bool binary;                                     // not text: numbers are words of 1 to 8 bytes
    void (*open)(void);                              // NULL allowed; once, before the first input
    bool (*run)(const uint8_t *input, size_t bytes); // were they accepted?
    // NULL allowed; makes a mutated input pass the first check of the reader, in place.
    void (*mend)(uint8_t *input, size_t bytes);
} fuzz_target;

extern const fuzz_target fuzz_this; // of the program

// Makes the scratch folder and opens the target.
void fuzz_begin(void);
void fuzz_end(void); // removes the scratch folder

// A path in the scratch folder; valid until the fourth call after this one.
const char *fuzz_path(const char *name);
void fuzz_put(const char *name, const void *bytes, size_t count); // writes that file

// The error of a refused input has a text and is a fault of the input or of the system. What it
// repeats of the input is escaped where it is printed, not here.
void fuzz_refused(status s, const err *e);

// Ends the program as a crash would, after a line that says what does not hold.
#define FUZZ_CLAIM(holds, ...)                                                                     \
    do {                                                                                           \
        if (!(holds)) fuzz_broken(#holds, __VA_ARGS__);                                            \
    } while (0)
void fuzz_broken(const char *claim, const char *format, ...) __attribute__((format(printf, 2, 3)))
__attribute__((noreturn));

#endif
