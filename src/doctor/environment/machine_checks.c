// machine_checks.c -- variables that do not fit this machine: GPUs, libraries, folders, threads, the locale, proxies. The table
// of this room calls the probes.
#include "doctor/environment/environment.h"

#include "base/text.h"
#include "doctor/doctor.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

// ---- GPUs

enum { MOST_DEVICES = 64, DEVICE_BYTES = 64 };

// CUDA sees the devices before the first entry that it does not know. Numbers are of GPUs; others begin with GPU- or MIG-.
static const char *judge_device(const char *word, const char (*before)[DEVICE_BYTES], int count,
                                int gpus)
{
    if (strspn(word, "0123456789") != strlen(word) || !*word)
        return strncmp(word, "GPU-", 4) == 0 || strncmp(word, "MIG-", 4) == 0
                   ? NULL
                   : "is no number of a GPU and no UUID";
    if (gpus > 0 && atoi(word) >= gpus) return "is no GPU of this machine";
    for (int i = 0; i < count; i++)
        if (strcmp(before[i], word) == 0) return "is there twice";
    return NULL;
}

static void look_at_devices(doctor_findings *out, const char *value, int gpus)
{
    char words[MOST_DEVICES][DEVICE_BYTES];
    int count = 0;
    if (!*value || strcmp(value, "-1") == 0 || strcmp(value, "NoDevFiles") == 0) {
        doctor_find(out, "where", "CUDA_VISIBLE_DEVICES", "value", value, "problem",
                    "hides all GPUs", NULL);
        return;
    }
    for (const char *rest = value; count < MOST_DEVICES;) {
        const size_t bytes = strcspn(rest, ",");
        snprintf(words[count], DEVICE_BYTES, "%.*s", (int)bytes, rest);
        const char *problem = judge_device(words[count], words, count, gpus);
        if (problem) {
            char found[2 * DEVICE_BYTES];
            snprintf(found, sizeof found, "entry %d (%s) %s", count + 1, words[count], problem);
            doctor_find(out, "where", "CUDA_VISIBLE_DEVICES", "value", value, "problem", found,
                        NULL);
            return;
        }
        count++;
        if (!rest[bytes]) return;
        rest += bytes + 1;
    }
}

status environment_probe_devices(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    char **names = NULL;
    int gpus = 0;
    const char *value = doctor_variable(c, "CUDA_VISIBLE_DEVICES");
    TRY(doctor_names(c, "/proc/driver/nvidia/gpus", &names, &gpus, e));
    if (value) look_at_devices(out, value, gpus);
done:
    doctor_names_free(names, gpus);
    return result;
}

// ---- Folders of libraries

// Calls `look` for each folder of a list with colons.
typedef status library_look(const doctor_context *c, doctor_findings *out, const char *folder,
                            err *e);

static status look_at_folders(const doctor_context *c, doctor_findings *out, library_look *look,
                              err *e)
{
    status result = OK;
    char folder[300];
    const char *rest = doctor_variable(c, "LD_LIBRARY_PATH");
    while (rest && *rest) {
        const size_t bytes = strcspn(rest, ":");
        snprintf(folder, sizeof folder, "%.*s", (int)bytes, rest);
        TRY(look(c, out, folder, e));
        rest += bytes + (rest[bytes] == ':');
    }
done:
    return result;
}

static status exists(const doctor_context *c, const char *path, bool *out, err *e)
{
    char *full = NULL;
    struct stat info;
    const status result = doctor_path(c, path, &full, e);
    *out = result == OK && stat(full, &info) == 0;
    free(full);
    return result;
}

// The toolkit has a libcuda without functions, for the linker.
static status look_for_stub(const doctor_context *c, doctor_findings *out, const char *folder,
                            err *e)
{
    static const char *const names[] = {"libcuda.so.1", "libcuda.so"};
    status result = OK;
    char path[340];
    bool there = false;
    if (!strstr(folder, "/stubs")) return OK;
    for (int i = 0; i < 2 && !there; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        TRY(exists(c, path, &there, e));
        if (there)
            doctor_find_as(out, i == 0 ? DOCTOR_ERROR : DOCTOR_WARNING, "where", folder, "name",
                           names[i], NULL);
    }
done:
    return result;
}

status environment_probe_stubs(const doctor_context *c, doctor_findings *out, err *e)
{
    return look_at_folders(c, out, look_for_stub, e);
}

// "12.4" of "/usr/local/cuda-12.4/lib64".
static bool find_version(const char *folder, char version[16])
{
    const char *found = strstr(folder, "/cuda-");
    return found && sscanf(found, "/cuda-%15[0-9.]", version) == 1;
}

status environment_probe_cuda_mixed(const doctor_context *c, doctor_findings *out, err *e)
{
    (void)e;
    char folder[300], version[16], first[16] = "";
    const char *rest = doctor_variable(c, "LD_LIBRARY_PATH");
    while (rest && *rest) {
        const size_t bytes = strcspn(rest, ":");
        snprintf(folder, sizeof folder, "%.*s", (int)bytes, rest);
        rest += bytes + (rest[bytes] == ':');
        if (!find_version(folder, version)) continue;
        if (*first && strcmp(first, version) != 0) {
            doctor_find(out, "where", "LD_LIBRARY_PATH", "first", first, "second", version, NULL);
            return OK;
        }
        strcpy(first, version);
    }
    return OK;
}

status environment_probe_preload(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    char path[300];
    bool there;
    const char *rest = doctor_variable(c, "LD_PRELOAD");
    while (rest && *rest) {
        const size_t bytes = strcspn(rest, ": ");
        snprintf(path, sizeof path, "%.*s", (int)bytes, rest);
        rest += bytes + (rest[bytes] != 0);
        if (*path != '/') continue;
        TRY(exists(c, path, &there, e));
        if (!there) doctor_find(out, "where", path, NULL);
    }
done:
    return result;
}

// ---- Folders, threads, locale, proxies

status environment_probe_temporary(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    char *full = NULL;
    struct stat info;
    const char *given = doctor_variable(c, "TMPDIR"), *problem = NULL;
    const char *folder = given && *given ? given : "/tmp";
    TRY(doctor_path(c, folder, &full, e));
    if (stat(full, &info) != 0)
        problem = "does not exist";
    else if (!S_ISDIR(info.st_mode))
        problem = "is no folder";
    else if (access(full, W_OK | X_OK) != 0)
        problem = "may not be written by this user";
    if (problem)
        doctor_find(out, "where", folder, "name", given && *given ? "TMPDIR" : "the default",
                    "problem", problem, NULL);
done:
    free(full);
    return result;
}

// The first of these that is set counts.
status environment_probe_locale(const doctor_context *c, doctor_findings *out, err *e)
{
    (void)e;
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    const char *value = NULL, *name = "LANG";
    for (int i = 0; i < 3 && !(value && *value); i++) {
        value = doctor_variable(c, names[i]);
        if (value && *value) name = names[i];
    }
    const char *set = value && *value ? strchr(value, '.') : NULL;
    if (!set || (strncasecmp(set, ".UTF-8", 6) != 0 && strncasecmp(set, ".utf8", 5) != 0))
        doctor_find(out, "where", name, "value", value && *value ? value : "not set", NULL);
    return OK;
}

// Counts "0-3,8".
static int count_cores(const char *list)
{
    int count = 0, from, to, bytes = 0;
    while (sscanf(list, "%d%n", &from, &bytes) == 1) {
        list += bytes;
        to = from;
        if (sscanf(list, "-%d%n", &to, &bytes) == 1) list += bytes;
        count += to - from + 1;
        if (*list != ',') break;
        list++;
    }
    return count;
}

static status read_cores(const doctor_context *c, int *out, err *e)
{
    status result = OK;
    char *content = NULL;
    bool denied;
    *out = 0;
    TRY(doctor_read(c, "/proc/self/status", &content, &denied, e));
    const char *list = content ? strstr(content, "Cpus_allowed_list:") : NULL;
    if (list) *out = count_cores(list + strlen("Cpus_allowed_list:") + strspn(list + 18, " \t"));
done:
    free(content);
    return result;
}

status environment_probe_threads(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    int cores;
    int64_t threads;
    char given[24], has[24];
    TRY(read_cores(c, &cores, e));
    if (!environment_number(c, "OMP_NUM_THREADS", &threads)) goto done;
    const int64_t ranks = c->ranks > 0 ? c->ranks : 1;
    if (cores > 0 && threads * ranks > cores) {
        snprintf(given, sizeof given, "%" PRId64, threads * ranks);
        snprintf(has, sizeof has, "%d", cores);
        doctor_find(out, "where", "OMP_NUM_THREADS", "threads", given, "cores", has, NULL);
    }
done:
    return result;
}

// Returns whether no_proxy names the host, or an end of its name.
static bool is_exempt(const doctor_context *c, const char *host)
{
    const char *list = doctor_variable(c, "no_proxy");
    if (!list) list = doctor_variable(c, "NO_PROXY");
    while (list && *list) {
        const size_t bytes = strcspn(list, ","), length = strlen(host);
        if (bytes == 1 && *list == '*') return true;
        if (bytes && bytes <= length && strncmp(host + length - bytes, list, bytes) == 0)
            return true;
        list += bytes;
        list += strspn(list, ", ");
    }
    return false;
}

status environment_probe_proxy(const doctor_context *c, doctor_findings *out, err *e)
{
    (void)e;
    static const char *const names[] = {"http_proxy",  "https_proxy", "all_proxy", "HTTP_PROXY",
                                        "HTTPS_PROXY", "ALL_PROXY",   "grpc_proxy"};
    const char *value, *host = c->peer;
    if (!host) environment_is_set(c, "MASTER_ADDR", &host);
    if (!host || !*host) {
        doctor_skip(out, "no host is named at which ranks meet");
        return OK;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (environment_is_set(c, names[i], &value) && !is_exempt(c, host)) {
            doctor_find(out, "where", names[i], "host", host, NULL);
            break;
        }
    return OK;
}
