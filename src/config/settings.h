// settings.h -- what the user said, key by key, before it is understood: nodes and where they came
// from. Private to config/.
#ifndef TRIREME_CONFIG_SETTINGS_H
#define TRIREME_CONFIG_SETTINGS_H

#include "config/keys.h"
#include "config/yaml_node.h"

typedef enum setting_origin {
    ORIGIN_DEFAULT,
    ORIGIN_FILE,
    ORIGIN_COMMAND_LINE,
    ORIGIN_OTHER
} setting_origin;

typedef struct setting {
    char *path;
    const yaml_node *value; // borrowed from a tree; NULL: not given
    setting_origin from;
    int line;         // of the file, or of the YAML
    int yaml;         // ORIGIN_COMMAND_LINE: which of a program's YAML texts says it; 0: none
    const char *who;  // ORIGIN_OTHER: who says so; a literal
    const char *note; // what was made of it, when that is not what was said; a literal, or NULL
} setting;

// struct job's private part.
struct job_values {
    char *file;     // as the user named it; NULL: no file
    bool by_calls;  // what the command line would say, a program said: keys are named without "--"
    setting *rows;  // one for each row of JOB_KEYS
    setting *model; // model.* fields that are no rows, in the order of reading
    int models;
    size_t model_room, trees_room;
    int yamls;   // a program's YAML texts so far …
    int reading; // … and the number of the one that is being read; 0: none
    yaml_node **trees;
    int trees_count;
};

typedef struct job_values job_values;

status settings_open(const char *file, job_values **out, err *e);
void settings_free(job_values *v); // NULL allowed

// Arguments that are no keys.
typedef struct setting_flags {
    const char *resume; // borrowed from args; NULL: not given
    bool quiet, overwrite;
} setting_flags;

// Reads the file / the arguments on top of what is there.
status settings_read_file(job_values *v, err *e);
status settings_read_args(job_values *v, int argc, char *const *argv, setting_flags *flags, err *e);

// YAML as a job file has it, in a program's memory, on top of what is there. It counts as what is
// said on the command line; errors name it "yaml:LINE".
status settings_read_yaml(job_values *v, const char *yaml, err *e);

// A row's value, as it would be given on the command line, on top of what is there.
status settings_change(job_values *v, const char *path, const char *value, const char *who, err *e);

const setting *settings_of(const job_values *v, const char *path); // a row's; path must be one
bool setting_is_given(const setting *s);
bool setting_is_auto(const setting *s); // not given, or the word auto
void setting_drop(setting *s);
// Puts where a setting stands and its key before the text of *e.
void setting_prefix(const job_values *v, const setting *s, err *e);
// The same without the key: "file:line: " or "--". What a program said needs no place.
void setting_place(const job_values *v, const setting *s, err *e);
// "default", "job.yaml:3", "command line", and the note in brackets
void setting_describe(const job_values *v, const setting *s, text *out);

#endif
