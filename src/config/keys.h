// keys.h -- the tables of the job file's keys, and questions about them. Private to config/.
#ifndef TRIREME_CONFIG_KEYS_H
#define TRIREME_CONFIG_KEYS_H

#include "config/job.h"

typedef enum key_type {
    KEY_COUNT,    // int64_t or uint64_t
    KEY_INT,      // int
    KEY_BYTES,    // int64_t
    KEY_DURATION, // int64_t, milliseconds
    KEY_NUMBER,   // double
    KEY_BOOL,     // bool: words[0] is false, words[1] true
    KEY_SWITCH,   // int: words[0] is 0, words[1] is 1; or a whole number
    KEY_ENUM,     // an enum; words[value] names its values
    KEY_WORD,     // char *, one of words
    KEY_PATH,     // char *, absolute; `special` is NULL
    KEY_TEXT,     // char *
    KEY_PARTS,    // dataset_source * and size_t
    KEY_BETAS,    // double[2]
    KEY_POLICIES, // policies: one of words for dp_shard, or two of them, outer and inner
    KEY_SIZES,    // int * and size_t, or `special`; the word is the list of the one number 0
    KEY_GROUPS,   // job_group * and int; GROUP_KEYS has the keys of an entry
    KEY_STEPS,    // int64_t[2], the first and the last step; `special` is {0, 0}
    KEY_SERVER,   // char *, the address of a server; `special` is NULL
    KEY_NAMES,    // char ** and size_t: a word, or a list of words
    KEY_NUMBERS,  // model_lora_number * and size_t: a map of names to numbers
} key_type;

enum {
    KEY_UNSTORED = -1
}; // `offset` of a key with one supported value, which struct job does not hold

typedef enum key_flag {
    KEY_MAY_CHANGE = 1, // a resumed run may have another value
    KEY_KEEP_AUTO = 2,  // job.yaml says auto where the job did, because results do not depend on it
    KEY_POSITIVE = 4,   // the number must be above `low`
    KEY_OPTIONAL = 8,   // not written where it holds special_value or NULL
    KEY_OF_SECTION = 16, // a bare word given to the key's section is the key's value
    KEY_INVERTED = 32,   // KEY_BOOL: words[1] is stored as false
    KEY_OF_UPDATE = 64,  // GROUP_KEYS: without effect on frozen parameters
} key_flag;

typedef struct job_key {
    const char *path;
    const char *help; // a sentence that says what the key does
    key_type type;
    unsigned flags;
    int offset;       // of the value in struct job or param_group, in bytes; or KEY_UNSTORED
    int count_offset; // of the number of items, for KEY_PARTS, KEY_SIZES, KEY_NAMES and KEY_NUMBERS
    const char *unit; // of a number; NULL: none
    const char *fallback;         // the default as text; NULL: the value that set_all prepares
    const char *const *words;     // ended by NULL
    const char *const *planned;   // words that are not written yet, ended by NULL; NULL: none
    const char *const (*also)[2]; // words of other systems and ours, ended by NULL
    double low, high;             // inclusive
    const char *special;          // a word for special_value: auto, null, off
    double special_value;
    // The key is read only with these values of another key; 0: always.
    unsigned schedules;  // bits of the lr_names of lr_schedule.name
    unsigned rules;      // bits of the kernel_update_rules of optimizer.name
    unsigned hooks;      // bits of the strategy_hook_kinds of parallel.hook.name
    unsigned precisions; // bits of the train_precisions of train.precision
    unsigned losses;     // bits of the job_losses of train.loss
    // GROUP_KEYS: the job's key whose value holds where an entry gives none; NULL: the default does.
    const char *inherits;
} job_key;

extern const char *const TRAIN_PRECISIONS[]; // of train_precision
extern const char *const TRAIN_LOSSES[];     // of job_loss
extern const char *const DPO_LOSSES[];       // of dpo.loss_type, TRL's names
extern const job_key JOB_KEYS[];
extern const int JOB_KEY_COUNT;
// The keys of an entry of the list `groups`; their paths begin with "groups.". At most 32.
extern const job_key GROUP_KEYS[];
extern const int GROUP_KEY_COUNT;

const job_key *key_find(const char *path);          // NULL: unknown
int key_index(const char *path);                    // -1: unknown
const job_key *key_find_of_group(const char *path); // a row of GROUP_KEYS; NULL: unknown
const char *key_in_entry(const job_key *k); // the path of a row of GROUP_KEYS within its entry
bool key_is_section(const char *path);      // "train", "parallel.offload"
bool key_is_model_field(const char *path);  // "model.layers", which model/ reads and no row names
// The key that takes a bare word given to the section; NULL: none.
const job_key *key_of_section(const char *path);
double key_most(const job_key *k);                // the largest valid number
bool key_is_flag(const job_key *k);               // its first words are false and true
bool key_applies(const job_key *k, const job *j); // the job reads the key
// Appends the words that may follow `section` ("" at the top), each once.
void key_list(const char *section, text *out);
// Appends "; did you mean …?", or the section's keys where no key is near.
void key_suggest(const char *path, text *out);

#endif
