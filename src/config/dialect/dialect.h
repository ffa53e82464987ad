// dialect.h -- a configuration of another system, as a table of its keys: the key of Trireme that each means, or what
// becomes of it. A function adds what several keys decide together. Reading a file gives settings of Trireme's keys,
// each with the file, line and key that it comes from, and remarks about what has no equal. job.c lays them over a
// job; `trireme translate` prints them. Nothing below config/ knows a dialect.
//
// A dialect is one file of this folder and one line of registry.c (docs/adding-a-dialect.md).
#ifndef TRIREME_CONFIG_DIALECT_DIALECT_H
#define TRIREME_CONFIG_DIALECT_DIALECT_H

#include "config/yaml_node.h"

#include <stdint.h>

// The type of a value in their file.
typedef enum dialect_type {
    DIALECT_BOOL,    // true or false, also as text
    DIALECT_WHOLE,   // a whole number, also 5e8 where it has no quotes
    DIALECT_NUMBER,  // any number
    DIALECT_WORD,    // one of the row's words; case does not count
    DIALECT_TEXT,    // any text or number
    DIALECT_LIST,    // a list
    DIALECT_SECTION, // a map whose keys have rows, or nothing
    DIALECT_ANY,     // anything; nothing below it is read by rows
} dialect_type;

// What a value does.
typedef enum dialect_effect {
    EFFECT_SETS,    // sets the key `ours`
    EFFECT_READ,    // is read by the dialect's `finish`
    EFFECT_NOTHING, // needs no setting; `note` says why
    EFFECT_LOST, // has no equal: the run goes without, with a warning; `note` says what that changes
    EFFECT_REFUSED, // has no equal, and without it the run would be another one; `note` says why
} dialect_effect;

typedef struct dialect dialect;
typedef struct dialect_row dialect_row;

// A file while it is read.
typedef struct dialect_reader {
    const dialect *of;
    const char *file;      // for messages; NULL: arguments of a command line
    bool runs;             // dialect_read_over: the job is run, so that what it lacks is an error
    const yaml_node *root; // what was read
    struct translation *out;
    int depth; // of files that name files
    bool values_only;
} dialect_reader;

// A value of theirs from elsewhere than their file.
typedef struct dialect_given {
    const char *theirs, *value; // dotted path, and a word
    enum {
        GIVEN_WINS,       // over the file, as an option of the command line
        GIVEN_FILLS,      // stands for "auto" and for nothing
        GIVEN_FILLS_AUTO, // stands for "auto" alone
    } kind;
} dialect_given;

// Appends our value of theirs as flow YAML. An empty text sets nothing.
typedef status dialect_convert(const dialect_reader *r, const dialect_row *row, const yaml_node *n,
                               text *out, err *e);

struct dialect_row {
    const char *theirs; // dotted path; "*" stands for any one word
    const char
        *option; // "data_path" of the option --data-path, which gives the same value; NULL: none
    dialect_type type;
    const char *fallback; // their default as text; NULL: none
    dialect_effect effect;
    const char *ours; // EFFECT_SETS: our key
    const char *note; // a sentence; NULL: none
    // DIALECT_WORD: their words and ours, ended by NULL. Ours NULL: the word has no equal and is refused.
    const char *const (*words)[2];
    dialect_convert *convert; // NULL: the value is the same text
    const char
        *same;  // EFFECT_LOST and EFFECT_REFUSED: the value that loses nothing; NULL: their default
    double low; // the smallest valid number
    bool unquoted; // DIALECT_WHOLE, DIALECT_NUMBER: their reader takes a number in quotes as text
    bool states;   // their default is a setting of ours, too, where the row's section is given
    bool ignores_other; // DIALECT_SECTION: their reader ignores unknown keys in it
};

// Keys that share a row, whose own name is not read.
typedef struct dialect_names {
    const char *const *names; // ended by NULL; NULL ends an array of such lists
    dialect_row row;
} dialect_names;

struct dialect {
    const char *name; // of the option and of `translate`: deepspeed
    const char *system;
    bool
        is_json; // with the comments that hjson allows, or base64 of it in place of a path; *.yml may be YAML. Else YAML
    bool ignores_other; // their reader ignores unknown keys at the top
    bool is_arguments;  // a file holds arguments of a command line, as a shell has them
    // The keys at the top are options of a command line, too, and a script that gives them is a file of this system.
    bool has_options;
    // The command of a script whose subcommand is the program, as "trl" of trl sft; NULL: none. A row "command" with words
    // takes the subcommand, or the name of a program that is one of them, as sft.py.
    const char *command;
    bool
        reads_samples; // their system encodes JSONL itself, so `translate --check` gives it data.train as it is
    // The dialect whose rows and names hold for keys that this one has none for; NULL: none.
    const dialect *base;
    const dialect_row *rows;
    int row_count;
    const dialect_names
        *names; // of further keys at the top, ended by a list without names; NULL: none
    // Old and new paths of keys and sections, which differ in the last word; ended by NULL. NULL: none.
    const char *const (*renamed)[2];
    // Sections, and the beginning that the names of their keys may lack, ended by NULL; NULL: none.
    const char *const (*begun)[2];
    // Refuses what their own reader refuses, and brings old spellings up to date, before any row is read. NULL: nothing.
    status (*begin)(const dialect_reader *r, yaml_node *root, err *e);
    status (*finish)(const dialect_reader *r, err *e); // NULL: nothing
    const char *
        dtypes; // of their master weights, gradients and reductions beside ours, for people who move
};

// A setting of ours.
typedef struct dialect_setting {
    char *key, *value; // a dotted path, and flow YAML
    char *from;        // "ds.json:12: zero_optimization.stage"
    char *file;        // of a default: the file that leaves the key out; NULL: none
    char *note;        // NULL: none
    bool is_default;   // their default, which the file does not give; a job file overrides it
} dialect_setting;

typedef struct dialect_remark {
    char *text; // "ds.json:12: amp.enabled: …"
    bool lost;  // a warning: the run is another one in some way
} dialect_remark;

// What a file means. Start with {0}; the owner calls translation_clear.
typedef struct translation {
    dialect_setting *setting; // [settings] in the order of reading
    size_t settings, setting_room;
    dialect_remark *remark; // [remarks]
    size_t remarks, remark_room;
    text autos; // their keys that are "auto", a comma between two: the job's own values hold
    // Their value of every key with a value or a default, by dotted path; true for a section with keys.
    json_t *effective;
} translation;

void translation_clear(translation *t);

const dialect *dialect_find(const char *name); // NULL: unknown
// The dialects in order; NULL ends them.
extern const dialect *const DIALECTS[];

// Read a file, or arguments. Settings and remarks are added to *out. E_USAGE with one line
// "file:line: key: found …; valid: …".
status dialect_read_file(const dialect *d, const char *path, translation *out, err *e);
// Reads a file's text from memory; messages have the dialect's name for the file's.
status dialect_read_text(const dialect *d, const char *content, translation *out, err *e);
status dialect_read_args(const dialect *d, int argc, char *const *argv, translation *out, err *e);
// The same with values [count] that win over those of the file. Path NULL: with these alone. A remark or an error at
// such a value names it as the option --accelerate.num_processes.
status dialect_read_given(const dialect *d, const char *path, const dialect_given *given,
                          size_t count, translation *out, err *e);
// Reads their values alone, into out->effective: nothing becomes ours, and nothing is refused for having no equal.
status dialect_read_values(const dialect *d, const char *path, const dialect_given *given,
                           size_t count, translation *out, err *e);
// Reads a file (NULL: none) with a command line's options laid over it, by the rows' `option`. Errors and origins name
// such a value by its option.
status dialect_read_over(const dialect *d, const char *path, int argc, char *const *argv,
                         translation *out, err *e);

// ---- For the files of dialects

// The value at a dotted path; NULL where it is not given, is null, or is "auto".
const yaml_node *dialect_value(const dialect_reader *r, const char *theirs);
bool dialect_is_auto(const dialect_reader *r, const char *theirs);
// Its text, or else their default; NULL: neither, or not a scalar.
const char *dialect_text(const dialect_reader *r, const char *theirs);
bool dialect_is_on(const dialect_reader *r,
                   const char *theirs); // a truth value, or else their default
bool dialect_count(const dialect_reader *r, const char *theirs, int64_t *out);
bool dialect_number(const dialect_reader *r, const char *theirs, double *out);
// Sets our key to flow YAML. The origin is their key; where it is not given, the value is a default of theirs. A later
// setting of a key replaces an earlier one, but a default replaces nothing that is given.
status dialect_set(const dialect_reader *r, const char *key, const char *value, const char *theirs,
                   const char *note, err *e);
// Sets our key to what they take where a file does not give their key. A key that is "auto" is given.
status dialect_default(const dialect_reader *r, const char *key, const char *value,
                       const char *theirs, const char *note, err *e);
// Changes their value of a key that translation.effective shows, where keys decide it together. Takes `value`.
status dialect_effective(const dialect_reader *r, const char *theirs, json_t *value, err *e);
// Adds a remark at their key.
status dialect_remark_on(const dialect_reader *r, const char *theirs, bool lost, err *e,
                         const char *format, ...) __attribute__((format(printf, 5, 6)));
// Always E_USAGE: "file:line: theirs: …".
status dialect_refuse(const dialect_reader *r, const char *theirs, err *e, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
// Reads a file that a value names. A relative path begins here, or else at the folder of the file that names it.
status dialect_include(const dialect_reader *r, const dialect *d, const char *theirs, err *e);
// The same with values [count] that stand for "auto", or win.
status dialect_include_given(const dialect_reader *r, const dialect *d, const char *theirs,
                             const dialect_given *given, size_t count, err *e);

// Reads JSON with the comments, bare keys, bare text and commas that hjson allows (hjson.github.io/syntax.html).
// E_USAGE "name:line: …" for broken text and for a key that is given twice.
status dialect_parse_json(const char *name, const char *s, size_t bytes, yaml_node **out, err *e);

#endif
