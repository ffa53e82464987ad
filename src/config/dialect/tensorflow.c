// tensorflow.c -- the dialect of TensorFlow's words (2.21): a TF_CONFIG in a file, and tf.distribute's strategies with their
// options in YAML. launch/ reads the variable TF_CONFIG. dialect.c reads the file. See dialect.h.
#include "config/dialect/private.h"

#include <string.h>

#define WORD(word, ours)                                                                           \
    {word, ours},                                                                                  \
    {                                                                                              \
        "tf.distribute." word, ours                                                                \
    }
#define NAMED(word, ours)                                                                          \
    {word, ours},                                                                                  \
    {                                                                                              \
        "CommunicationImplementation." word, ours                                                  \
    }

// The strategies are words of parallel.dp, too.
static const char *const STRATEGIES[][2] = {
    WORD("MirroredStrategy", "MirroredStrategy"),
    WORD("MultiWorkerMirroredStrategy", "MultiWorkerMirroredStrategy"),
    WORD("ParameterServerStrategy", NULL),
    WORD("CentralStorageStrategy", NULL),
    WORD("OneDeviceStrategy", NULL),
    WORD("TPUStrategy", NULL),
    {NULL, NULL}};
static const char *const IMPLEMENTATIONS[][2] = {
    NAMED("AUTO", "auto"), NAMED("RING", "auto"), NAMED("NCCL", "nccl"), {NULL, NULL}};
static const char *const POLICIES[][2] = {
    {"float32", "fp32"}, {"mixed_float16", "fp16"}, {"mixed_bfloat16", "bf16"}, {NULL, NULL}};
static const char *const TASKS[][2] = {
    {"chief", "chief"}, {"worker", "worker"}, {"ps", NULL}, {"evaluator", NULL}, {NULL, NULL}};

static const char OPS[] = "sums have one fixed order, and launch.comm chooses who exchanges them";
static const char RESOLVER[] =
    "the variable TF_CONFIG, or another launcher's, says which ranks there are";

static status convert_seconds(const dialect_reader *r, const dialect_row *row, const yaml_node *n,
                              text *out, err *e)
{
    (void)r, (void)row;
    text_addf(out, "%ss", n->scalar);
    return text_check(out, e);
}

// 0 leaves the size to TensorFlow.
static status convert_pack(const dialect_reader *r, const dialect_row *row, const yaml_node *n,
                           text *out, err *e)
{
    int64_t bytes = 0;
    (void)r, (void)row;
    if (text_to_count(n->scalar, &bytes) && bytes > 0) text_addf(out, "%lld", (long long)bytes);
    return out->failed ? text_check(out, e) : OK;
}

#define COMMUNICATION(section)                                                                     \
    SECTION(section),                                                                              \
        SETS_WITH(section ".bytes_per_pack", DIALECT_WHOLE, "0", "parallel.bucket_bytes",          \
                  .convert = convert_pack),                                                        \
        SETS_WITH(section ".timeout_seconds", DIALECT_NUMBER, NULL, "checks.watchdog",             \
                  .convert = convert_seconds),                                                     \
        SETS_WITH(section ".implementation", DIALECT_WORD, "AUTO", "launch.comm",                  \
                  .words = IMPLEMENTATIONS)

// clang-format off
static const dialect_row ROW[] = {
    SECTION("cluster"),
    READ("cluster.chief", DIALECT_LIST, NULL),
    READ("cluster.worker", DIALECT_LIST, NULL),
    REFUSED("cluster.ps", DIALECT_ANY, NULL, "parameter servers are no part of Trireme; valid: tasks chief and worker, whose ranks shard state by parallel.dp"),
    REFUSED("cluster.evaluator", DIALECT_ANY, NULL, "a task for evaluation is no part of Trireme; valid: data.valid and train.eval_every, which all ranks evaluate"),
    SECTION("task"),
    READ_WITH("task.type", DIALECT_WORD, NULL, .words = TASKS),
    READ_WITH("task.index", DIALECT_WHOLE, NULL, .low = 0),
    NOTHING("environment", DIALECT_TEXT, NULL, "no result depends on it"),
    NOTHING("rpc_layer", DIALECT_TEXT, NULL, "ranks do not exchange by gRPC"),

    SETS_WITH("strategy", DIALECT_WORD, NULL, "parallel.dp", .words = STRATEGIES),
    READ("devices", DIALECT_LIST, NULL),
    NOTHING("cross_device_ops", DIALECT_TEXT, NULL, OPS),
    NOTHING("cluster_resolver", DIALECT_TEXT, NULL, RESOLVER),
    COMMUNICATION("communication_options"),
    SECTION("MirroredStrategy"),
    READ("MirroredStrategy.devices", DIALECT_LIST, NULL),
    NOTHING("MirroredStrategy.cross_device_ops", DIALECT_TEXT, NULL, OPS),
    SECTION("MultiWorkerMirroredStrategy"),
    NOTHING("MultiWorkerMirroredStrategy.cluster_resolver", DIALECT_TEXT, NULL, RESOLVER),
    COMMUNICATION("MultiWorkerMirroredStrategy.communication_options"),

    SETS_WITH("batch_size_per_replica", DIALECT_WHOLE, NULL, "train.micro_batch", .low = 1),
    SETS_WITH("global_batch_size", DIALECT_WHOLE, NULL, "train.global_batch", .low = 1),
    SETS_WITH("epochs", DIALECT_WHOLE, NULL, "train.epochs", .low = 1),
    SETS_WITH("mixed_precision", DIALECT_WORD, NULL, "train.precision", .words = POLICIES),
};
// clang-format on

static int64_t length_of(const yaml_node *list)
{
    int64_t count = 0;
    for (const yaml_node *n = list ? list->first : NULL; n; n = n->next) count++;
    return count;
}

// TensorFlow takes texts alone for addresses.
static status check_addresses(const dialect_reader *r, const char *key, err *e)
{
    const yaml_node *list = dialect_value(r, key);
    for (const yaml_node *n = list ? list->first : NULL; n; n = n->next) {
        double number;
        text found = {0};
        if (n->kind == NODE_SCALAR && (n->quoted || !text_to_double(n->scalar, &number))) continue;
        yaml_node_text(n, &found);
        const status result =
            dialect_refuse(r, key, e, "found the address %.*s; valid: \"host:port\"",
                           TEXT_CUT(found.chars ? found.chars : "", 200));
        text_clear(&found);
        return result;
    }
    return OK;
}

// A rank for each task: the chief is rank 0, and the workers follow in their order.
static status finish_cluster(const dialect_reader *r, err *e)
{
    status result = OK;
    const char *type = dialect_text(r, "task.type");
    const int64_t chiefs = length_of(dialect_value(r, "cluster.chief"));
    const int64_t workers = length_of(dialect_value(r, "cluster.worker"));
    const bool is_chief = type && strcmp(type, "chief") == 0;
    int64_t index = 0;
    if (!dialect_value(r, "cluster")) return OK;
    TRY(check_addresses(r, "cluster.chief", e));
    TRY(check_addresses(r, "cluster.worker", e));
    if (type && !is_chief && strcmp(type, "worker") != 0) // TensorFlow's words are in lower case
        return dialect_refuse(r, "task.type", e, "found %.*s; valid: chief, worker",
                              TEXT_CUT(type, 200));
    if (chiefs > 1)
        return dialect_refuse(r, "cluster.chief", e, "found %lld tasks; valid: one",
                              (long long)chiefs);
    if (!chiefs && !workers)
        return dialect_refuse(r, "cluster", e,
                              "found no tasks; valid: worker with a list of "
                              "\"host:port\"");
    TRY(dialect_set_count(r, "launch.ranks", chiefs + workers, "cluster", "a rank for each task",
                          e));
    if (!dialect_value(r, "strategy"))
        TRY(dialect_set(r, "parallel.dp", "MultiWorkerMirroredStrategy", "cluster", NULL, e));
    if (!type || !dialect_count(r, "task.index", &index)) goto done;
    if (index >= (is_chief ? chiefs : workers))
        return dialect_refuse(r, "task.index", e, "found %lld; valid: 0 to %lld", (long long)index,
                              (long long)(is_chief ? chiefs : workers) - 1);
    TRY(dialect_remark_on(r, "task", false, e,
                          "%s %lld is rank %lld of %lld: where the variable TF_CONFIG holds this "
                          "text, trireme train is that rank",
                          is_chief ? "chief" : "worker", (long long)index,
                          (long long)(index + (is_chief ? 0 : chiefs)),
                          (long long)(chiefs + workers)));
done:
    return result;
}

// A rank for each device of a list.
static status finish_devices(const dialect_reader *r, err *e)
{
    status result = OK;
    const char *key = "MirroredStrategy.devices";
    if (!dialect_value(r, key)) key = "devices";
    const yaml_node *list = dialect_value(r, key);
    if (!list) return OK;
    if (!list->first) return dialect_refuse(r, key, e, "found no device; valid: [GPU:0, GPU:1]");
    bool cpu = true;
    for (const yaml_node *n = list->first; n; n = n->next)
        cpu =
            cpu && n->kind == NODE_SCALAR && (strstr(n->scalar, "CPU") || strstr(n->scalar, "cpu"));
    TRY(dialect_set_count(r, "launch.ranks", length_of(list), key, "a rank for each device", e));
    if (cpu) TRY(dialect_set(r, "launch.device", "cpu", key, NULL, e));
    if (!cpu)
        TRY(dialect_remark_on(r, key, false, e,
                              "rank N takes the N-th GPU of CUDA_VISIBLE_DEVICES"));
done:
    return result;
}

static status finish(const dialect_reader *r, err *e)
{
    status result = OK;
    static const char *const SECTIONS[] = {"MirroredStrategy", "MultiWorkerMirroredStrategy"};
    for (int i = 0; i < 2; i++)
        if (dialect_value(r, SECTIONS[i]) && !dialect_value(r, "strategy"))
            TRY(dialect_set(r, "parallel.dp", SECTIONS[i], SECTIONS[i], NULL, e));
    TRY(finish_cluster(r, e));
    TRY(finish_devices(r, e));
    if (dialect_value(r, "batch_size_per_replica") && !dialect_value(r, "global_batch_size"))
        TRY(dialect_set(r, "train.accumulation", "1", "batch_size_per_replica",
                        "a step is one batch of each replica", e));
done:
    return result;
}

const dialect dialect_tensorflow = {
    .name = "tensorflow",
    .system = "TensorFlow",
    .ignores_other = true,
    .rows = ROW,
    .row_count = sizeof ROW / sizeof *ROW,
    .finish = finish,
    .dtypes = "master weights fp32 in both; gradients are summed over ranks in train.reduce_dtype, "
              "fp32 by default (TensorFlow: in the type of the variables), and the loss is divided "
              "by the tokens of the global batch, as tf.nn.compute_average_loss divides it",
};
