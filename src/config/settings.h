// settings.h -- the value that the user gave each key, as a YAML node with its origin, before it is
// parsed. Private to config/.
#ifndef TRIREME_CONFIG_SETTINGS_H
#define TRIREME_CONFIG_SETTINGS_H

#include "config/dialect/dialect.h"
#include "config/keys.h"
#include "config/yaml_node.h"

typedef enum setting_origin {
    ORIGIN_DEFAULT,
    ORIGIN_FILE,
    ORIGIN_DIALECT,      // a configuration of another system
    ORIGIN_COMMAND_LINE, // or calls of a program
    ORIGIN_OTHER
} setting_origin;

typedef struct setting {
    char *path;
    const yaml_node *value; // borrowed from a tree; NULL: not given
    setting_origin from;
    int line; // in the file or in a program's YAML text
    int yaml; // ORIGIN_COMMAND_LINE: number of a program's YAML text; 0: none
    const char *
        who; // ORIGIN_OTHER: the name that explain prints, a literal; ORIGIN_DIALECT: file, line and key
    const char *file; // ORIGIN_DIALECT: the file that leaves the key out, or NULL; of `theirs`
    const char *note; // why the effective value is another one, or NULL; a literal, or of `theirs`
    int appended;     // items at the end of a list that calls of a program appended to it
} setting;

// The private part of struct job.
struct job_values {
    char *file;     // as the user named it; NULL: no file
    bool by_calls;  // a program sets keys by calls: errors name them without "--"
    setting *rows;  // one for each row of JOB_KEYS
    setting *model; // model.* fields that are not rows, in the order of reading
    int models;
    size_t model_room, trees_room;
    int yamls;   // a program's YAML texts so far
    int reading; // number of the YAML text that is being read; 0: none
    yaml_node **trees;
    int trees_count;
    translation theirs; // of configurations of other systems
};

typedef struct job_values job_values;

status settings_open(const char *file, job_values **out, err *e);
void settings_free(job_values *v); // NULL allowed

// Arguments that are not keys.
typedef struct setting_flags {
    const char *resume; // borrowed from args; NULL: not given
    bool quiet, overwrite, json;
} setting_flags;

// Read the file, or the arguments, and override earlier values.
status settings_read_file(job_values *v, err *e);
status settings_read_args(job_values *v, int argc, char *const *argv, setting_flags *flags, err *e);

// Reads the configurations of other systems that "--deepspeed FILE" and its like name, into v->theirs. The option
// "--deepspeed.gradient_clipping 1.0" gives a value of theirs, which wins over that of the file.
status settings_read_dialects(job_values *v, int argc, char *const *argv, err *e);
// Reads a file of one system, or NULL, with the values of theirs that options give.
status settings_read_dialect(job_values *v, const dialect *d, const char *file, int argc,
                             char *const *argv, err *e);
bool settings_is_theirs(const char *argument); // an option of another system's configuration
// Reads the text of one, "--deepspeed=TEXT".
status settings_read_dialect_text(job_values *v, char *argument, err *e);
// Takes from v->theirs what the files give, or else what their systems take by default.
status settings_take_dialects(job_values *v, bool defaults, err *e);

// Reads YAML from a program's memory, which overrides earlier values. It counts as the command
// line; errors name it "yaml:LINE".
status settings_read_yaml(job_values *v, const char *yaml, err *e);

// Appends an entry, given as YAML, to the list `groups`. It counts as a call.
status settings_add_group(job_values *v, const char *yaml, err *e);

// Sets a row's value to an argument of the command line; explain names `who` as its origin.
status settings_change(job_values *v, const char *path, const char *value, const char *who, err *e);

const setting *settings_of(const job_values *v, const char *path); // `path` must be a row's
// The origin of item `item` of a row's list, whose line is `line`. `path` names the item in errors.
setting setting_item(const setting *list, int item, int line, char *path);
bool setting_is_given(const setting *s);
// Returns whether the value is another system's default, which its file does not give.
bool setting_is_their_default(const job_values *v, const setting *s);
bool setting_is_auto(const setting *s); // not given, or the word auto
void setting_drop(setting *s);          // becomes not given
// Puts the origin of a setting and its key before the text of *e: "job.yaml:3: train.steps: ".
void setting_prefix(const job_values *v, const setting *s, err *e);
// The same without the key: "file:line: " or "--"; nothing for a call of a program.
void setting_place(const job_values *v, const setting *s, err *e);
// The same for an error that several keys cause, ended by NULL. Where the first is only a default, the next that another
// system's configuration or the environment gives is named: "ds.json:3: train_micro_batch_size_per_gpu: ".
void setting_place_first(const job_values *v, const char *const *paths, err *e);
// Appends "default", "job.yaml:3" or "command line", with the note in brackets.
void setting_describe(const job_values *v, const setting *s, text *out);

#endif
