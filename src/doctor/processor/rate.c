// rate.c -- the probes of how fast cores are: governors and caps of frequencies, heat, time that a hypervisor or other
// processes take, the clock, and vector instructions. The rate itself is measured in the room measure.
#include "base/text.h"
#include "doctor/doctor.h"
#include "doctor/memory/readings.h"
#include "doctor/processor/probes.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CPUS "/sys/devices/system/cpu"

// One core, by its file cpufreq. `arg` is the probe's own.
typedef bool cores_visit(const doctor_context *c, const char *core, void *arg);

// Calls `visit` for each core of /sys until it returns false. *count is the number of cores that are there.
static status each_core(const doctor_context *c, cores_visit *visit, void *arg, int *count, err *e)
{
    status result = OK;
    char **names = NULL;
    int n = 0;
    bool more = true;
    *count = 0;
    TRY(doctor_names(c, CPUS, &names, &n, e));
    for (int i = 0; i < n && more; i++) {
        if (strncmp(names[i], "cpu", 3) != 0 || !isdigit((unsigned char)names[i][3])) continue;
        ++*count;
        more = visit(c, names[i], arg);
    }
done:
    doctor_names_free(names, n);
    return result;
}

static bool read_word(const doctor_context *c, const char *core, const char *name, char *out,
                      size_t bytes)
{
    char path[256];
    snprintf(path, sizeof path, CPUS "/%s/%s", core, name);
    return doctor_read_line(c, path, out, bytes);
}

static bool read_count(const doctor_context *c, const char *core, const char *name, int64_t *out)
{
    char path[256];
    snprintf(path, sizeof path, CPUS "/%s/%s", core, name);
    return doctor_read_number(c, path, out);
}

// Cores of which a condition holds, and the word of the first one.
typedef struct cores_count {
    int seen, bad;
    char word[64];
} cores_count;

static bool tally_governor(const doctor_context *c, const char *core, void *arg)
{
    cores_count *t = arg;
    char governor[64], driver[64] = "";
    if (!read_word(c, core, "cpufreq/scaling_governor", governor, sizeof governor)) return true;
    (void)read_word(c, core, "cpufreq/scaling_driver", driver, sizeof driver);
    t->seen++;
    // With these drivers the governor "powersave" is the one that follows the load.
    if (strcmp(driver, "intel_pstate") == 0 || strcmp(driver, "amd-pstate-epp") == 0) return true;
    if (strcmp(governor, "powersave") != 0 && strcmp(governor, "conservative") != 0) return true;
    if (!t->bad++) snprintf(t->word, sizeof t->word, "%s", governor);
    return true;
}

static bool tally_preference(const doctor_context *c, const char *core, void *arg)
{
    cores_count *t = arg;
    char word[64];
    if (!read_word(c, core, "cpufreq/energy_performance_preference", word, sizeof word))
        return true;
    t->seen++;
    if (strcmp(word, "power") != 0 && strcmp(word, "balance_power") != 0) return true;
    if (!t->bad++) snprintf(t->word, sizeof t->word, "%s", word);
    return true;
}

static bool tally_cap(const doctor_context *c, const char *core, void *arg)
{
    cores_count *t = arg;
    int64_t cap, most;
    if (!read_count(c, core, "cpufreq/scaling_max_freq", &cap) ||
        !read_count(c, core, "cpufreq/cpuinfo_max_freq", &most))
        return true;
    t->seen++;
    if (cap >= most - most / 20) return true;
    if (!t->bad++)
        snprintf(t->word, sizeof t->word, "%.2f of %.2f", (double)cap / 1e6, (double)most / 1e6);
    return true;
}

// Calls doctor_find with the number of cores that `visit` counts as bad.
static status find_tallied(const doctor_context *c, doctor_findings *out, cores_visit *visit,
                           const char *where, err *e)
{
    status result = OK;
    cores_count t = {.seen = 0};
    int cores;
    char bad[24], all[24];
    TRY(each_core(c, visit, &t, &cores, e));
    if (!t.seen) {
        doctor_skip(out, "the kernel does not set the frequency of cores");
        goto done;
    }
    snprintf(bad, sizeof bad, "%d", t.bad);
    snprintf(all, sizeof all, "%d", cores);
    if (t.bad) doctor_find(out, "where", where, "cores", bad, "all", all, "word", t.word, NULL);
done:
    return result;
}

status probe_governor(const doctor_context *c, doctor_findings *out, err *e)
{
    return find_tallied(c, out, tally_governor, "scaling_governor", e);
}

status probe_energy_preference(const doctor_context *c, doctor_findings *out, err *e)
{
    return find_tallied(c, out, tally_preference, "energy_performance_preference", e);
}

status probe_frequency_cap(const doctor_context *c, doctor_findings *out, err *e)
{
    return find_tallied(c, out, tally_cap, "scaling_max_freq", e);
}

status probe_boost(const doctor_context *c, doctor_findings *out, err *e)
{
    int64_t off = 0, boost = 1;
    (void)e;
    const bool intel = doctor_read_number(c, CPUS "/intel_pstate/no_turbo", &off),
               other = doctor_read_number(c, CPUS "/cpufreq/boost", &boost);
    if (!intel && !other)
        doctor_skip(out, "the kernel does not set the boost of cores");
    else if (off)
        doctor_find(out, "where", CPUS "/intel_pstate/no_turbo", "value", "1", NULL);
    else if (!boost)
        doctor_find(out, "where", CPUS "/cpufreq/boost", "value", "0", NULL);
    return OK;
}

typedef struct count_search {
    int seen;
    int64_t most;
    char core[32];
} count_search;

static bool take_heat(const doctor_context *c, const char *core, void *arg)
{
    static const char *const FILES[] = {"thermal_throttle/core_throttle_count",
                                        "thermal_throttle/package_throttle_count"};
    count_search *s = arg;
    for (int i = 0; i < 2; i++) {
        int64_t count;
        if (!read_count(c, core, FILES[i], &count)) continue;
        s->seen++;
        if (count <= s->most) continue;
        s->most = count;
        snprintf(s->core, sizeof s->core, "%s", core);
    }
    return true;
}

status probe_thermal(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    count_search s = {.seen = 0};
    int cores;
    char count[24];
    TRY(each_core(c, take_heat, &s, &cores, e));
    if (!s.seen) {
        doctor_skip(out, "the kernel does not count how often heat slows cores down");
        goto done;
    }
    snprintf(count, sizeof count, "%lld", (long long)s.most);
    if (s.most >= 100) doctor_find(out, "where", s.core, "count", count, NULL);
done:
    return result;
}

status probe_steal(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    char *content = NULL, words[256], share[24];
    double part[8] = {0}, sum = 0;
    TRY(reading_need(c, out, "/proc/stat", &content, e));
    if (!content || !reading_words(content, "cpu", words, sizeof words)) goto done;
    // user, nice, system, idle, iowait, irq, softirq, steal
    char *next = words;
    for (int i = 0; i < 8; i++) sum += part[i] = strtod(next, &next);
    const double percent = sum > 0 ? 100 * part[7] / sum : 0;
    if (percent < 5) goto done;
    snprintf(share, sizeof share, "%.0f", percent);
    doctor_find(out, "where", "/proc/stat", "share", share, NULL);
done:
    free(content);
    return result;
}

status probe_load(const doctor_context *c, doctor_findings *out, err *e)
{
    char line[128], list[2048], load[24], cores[24];
    double one, five;
    (void)e;
    if (!doctor_read_line(c, "/proc/loadavg", line, sizeof line) ||
        sscanf(line, "%lf %lf", &one, &five) != 2 ||
        !doctor_read_line(c, CPUS "/online", list, sizeof list)) {
        doctor_skip(out, "/proc/loadavg or " CPUS "/online does not exist");
        return OK;
    }
    const int online = reading_listed(list);
    if (five < 0.75 * online) return OK;
    snprintf(load, sizeof load, "%.1f", five);
    snprintf(cores, sizeof cores, "%d", online);
    doctor_find(out, "where", "/proc/loadavg", "load", load, "cores", cores, NULL);
    return OK;
}

status probe_clocksource(const doctor_context *c, doctor_findings *out, err *e)
{
    static const char PATH[] = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    static const char *const SLOW[] = {"hpet", "acpi_pm", "xen", "jiffies", "refined-jiffies"};
    char name[64];
    (void)e;
    if (!doctor_read_line(c, PATH, name, sizeof name)) {
        doctor_skip(out, "%s does not exist", PATH);
        return OK;
    }
    doctor_fact(out, "clocksource", name);
    for (size_t i = 0; i < sizeof SLOW / sizeof *SLOW; i++)
        if (strcmp(name, SLOW[i]) == 0) doctor_find(out, "where", PATH, "name", name, NULL);
    return OK;
}

// Whether a list of words separated by spaces has a word.
static bool has_word(const char *words, const char *word)
{
    const size_t length = strlen(word);
    for (const char *found = words; (found = strstr(found, word)); found += length)
        if ((found == words || found[-1] == ' ') && (!found[length] || found[length] == ' '))
            return true;
    return false;
}

status probe_features(const doctor_context *c, doctor_findings *out, err *e)
{
    static const char *const NEEDED[] = {"avx2", "fma", "f16c"};
    status result = OK;
    char *content = NULL, flags[8192], name[128] = "processor";
    text missing = {0};
    TRY(reading_need(c, out, "/proc/cpuinfo", &content, e));
    if (!content) goto done;
    if (!reading_words(content, "flags", flags, sizeof flags)) {
        doctor_skip(out, "the processor is not of the kind x86");
        goto done;
    }
    for (size_t i = 0; i < sizeof NEEDED / sizeof *NEEDED; i++)
        if (!has_word(flags, NEEDED[i]))
            text_addf(&missing, "%s%s", missing.bytes ? ", " : "", NEEDED[i]);
    TRY(text_check(&missing, e));
    (void)reading_words(content, "model name", name, sizeof name);
    doctor_fact(out, "cpu_model", name + strspn(name, ": "));
    if (missing.bytes)
        doctor_find(out, "where", "/proc/cpuinfo", "name", name + strspn(name, ": "), "missing",
                    missing.chars, NULL);
done:
    text_clear(&missing);
    free(content);
    return result;
}

typedef struct kind_search {
    int64_t least, most; // kHz; 0: none seen yet
} kind_search;

static bool take_kind(const doctor_context *c, const char *core, void *arg)
{
    kind_search *s = arg;
    int64_t khz;
    if (!read_count(c, core, "cpufreq/cpuinfo_max_freq", &khz)) return true;
    if (!s->least || khz < s->least) s->least = khz;
    if (khz > s->most) s->most = khz;
    return true;
}

status probe_core_kinds(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    kind_search s = {.least = 0};
    int cores;
    char least[24], most[24];
    TRY(each_core(c, take_kind, &s, &cores, e));
    if (!s.most) {
        doctor_skip(out, "the kernel does not set the frequency of cores");
        goto done;
    }
    if (s.least >= s.most - s.most / 5) goto done;
    snprintf(least, sizeof least, "%.2f", (double)s.least / 1e6);
    snprintf(most, sizeof most, "%.2f", (double)s.most / 1e6);
    doctor_find(out, "where", "cpuinfo_max_freq", "least", least, "most", most, NULL);
done:
    return result;
}
