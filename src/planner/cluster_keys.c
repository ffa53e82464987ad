// cluster_keys.c -- reads a cluster file: each key is a row of a table, which names its field, unit and range. Called by
// cluster.c. It knows no costs.
#include "config/yaml_node.h"
#include "planner/cluster_private.h"

#include "base/file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct cluster_key {
    const char *path;
    size_t offset; // of the double in planner_cluster
    double least, most;
    bool is_bytes; // a count with a unit, as 2Ti
} cluster_key;

#define KEY(path, field, least, most)                                                              \
    {                                                                                              \
        path, offsetof(planner_cluster, field), least, most, false                                 \
    }
#define BYTES(path, field)                                                                         \
    {                                                                                              \
        path, offsetof(planner_cluster, field), 1048576, 1e18, true                                \
    }

static const cluster_key KEYS[] = {
    KEY("nodes", nodes, 0, 1e6),
    KEY("gpus_per_node", ranks_per_node, 1, 1024),
    KEY("ranks_per_node", ranks_per_node, 1, 1024),
    KEY("sockets", sockets, 1, 64),
    BYTES("host_memory", host_bytes),
    KEY("nics.count", nics, 1, 1024),
    KEY("nics.gbits", nic_gbits, 0.1, 1e5),
    KEY("nics.rails", rails, 1, 1024),
    KEY("switch_nodes", switch_nodes, 0, 1e6),
    KEY("oversubscription", oversubscription, 1, 1000),
    KEY("latency_us.link", link_latency_us, 0, 1e5),
    KEY("latency_us.network", network_latency_us, 0, 1e5),
    KEY("disks.read_gbytes_per_s", read_gbytes_per_s, 0.001, 1e5),
    KEY("disks.write_gbytes_per_s", write_gbytes_per_s, 0.001, 1e5),
    KEY("checkpoint_gbytes_per_s", checkpoint_gbytes_per_s, 0.001, 1e5),
    KEY("price_per_gpu_hour", price_per_hour, 0, 1e4),
    KEY("node_watts", node_watts, 0, 1e6),
    KEY("failures.mtbf_gpu_hours", mtbf_hours, 1, 1e9),
    KEY("failures.restart_s", restart_s, 0, 1e6),
    KEY("expected_error_percent", expected_error_percent, 0, 1000),
    KEY("gpu.bf16_tflops", gpu.bf16_tflops, 0.001, 1e6),
    KEY("gpu.fp16_tflops", gpu.fp16_tflops, 0.001, 1e6),
    KEY("gpu.fp8_tflops", gpu.fp8_tflops, 0, 1e6),
    KEY("gpu.tf32_tflops", gpu.tf32_tflops, 0, 1e6),
    KEY("gpu.fp32_tflops", gpu.fp32_tflops, 0.001, 1e6),
    BYTES("gpu.memory", gpu.memory_bytes),
    KEY("gpu.memory_gbytes_per_s", gpu.memory_gbytes_per_s, 0.1, 1e6),
    KEY("gpu.link_gbytes_per_s", gpu.link_gbytes_per_s, 0, 1e5),
    KEY("gpu.pcie_gbytes_per_s", gpu.pcie_gbytes_per_s, 0.1, 1e4),
    KEY("gpu.watts", limit_watts, 1, 1e5),
    KEY("gpu.sms", gpu.sms, 1, 1e5),
    KEY("gpu.product", gpu.product, 0.01, 1),
    KEY("cpu.bf16_tflops", gpu.bf16_tflops, 0.001, 1e6),
    KEY("cpu.fp32_tflops", gpu.fp32_tflops, 0.001, 1e6),
    BYTES("cpu.memory", gpu.memory_bytes),
    KEY("cpu.memory_gbytes_per_s", gpu.memory_gbytes_per_s, 0.1, 1e6),
    KEY("cpu.watts", limit_watts, 1, 1e5),
    KEY("efficiency.product", constants.product, 0.01, 2),
    KEY("efficiency.product_depth", constants.product_depth, 0, 1e5),
    KEY("efficiency.product_fp8", constants.product_fp8, 0.01, 2),
    KEY("efficiency.attention", constants.attention, 0.001, 1),
    KEY("efficiency.attention_grad", constants.attention_grad, 0.001, 1),
    KEY("efficiency.attention_tokens", constants.attention_tokens, 0, 1e5),
    KEY("efficiency.memory", constants.memory, 0.01, 1),
    KEY("efficiency.traffic", constants.traffic, 0.1, 100),
    KEY("efficiency.launch_us", constants.launch_us, 0, 1000),
    KEY("efficiency.link", constants.link, 0.01, 1),
    KEY("efficiency.network", constants.network, 0.01, 1),
    KEY("efficiency.call_compute", constants.call_compute, 0, 1),
    KEY("efficiency.overlapped", constants.overlapped, 0, 1),
    KEY("efficiency.power", constants.power, 0, 1),
};
enum { KEYS_COUNT = sizeof KEYS / sizeof *KEYS, WORDS = 3, PATH_BYTES = 64 };

static const char *const WORD_KEYS[WORDS] = {"name", "sources", "gpu.base"};

typedef struct cluster_reader {
    const char *file;
    planner_cluster *out;
    bool has_cpu, has_gpu; // sections
} cluster_reader;

static status unknown(const cluster_reader *r, const yaml_node *n, const char *path, err *e)
{
    const char *names[KEYS_COUNT + WORDS];
    int count = 0;
    for (int i = 0; i < KEYS_COUNT; i++) names[count++] = KEYS[i].path;
    for (int i = 0; i < WORDS; i++) names[count++] = WORD_KEYS[i];
    const char *near = text_nearest(path, names, (size_t)count);
    return err_set(e, E_USAGE, "%s:%d: unknown key %.*s%s%s%s", r->file, n->line,
                   TEXT_CUT(path, PATH_BYTES), near ? "; did you mean " : "", near ? near : "",
                   near ? "?" : "; examples/clusters has files with all keys");
}

// Of a node, for messages.
static const char *found_text(const yaml_node *n)
{
    return n->kind == NODE_SCALAR ? n->scalar : n->kind == NODE_LIST ? "a list" : "a section";
}

static status read_number(const cluster_reader *r, const cluster_key *k, const yaml_node *n, err *e)
{
    double value = 0;
    int64_t bytes = 0;
    const bool is_scalar = n->kind == NODE_SCALAR;
    bool is_number = is_scalar;
    if (is_scalar && k->is_bytes) {
        is_number = text_to_count(n->scalar, &bytes);
        value = (double)bytes;
    } else if (is_scalar) {
        is_number = text_to_double(n->scalar, &value);
    }
    if (!is_number || value < k->least || value > k->most)
        return err_set(e, E_USAGE, "%s:%d: %s: found %.*s; valid: a number%s from %g to %g",
                       r->file, n->line, k->path, TEXT_CUT(found_text(n), 40),
                       k->is_bytes ? " of bytes, as 2Ti," : "", k->least, k->most);
    memcpy((char *)r->out + k->offset, &value, sizeof value);
    return OK;
}

// The GPU of the table comes first, so that other keys of its section override its figures.
static status take_gpu(const cluster_reader *r, const yaml_node *n, err *e)
{
    const char *names[PLANNER_GPUS];
    text all = {0};
    status result = OK;
    const bool is_scalar = n->kind == NODE_SCALAR && n->scalar;
    const planner_gpu *found = is_scalar ? planner_gpu_find(n->scalar) : NULL;
    if (!found) {
        const int count = planner_gpu_names(names);
        const char *near = is_scalar ? text_nearest(n->scalar, names, (size_t)count) : NULL;
        for (int i = 0; i < count; i++) text_addf(&all, "%s%s", i ? ", " : "", names[i]);
        FAIL(E_USAGE, "%s:%d: gpu: found %.*s; valid: %s%s%s%s", r->file, n->line,
             TEXT_CUT(found_text(n), 40), all.chars, near ? "; did you mean " : "",
             near ? near : "", near ? "?" : "");
    }
    r->out->gpu_name = found->name;
    r->out->gpu = *found;
done:
    text_clear(&all);
    return result;
}

static status read_key(cluster_reader *r, const char *path, const yaml_node *n, err *e)
{
    status result = OK;
    if (strcmp(path, "gpu.base") == 0) return OK; // take_gpu has read it
    for (int i = 0; i < KEYS_COUNT; i++)
        if (strcmp(KEYS[i].path, path) == 0) return read_number(r, &KEYS[i], n, e);
    if (strcmp(path, "name") == 0) {
        if (n->kind != NODE_SCALAR) FAIL(E_USAGE, "%s:%d: name is not a word", r->file, n->line);
        free(r->out->name);
        r->out->name = NULL;
        return text_copy(n->scalar, &r->out->name, e);
    }
    if (strcmp(path, "sources") == 0) {
        if (n->kind != NODE_LIST) FAIL(E_USAGE, "%s:%d: sources is not a list", r->file, n->line);
        for (const yaml_node *s = n->first; s; s = s->next)
            if (s->scalar) text_addf(&r->out->sources, "source: %s\n", s->scalar);
        goto done;
    }
    result = unknown(r, n, path, e);
done:
    return result;
}

static status read_section(cluster_reader *r, const char *section, const yaml_node *map, err *e)
{
    status result = OK;
    for (const yaml_node *n = map->first; n; n = n->next) {
        char path[2 * PATH_BYTES];
        snprintf(path, sizeof path, "%.*s.%.*s", TEXT_CUT(section, PATH_BYTES - 1),
                 TEXT_CUT(n->key, PATH_BYTES - 1));
        TRY(read_key(r, path, n, e));
    }
done:
    return result;
}

static status read_entry(cluster_reader *r, const yaml_node *n, err *e)
{
    const bool is_gpu = strcmp(n->key, "gpu") == 0;
    if (is_gpu && n->kind == NODE_SCALAR) return OK;
    if (n->kind == NODE_MAP) return read_section(r, n->key, n, e);
    return read_key(r, n->key, n, e);
}

static status read_root(cluster_reader *r, const yaml_node *root, err *e)
{
    status result = OK;
    const yaml_node *gpu = yaml_node_entry(root, "gpu"), *cpu = yaml_node_entry(root, "cpu");
    const yaml_node *base = gpu && gpu->kind == NODE_MAP ? yaml_node_entry(gpu, "base") : gpu;
    if (root->kind != NODE_MAP) FAIL(E_USAGE, "%s: not a section of keys", r->file);
    if (!base == !cpu)
        FAIL(E_USAGE,
             "%s:%d: a cluster file has one of gpu (a name, or a section with base) and cpu",
             r->file,
             gpu   ? gpu->line
             : cpu ? cpu->line
                   : 1);
    if (base) TRY(take_gpu(r, base, e));
    for (const yaml_node *n = root->first; n; n = n->next) TRY(read_entry(r, n, e));
    if (!r->out->name) FAIL(E_USAGE, "%s: name: found nothing; valid: a word", r->file);
    if (r->out->gpu.memory_gbytes_per_s <= 0 || r->out->gpu.fp32_tflops <= 0)
        FAIL(E_USAGE, "%s:%d: cpu lacks fp32_tflops or memory_gbytes_per_s", r->file, cpu->line);
done:
    return result;
}

status cluster_read(const char *path, planner_cluster *out, err *e)
{
    status result = OK;
    enum { CLUSTER_FILE_MOST = 1 << 20 };
    cluster_reader r = {.file = path, .out = out};
    char *content = NULL;
    size_t bytes;
    yaml_node *root = NULL;
    TRY(file_read_small(path, CLUSTER_FILE_MOST, &content, &bytes, e));
    TRY(yaml_node_parse(path, content, bytes, &root, e));
    TRY(read_root(&r, root, e));
    TRY(text_check(&out->sources, e));
done:
    yaml_node_free(root);
    free(content);
    return result;
}

void cluster_clear(planner_cluster *c)
{
    free(c->name);
    text_clear(&c->sources);
    *c = (planner_cluster){.name = NULL};
}
