// private.h -- functions that the files of dialect/ share. Private to config/dialect/.
#ifndef TRIREME_CONFIG_DIALECT_PRIVATE_H
#define TRIREME_CONFIG_DIALECT_PRIVATE_H

#include "config/dialect/dialect.h"

// ---- Rows of tables
//
// _WITH takes further fields, as .words = WORDS. Numbers of SETS are at least `low`, 0 by default.

#define SETS(path, kind, default, key) SETS_WITH(path, kind, default, key, .low = 0)
#define SETS_WITH(path, kind, default, key, ...)                                                   \
    {                                                                                              \
        .theirs = (path), .type = (kind), .fallback = (default), .effect = EFFECT_SETS,            \
        .ours = (key), __VA_ARGS__                                                                 \
    }
#define READ(path, kind, default) READ_WITH(path, kind, default, .low = -1e300)
#define READ_WITH(path, kind, default, ...)                                                        \
    {                                                                                              \
        .theirs = (path), .type = (kind), .fallback = (default), .effect = EFFECT_READ,            \
        __VA_ARGS__                                                                                \
    }
#define UNEQUAL(path, kind, default, what, why)                                                    \
    {                                                                                              \
        .theirs = (path), .type = (kind), .fallback = (default), .effect = (what), .note = (why),  \
        .low = -1e300                                                                              \
    }
// The same of a value that an option gives, too.
#define OPTION(option_name, path, kind, default, what, why)                                        \
    OPTION_WITH(option_name, path, kind, default, what, why, .low = -1e300)
#define OPTION_WITH(option_name, path, kind, default, what, why, ...)                              \
    {                                                                                              \
        .theirs = (path), .option = (option_name), .type = (kind), .fallback = (default),          \
        .effect = (what), .note = (why), __VA_ARGS__                                               \
    }
#define NOTHING(path, kind, default, why) UNEQUAL(path, kind, default, EFFECT_NOTHING, why)
#define LOST(path, kind, default, why)    UNEQUAL(path, kind, default, EFFECT_LOST, why)
#define REFUSED(path, kind, default, why) UNEQUAL(path, kind, default, EFFECT_REFUSED, why)
// The same where the value `equal` loses nothing, and they have no default.
#define UNEQUAL_BUT(path, kind, equal, what, why)                                                  \
    {                                                                                              \
        .theirs = (path), .type = (kind), .effect = (what), .note = (why), .same = (equal),        \
        .low = -1e300                                                                              \
    }
// A section whose unknown keys are errors, and one whose unknown keys their reader ignores.
#define SECTION(path)                                                                              \
    {                                                                                              \
        .theirs = (path), .type = DIALECT_SECTION, .effect = EFFECT_READ                           \
    }
#define OPEN_SECTION(path)                                                                         \
    {                                                                                              \
        .theirs = (path), .type = DIALECT_SECTION, .effect = EFFECT_READ, .ignores_other = true    \
    }

enum { LINE_OPTION = -1 }; // the line of a value that an option gives

// Parses the text of a file as its system reads it: JSON, YAML or a script.
status dialect_parse(const dialect *d, const char *path, const char *content, size_t bytes,
                     yaml_node **out, err *e);
// Reads the file of a reader, or nothing where it has none, with given values [count] over it.
status dialect_read_with(dialect_reader r, const dialect_given *given, size_t count, err *e);
// Leaves out all but the last of the values that a file gives a key, as PyYAML does, with a remark.
status dialect_keep_last(const dialect_reader *r, yaml_node *root, err *e);
// Puts given values [count] into a tree. Their line is LINE_OPTION, or that of the "auto" which they stand for.
status dialect_put_given(yaml_node *root, const dialect_given *given, size_t count, err *e);
// Replaces what stands at a path, whose line stays; "null" leaves it out. Does nothing where nothing stands there.
status dialect_replace(yaml_node *root, const char *theirs, const char *value, err *e);
// Gives keys of sections the beginning that their names lack.
status dialect_add_begun(const dialect *d, yaml_node *root, err *e);
// Appends the text that URL-safe base64 means. Returns false for what is no base64 of a JSON object.
bool dialect_decode_base64(const char *s, text *out);
const dialect_row *dialect_row_of_key(const dialect *d, const char *theirs); // NULL: unknown
// The row behind `row` of a dialect and of those that it is based on, whose rows it may hide. NULL: the first; the last
// one is followed by NULL.
const dialect_row *dialect_next_row(const dialect *d, const dialect_row *row);
// Appends "; did you mean stage?", or the keys of the section, which is "" at the top, where none is near.
status dialect_suggest(const dialect *d, const char *section, const char *word, text *out, err *e);
const yaml_node *dialect_node(const yaml_node *map,
                              const char *path);    // at a dotted path; NULL: none
bool dialect_to_number(const char *s, double *out); // also 500_000, as YAML 1.1 reads it
bool dialect_node_is_auto(const yaml_node *n);
// The line of a key, or of the section that it would stand in; 0: none.
int dialect_line_of(const dialect_reader *r, const char *theirs);
// Puts the place of a key before the text of *e. Always E_USAGE.
status dialect_refuse_at(const dialect_reader *r, int line, const char *theirs, err *e);
void dialect_make_printable(err *e); // one line, whatever it quotes; NULL allowed
status dialect_add_remark(const dialect_reader *r, int line, const char *theirs, bool lost,
                          const char *what, err *e);
// dialect_set, with whether the value is a default of theirs.
status dialect_put_setting(const dialect_reader *r, const char *key, const char *value,
                           const char *theirs, const char *note, bool is_default, err *e);
// dialect_set to a number.
status dialect_set_number(const dialect_reader *r, const char *key, double value,
                          const char *theirs, const char *note, err *e);
// dialect_set to a whole number.
status dialect_set_count(const dialect_reader *r, const char *key, int64_t value,
                         const char *theirs, const char *note, err *e);
// Our word for the value of a row with words, or for its default; NULL: neither, or it has no equal.
const char *dialect_our_word(const dialect_reader *r, const char *theirs);
// The row of an option of a command line, named without its dashes; NULL: unknown. In a dialect of arguments alone, the
// keys are the options.
const dialect_row *dialect_row_of_option(const dialect *d, const char *option);
void dialect_add_option(const char *option, text *out); // "data_path" as --data-path
// Appends a key as its system spells it: an option where files hold arguments, else the path.
void dialect_add_key(const dialect *d, const char *theirs, text *out);
// Make a tree of arguments: "--num-layers 2" and "--num_layers=2" become the key num_layers. A row that is a truth value
// takes no argument, a list takes all up to the next option, and so does a row of any type. line[argc] are the arguments' lines in a file; NULL: none.
status dialect_parse_arguments(const dialect *d, int argc, char *const *argv, const int *line,
                               yaml_node **out, err *e);
// The same of a script that starts a run, or an argument file (shell.h). Where the dialect has a row "launcher", the
// options before the program make a map of this name.
status dialect_parse_shell(const dialect *d, const char *name, const char *s, size_t bytes,
                           yaml_node **out, err *e);

#endif
