// readings.c -- see readings.h. The rooms memory, processor and container call it.
#include "doctor/memory/readings.h"

#include "base/text.h"
#include "doctor/doctor.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The characters behind `key` at the start of a line; NULL: no line starts with it.
static const char *behind(const char *content, const char *key)
{
    const size_t length = strlen(key);
    for (const char *line = content; line; line = strchr(line, '\n')) {
        if (line != content) line++;
        if (strncmp(line, key, length) == 0 && (line[length] == ' ' || line[length] == '\t'))
            return line + length + strspn(line + length, " \t");
    }
    return NULL;
}

bool reading_number(const char *content, const char *key, uint64_t *out)
{
    const char *digits = behind(content, key);
    if (!digits || !isdigit((unsigned char)*digits)) return false;
    *out = strtoull(digits, NULL, 10);
    return true;
}

bool reading_words(const char *content, const char *key, char *out, size_t bytes)
{
    const char *words = behind(content, key);
    if (!words) return false;
    snprintf(out, bytes, "%.*s", (int)strcspn(words, "\n"), words);
    return true;
}

int reading_listed(const char *list)
{
    int count = 0;
    while (isdigit((unsigned char)*list)) {
        char *end;
        const long first = strtol(list, &end, 10);
        long last = first;
        if (*end == '-') last = strtol(end + 1, &end, 10);
        if (last >= first && last - first < 1 << 20) count += (int)(last - first) + 1;
        list = *end == ',' ? end + 1 : end;
    }
    return count;
}

status reading_need(const doctor_context *c, doctor_findings *out, const char *path, char **content,
                    err *e)
{
    status result = OK;
    bool denied = false;
    *content = NULL;
    TRY(doctor_read(c, path, content, &denied, e));
    if (denied) doctor_blind(out, "%s: this user may not read it", path);
    if (!denied && !*content) doctor_skip(out, "%s does not exist", path);
done:
    return result;
}

static uint64_t limit_number(const char **next)
{
    const char *words = *next + strspn(*next, " ");
    *next = words + strcspn(words, " \n");
    return isdigit((unsigned char)*words) ? strtoull(words, NULL, 10) : UINT64_MAX;
}

status reading_limit_of(const doctor_context *c, doctor_findings *out, const char *name,
                        resource_limit *limit, err *e)
{
    status result = OK;
    char *content = NULL;
    bool denied = false;
    *limit = (resource_limit){.known = false};
    TRY(doctor_read(c, "/proc/self/limits", &content, &denied, e));
    const char *next = content ? behind(content, name) : NULL;
    if (next) {
        limit->soft = limit_number(&next);
        limit->hard = limit_number(&next);
        limit->known = true;
    } else {
        doctor_blind(out, "/proc/self/limits has no line \"%s\"", name);
    }
done:
    free(content);
    return result;
}

void reading_bytes(char out[24], uint64_t bytes)
{
    if (bytes == UINT64_MAX)
        snprintf(out, 24, "unlimited");
    else
        text_bytes(out, (double)bytes);
}

void reading_counted(char out[48], uint64_t count, const char *noun)
{
    snprintf(out, 48, "%llu %s%s", (unsigned long long)count, noun, count == 1 ? "" : "s");
}

status reading_memory_of(const doctor_context *c, doctor_findings *out, memory_figures *m, err *e)
{
    status result = OK;
    char *content = NULL;
    bool denied = false;
    *m = (memory_figures){.known = false};
    const struct {
        const char *key;
        uint64_t *out;
        uint64_t unit;
    } lines[] = {
        {"MemTotal:", &m->total, 1024},
        {"MemAvailable:", &m->available, 1024},
        {"SwapTotal:", &m->swap_total, 1024},
        {"SwapFree:", &m->swap_free, 1024},
        {"CommitLimit:", &m->commit_limit, 1024},
        {"Committed_AS:", &m->committed, 1024},
        {"HugePages_Free:", &m->huge_free, 1},
        {"Hugepagesize:", &m->huge_page, 1024},
        {"HardwareCorrupted:", &m->corrupted, 1024},
    };
    TRY(doctor_read(c, "/proc/meminfo", &content, &denied, e));
    for (size_t i = 0; content && i < sizeof lines / sizeof *lines; i++)
        if (reading_number(content, lines[i].key, lines[i].out)) *lines[i].out *= lines[i].unit;
    m->known = m->total > 0;
    if (!m->known) doctor_blind(out, "/proc/meminfo does not say how much memory there is");
done:
    free(content);
    return result;
}

static bool is_gpu_file(const char *name)
{
    const char *digits = strncmp(name, "nvidia", 6) == 0 ? name + 6 : "";
    return *digits && strspn(digits, "0123456789") == strlen(digits);
}

status reading_gpus(const doctor_context *c, int *count, err *e)
{
    status result = OK;
    char **names = NULL;
    int n = 0;
    *count = 0;
    TRY(doctor_names(c, "/dev", &names, &n, e));
    for (int i = 0; i < n; i++) *count += is_gpu_file(names[i]);
done:
    doctor_names_free(names, n);
    return result;
}

status reading_ranks(const doctor_context *c, int *count, err *e)
{
    status result = OK;
    *count = c->ranks;
    if (*count <= 0) TRY(reading_gpus(c, count, e));
    if (*count <= 0) *count = 1;
done:
    return result;
}

status reading_cores(const doctor_context *c, int *count, err *e)
{
    status result = OK;
    char *content = NULL;
    bool denied = false;
    *count = 0;
    TRY(doctor_read(c, "/proc/self/status", &content, &denied, e));
    const char *list = content ? behind(content, "Cpus_allowed_list:") : NULL;
    if (list) *count = reading_listed(list);
done:
    free(content);
    return result;
}

status reading_capability(const doctor_context *c, const char *set, int number, bool *has, err *e)
{
    status result = OK;
    char *content = NULL;
    bool denied = false;
    *has = true;
    TRY(doctor_read(c, "/proc/self/status", &content, &denied, e));
    const char *mask = content ? behind(content, set) : NULL;
    if (mask) *has = strtoull(mask, NULL, 16) >> number & 1;
done:
    free(content);
    return result;
}

status reading_has_entries(const doctor_context *c, const char *folder, bool *has, err *e)
{
    char **names = NULL;
    int count = 0;
    const status result = doctor_names(c, folder, &names, &count, e);
    *has = count > 0;
    doctor_names_free(names, count);
    return result;
}
