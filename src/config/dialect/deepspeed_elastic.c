// deepspeed_elastic.c -- DeepSpeed's elastic batch (deepspeed 0.19.6, elasticity/elasticity.py): of the batches up to a
// limit, the one that most numbers of ranks divide into micro-batches of the listed sizes. deepspeed_finish.c calls it.
// It does not know on how many ranks the job runs.
#include "config/dialect/deepspeed.h"

enum { MICROS_MOST = 17, BATCH_MOST = 1 << 20 };

typedef struct elastic {
    int64_t micro[MICROS_MOST];
    int micros;
    int64_t most, low, high; // the largest batch, and the numbers of ranks
    bool larger;             // of two equally good batches
} elastic;

// Returns whether `ranks` divide a batch into micro-batches of a size of the list.
static bool fits_ranks(const elastic *x, int64_t batch, int64_t ranks)
{
    for (int i = 0; i < x->micros; i++)
        if (batch % x->micro[i] == 0 && batch / x->micro[i] % ranks == 0) return true;
    return false;
}

static int64_t count_ranks(const elastic *x, int64_t batch)
{
    int64_t count = 0;
    for (int64_t ranks = x->low; ranks <= x->high && ranks <= batch; ranks++)
        count += fits_ranks(x, batch, ranks);
    return count;
}

// The largest multiple of `base` by a highly composite number up to the largest batch.
static int64_t scale_base(const elastic *x, int64_t base)
{
    static const int64_t COMPOSITE[] = {
        1,      2,      4,      6,      12,     24,     36,     48,    60,    120,
        180,    240,    360,    720,    840,    1260,   1680,   2520,  5040,  7560,
        10080,  15120,  20160,  25200,  27720,  45360,  50400,  55440, 83160, 110880,
        166320, 221760, 277200, 332640, 498960, 554400, 665280, 720720};
    int64_t by = 1;
    for (size_t i = 0; i < sizeof COMPOSITE / sizeof *COMPOSITE; i++)
        if (COMPOSITE[i] <= x->most / base) by = COMPOSITE[i];
    return x->most == base ? base : by * base;
}

// The batch, or 0 where no number of ranks fits.
static int64_t best_batch(const elastic *x)
{
    int64_t best = 0, most = 0, multiple = 1;
    for (int i = 0; i <= x->micros; i++) {
        const int64_t base = i < x->micros ? x->micro[i] : multiple;
        int64_t a = multiple, b = base;
        while (b) {
            const int64_t rest = a % b;
            a = b, b = rest;
        }
        if (i < x->micros && multiple <= x->most) multiple = multiple / a * base;
        if (base > x->most) continue;
        const int64_t batch = scale_base(x, base), ranks = count_ranks(x, batch);
        const bool wins_tie = x->larger ? batch > best : batch < best;
        if (ranks > most || (ranks && ranks == most && wins_tie)) best = batch, most = ranks;
    }
    return best;
}

static status read_elastic(const dialect_reader *r, int64_t per_node, elastic *x, err *e)
{
    const yaml_node *list = dialect_value(r, "elasticity.micro_batch_sizes");
    if (!list || !dialect_value(r, "elasticity.max_train_batch_size"))
        return dialect_refuse(r, "elasticity", e,
                              "needs max_train_batch_size and micro_batch_sizes");
    (void)dialect_count(r, "elasticity.max_train_batch_size", &x->most);
    (void)dialect_count(r, "elasticity.min_gpus", &x->low);
    (void)dialect_count(r, "elasticity.max_gpus", &x->high);
    if (x->high < x->low || x->most > BATCH_MOST)
        return dialect_refuse(
            r, x->high < x->low ? "elasticity.max_gpus" : "elasticity.max_train_batch_size", e,
            "valid: at least min_gpus, and batches up to %d", BATCH_MOST);
    x->most /= per_node;
    for (const yaml_node *n = list->first; n; n = n->next) {
        int64_t *micro = &x->micro[x->micros++];
        if (x->micros == MICROS_MOST || n->kind != NODE_SCALAR || n->quoted ||
            !text_to_count(n->scalar, micro) || *micro < 1 || *micro > x->most)
            return dialect_refuse(r, "elasticity.micro_batch_sizes", e,
                                  "valid: whole numbers from 1 to max_train_batch_size");
    }
    x->larger = dialect_is_on(r, "elasticity.prefer_larger_batch");
    return OK;
}

// Refuses what DeepSpeed refuses beside elasticity.
static status check_elastic(const dialect_reader *r, double version, int64_t tp, int64_t per_node,
                            err *e)
{
    static const char *const BATCH[] = {"train_batch_size", "train_micro_batch_size_per_gpu",
                                        "gradient_accumulation_steps"};
    for (int i = 0; i < 3; i++)
        if (deepspeed_is_given(r, BATCH[i]) &&
            !dialect_is_on(r, "elasticity.ignore_non_elastic_batch_info"))
            return dialect_refuse(r, BATCH[i], e,
                                  "given beside elasticity, which chooses the batch; valid: with "
                                  "elasticity.ignore_non_elastic_batch_info");
    if (version != 0.1 && version != 0.2)
        return dialect_refuse(r, "elasticity.version", e, "found %g; valid: 0.1, 0.2", version);
    if (tp > 1 && version == 0.1)
        return dialect_refuse(r, "elasticity.model_parallel_size", e,
                              "found %lld with version 0.1; valid: with version 0.2",
                              (long long)tp);
    if (version == 0.2 && per_node % tp)
        return dialect_refuse(r, "elasticity.num_gpus_per_node", e,
                              "found %lld; valid: a multiple of model_parallel_size %lld",
                              (long long)per_node, (long long)tp);
    return OK;
}

status deepspeed_finish_elasticity(const dialect_reader *r, err *e)
{
    status result = OK;
    double version = 0.2;
    int64_t tp = 1, per_node = 1;
    elastic x = {.low = 1};
    text ranks = {0};
    if (!dialect_is_on(r, "elasticity.enabled")) goto done;
    (void)dialect_number(r, "elasticity.version", &version);
    (void)dialect_count(r, "elasticity.model_parallel_size", &tp);
    (void)dialect_count(r, "elasticity.num_gpus_per_node", &per_node);
    TRY(check_elastic(r, version, tp, per_node, e));
    const int64_t each = version == 0.1 ? 1 : per_node / tp; // data-parallel ranks of a host
    TRY(read_elastic(r, each, &x, e));
    if (version != 0.1) x.low = x.low / per_node ? x.low / per_node : 1, x.high /= per_node;
    if (!x.high) x.high = BATCH_MOST;
    const int64_t batch = best_batch(&x);
    if (!batch) {
        result = dialect_refuse(r, "elasticity", e, "no number of ranks fits these batches");
        goto done;
    }
    int listed = 0;
    for (int64_t n = x.low; n <= x.high && n <= batch && listed < 24; n++)
        if (fits_ranks(&x, batch, n))
            text_addf(&ranks, "%s%lld", listed++ ? ", " : "", (long long)(n * each));
    TRY(text_check(&ranks, e));
    TRY(dialect_set_count(r, "train.global_batch", batch * each, "elasticity.max_train_batch_size",
                          "the batch that most numbers of ranks divide", e));
    TRY(dialect_effective(r, "train_batch_size", json_integer(batch * each), e));
    TRY(dialect_remark_on(r, "elasticity.enabled", true, e,
                          "the batch is for %s%s data-parallel ranks; trireme run --nnodes MIN:MAX "
                          "resumes on any of them, and train.micro_batch is the job's",
                          ranks.chars, listed == 24 ? ", …" : ""));
done:
    text_clear(&ranks);
    return result;
}
