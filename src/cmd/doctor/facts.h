// facts.h -- facts of the program and the system that `trireme env` and `trireme accelerate env` print. Private to cmd/.
#ifndef TRIREME_CMD_DOCTOR_FACTS_H
#define TRIREME_CMD_DOCTOR_FACTS_H

#include "base/json.h"
#include "base/text.h"
#include "device/device.h"

void facts_add_platform(text *out); // "Linux-6.1.0-x86_64-with-glibc2.36"
void facts_add_program(text *out);  // the path of this program
double facts_memory_gib(void);      // of the machine
// Describes the first GPU that this version can use; false: there is none, and *why says why.
bool facts_gpu(device_description *out, err *why);

// The rest of the first line of a file that begins with `key`, without quotes; false: there is none.
enum { FACTS_LINE = 4096 };
bool facts_read_value(const char *path, const char *key, char out[FACTS_LINE]);

// Facts as names and texts, by section: what `trireme env` prints in either form.
typedef struct facts {
    json_t *root;
    bool failed; // memory ran out
} facts;

// Adds a fact to a section, which it makes. Without text the fact is left out.
void facts_put(facts *f, const char *section, const char *name, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

// Adds the sections of the machine: memory, network, limits (facts_system.c), and libraries of GPUs (facts_gpu.c).
void facts_add_system(facts *f);
void facts_add_gpus(facts *f);
// Variables that change a run. Values that may be secrets are not shown.
void facts_add_variables(facts *f, char *const *environment);
// Versions of python3 and of packages beside it, as python3 says.
void facts_add_python(facts *f);

#endif
