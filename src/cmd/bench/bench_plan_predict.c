// bench_plan_predict.c -- from a published row to a predicted one: the job that Trireme would run with this model and
// layout, on the row's cluster, with the row's software. See bench_plan.h.
#include "cmd/bench/bench_plan.h"

#include "base/file.h"
#include "session/plan/predict.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const published_software PUBLISHED_SOFTWARE = {
    // Fitted to torchtitan. PyTorch without torch.compile: norms, rotations, gates and residuals are several kernels each, in fp32 where the
    // model says so.
    .eager = 2.5,
    // Blocks of 32 elements have a scale each, which is found and stored for both directions.
    .mxfp8 = 0.95,
    // Fitted to torchtitan. PyTorch's async TP cuts products and collectives in as many parts as there are ranks.
    .async_tp = 0.3,
};

// Shares of the bf16 rate that attention reaches, forward and backward; zeros: the machine's own.
typedef struct attention_kind {
    const char *name;
    double forward, backward;
} attention_kind;

static const attention_kind ATTENTION_KINDS[] = {
    {"default", 0, 0},
    // FlashAttention-2 (arXiv 2307.08691), causal, heads of 128, on A100: 190 to 200 TFLOP/s forward, 160 to 180 backward.
    {"fa2-ampere", 0.62, 0.54},
    // The same on H100, whose new tensor instructions it does not use: 350 to 400 and 290 to 330 (arXiv 2407.08608).
    {"fa2-hopper", 0.38, 0.32},
    // The Triton form of FlashAttention of 2023, which llm-foundry ran: fitted to its rows of 32,768 tokens and more.
    {"triton-ampere", 0.40, 0.32},
    {"triton-hopper", 0.22, 0.17},
    // Scores in memory: products with k of a head's width, and six passes over [tokens, tokens] of each head in 16 bits.
    // A causal mask saves nothing, but only half of the FLOPs are counted.
    {"unfused", 0.08, 0.13},
};
enum { KINDS = sizeof ATTENTION_KINDS / sizeof *ATTENTION_KINDS };

// ---- The job

enum { ARGS_MOST = 40, ARG_BYTES = 80 };

typedef struct row_args {
    char arg[ARGS_MOST][ARG_BYTES];
    char *list[ARGS_MOST];
    int count;
} row_args;

static void add_arg(row_args *a, const char *key, const char *value)
{
    if (a->count == ARGS_MOST) return;
    snprintf(a->arg[a->count], ARG_BYTES, "--%s=%s", key, value);
    a->list[a->count] = a->arg[a->count];
    a->count++;
}

// The keys of models.csv, behind the name.
static const char *const MODEL_KEYS[] = {"model.family", "model.layers",        "model.hidden",
                                         "model.heads",  "model.kv_heads",      "model.ffn",
                                         "model.vocab",  "model.tie_embeddings"};
enum { MODEL_KEYS_COUNT = sizeof MODEL_KEYS / sizeof *MODEL_KEYS };

typedef struct row_model {
    int64_t layers, vocab;
} row_model;

static status add_model(const published_rows *rows, const published_row *row, row_args *a,
                        row_model *m, err *e)
{
    status result = OK;
    const char *name = row->text[ROW_MODEL], *line = rows->models;
    const size_t n = strlen(name);
    bool is_gpt2 = false;
    while (line && !(strncmp(line, name, n) == 0 && line[n] == ',')) {
        line = strchr(line, '\n');
        line = line ? line + 1 : NULL;
    }
    if (!line) FAIL(E_USAGE, "%s:%d: model %s is not in models.csv", row->file, row->line, name);
    line += n + 1;
    for (int i = 0; i < MODEL_KEYS_COUNT; i++) {
        char value[32];
        const int bytes = (int)strcspn(line, ",\n");
        snprintf(value, sizeof value, "%.*s", bytes, line);
        line += bytes + 1;
        if (i == 0) is_gpt2 = strcmp(value, "gpt2") == 0;
        if (is_gpt2 && strcmp(MODEL_KEYS[i], "model.kv_heads") == 0) continue;
        if (strcmp(MODEL_KEYS[i], "model.layers") == 0) m->layers = atoll(value);
        if (strcmp(MODEL_KEYS[i], "model.vocab") == 0) m->vocab = atoll(value);
        add_arg(a, MODEL_KEYS[i], value);
    }
done:
    return result;
}

// Megatron gives each stage the same number of layers, whatever the head costs.
static void add_split(const published_row *row, const row_model *m, row_args *a)
{
    const long chunks = atol(row->text[ROW_PP]) * atol(row->text[ROW_VIRTUAL_STAGES]);
    text split = {0};
    if (chunks <= 1 || m->layers % chunks != 0) return;
    for (long i = 0; i < chunks; i++)
        text_addf(&split, "%s%lld", i ? "," : "", (long long)(m->layers / chunks));
    if (split.bytes < ARG_BYTES - 20) add_arg(a, "parallel.split", split.chars);
    text_clear(&split);
}

static void add_layout(const published_row *row, const char *recompute, row_args *a)
{
    const char *const *t = row->text;
    const bool halves = strcmp(t[ROW_PRECISION], "fp16") == 0;
    const int virtual_stages = atoi(t[ROW_VIRTUAL_STAGES]);
    add_arg(a, "data.train", "mock");
    add_arg(a, "data.seq_len", t[ROW_SEQ]);
    add_arg(a, "model.max_seq", t[ROW_SEQ]);
    add_arg(a, "train.steps", "1");
    add_arg(a, "train.out", ".");
    add_arg(a, "train.micro_batch", t[ROW_MICRO_BATCH]);
    add_arg(a, "train.global_batch", t[ROW_GLOBAL_BATCH]);
    add_arg(a, "train.precision", halves ? "fp16" : "bf16");
    add_arg(a, "train.deterministic", "false");
    add_arg(a, "launch.ranks", t[ROW_GPUS]);
    add_arg(a, "parallel.dp", t[ROW_POLICY]);
    add_arg(a, "parallel.tp", t[ROW_TP]);
    add_arg(a, "parallel.sequence_parallel", t[ROW_SEQUENCE_PARALLEL]);
    add_arg(a, "parallel.pp", t[ROW_PP]);
    add_arg(a, "parallel.cp", t[ROW_CP]);
    add_arg(a, "parallel.recompute", recompute);
    if (virtual_stages > 1) {
        add_arg(a, "parallel.pp_schedule", "interleaved");
        add_arg(a, "parallel.virtual_stages", t[ROW_VIRTUAL_STAGES]);
    }
}

static status predict_job(const published_predictor *p, const published_row *row,
                          const char *recompute, const planner_machine *m, double *step_s, err *e)
{
    status result = OK;
    row_args a = {.count = 0};
    row_model sizes = {.layers = 0};
    job *j = NULL;
    session_inputs in = {0};
    prediction out;
    const job_planned planned = {.device = m->device,
                                 .communicator = m->communicator,
                                 .ranks_per_host = m->ranks_per_host,
                                 .hosts = m->hosts};
    const job_own own = {.only_plans = true, .planned = &planned};
    TRY(add_model(p->rows, row, &a, &sizes, e));
    add_layout(row, recompute, &a);
    add_split(row, &sizes, &a);
    TRY(job_open_own(NULL, a.count, a.list, &own, &j, e));
    TRY(session_inputs_open_to_plan(j, NULL, &in, e));
    TRY(session_predict(j, &in, j->launch.ranks, m, &out, e));
    *step_s = out.step_s;
done:
    session_inputs_close(&in);
    job_close(j);
    return result;
}

// ---- The machine

// Returns whether the row's software runs collectives of tensor parallelism beside products.
static bool overlap_of(const published_predictor *p, const published_row *row, cluster_constants *c)
{
    const char *word = row->text[ROW_TP_OVERLAP];
    if (strcmp(word, "async_tp") == 0) c->overlapped = p->software.async_tp;
    return strcmp(word, "no") != 0;
}

static status open_machine(const published_predictor *p, const published_row *row,
                           planner_machine *out, err *e)
{
    status result = OK;
    cluster_constants c = p->constants;
    row_args a = {.count = 0};
    row_model sizes = {.layers = 0};
    char *path = NULL, name[64];
    int kind = 0;
    const char *precision = row->text[ROW_PRECISION];
    while (kind < KINDS && strcmp(ATTENTION_KINDS[kind].name, row->text[ROW_ATTENTION]) != 0)
        kind++;
    if (kind == KINDS)
        FAIL(E_USAGE, "%s:%d: attention %s", row->file, row->line, row->text[ROW_ATTENTION]);
    if (ATTENTION_KINDS[kind].forward > 0) {
        c.attention = ATTENTION_KINDS[kind].forward;
        c.attention_grad = ATTENTION_KINDS[kind].backward;
    }
    if (strcmp(row->text[ROW_FUSED], "no") == 0) c.traffic *= p->software.eager;
    if (strcmp(precision, "mxfp8") == 0) c.product_fp8 *= p->software.mxfp8;
    TRY(add_model(p->rows, row, &a, &sizes, e));
    const cluster_freedoms freedoms = {.overlapped_ranks =
                                           overlap_of(p, row, &c) ? atoi(row->text[ROW_TP]) : 0,
                                       .any_order = true,
                                       .fp8 = strstr(precision, "fp8") != NULL,
                                       .vocab = sizes.vocab};
    snprintf(name, sizeof name, "%.*s.yaml", TEXT_CUT(row->text[ROW_CLUSTER], 50));
    TRY(file_join(p->folder, name, &path, e));
    TRY(cluster_open_with(path, &c, &freedoms, out, e));
done:
    free(path);
    return result;
}

status published_row_predict(const published_predictor *p, published_row *row, err *e)
{
    status result = OK;
    planner_machine m = {.name = NULL};
    double step_s = 0, least = 0, share = 0;
    const bool is_share = text_to_double(row->text[ROW_RECOMPUTE], &share);
    row->predicted = NAN;
    TRY(open_machine(p, row, &m, e));
    row->refused = (err){.code = OK};
    result = predict_job(p, row, is_share ? "full" : row->text[ROW_RECOMPUTE], &m, &step_s,
                         &row->refused);
    if (result == OK && is_share) {
        result = predict_job(p, row, "none", &m, &least, &row->refused);
        step_s = least + share * (step_s - least);
    }
    if (result == E_MEMORY) FAIL(E_MEMORY, "%s", row->refused.text);
    if (result == OK)
        row->predicted = atof(row->text[ROW_GLOBAL_BATCH]) * atof(row->text[ROW_SEQ]) / step_s /
                         atof(row->text[ROW_GPUS]);
    result = OK;
done:
    planner_machine_close(&m);
    return result;
}
