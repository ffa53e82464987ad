// flags.h -- the flags of one command as a table: parsed, refused with "did you mean", and printed
// as help from the same rows.
#ifndef TRIREME_CMD_FLAGS_H
#define TRIREME_CMD_FLAGS_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef enum flag_kind {
    FLAG_SWITCH, // bool
    FLAG_TEXT,   // const char *, borrowed from argv
    FLAG_TEXTS,  // flag_texts: all arguments up to the next --flag; repeating the flag appends
    FLAG_COUNT,  // int64_t >= 0, with suffixes as in base/text.h
    FLAG_NUMBER, // double
} flag_kind;

typedef struct flag_texts {
    const char **at; // owned
    size_t count;
} flag_texts;

typedef struct flag {
    const char *name; // "--output-prefix" ('_' for '-' is accepted), or "-b, --minbytes"
    flag_kind kind;
    size_t offset;     // of the value in the command's struct
    const char *value; // what help calls the value, "FILE", or its words, "fp32|bf16"; NULL: switch
    const char *help;  // a sentence
} flag;

// The row that a word of the command line names ("--name", "--name=value", "-b", "-b8"), or NULL.
const flag *flag_find(const flag *flags, size_t count, const char *word);
const char *flag_long_name(const flag *f); // "--minbytes"

// Fills the struct `values` from argv[1…], which may hold `--name value` and `--name=value`.
// Arguments that belong to no flag go to *rest (NULL: none are valid). E_USAGE otherwise.
status flags_parse(const flag *flags, size_t count, int argc, char **argv, void *values,
                   flag_texts *rest, err *e);
// Takes the table's flags out of argv[1…] and leaves the rest in order: for commands that give all
// other arguments to a job. values NULL: the flags' values are not wanted.
status flags_take(const flag *flags, size_t count, int *argc, char **argv, void *values, err *e);
void flags_help(const flag *flags, size_t count, FILE *out);
void flag_texts_clear(flag_texts *t);

#endif
