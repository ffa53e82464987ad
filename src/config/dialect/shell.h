// shell.h -- the words of the command in a script that starts a run. Private to config/dialect/.
#ifndef TRIREME_CONFIG_DIALECT_SHELL_H
#define TRIREME_CONFIG_DIALECT_SHELL_H

#include "base/text.h"

typedef struct shell_words {
    char **word; // [count]
    int *line;   // [count] of the file
    size_t count, room;
} shell_words;

// Start with {0}; the owner calls shell_command_clear.
typedef struct shell_command {
    shell_words launcher; // before the program: torchrun and its options
    shell_words argument;
    bool has_program; // false: an argument file
    char *program;    // its word; NULL: none
} shell_command;

void shell_words_clear(shell_words *w);
void shell_command_clear(shell_command *c);

// Reads a script: assignments to scalars and lists, $NAME, ${NAME}, ${NAME[@]} and ${NAME:-text}, quotes, comments, lines
// that go on, redirections, documents. Its command is the one that has a word *.py, or the word behind the name of a command
// with subcommands (NULL: none); the words after it are the arguments. Without one, the file is an argument file, in which each line that begins with an option gives arguments. E_USAGE
// "name:line: …" for broken quotes, a second command, and an argument that only a shell or the environment can replace.
status shell_read(const char *name, const char *s, size_t bytes, const char *command,
                  shell_command *out, err *e);

#endif
