// help.h -- prints the rows of commands and keys as help for people and as a manual page.
#ifndef TRIREME_CMD_HELP_H
#define TRIREME_CMD_HELP_H

#include "cmd/command.h"

// Prints what a command does, its usage, and its flags or its subcommands.
void help_command(const command *c, const char *title, FILE *out);
// Prints one flag of the command. If the command takes a job, the word may also be a key or section
// of the job file. Then argv[1…], without the command's own flags, is a job, and the key's value in
// that job and its origin are printed too. E_USAGE for an unknown word (did you mean …) and for a
// job that cannot be opened.
status help_topic(const command *c, const char *title, const char *word, int argc, char **argv,
                  err *e);
// Lists the keys of the job file and the commands that speak of a word. Returns false where none does.
bool help_search_word(const char *word, FILE *out);
// Prints the manual page trireme(1) as troff.
void help_manual(FILE *out);

// Prints sentences in indented lines of at most 100 columns.
void help_wrap(const char *sentences, int indent, FILE *out);

#endif
