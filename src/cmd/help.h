// help.h -- the rows of commands and keys as text: for people, as a manual page, and as the words
// that complete a command line.
#ifndef TRIREME_CMD_HELP_H
#define TRIREME_CMD_HELP_H

#include "cmd/command.h"

// Prints what a command does, how it is called, and its flags, or its parts.
void help_command(const command *c, const char *title, FILE *out);
// Prints one flag of the command, or one key or section of the job file when it takes a job. What
// stands in argv[1…] beside the command's own flags is then a job: the key's value in it and where
// that came from are printed too. E_USAGE for an unknown word (did you mean …) and for a job that
// cannot be opened.
status help_topic(const command *c, const char *title, const char *word, int argc, char **argv,
                  err *e);
// Prints the manual page trireme(1) as troff.
void help_manual(FILE *out);

// Prints sentences in lines of at most 100 columns, all indented.
void help_wrap(const char *sentences, int indent, FILE *out);

#endif
