// facts.c -- see facts.h: facts of the program, and the variables that change a run.
#define _GNU_SOURCE // strcasestr
#include "cmd/doctor/facts.h"

#include "base/alloc.h"
#include "base/proc.h"
#include "cmd/run/run.h"

#include <gnu/libc-version.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

void facts_add_platform(text *out)
{
    struct utsname u = {.sysname = ""};
    uname(&u);
    text_addf(out, "%s-%s-%s-with-glibc%s", u.sysname, u.release, u.machine,
              gnu_get_libc_version());
}

void facts_add_program(text *out)
{
    char self[4096];
    run_find_self(self, sizeof self);
    text_add(out, self);
}

double facts_memory_gib(void)
{
    return (double)proc_bytes("/proc/meminfo", "MemTotal:") / (1024.0 * 1024 * 1024);
}

bool facts_gpu(device_description *out, err *why)
{
    return device_describe("cuda", NULL, out, why) == OK && out->count > 0;
}

void facts_put(facts *f, const char *section, const char *name, const char *format, ...)
{
    text value = {0};
    va_list args;
    va_start(args, format);
    text_addv(&value, format, args);
    va_end(args);
    if (value.bytes) {
        json_t *to = json_object_get(f->root, section);
        if (!to) {
            to = json_object();
            f->failed |= json_object_set_new(f->root, section, to) != 0;
        }
        f->failed |= json_object_set_new(to, name, json_of_text(value.chars)) != 0;
    }
    f->failed |= value.failed;
    text_clear(&value);
}

// ---- Variables

static bool is_relevant(const char *name)
{
    static const char *const starts[] = {
        "TRIREME_",   "NCCL_",       "UCX_",        "GLOO_",      "CUDA_",      "CUBLAS_",
        "CUDNN_",     "NVIDIA_",     "OMP_",        "KMP_",       "MKL_",       "OPENBLAS_",
        "OMPI_",      "PMI",         "I_MPI_",      "MV2_",       "FI_",        "SLURM_",
        "TORCH",      "PYTORCH_",    "TF_CONFIG",   "HF_",        "ACCELERATE", "FSDP_",
        "DEEPSPEED",  "DS_",         "MASTER_",     "WORLD_SIZE", "RANK",       "LOCAL_",
        "NODE_RANK",  "LD_",         "PYTHON",      "MALLOC_",    "LC_",        "LANG",
        "TMPDIR",     "MEGATRON",    "TOKENIZERS_", "SM_",        "http_proxy", "https_proxy",
        "HTTP_PROXY", "HTTPS_PROXY", "no_proxy",    "NO_PROXY",
    };
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
        if (strncmp(name, starts[i], strlen(starts[i])) == 0) return true;
    return false;
}

// Returns whether a value may let someone in: by the variable's name, or as an address with a user's password.
static bool is_secret(const char *name, const char *value)
{
    static const char *const words[] = {"TOKEN",      "SECRET", "KEY",    "PASS",
                                        "CREDENTIAL", "AUTH",   "PRIVATE"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcasestr(name, words[i])) return true;
    const char *const address = strstr(value, "://");
    return address && strchr(address, '@');
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void facts_add_variables(facts *f, char *const *environment)
{
    size_t count = 0;
    while (environment[count]) count++;
    char **sorted = NULL;
    f->failed |= alloc_array(&sorted, count, sizeof *sorted, "the variables", NULL) != OK;
    if (!sorted) return;
    memcpy(sorted, environment, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, compare);
    for (size_t i = 0; i < count; i++) {
        const char *const equals = strchr(sorted[i], '=');
        text name = {0};
        if (!equals || !is_relevant(sorted[i])) continue;
        text_add_bytes(&name, sorted[i], (size_t)(equals - sorted[i]));
        if (name.bytes)
            facts_put(f, "Variables", name.chars, "%s",
                      is_secret(name.chars, equals + 1) ? "(set, its value is not shown)"
                      : equals[1]                       ? equals + 1
                                                        : "(empty)");
        f->failed |= name.failed;
        text_clear(&name);
    }
    free(sorted);
}
