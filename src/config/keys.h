// keys.h -- the one table of the job file's keys. Private to config/.
//
// A key is known whether or not this version can do what it asks for: `only` names the values that
// it can, and every other valid one is refused as not supported yet.
#ifndef TRIREME_CONFIG_KEYS_H
#define TRIREME_CONFIG_KEYS_H

#include "config/job.h"

typedef enum key_type {
    KEY_COUNT,    // int64_t (or uint64_t)
    KEY_INT,      // int
    KEY_BYTES,    // int64_t
    KEY_DURATION, // int64_t, milliseconds
    KEY_NUMBER,   // double
    KEY_BOOL,     // bool: words[0] is false, words[1] true
    KEY_SWITCH,   // int: words[0] is 0, words[1] is 1, or a whole number
    KEY_ENUM,     // an enum whose values are the indices of words
    KEY_WORD,     // char *, one of words
    KEY_PATH,     // char *, absolute
    KEY_PARTS,    // dataset_source * and size_t
    KEY_BETAS,    // two doubles
    KEY_POLICIES, // policies: one of words, or two of them, outer and inner
    KEY_SIZES,    // int * and size_t, or auto
} key_type;

enum { KEY_UNSTORED = -1 }; // `at` of keys whose one supported value is not in struct job

typedef enum key_flag {
    KEY_MAY_CHANGE = 1,  // may differ when a run is resumed
    KEY_KEEP_AUTO = 2,   // written as auto when it was auto: it does not change results
    KEY_POSITIVE = 4,    // numbers: above `low`, not equal
    KEY_OPTIONAL = 8,    // not written when it holds special_value or NULL
    KEY_OF_SECTION = 16, // a bare word given to its section is its value
} key_flag;

typedef struct job_key {
    const char *path;
    const char *help; // a sentence: what the key does
    key_type type;
    unsigned flags;
    int at, count_at;             // offsets in struct job; count_at of KEY_PARTS and KEY_SIZES
    const char *unit;             // of its numbers; NULL: they have none
    const char *fallback;         // the default as text; NULL: what the struct was prepared with
    const char *const *words;     // NULL-terminated
    const char *const (*also)[2]; // other systems' words and ours, ended by NULL
    const char *only;             // what this version supports: words separated by '|'; NULL: all
    double low, high;             // inclusive
    const char *special;          // a word for special_value: auto, null
    double special_value;
    unsigned schedules;  // lr_schedule parameters: bits of the lr_names that have it; 0 = any
    unsigned rules;      // optimizer parameters: bits of the update_rules that have it; 0 = any
    unsigned hooks;      // hook parameters: bits of the hook_kinds that have it; 0 = any
    unsigned precisions; // bits of the dtypes of train.precision that read it; 0 = any
} job_key;

extern const job_key JOB_KEYS[];
extern const int JOB_KEY_COUNT;

// The rows that code names by itself.
const job_key *key_find(const char *path);       // NULL when there is none
int key_index(const char *path);                 // -1 when there is none
bool key_is_section(const char *path);           // "train", "parallel.offload"
bool key_is_model_field(const char *path);       // "model.layers": read by model/, not by the table
const job_key *key_of_section(const char *path); // that a bare word is the value of; NULL: none
double key_most(const job_key *k);               // the largest valid number
bool key_is_flag(const job_key *k); // its first words are false and true, however they are spelled
bool key_applies(const job_key *k, const job *j); // to this optimizer, schedule and model
// Appends the words that may follow `section` ("" for the top), each once.
void key_list(const char *section, text *out);
// Appends "; did you mean …?" or the section's keys.
void key_suggest(const char *path, text *out);

#endif
