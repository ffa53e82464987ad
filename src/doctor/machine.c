// machine.c -- reads a file of thresholds. See machine.h.
#include "doctor/machine.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/text.h"

#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

// Every threshold: a check reads it by doctor_threshold.
static const char *const KEYS[] = {
    "all_reduce_gb_per_s",    // of the ranks of this host on the CPU
    "clock_drift_ppm",        // between two clocks of the machine
    "copy_gb_per_s",          // of one copy of memory
    "core_spread_percent",    // that a core may be slower than the others
    "dirty_gib",              // of pages that wait to be written
    "disk_read_gb_per_s",     // of the run's folder
    "disk_write_gb_per_s",    // of the same, with an fsync
    "disk_free_gib",          // of the run's folder
    "ecc_corrected",          // errors of a GPU's memory that were corrected
    "fsync_ms",               // that one takes
    "gpu_spread_percent",     // that a GPU may be slower than the others
    "ib_gbits",               // of a port of InfiniBand, 0: what the port itself says
    "interface_mbits",        // of the interface that ranks take
    "io_pressure_percent",    // of the time in which tasks wait for disks
    "matmul_bf16_tflops",     // of a GPU
    "nvlink_errors",          // of one link
    "nvlinks",                // of a GPU
    "pcie_corrected",         // errors of a device
    "pcie_gen",               // of a GPU's link
    "pcie_replays",           // of a GPU
    "pcie_width",             // of a GPU's link
    "shm_mib",                // room of /dev/shm for each rank
    "stalled_power_share",    // of a GPU's limit, below which it is stalled at full load
    "stress_memory_mib",      // that the stress test writes
    "stress_seconds",         // that a stress test takes
    "sustained_drop_percent", // that rates may fall under load
};

enum { KEY_COUNT = sizeof KEYS / sizeof KEYS[0] };

struct doctor_machine {
    char *name, *gpu, *cpu; // gpu, cpu: globs; NULL: any
    int gpus;               // 0: any number
    bool given[KEY_COUNT];
    double threshold[KEY_COUNT];
};

// A file that is being read.
typedef struct machine_reader {
    const char *path;
    yaml_document_t *document;
    doctor_machine *machine;
} machine_reader;

typedef status machine_entry(const machine_reader *r, const char *key, const yaml_node_t *value,
                             err *e);

static int line_of(const yaml_node_t *n)
{
    return (int)n->start_mark.line + 1;
}

// The text of a plain value. libyaml ends it with a zero byte; one inside is refused.
static status read_scalar(const machine_reader *r, const yaml_node_t *n, const char *what,
                          const char **out, err *e)
{
    if (n->type != YAML_SCALAR_NODE ||
        strlen((const char *)n->data.scalar.value) != n->data.scalar.length)
        return err_set(e, E_USAGE, "%s:%d: %s is no plain text", r->path, line_of(n), what);
    *out = (const char *)n->data.scalar.value;
    return OK;
}

// Calls `entry` for each key of a map.
static status read_map(const machine_reader *r, const yaml_node_t *n, const char *what,
                       machine_entry *entry, err *e)
{
    status result = OK;
    if (n->type != YAML_MAPPING_NODE)
        FAIL(E_USAGE, "%s:%d: %s is no map of keys and values", r->path, line_of(n), what);
    for (const yaml_node_pair_t *p = n->data.mapping.pairs.start; p < n->data.mapping.pairs.top;
         p++) {
        const char *key = NULL;
        TRY(read_scalar(r, yaml_document_get_node(r->document, p->key), "the key", &key, e));
        TRY(entry(r, key, yaml_document_get_node(r->document, p->value), e));
    }
done:
    return result;
}

static status refuse_key(const machine_reader *r, const yaml_node_t *n, const char *key,
                         const char *const *valid, size_t count, err *e)
{
    status result = OK;
    text all = {0};
    const char *nearest = text_nearest(key, valid, count);
    if (nearest)
        FAIL(E_USAGE, "%s:%d: unknown key \"%s\"; the nearest is \"%s\"", r->path, line_of(n), key,
             nearest);
    for (size_t i = 0; i < count; i++) text_addf(&all, "%s%s", i ? ", " : "", valid[i]);
    TRY(text_check(&all, e));
    FAIL(E_USAGE, "%s:%d: unknown key \"%s\"; valid: %.*s", r->path, line_of(n), key,
         TEXT_CUT(all.chars, 800));
done:
    text_clear(&all);
    return result;
}

// Sets a text once.
static status take_text(const machine_reader *r, const char *key, const yaml_node_t *value,
                        char **out, err *e)
{
    status result = OK;
    const char *s = NULL;
    if (*out) FAIL(E_USAGE, "%s:%d: %s is given twice", r->path, line_of(value), key);
    TRY(read_scalar(r, value, key, &s, e));
    TRY(text_copy(s, out, e));
done:
    return result;
}

static status read_match(const machine_reader *r, const char *key, const yaml_node_t *value, err *e)
{
    static const char *const VALID[] = {"gpu", "gpus", "cpu"};
    status result = OK;
    const char *s = NULL;
    int64_t n;
    if (strcmp(key, "gpu") == 0) return take_text(r, key, value, &r->machine->gpu, e);
    if (strcmp(key, "cpu") == 0) return take_text(r, key, value, &r->machine->cpu, e);
    if (strcmp(key, "gpus") != 0) return refuse_key(r, value, key, VALID, 3, e);
    if (r->machine->gpus) FAIL(E_USAGE, "%s:%d: %s is given twice", r->path, line_of(value), key);
    TRY(read_scalar(r, value, key, &s, e));
    if (!text_to_count(s, &n) || n < 1 || n > INT_MAX)
        FAIL(E_USAGE, "%s:%d: gpus is \"%s\"; valid is a number of GPUs from 1", r->path,
             line_of(value), s);
    r->machine->gpus = (int)n;
done:
    return result;
}

static status read_threshold(const machine_reader *r, const char *key, const yaml_node_t *value,
                             err *e)
{
    status result = OK;
    const char *s = NULL;
    int i = 0;
    while (i < KEY_COUNT && strcmp(KEYS[i], key) != 0) i++;
    if (i == KEY_COUNT) return refuse_key(r, value, key, KEYS, KEY_COUNT, e);
    if (r->machine->given[i])
        FAIL(E_USAGE, "%s:%d: %s is given twice", r->path, line_of(value), key);
    TRY(read_scalar(r, value, key, &s, e));
    if (!text_to_double(s, &r->machine->threshold[i]) || r->machine->threshold[i] < 0)
        FAIL(E_USAGE, "%s:%d: %s is \"%s\"; valid is a number from 0", r->path, line_of(value), key,
             s);
    r->machine->given[i] = true;
done:
    return result;
}

static status read_top(const machine_reader *r, const char *key, const yaml_node_t *value, err *e)
{
    static const char *const VALID[] = {"name", "match", "thresholds"};
    if (strcmp(key, "name") == 0) return take_text(r, key, value, &r->machine->name, e);
    if (strcmp(key, "match") == 0) return read_map(r, value, key, read_match, e);
    if (strcmp(key, "thresholds") == 0) return read_map(r, value, key, read_threshold, e);
    return refuse_key(r, value, key, VALID, 3, e);
}

static status read_document(const char *path, const char *content, size_t bytes, doctor_machine *m,
                            err *e)
{
    status result = OK;
    yaml_parser_t parser;
    yaml_document_t document;
    bool loaded = false;
    if (!yaml_parser_initialize(&parser)) return alloc_failed(sizeof parser, "a file's reader", e);
    yaml_parser_set_input_string(&parser, (const unsigned char *)content, bytes);
    loaded = yaml_parser_load(&parser, &document);
    if (!loaded && parser.error == YAML_MEMORY_ERROR) FAIL(E_MEMORY, "no memory for %s", path);
    if (!loaded)
        FAIL(E_USAGE, "%s:%zu: broken YAML: %s", path, parser.problem_mark.line + 1,
             parser.problem ? parser.problem : "cannot be read");
    const yaml_node_t *root = yaml_document_get_root_node(&document);
    if (!root) FAIL(E_USAGE, "%s: the file is empty", path);
    const machine_reader r = {.path = path, .document = &document, .machine = m};
    TRY(read_map(&r, root, "the file", read_top, e));
    if (!m->name) FAIL(E_USAGE, "%s: the key name is missing", path);
done:
    if (loaded) yaml_document_delete(&document);
    yaml_parser_delete(&parser);
    return result;
}

status doctor_machine_open(const char *path, doctor_machine **out, err *e)
{
    status result = OK;
    char *content = NULL;
    size_t bytes;
    doctor_machine *m = NULL;
    TRY(file_read_small(path, FILE_MOST_CONFIG, &content, &bytes, e));
    TRY(alloc_zeroed(&m, 1, sizeof *m, "a machine file", e));
    TRY(read_document(path, content, bytes, m, e));
    *out = m;
    m = NULL;
done:
    doctor_machine_close(m);
    free(content);
    return result;
}

void doctor_machine_close(doctor_machine *m)
{
    if (!m) return;
    free(m->name);
    free(m->gpu);
    free(m->cpu);
    free(m);
}

bool doctor_machine_matches(const doctor_machine *m, const doctor_identity *i)
{
    return (!m->gpu || fnmatch(m->gpu, i->gpu, 0) == 0) &&
           (!m->cpu || fnmatch(m->cpu, i->cpu, 0) == 0) && (!m->gpus || m->gpus == i->gpus);
}

const char *doctor_machine_name(const doctor_machine *m)
{
    return m->name;
}

bool doctor_machine_threshold(const doctor_machine *m, const char *key, double *out)
{
    for (int i = 0; i < KEY_COUNT; i++)
        if (m->given[i] && strcmp(KEYS[i], key) == 0) {
            *out = m->threshold[i];
            return true;
        }
    return false;
}
