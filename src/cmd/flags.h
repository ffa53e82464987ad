// flags.h -- the flags of one command as a table. Parsing, the "did you mean" of refusals and help
// read the same rows.
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
    const char **items; // [count] the array is owned, the texts are not
    size_t count, room;
} flag_texts;

typedef struct flag {
    const char *name; // "--output-prefix" ('_' for '-' is accepted), or "-b, --minbytes"
    flag_kind kind;
    size_t offset;     // of the value in the command's struct
    const char *value; // help's name of the value, "FILE", or its words, "fp32|bf16"; NULL: switch
    const char *help;  // what the flag does, its unit and its default, in a sentence
} flag;

// The row of a word of the command line ("--name", "--name=value", "-b", "-b8"), or NULL.
const flag *flag_find(const flag *flags, size_t count, const char *word);
const char *flag_long_name(const flag *f); // "--minbytes"

// Fills the struct `values` from argv[1…], which may hold `--name value` and `--name=value`.
// Arguments that belong to no flag go to *rest; with rest NULL they are E_USAGE. So are unknown
// flags and invalid values.
status flags_parse(const flag *flags, size_t count, int argc, char **argv, void *values,
                   flag_texts *rest, err *e);
// The same for a command that runs a program: flags end at the first argument that is neither a flag nor its
// value, or behind "--". As under argparse, the beginning of a flag's name stands for it where it is unique. *first is the index of what follows; argc where nothing does.
status flags_parse_leading(const flag *flags, size_t count, int argc, char **argv, void *values,
                           int *first, err *e);
// Gives flags the values of environment variables: <prefix>NODE_RANK is that of --node-rank. A switch takes
// true, yes, on or 1 and their opposites.
status flags_read_environment(const flag *flags, size_t count, const char *prefix, void *values,
                              err *e);
// Removes the table's flags from argv[1…] and leaves the other arguments in order, for commands
// that give those to a job. With values NULL the flags are removed and their values dropped.
status flags_take(const flag *flags, size_t count, int *argc, char **argv, void *values, err *e);
// The number of a flag's word in `words`, which NULL ends; 0 for NULL, the flag that is not given. E_USAGE lists them.
status flags_read_word(const char *name, const char *word, const char *const *words, int *out,
                       err *e);
void flags_help(const flag *flags, size_t count, FILE *out);
void flag_texts_clear(flag_texts *t);

#endif
