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
#define NOTHING(path, kind, default, why) UNEQUAL(path, kind, default, EFFECT_NOTHING, why)
#define LOST(path, kind, default, why)    UNEQUAL(path, kind, default, EFFECT_LOST, why)
#define REFUSED(path, kind, default, why) UNEQUAL(path, kind, default, EFFECT_REFUSED, why)
// A section whose unknown keys are errors, and one whose unknown keys their reader ignores.
#define SECTION(path)                                                                              \
    {                                                                                              \
        .theirs = (path), .type = DIALECT_SECTION, .effect = EFFECT_READ                           \
    }
#define OPEN_SECTION(path)                                                                         \
    {                                                                                              \
        .theirs = (path), .type = DIALECT_SECTION, .effect = EFFECT_READ, .ignores_other = true    \
    }

const dialect_row *dialect_row_of(const dialect *d, const char *theirs); // NULL: unknown
// Make a tree of arguments: "--num-layers 2" and "--num_layers=2" become the key num_layers. A row that is a truth value
// takes no argument, a list takes all up to the next option. line[argc] are the arguments' lines in a file; NULL: none.
status dialect_parse_arguments(const dialect *d, int argc, char *const *argv, const int *line,
                               yaml_node **out, err *e);
// The same of a script that starts a run, or an argument file (shell.h). Where the dialect has a row "launcher", the
// options before the program make a map of this name.
status dialect_parse_shell(const dialect *d, const char *name, const char *s, size_t bytes,
                           yaml_node **out, err *e);

#endif
