// facts_system.c -- facts of the system, from /proc, /sys and /etc: the processor, memory, limits, interfaces. Private to
// `trireme env`. What a file does not say is left out.
#include "cmd/doctor/facts.h"

#include "base/file.h"
#include "base/proc.h"

#include <dirent.h>
#include <gnu/libc-version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>

bool facts_read_value(const char *path, const char *key, char out[FACTS_LINE])
{
    bool found = false;
    char *line = NULL;
    size_t room = 0;
    FILE *f = fopen(path, "r");
    while (f && !found && getline(&line, &room, f) > 0) {
        if (strncmp(line, key, strlen(key)) != 0) continue;
        const char *value = line + strlen(key);
        value += strspn(value, " \t:=\"");
        snprintf(out, FACTS_LINE, "%s", value);
        out[strcspn(out, "\"\n")] = 0;
        text_trim(out);
        found = true;
    }
    free(line);
    if (f) fclose(f);
    return found;
}

static void add_machine(facts *f)
{
    struct utsname u = {.sysname = ""};
    char line[FACTS_LINE];
    uname(&u);
    if (facts_read_value("/etc/os-release", "PRETTY_NAME", line))
        facts_put(f, "System", "OS", "%s", line);
    facts_put(f, "System", "kernel", "%s %s", u.sysname, u.release);
    facts_put(f, "System", "architecture", "%s", u.machine);
    facts_put(f, "System", "libc", "glibc %s", gnu_get_libc_version());
    if (file_exists("/.dockerenv") || file_exists("/run/.containerenv"))
        facts_put(f, "System", "container", "yes");
}

// Those that kernels of Trireme, or libraries beside it, choose by.
static void add_flags(facts *f)
{
    static const char *const known[] = {"sse4_2",      "avx",          "f16c",      "fma",
                                        "avx2",        "avx512f",      "avx512bw",  "avx512vl",
                                        "avx512_vnni", "avx512_bf16",  "amx_tile",  "amx_bf16",
                                        "amx_int8",    "constant_tsc", "hypervisor"};
    char line[FACTS_LINE];
    text out = {0};
    if (!facts_read_value("/proc/cpuinfo", "flags", line)) return;
    for (char *rest = line, *word; (word = strtok_r(rest, " ", &rest));)
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            if (strcmp(word, known[i]) == 0) text_addf(&out, "%s%s", out.bytes ? " " : "", word);
    facts_put(f, "CPU", "flags", "%s", out.chars ? out.chars : "");
    text_clear(&out);
}

// The number of names in a folder that are a word and a number.
static int count_numbered(const char *folder, const char *word)
{
    int count = 0;
    DIR *d = opendir(folder);
    for (struct dirent *entry; d && (entry = readdir(d));) {
        const char *const digits = entry->d_name + strlen(word);
        if (strncmp(entry->d_name, word, strlen(word)) != 0 || !*digits) continue;
        count += digits[strspn(digits, "0123456789")] == 0;
    }
    if (d) closedir(d);
    return count;
}

static void add_cpu(facts *f)
{
    char line[FACTS_LINE];
    device_description cpu;
    if (facts_read_value("/proc/cpuinfo", "model name", line))
        facts_put(f, "CPU", "model", "%s", line);
    facts_put(f, "CPU", "hardware threads", "%d, of which this process may use %d",
              count_numbered("/sys/devices/system/cpu", "cpu"), proc_usable_cores());
    const int nodes = count_numbered("/sys/devices/system/node", "node");
    if (nodes) facts_put(f, "CPU", "NUMA nodes", "%d", nodes);
    add_flags(f);
    if (device_describe("cpu", NULL, &cpu, NULL) == OK)
        facts_put(f, "CPU", "kernels in use", "%s", cpu.kind);
}

static void put_bytes(facts *f, const char *name, uint64_t bytes)
{
    char size[24];
    text_bytes(size, (double)bytes);
    facts_put(f, "Memory", name, "%s", size);
}

static void add_memory(facts *f)
{
    struct statvfs shm;
    char line[FACTS_LINE];
    put_bytes(f, "total", proc_bytes("/proc/meminfo", "MemTotal:"));
    put_bytes(f, "available to this process", proc_available_bytes());
    put_bytes(f, "swap", proc_bytes("/proc/meminfo", "SwapTotal:"));
    if (statvfs("/dev/shm", &shm) == 0)
        put_bytes(f, "/dev/shm", (uint64_t)shm.f_blocks * shm.f_frsize);
    if (facts_read_value("/sys/kernel/mm/transparent_hugepage/enabled", "", line))
        facts_put(f, "Memory", "transparent huge pages", "%s", line);
}

static void put_limit(facts *f, const char *name, int which)
{
    struct rlimit r;
    if (getrlimit(which, &r) != 0) return;
    if (r.rlim_cur == RLIM_INFINITY)
        facts_put(f, "Limits", name, "unlimited");
    else
        facts_put(f, "Limits", name, "%llu", (unsigned long long)r.rlim_cur);
}

// ---- Interfaces

static bool read_first(const char *folder, const char *name, const char *file, char out[FACTS_LINE])
{
    char path[FACTS_LINE];
    if (snprintf(path, sizeof path, "%s/%s/%s", folder, name, file) >= (int)sizeof path)
        return false;
    return facts_read_value(path, "", out) && out[0];
}

static void put_interface(facts *f, const char *folder, const char *name)
{
    char line[FACTS_LINE];
    text out = {0};
    if (strcmp(name, "lo") == 0) return;
    text_add(&out, read_first(folder, name, "operstate", line) ? line : "unknown");
    if (read_first(folder, name, "mtu", line)) text_addf(&out, ", mtu %s", line);
    if (read_first(folder, name, "speed", line) && atoi(line) > 0)
        text_addf(&out, ", %g Gb/s", atoi(line) / 1000.0);
    facts_put(f, "Network", name, "%s", out.chars ? out.chars : "");
    text_clear(&out);
}

static void put_rdma(facts *f, const char *folder, const char *name)
{
    char state[FACTS_LINE], rate[FACTS_LINE], layer[FACTS_LINE];
    if (!read_first(folder, name, "ports/1/state", state)) return;
    if (!read_first(folder, name, "ports/1/rate", rate)) rate[0] = 0;
    if (!read_first(folder, name, "ports/1/link_layer", layer)) layer[0] = 0;
    text out = {0};
    text_addf(&out, "%s, %s, %s", state, rate, layer);
    facts_put(f, "Network", name, "%s", out.chars ? out.chars : "");
    text_clear(&out);
}

// Calls `put` for each name of a folder, sorted.
static void each_name(facts *f, const char *folder,
                      void (*put)(facts *f, const char *folder, const char *name))
{
    struct dirent **names = NULL;
    const int count = scandir(folder, &names, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        if (names[i]->d_name[0] != '.') put(f, folder, names[i]->d_name);
        free(names[i]);
    }
    free(names);
}

void facts_add_system(facts *f)
{
    add_machine(f);
    add_cpu(f);
    add_memory(f);
    put_limit(f, "memlock", RLIMIT_MEMLOCK);
    put_limit(f, "open files", RLIMIT_NOFILE);
    put_limit(f, "processes", RLIMIT_NPROC);
    each_name(f, "/sys/class/net", put_interface);
    each_name(f, "/sys/class/infiniband", put_rdma);
}
