// cases_loss.c -- cases of K_CROSS_ENTROPY, K_CROSS_ENTROPY_STATS and K_SQUARE_ERROR: padded and dense rows,
// vocabulary shards, rows without a label, rows that do not fit in shared memory, padding rows.
#include "case.h"

typedef struct shape {
    int64_t rows, cols, stride;
    dtype type;
    float scale, spread, softcap; // of the logits
    int shards;                   // 0: the full vocabulary
    bool no_gradient, no_loss, step, ignored;
} shape;

enum { IGNORE = IGNORED_LABEL };

// The shards' columns are cols each, and the call's shard is the second.
static int64_t vocab_of(const shape *h)
{
    return h->cols * (h->shards ? h->shards : 1);
}

static const kernel_step *step_of(space *s, const shape *h)
{
    const kernel_step step = {.loss_scale = 64};
    return h->step ? space_bytes(s, &step, sizeof step, NULL) : NULL;
}

static int32_t *labels_of(space *s, const shape *h)
{
    const int64_t vocab = vocab_of(h);
    int32_t *labels = space_ids(s, h->rows, (int32_t)(vocab > 0 ? vocab : 1));
    for (int64_t r = 0; r < h->rows; r++)
        if (h->ignored && r % 3 == 1) labels[r] = IGNORE;
    return labels;
}

// Row 0 is confident of its label, where it has one here.
static void *logits_of(space *s, const shape *h, const int32_t *labels, int64_t first,
                       const char *name)
{
    const int64_t stride = kernel_stride(h->stride, h->cols);
    const int64_t count = h->rows > 0 ? (h->rows - 1) * stride + h->cols : 0;
    void *logits = space_random(s, count, h->type, h->spread, name);
    const int64_t label = h->rows > 0 ? labels[0] - first : -1;
    const float high = h->scale < 0 ? -14 : 14;
    if (label >= 0 && label < h->cols)
        dtype_convert((char *)logits + dtype_bytes(h->type) * (size_t)label, h->type, &high, F32,
                      1);
    return logits;
}

static kernel_call describe_stats(space *s, const void *args)
{
    const shape *h = args;
    const int64_t first = h->shards > 1 ? h->cols : 0;
    const int32_t *labels = labels_of(s, h);
    return (kernel_call){
        .kind = K_CROSS_ENTROPY_STATS,
        .u.cross_entropy_stats = {.rows = h->rows,
                                  .cols = h->cols,
                                  .first = first,
                                  .logits = logits_of(s, h, labels, first, NULL),
                                  .stride = h->stride,
                                  .labels = labels,
                                  .stats = space_array_of(s, 3 * h->rows, F32, "stats"),
                                  .scale = h->scale,
                                  .softcap = h->softcap,
                                  .ignore = IGNORE,
                                  .type = h->type}};
}

// Statistics of shards that a softmax could have given.
static float *stats_of(space *s, const shape *h, const int32_t *labels)
{
    float *stats = space_random(s, h->shards * h->rows * 3, F32, 1, NULL);
    for (int i = 0; i < h->shards; i++)
        for (int64_t r = 0; r < h->rows; r++) {
            float *x = stats + (i * h->rows + r) * 3;
            x[0] = 2 + fabsf(x[0]), x[1] = 1 + fabsf(x[1]);
            if (labels[r] / (h->cols > 0 ? h->cols : 1) != i) x[2] = 0;
        }
    return stats;
}

static kernel_call describe(space *s, const void *args)
{
    const shape *h = args;
    const int64_t first = h->shards > 1 ? h->cols : 0;
    const int32_t *labels = labels_of(s, h);
    kernel_cross_entropy_args a = {
        .rows = h->rows,
        .cols = h->cols,
        .first = first,
        .logits = logits_of(s, h, labels, first, h->no_gradient ? NULL : "logits"),
        .stride = h->stride,
        .labels = labels,
        .stats = h->shards ? stats_of(s, h, labels) : NULL,
        .shards = h->shards,
        .weights = h->step ? space_random(s, h->rows, F32, 1, NULL) : NULL,
        .losses = h->step ? space_array_of(s, h->rows, F64, "losses") : NULL,
        .step = step_of(s, h),
        .scale = h->scale,
        .softcap = h->softcap,
        .ignore = IGNORE,
        .gradient = !h->no_gradient,
        .type = h->type};
    if (!h->no_loss) {
        a.loss_sum = space_random(s, 1, F64, 1, "loss_sum");
        a.count = space_random(s, 1, F64, 1, "count");
    }
    return (kernel_call){.kind = K_CROSS_ENTROPY, .u.cross_entropy = a};
}

static void check(case_run *r, const shape *h)
{
    char text[160];
    snprintf(text, sizeof text,
             "[%lld, %lld] stride %lld %s scale %g spread %g softcap %g shards %d%s%s%s%s",
             (long long)h->rows, (long long)h->cols, (long long)h->stride, dtype_name(h->type),
             (double)h->scale, (double)h->spread, (double)h->softcap, h->shards,
             h->no_gradient ? " no gradient" : "", h->no_loss ? " no loss" : "",
             h->step ? " step" : "", h->ignored ? " ignored" : "");
    case_check(r, describe, h, "cross_entropy %s", text);
    case_check(r, describe_stats, h, "cross_entropy_stats %s", text);
}

static void check_flags(case_run *r, shape h)
{
    for (h.type = F32; h.type <= F16; h.type++)
        for (int k = 0; k < 8; k++) {
            h.shards = k & 1 ? 3 : 0, h.step = k & 2, h.ignored = k & 2;
            h.no_gradient = k == 4 || k == 5, h.no_loss = k == 6 || k == 7;
            check(r, &h);
        }
}

// ---- Squared error

// ---- Preferences

enum { PAIR_ROWS = 7, PAIR_DOCUMENTS = 8 }; // the last pairs have no rows

static const int32_t *first_rows(space *s)
{
    static const int32_t first[PAIR_DOCUMENTS + 1] = {0, 3, 5, 5, 7, 7, 7, 7, 7};
    return space_bytes(s, first, sizeof first, NULL);
}

static kernel_call describe_sums(space *s, const void *args)
{
    (void)args;
    return (kernel_call){
        .kind = K_DOCUMENT_SUMS,
        .u.document_sums = {.documents = PAIR_DOCUMENTS,
                            .first = first_rows(s),
                            .losses = space_random(s, PAIR_ROWS, F64, 1, NULL),
                            .sums = space_array_of(s, 2 * PAIR_DOCUMENTS, F64, "sums")}};
}

static kernel_call describe_preference(space *s, const void *args)
{
    static const double sums[2 * PAIR_DOCUMENTS] = {-3, 3, -1, 2, 0, 0, -4, 2,
                                                    0,  0, 0,  0, 0, 0, 0,  0};
    static const double shared = 0.2;
    const kernel_preference *form = args;
    kernel_preference_args a = {.documents = PAIR_DOCUMENTS,
                                .form = *form,
                                .shared = space_bytes(s, &shared, sizeof shared, NULL),
                                .first = first_rows(s),
                                .sums = space_bytes(s, sums, sizeof sums, NULL),
                                .loss_sum = space_random(s, 1, F64, 1, "loss_sum"),
                                .count = space_random(s, 1, F64, 1, "count")};
    if (kernel_preference_refers(form))
        a.reference = space_random(s, 2 * PAIR_DOCUMENTS, F32, 1, NULL);
    if (form->desirable > 0) {
        a.weights = space_array_of(s, PAIR_ROWS, F32, "weights");
        a.metrics = space_random(s, PREFERENCE_SUMS, F64, 1, "metrics");
    }
    return (kernel_call){.kind = K_PREFERENCE, .u.preference = a};
}

static void check_preferences(case_run *r)
{
    case_check(r, describe_sums, NULL, "document_sums");
    for (int kind = PREFERENCE_SIGMOID; kind <= PREFERENCE_KTO; kind++)
        for (int trains = 0; trains < 2; trains++) {
            const kernel_preference form = {.kind = (kernel_preference_kind)kind,
                                            .beta = 0.3,
                                            .smoothing = 0.1,
                                            .tau = 0.2,
                                            .desirable = trains,
                                            .undesirable = 0.5};
            case_check(r, describe_preference, &form, "preference kind %d%s", kind,
                       trains ? " gradient" : "");
        }
}

typedef struct error_shape {
    int64_t rows, cols, first, filled; // filled < 0: all rows
    dtype type;
    bool gradient, in_place, sums, step;
} error_shape;

static kernel_call describe_error(space *s, const void *args)
{
    const error_shape *h = args;
    const int64_t count = h->rows * h->cols;
    const kernel_step step = {.loss_scale = 3};
    kernel_square_error_args a = {
        .rows = h->rows,
        .cols = h->cols,
        .first = h->first,
        .filled = h->filled < 0 ? NULL : space_bytes(s, &h->filled, sizeof h->filled, NULL),
        .x = space_random(s, count, h->type, 1, h->in_place ? "dx" : NULL),
        .target = space_random(s, count, F32, 1, NULL),
        .step = h->step ? space_bytes(s, &step, sizeof step, NULL) : NULL,
        .type = h->type};
    if (h->in_place)
        a.dx = (void *)(uintptr_t)a.x;
    else if (h->gradient)
        a.dx = space_array_of(s, count, h->type, "dx");
    if (h->sums) {
        a.loss_sum = space_random(s, 1, F64, 1, "loss_sum");
        a.total = space_random(s, 1, F64, 1, "total");
    }
    return (kernel_call){.kind = K_SQUARE_ERROR, .u.square_error = a};
}

static void check_error(case_run *r, error_shape h)
{
    for (h.type = F32; h.type <= F16; h.type++)
        case_check(r, describe_error, &h,
                   "square_error [%lld, %lld] %s first %lld filled %lld%s%s%s", (long long)h.rows,
                   (long long)h.cols, dtype_name(h.type), (long long)h.first, (long long)h.filled,
                   h.gradient ? " gradient" : "", h.in_place ? " in place" : "",
                   h.sums ? " sums" : "");
}

void cases_run(case_run *r)
{
    check_preferences(r);
    check_flags(r, (shape){.rows = 4, .cols = 50, .stride = 64, .scale = 1, .spread = 2});
    check_flags(r, (shape){.rows = 3, .cols = 33, .scale = -0.5f, .spread = 6});
    check_flags(
        r, (shape){.rows = 4, .cols = 50, .stride = 64, .scale = 1, .spread = 20, .softcap = 30});
    check_flags(r, (shape){.rows = 3, .cols = 33, .scale = -0.5f, .spread = 6, .softcap = 2});
    check(r, &(shape){.rows = 2,
                      .cols = 30011,
                      .stride = 30016,
                      .scale = 1,
                      .spread = 9,
                      .softcap = 15,
                      .type = BF16});
    check(r, &(shape){.rows = 0, .cols = 8, .type = BF16, .scale = 1});
    check(r, &(shape){.rows = 2, .cols = 0, .stride = 8, .shards = 2, .scale = 1, .type = BF16});
    check(r, &(shape){.rows = 5, .cols = 1, .scale = 1, .spread = 1, .type = F16});
    check(r, &(shape){.rows = 2, .cols = 9, .stride = 16, .scale = 0, .spread = 1, .type = F32});
    // Several stages of copies, and rows beyond shared memory.
    check(r, &(shape){
                 .rows = 3, .cols = 17001, .stride = 17024, .scale = 1, .spread = 3, .type = BF16});
    check(r, &(shape){
                 .rows = 2, .cols = 30011, .stride = 30016, .scale = 1, .spread = 3, .type = F32});
    check(r, &(shape){
                 .rows = 2, .cols = 60003, .stride = 60032, .scale = 1, .spread = 1, .type = F16});
    for (int i = 0; i < 8; i++) {
        shape h = {.rows = case_pick(r, 1, 20),
                   .cols = case_pick(r, 1, 2000),
                   .type = (dtype)case_pick(r, F32, F16),
                   .scale = 0.7f,
                   .spread = (float)case_pick(r, 1, 12),
                   .shards = (int)case_pick(r, 0, 2),
                   .ignored = case_pick(r, 0, 1)};
        h.stride = case_pick(r, 0, 1) ? h.cols + case_pick(r, 0, 9) : (h.cols + 7) / 8 * 8;
        check(r, &h);
    }
    check_error(r, (error_shape){.rows = 0, .cols = 4, .filled = -1, .sums = true});
    check_error(r,
                (error_shape){.rows = 7, .cols = 13, .filled = -1, .gradient = true, .sums = true});
    check_error(r, (error_shape){.rows = 40,
                                 .cols = 512,
                                 .filled = 30,
                                 .first = 8,
                                 .in_place = true,
                                 .sums = true,
                                 .step = true});
    check_error(r, (error_shape){.rows = 9, .cols = 4, .filled = 3, .first = 6, .gradient = true});
    check_error(r, (error_shape){.rows = 300, .cols = 123, .filled = 1000, .sums = true});
}
