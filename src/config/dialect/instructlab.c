// instructlab.c -- the dialect of InstructLab's config.yaml and of the flags of `ilab model train` (instructlab 0.26,
// configuration.py and cli/model/train.py; instructlab-training 0.16). The flags are the rows' options. What its library
// fixes (bf16, AdamW, cosine) is set. Some keys are those of articles, which InstructLab does not read. dialect.c reads
// it. See dialect.h.
#include "config/dialect/private.h"

#include "base/file.h"
#include "config/values.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define IN_TRAIN(word) "train." word
#define MORE(word)     "train.additional_args." word

static const char *const DEVICES[][2] = {
    {"cpu", "cpu"}, {"cuda", "cuda"}, {"hpu", NULL}, {"mps", NULL}, {NULL, NULL}};
static const char *const BACKENDS[][2] = {{"fsdp", "zero3"}, {"deepspeed", "zero2"}, {NULL, NULL}};
static const char *const PIPELINES[][2] = {
    {"full", "full"}, {"accelerated", "accelerated"}, {"simple", NULL}, {NULL, NULL}};
static const char *const PRECISIONS[][2] = {
    {"bf16", "bf16"}, {"fp16", "fp16"}, {"fp32", "fp32"}, {"no", "fp32"}, {NULL, NULL}};
static const char *const STAGES[][2] = {
    {"0", "ddp"}, {"1", "zero1"}, {"2", "zero2"}, {"3", "zero3"}, {NULL, NULL}};
static const char *const QUANTIZED[][2] = {{"nf4", "nf4"}, {"none", "auto"}, {NULL, NULL}};
static const char *const RECOMPUTING[][2] = {{"true", "full"}, {"false", "none"}, {NULL, NULL}};

static const char DERIVED[] = "InstructLab has no such key: it derives it from max_batch_len";
static const char PHASES[] =
    "training in phases is planned, not written yet; valid: one run for each phase";
static const char GGUF[] =
    "valid: a HuggingFace folder, which trireme checkpoint import makes of a GGUF file";
static const char MLX[] = "it belongs to the pipeline simple, which is not the library's training";
static const char FILES[] =
    "valid: FILE.jsonl with messages, or PREFIX of token shards, which trireme data prepare writes";
static const char PACKING[] =
    "a micro-batch is not filled by tokens: each sample has a row of data.seq_len tokens, and "
    "train.micro_batch auto takes as many rows as fit in memory";

// Appends the path of a model. A name that is no folder here is that of one in the cache of `ilab model download`.
static status add_model(const char *name, text *out, err *e)
{
    const char *cache = getenv("XDG_CACHE_HOME");
    text path = {0};
    if (*name != '/' && *name != '~' && *name != '.' && !file_exists(name))
        text_addf(&path, "%s/instructlab/models/", cache && *cache ? cache : "~/.cache");
    text_add(&path, name);
    const status result = text_check(&path, e);
    if (result == OK) yaml_node_quote(path.chars, out);
    text_clear(&path);
    return result == OK ? text_check(out, e) : result;
}

static status convert_model(const dialect_reader *r, const dialect_row *row, const yaml_node *n,
                            text *out, err *e)
{
    const size_t bytes = strlen(n->scalar);
    if (bytes > 5 && strcasecmp(n->scalar + bytes - 5, ".gguf") == 0)
        return dialect_refuse(r, row->theirs, e, "found %.*s; %s", TEXT_CUT(n->scalar, 200), GGUF);
    return add_model(n->scalar, out, e);
}

// Samples between checkpoints become steps.
static int64_t steps_of(const dialect_reader *r, int64_t samples)
{
    int64_t batch = 0;
    if (!dialect_count(r, IN_TRAIN("effective_batch_size"), &batch) || batch < 1) batch = 1;
    if (!samples) return 1000000000;
    return samples / batch > 1 ? samples / batch : 1;
}

static status convert_samples(const dialect_reader *r, const dialect_row *row, const yaml_node *n,
                              text *out, err *e)
{
    int64_t samples = 0;
    (void)row;
    (void)text_to_count(n->scalar, &samples);
    text_addf(out, "%lld", (long long)steps_of(r, samples));
    return text_check(out, e);
}

#define OTHER(it) NOTHING(it, DIALECT_ANY, NULL, NULL) // a section of another command
#define PHASED(word)                                                                               \
    OPTION("phased_" word, IN_TRAIN("phased_" word), DIALECT_ANY, NULL, EFFECT_NOTHING, NULL)

// clang-format off
static const dialect_row ROW[] = {
    OTHER("chat"), OTHER("evaluate"), OTHER("general"), OTHER("generate"), OTHER("metadata"), OTHER("models"),
    OTHER("rag"), OTHER("serve"), OTHER("version"),

    OPEN_SECTION("train"),
    READ_WITH(IN_TRAIN("pipeline"), DIALECT_WORD, "full", .option = "pipeline", .words = PIPELINES),
    SETS_WITH(IN_TRAIN("model_path"), DIALECT_TEXT, "instructlab/granite-7b-lab", "model.path", .option = "model_path", .convert = convert_model),
    SETS_WITH(IN_TRAIN("device"), DIALECT_WORD, "cpu", "launch.device", .option = "device", .words = DEVICES),
    READ_WITH(IN_TRAIN("data_path"), DIALECT_TEXT, NULL, .option = "data_path"),
    SETS_WITH(IN_TRAIN("ckpt_output_dir"), DIALECT_TEXT, NULL, "train.out", .option = "ckpt_output_dir", .note = "checkpoints are checkpoints/step-N in it"),
    OPTION("data_output_dir", IN_TRAIN("data_output_dir"), DIALECT_TEXT, NULL, EFFECT_NOTHING, "data are encoded when the run starts, and no processed data are written"),
    SETS_WITH(IN_TRAIN("max_seq_len"), DIALECT_WHOLE, "4096", "data.seq_len", .option = "max_seq_len", .low = 1),
    OPTION("max_batch_len", IN_TRAIN("max_batch_len"), DIALECT_WHOLE, NULL, EFFECT_LOST, PACKING),
    SETS_WITH(IN_TRAIN("num_epochs"), DIALECT_WHOLE, "10", "train.epochs", .option = "num_epochs", .low = 1),
    SETS_WITH(IN_TRAIN("effective_batch_size"), DIALECT_WHOLE, "64", "train.global_batch", .option = "effective_batch_size", .low = 1),
    SETS_WITH(IN_TRAIN("save_samples"), DIALECT_WHOLE, "250000", "train.save_every", .option = "save_samples", .note = "samples become steps; 0 saves at the end alone", .convert = convert_samples),
    OPTION_WITH("checkpoint_at_epoch", IN_TRAIN("checkpoint_at_epoch"), DIALECT_BOOL, "true", EFFECT_LOST, "train.save_every counts steps, and the end of the run saves, too: no checkpoint stands at each end of an epoch", .same = "false"),
    READ_WITH(IN_TRAIN("deepspeed_cpu_offload_optimizer"), DIALECT_BOOL, "false", .option = "deepspeed_cpu_offload_optimizer"),
    READ_WITH(IN_TRAIN("fsdp_cpu_offload_optimizer"), DIALECT_BOOL, "false", .option = "fsdp_cpu_offload_optimizer"),
    READ_WITH(IN_TRAIN("distributed_backend"), DIALECT_WORD, "fsdp", .option = "distributed_backend", .words = BACKENDS),
    READ_WITH(IN_TRAIN("lora_rank"), DIALECT_WHOLE, "0", .option = "lora_rank", .low = 0),
    READ_WITH(IN_TRAIN("lora_quantize_dtype"), DIALECT_WORD, "nf4", .option = "lora_quantize_dtype", .words = QUANTIZED),
    OPTION("is_padding_free", IN_TRAIN("is_padding_free"), DIALECT_BOOL, "false", EFFECT_NOTHING, "rows hold no padding"),
    READ_WITH(IN_TRAIN("nproc_per_node"), DIALECT_WHOLE, "1", .option = "gpus", .low = 1),
    OPTION("disable_flash_attn", IN_TRAIN("disable_flash_attn"), DIALECT_BOOL, "false", EFFECT_NOTHING, "there is one attention, which keeps no scores"),
    PHASED("phase1_num_epochs"), PHASED("phase1_samples_per_save"), PHASED("phase1_learning_rate"), PHASED("phase1_effective_batch_size"),
    PHASED("phase2_num_epochs"), PHASED("phase2_samples_per_save"), PHASED("phase2_learning_rate"), PHASED("phase2_effective_batch_size"),
    PHASED("mt_bench_judge"), PHASED("base_dir"),
    OPTION("training_journal", IN_TRAIN("training_journal"), DIALECT_ANY, NULL, EFFECT_NOTHING, NULL),

    OPEN_SECTION("train.additional_args"),
    SETS_WITH(MORE("learning_rate"), DIALECT_NUMBER, "2e-5", "optimizer.lr", .option = "learning_rate"),
    SETS_WITH(MORE("warmup_steps"), DIALECT_WHOLE, "25", "lr_schedule.warmup_steps", .option = "warmup_steps"),
    SETS_WITH(MORE("random_seed"), DIALECT_WHOLE, "42", "train.seed", .note = "InstructLab does not hand it to its library, whose seed is 42"),
    OPTION("deepspeed_cpu_offload_optimizer_ratio", MORE("deepspeed_cpu_offload_optimizer_ratio"), DIALECT_NUMBER, "1", EFFECT_LOST, "all state of the optimizer is offloaded: less memory of the device, and more time"),
    OPTION("deepspeed_cpu_offload_optimizer_pin_memory", MORE("deepspeed_cpu_offload_optimizer_pin_memory"), DIALECT_BOOL, "false", EFFECT_NOTHING, "Trireme always does so"),
    READ_WITH(MORE("lora_alpha"), DIALECT_NUMBER, "32", .option = "lora_alpha", .low = 0),
    READ_WITH(MORE("lora_dropout"), DIALECT_NUMBER, "0.1", .option = "lora_dropout", .low = 0),
    READ_WITH(MORE("lora_target_modules"), DIALECT_ANY, NULL, .option = "lora_target_modules", .low = -1e300),
    OPTION("use_dolomite", MORE("use_dolomite"), DIALECT_BOOL, "false", EFFECT_NOTHING, "InstructLab has removed it"),
    READ_WITH(MORE("nnodes"), DIALECT_WHOLE, "1", .option = "nnodes", .low = 1),
    OPTION("node_rank", MORE("node_rank"), DIALECT_WHOLE, "0", EFFECT_NOTHING, NULL),
    OPTION("rdzv_id", MORE("rdzv_id"), DIALECT_TEXT, "123", EFFECT_NOTHING, NULL),
    OPTION("rdzv_endpoint", MORE("rdzv_endpoint"), DIALECT_TEXT, "127.0.0.1:12222", EFFECT_NOTHING, NULL),

    // Options without a key of the file. A file's key cannot begin with dashes by mistake.
    OPTION("input_dir", "--input-dir", DIALECT_TEXT, NULL, EFFECT_NOTHING, MLX),
    OPTION("gguf_model_path", "--gguf-model-path", DIALECT_TEXT, NULL, EFFECT_REFUSED, GGUF),
    OPTION("tokenizer_dir", "--tokenizer-dir", DIALECT_TEXT, NULL, EFFECT_NOTHING, MLX),
    OPTION("model_id", "--model-id", DIALECT_TEXT, NULL, EFFECT_REFUSED, "the list models of config.yaml is not read; valid: --model-path FOLDER"),
    OPTION("skip_preprocessing", "--skip-preprocessing", DIALECT_BOOL, NULL, EFFECT_NOTHING, MLX),
    OPTION("local", "--local", DIALECT_BOOL, NULL, EFFECT_NOTHING, MLX),
    OPTION("skip_quantize", "--skip-quantize", DIALECT_BOOL, NULL, EFFECT_NOTHING, MLX),
    OPTION("sq", "-sq", DIALECT_BOOL, NULL, EFFECT_NOTHING, MLX),
    OPTION("iters", "--iters", DIALECT_WHOLE, "100", EFFECT_NOTHING, MLX),
    OPTION("4_bit_quant", "--4-bit-quant", DIALECT_BOOL, "false", EFFECT_REFUSED, "it belongs to the pipeline simple; valid: --lora-rank N, whose frozen weights are in NF4"),
    OPTION("strategy", "--strategy", DIALECT_TEXT, NULL, EFFECT_REFUSED, PHASES),
    OPTION("phased_phase1_data", "--phased-phase1-data", DIALECT_TEXT, NULL, EFFECT_REFUSED, PHASES),
    OPTION("phased_phase2_data", "--phased-phase2-data", DIALECT_TEXT, NULL, EFFECT_REFUSED, PHASES),
    OPTION("skip_user_confirm", "--skip-user-confirm", DIALECT_BOOL, NULL, EFFECT_NOTHING, NULL),
    OPTION("y", "-y", DIALECT_BOOL, NULL, EFFECT_NOTHING, NULL),
    OPTION("enable_serving_output", "--enable-serving-output", DIALECT_BOOL, NULL, EFFECT_NOTHING, NULL),
    OPTION("force_clear_phased_cache", "--force-clear-phased-cache", DIALECT_BOOL, NULL, EFFECT_NOTHING, NULL),
    OPTION("optimize_memory", "--optimize-memory", DIALECT_BOOL, NULL, EFFECT_NOTHING, "train.precision sets the type of the weights that compute"),
    OPTION("disable_accelerate_full_state_at_epoch", "--disable-accelerate-full-state-at-epoch", DIALECT_BOOL, NULL, EFFECT_NOTHING, "every checkpoint resumes"),

    // Keys and flags of articles, which InstructLab ignores.
    OPTION("distributed", IN_TRAIN("distributed"), DIALECT_BOOL, NULL, EFFECT_NOTHING, "InstructLab has no such key: nproc_per_node and distributed_backend say it"),
    READ_WITH(IN_TRAIN("num_gpus"), DIALECT_WHOLE, NULL, .option = "num_gpus", .low = 1),
    OPEN_SECTION("train.deepspeed"),
    READ(IN_TRAIN("deepspeed.enabled"), DIALECT_BOOL, "false"),
    READ_WITH(IN_TRAIN("deepspeed.config_path"), DIALECT_TEXT, NULL, .option = "deepspeed_config"),
    READ_WITH(IN_TRAIN("deepspeed.zero_stage"), DIALECT_WORD, NULL, .words = STAGES),
    SETS_WITH(IN_TRAIN("batch_size"), DIALECT_WHOLE, NULL, "train.micro_batch", .note = DERIVED, .low = 1),
    SETS_WITH(IN_TRAIN("gradient_accumulation_steps"), DIALECT_WHOLE, NULL, "train.accumulation", .note = DERIVED, .low = 1),
    SETS_WITH(IN_TRAIN("gradient_checkpointing"), DIALECT_WORD, NULL, "parallel.recompute", .note = "InstructLab has no such key: it always recomputes", .words = RECOMPUTING),
    SETS_WITH(IN_TRAIN("mixed_precision"), DIALECT_WORD, NULL, "train.precision", .note = "InstructLab has no such key: bf16 is fixed in its library", .words = PRECISIONS),
    OPEN_SECTION("train.model"),
    SETS_WITH(IN_TRAIN("model.base"), DIALECT_TEXT, NULL, "model.path", .note = "InstructLab's key is model_path", .convert = convert_model),
    SETS_WITH(IN_TRAIN("model.max_seq_length"), DIALECT_WHOLE, NULL, "data.seq_len", .note = "InstructLab's key is max_seq_len", .low = 1),
    OPTION("master_addr", "--master-addr", DIALECT_TEXT, NULL, EFFECT_NOTHING, NULL),
    OPTION("master_port", "--master-port", DIALECT_TEXT, NULL, EFFECT_NOTHING, NULL),
};
// clang-format on

// What InstructLab's library fixes, by the names of its code, and the defaults of keys.
static const struct {
    const char *key, *value, *theirs; // `value` NULL: their default of the key
} FIXED[] = {
    {"optimizer.name", "adamw", "the optimizer"},
    {"optimizer.betas", "[0.9, 0.95]", "adamw_betas"},
    {"optimizer.eps", "1e-8", "adamw_eps"},
    {"optimizer.weight_decay", "0", "adamw_weight_decay"},
    {"lr_schedule.name", "cosine", "lr_scheduler"},
    {"lr_schedule.min_ratio", "0", "lr_scheduler"},
    {"train.clip_grad_norm", "1.0", "clip_grad_norm_"},
    {"train.keep", "0", "keep_last_checkpoint_only"},
    {"parallel.recompute", "full", "gradient_checkpointing_enable"},
    {"train.epochs", NULL, IN_TRAIN("num_epochs")},
    {"train.global_batch", NULL, IN_TRAIN("effective_batch_size")},
    {"data.seq_len", NULL, IN_TRAIN("max_seq_len")},
    {"optimizer.lr", NULL, MORE("learning_rate")},
    {"lr_schedule.warmup_steps", NULL, MORE("warmup_steps")},
    {"train.seed", NULL, MORE("random_seed")},
};

static status finish_fixed(const dialect_reader *r, err *e)
{
    status result = OK;
    for (size_t i = 0; i < sizeof FIXED / sizeof *FIXED; i++) {
        const char *theirs = FIXED[i].theirs;
        if (FIXED[i].value || !dialect_value(r, theirs))
            TRY(dialect_set(r, FIXED[i].key,
                            FIXED[i].value ? FIXED[i].value : dialect_text(r, theirs), theirs, NULL,
                            e));
    }
done:
    return result;
}

// The device, which is the CPU by default, and the types that follow from it. An article's num_gpus says that there are
// GPUs.
static status finish_device(const dialect_reader *r, err *e)
{
    status result = OK;
    static const char KEY[] = IN_TRAIN("device");
    const bool has_gpus = !dialect_value(r, KEY) && dialect_value(r, IN_TRAIN("num_gpus"));
    const bool on_cpu = !has_gpus && strcasecmp(dialect_text(r, KEY), "cpu") == 0;
    TRY(dialect_set(r, "train.precision", on_cpu ? "fp32" : "bf16", "mixed_precision", NULL, e));
    if (!has_gpus && !dialect_value(r, KEY))
        TRY(dialect_set(r, "launch.device", "cpu", KEY, NULL, e));
    if (on_cpu)
        TRY(dialect_remark_on(r, KEY, true, e,
                              "on the CPU InstructLab trains with Adafactor; here it is AdamW"));
done:
    return result;
}

// The model of a run: InstructLab has a default.
static status finish_model(const dialect_reader *r, err *e)
{
    status result = OK;
    static const char KEY[] = IN_TRAIN("model_path");
    text path = {0};
    if (!r->runs || dialect_value(r, KEY) || dialect_value(r, IN_TRAIN("model.base"))) return OK;
    TRY(add_model(dialect_text(r, KEY), &path, e));
    TRY(dialect_set(r, "model.path", path.chars, KEY, NULL, e));
done:
    text_clear(&path);
    return result;
}

// Samples as InstructLab's library takes them: those as long as a row are left out, and a step counts samples.
static status set_samples(const dialect_reader *r, const char *given, const char *theirs, err *e)
{
    status result = OK;
    text value = {0};
    yaml_node_quote(given, &value);
    TRY(text_check(&value, e));
    TRY(dialect_set(r, "data.train", value.chars, theirs, NULL, e));
    TRY(dialect_set(r, "data.format", "instructlab", theirs, NULL, e));
    TRY(dialect_set(r, "data.packing", "none", theirs,
                    "a step takes effective_batch_size samples, each in a row of its own", e));
    TRY(dialect_set(r, "data.truncate", "drop", theirs,
                    "InstructLab leaves out long samples, and those of less than 20 tokens", e));
done:
    text_clear(&value);
    return result;
}

// Conversations in JSONL, token shards, or the reason why there are no data: in a run an error, else a remark.
static status finish_data(const dialect_reader *r, err *e)
{
    status result = OK;
    static const char KEY[] = IN_TRAIN("data_path");
    const char *given = dialect_text(r, KEY), *end = given ? strrchr(given, '.') : NULL;
    char *path = NULL;
    text index = {0}, value = {0};
    if (!given && r->runs)
        return dialect_refuse(r, KEY, e,
                              "not given, and the folder of data sets is InstructLab's "
                              "default; %s",
                              FILES);
    if (!given) return OK;
    TRY(value_absolute(given, &path, e));
    text_addf(&index, "%s.idx", path);
    TRY(text_check(&index, e));
    if (strcmp(given, "mock") == 0 || file_exists(index.chars)) {
        yaml_node_quote(given, &value);
        TRY(text_check(&value, e));
        TRY(dialect_set(r, "data.train", value.chars, KEY, NULL, e));
    } else if (end && strcmp(end, ".jsonl") == 0 && (!r->runs || file_exists(path))) {
        TRY(set_samples(r, given, KEY, e));
    } else if (r->runs) {
        result = dialect_refuse(r, KEY, e, "found %.*s; %s", TEXT_CUT(given, 200), FILES);
    } else {
        TRY(dialect_remark_on(r, KEY, true, e, "found %.*s; %s", TEXT_CUT(given, 200), FILES));
    }
done:
    free(path);
    text_clear(&index);
    text_clear(&value);
    return result;
}

// The adapter, whose frozen weights are in NF4 unless a file says otherwise.
static status finish_adapter(const dialect_reader *r, err *e)
{
    status result = OK;
    static const char RANK[] = IN_TRAIN("lora_rank"), TARGET[] = MORE("lora_target_modules"),
                      TYPE[] = IN_TRAIN("lora_quantize_dtype");
    const yaml_node *target = dialect_value(r, TARGET), *type = dialect_node(r->root, TYPE);
    int64_t rank = 0;
    text names = {0};
    if (!dialect_count(r, RANK, &rank) || rank == 0) return OK;
    if (target && target->kind == NODE_LIST && !target->first) target = NULL;
    TRY(dialect_set_count(r, "lora.rank", rank, RANK, NULL, e));
    TRY(dialect_set(r, "lora.alpha", dialect_text(r, MORE("lora_alpha")), MORE("lora_alpha"), NULL,
                    e));
    TRY(dialect_set(r, "lora.dropout", dialect_text(r, MORE("lora_dropout")), MORE("lora_dropout"),
                    NULL, e));
    if (target && target->kind == NODE_SCALAR) text_add(&names, "[");
    if (target) yaml_node_text(target, &names);
    if (target && target->kind == NODE_SCALAR) text_add(&names, "]");
    TRY(text_check(&names, e));
    TRY(dialect_set(r, "lora.target_modules", target ? names.chars : "all-linear", TARGET,
                    target ? NULL : "all projections", e));
    const char *storage = type && yaml_node_is_null(type) ? "auto" : dialect_our_word(r, TYPE);
    TRY(dialect_set(r, "model.storage", storage ? storage : "auto", TYPE, NULL, e));
done:
    text_clear(&names);
    return result;
}

// Ranks of all hosts. FSDP's HYBRID_SHARD shards within a host and replicates over hosts.
static status finish_ranks(const dialect_reader *r, bool shards_host, err *e)
{
    status result = OK;
    static const char NODES[] = MORE("nnodes");
    const bool is_of_article = dialect_value(r, IN_TRAIN("num_gpus")) != NULL;
    const char *theirs = is_of_article ? IN_TRAIN("num_gpus") : IN_TRAIN("nproc_per_node");
    int64_t ranks = 1, nodes = 1;
    if (!dialect_count(r, theirs, &ranks) || !dialect_count(r, NODES, &nodes) ||
        ranks > INT32_MAX / nodes)
        return dialect_refuse(r, theirs, e, "found more ranks than there are");
    if (nodes > 1 && r->runs)
        return dialect_refuse(
            r, NODES, e,
            "found %lld; valid: trireme translate instructlab config.yaml "
            ">job.yaml, then on each host trireme run --nnodes %lld --node-rank R "
            "--master-addr HOST --nproc-per-node %lld train job.yaml",
            (long long)nodes, (long long)nodes, (long long)ranks);
    TRY(dialect_set_count(r, "launch.ranks", ranks * nodes, theirs,
                          is_of_article ? "InstructLab's key is nproc_per_node" : NULL, e));
    if (nodes > 1 && shards_host) {
        TRY(dialect_set_count(r, "parallel.dp_shard", ranks, NODES, "HYBRID_SHARD", e));
        TRY(dialect_set_count(r, "parallel.dp_replicate", nodes, NODES, "HYBRID_SHARD", e));
    }
done:
    return result;
}

static status set_all(const dialect_reader *r, const char *const *keys, const char *value,
                      const char *theirs, err *e)
{
    status result = OK;
    for (; *keys; keys++) TRY(dialect_set(r, *keys, value, theirs, NULL, e));
done:
    return result;
}

// The strategy and its offload. An offload of the other backend is not read.
static status finish_backend(const dialect_reader *r, err *e)
{
    status result = OK;
    static const char BACKEND[] = IN_TRAIN("distributed_backend");
    static const char OF_DEEPSPEED[] = IN_TRAIN("deepspeed_cpu_offload_optimizer");
    static const char OF_FSDP[] = IN_TRAIN("fsdp_cpu_offload_optimizer");
    static const char *const OPTIMIZER[] = {"parallel.offload.optimizer", "parallel.offload.update",
                                            NULL};
    static const char *const ALL[] = {"parallel.offload.weights", "parallel.offload.gradients",
                                      "parallel.offload.optimizer", "parallel.offload.update",
                                      NULL};
    const bool is_of_article = dialect_is_on(r, IN_TRAIN("deepspeed.enabled"));
    const bool deepspeed = is_of_article || strcasecmp(dialect_text(r, BACKEND), "deepspeed") == 0;
    const char *stage = deepspeed ? dialect_text(r, IN_TRAIN("deepspeed.zero_stage")) : NULL;
    const char *other = deepspeed ? OF_FSDP : OF_DEEPSPEED;
    if (dialect_value(r, IN_TRAIN("deepspeed.config_path")))
        TRY(dialect_include(r, dialect_find("deepspeed"), IN_TRAIN("deepspeed.config_path"), e));
    if (stage)
        TRY(dialect_set(r, "parallel.dp", STAGES[*stage - '0'][1], IN_TRAIN("deepspeed.zero_stage"),
                        "InstructLab has no such key: stage 2 is fixed in its library", e));
    else if (is_of_article)
        TRY(dialect_set(r, "parallel.dp", "zero2", IN_TRAIN("deepspeed.enabled"),
                        "InstructLab's key is distributed_backend: deepspeed", e));
    else
        TRY(dialect_set(r, "parallel.dp", deepspeed ? "zero2" : "zero3", BACKEND,
                        deepspeed ? "stage 2 is fixed in its library" : "HYBRID_SHARD", e));
    if (deepspeed && dialect_is_on(r, OF_DEEPSPEED))
        TRY(set_all(r, OPTIMIZER, "host", OF_DEEPSPEED, e));
    if (!deepspeed && dialect_is_on(r, OF_FSDP)) TRY(set_all(r, ALL, "host", OF_FSDP, e));
    if (dialect_is_on(r, other))
        TRY(dialect_remark_on(r, other, false, e,
                              "distributed_backend is %s, which does not read it",
                              deepspeed ? "deepspeed" : "fsdp"));
    TRY(finish_ranks(r, !deepspeed, e));
done:
    return result;
}

// One remark names the sections of InstructLab's other commands.
static status finish_sections(const dialect_reader *r, err *e)
{
    status result = OK;
    const char *first = NULL;
    text others = {0};
    for (const yaml_node *n = r->root->first; n; n = n->next) {
        const dialect_row *row = dialect_row_of_key(r->of, n->key);
        if (!row || row->option || strcmp(n->key, "train") == 0) continue;
        if (first) text_addf(&others, "%s%s", others.bytes ? ", " : "; with it ", n->key);
        if (!first) first = n->key;
    }
    if (first)
        TRY(dialect_remark_on(r, first, false, e, "a section of InstructLab's other commands%s",
                              others.chars ? others.chars : ""));
done:
    text_clear(&others);
    return result;
}

// The folder of checkpoints, and their interval.
static status finish_output(const dialect_reader *r, err *e)
{
    status result = OK;
    static const char SAMPLES[] = IN_TRAIN("save_samples");
    const char *home = getenv("XDG_DATA_HOME");
    int64_t samples = 0;
    text out = {0};
    text_addf(&out, "%s/instructlab/checkpoints", home && *home ? home : "~/.local/share");
    TRY(text_check(&out, e));
    if (!dialect_value(r, IN_TRAIN("ckpt_output_dir")))
        TRY(dialect_set(r, "train.out", out.chars, IN_TRAIN("ckpt_output_dir"), NULL, e));
    if (!dialect_value(r, SAMPLES) && dialect_count(r, SAMPLES, &samples))
        TRY(dialect_set_count(r, "train.save_every", steps_of(r, samples), SAMPLES,
                              "samples become steps", e));
done:
    text_clear(&out);
    return result;
}

static status finish(const dialect_reader *r, err *e)
{
    status result = OK;
    TRY(finish_sections(r, e));
    TRY(finish_fixed(r, e));
    TRY(finish_device(r, e));
    TRY(finish_model(r, e));
    TRY(finish_data(r, e));
    TRY(finish_adapter(r, e));
    TRY(finish_backend(r, e));
    TRY(finish_output(r, e));
done:
    return result;
}

const dialect dialect_instructlab = {
    .name = "instructlab",
    .system = "InstructLab",
    .ignores_other = true,
    .rows = ROW,
    .row_count = sizeof ROW / sizeof *ROW,
    .finish = finish,
    .dtypes = "master weights fp32 in both; gradients are summed over ranks in train.reduce_dtype, "
              "fp32 by default (InstructLab: bf16 under FSDP and DeepSpeed); both divide the loss "
              "by the trained tokens of all ranks",
};
