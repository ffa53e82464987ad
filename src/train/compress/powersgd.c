// powersgd.c -- the factors of low-rank gradients, and their errors. See powersgd.h. Called by
// compress.c, which sums over ranks between the calls. It does not know policies, layouts of arrays or
// shorter types: it sees a bucket of full gradients.
#include "train/compress/powersgd.h"

#include "base/alloc.h"
#include "base/rng.h"
#include "base/size.h"
#include "parallel/hook.h"
#include "train/launch.h"

#include <float.h>
#include <stdlib.h>

// The first factors, times this, are added to factors that are kept: too little to change a number,
// and a start where the factors are zero.
static const float RESTART_FACTOR = 1e-30f;

// A gradient M [n, m] that is sent as P [n, rank] and Q [m, rank].
typedef struct powersgd_matrix {
    int row; // of the plan
    int64_t n, m, rank;
    int64_t offset; // of M in its bucket
    int64_t p;      // of P among those of its bucket
    int64_t q;      // of Q among those of all buckets
    int64_t error;  // of the error among those of all buckets
} powersgd_matrix;

typedef struct powersgd_bucket {
    int first, matrices; // of s->matrix
    int64_t p_count;     // elements of all its P
    int64_t q, q_count;  // its first Q, and elements of all of them
    uint64_t drawn;      // 1 + the step whose random numbers are in s->drawn; 0: none
    bool carries;        // Q and errors are those of an earlier step
} powersgd_bucket;

// Elements of the P of one bucket, of all Q, and of all errors.
typedef struct powersgd_sizes {
    int64_t p, q, errors;
} powersgd_sizes;

struct powersgd {
    const plan *plan;
    device *device;
    comm *comm;
    uint64_t seed;
    bool carries; // a step has been compressed since the last restart
    powersgd_sizes size;
    powersgd_matrix *matrix;
    powersgd_bucket *bucket;
    float *p;        // [size.p] of the bucket at hand; memory of comm_alloc
    float *q;        // [size.q] of all buckets; memory of comm_alloc
    float *drawn;    // [size.q] random numbers, on the host
    float *first;    // [size.q] the numbers that Q started from; NULL without warm start
    float *errors;   // [size.errors]; NULL without error feedback
    void *workspace; // [workspace_bytes] of the kernels
    size_t workspace_bytes;
};

// Gives every matrix its place. `matrices` and `buckets` may be NULL: then only sizes are computed.
static powersgd_sizes lay_out(const plan *p, powersgd_matrix *matrices, powersgd_bucket *buckets)
{
    powersgd_sizes all = {0};
    int count = 0;
    for (int b = 0; b < p->buckets; b++) {
        powersgd_bucket f = {.first = count, .q = all.q};
        for (int i = 0; i < p->bucket[b].rows; i++) {
            const int row = p->order[p->bucket[b].first_row + i];
            const plan_row *r = &p->row[row];
            if (!hook_factors_row(p, r)) continue;
            powersgd_matrix x = {.row = row, .n = r->rows, .m = r->cols, .rank = hook_rank(p, r)};
            x.offset = r->offset[LAYOUT_FULL];
            x.p = f.p_count, x.q = all.q, x.error = all.errors;
            f.p_count += x.n * x.rank;
            all.q += x.m * x.rank;
            all.errors += (int64_t)size_align((uint64_t)r->count, BUCKET_ALIGN);
            if (matrices) matrices[count] = x;
            count++;
        }
        f.matrices = count - f.first;
        f.q_count = all.q - f.q;
        all.p = size_max(all.p, f.p_count);
        if (buckets) buckets[b] = f;
    }
    if (!p->o.strategy.hook.error_feedback) all.errors = 0;
    return all;
}

// ---- The shapes of the kernels' calls

// P = M Q
static kernel_matmul_args left_product(const powersgd_matrix *x)
{
    return (kernel_matmul_args){
        .m = x->n, .n = x->rank, .k = x->m, .lda = x->m, .ldb = x->rank, .ldc = x->rank};
}

// Q = M^T P
static kernel_matmul_args right_product(const powersgd_matrix *x)
{
    return (kernel_matmul_args){.m = x->m,
                                .n = x->rank,
                                .k = x->n,
                                .lda = x->m,
                                .trans_a = true,
                                .ldb = x->rank,
                                .ldc = x->rank};
}

// P Q^T
static kernel_matmul_args full_product(const powersgd_matrix *x)
{
    return (kernel_matmul_args){.m = x->n,
                                .n = x->m,
                                .k = x->rank,
                                .lda = x->rank,
                                .ldb = x->rank,
                                .trans_b = true,
                                .ldc = x->m};
}

static size_t product_need(const kernel_needs *needs, kernel_matmul_args a)
{
    const float any = 0;
    float out;
    a.a = a.b = &any, a.c = &out;
    return kernel_workspace_bytes(needs, &(kernel_call){.kind = K_MATMUL, .u.matmul = a});
}

static size_t orthogonalize_need(const kernel_needs *needs, int64_t rows, int64_t cols)
{
    float out;
    const kernel_call c = {.kind = K_ORTHOGONALIZE,
                           .u.orthogonalize = {.rows = rows, .cols = cols, .x = &out}};
    return kernel_workspace_bytes(needs, &c);
}

static size_t workspace_bytes(const plan *p, const kernel_needs *needs)
{
    size_t most = 0;
    for (int i = 0; i < p->local_rows; i++) {
        const plan_row *r = &p->row[p->order[i]];
        if (!hook_factors_row(p, r)) continue;
        const powersgd_matrix x = {.n = r->rows, .m = r->cols, .rank = hook_rank(p, r)};
        const size_t need[] = {
            product_need(needs, left_product(&x)), product_need(needs, right_product(&x)),
            product_need(needs, full_product(&x)), orthogonalize_need(needs, x.n, x.rank),
            orthogonalize_need(needs, x.m, x.rank)};
        for (size_t k = 0; k < sizeof need / sizeof *need; k++)
            if (need[k] > most) most = need[k];
    }
    return most;
}

uint64_t powersgd_bytes(const plan *p, const kernel_needs *needs)
{
    const powersgd_sizes size = lay_out(p, NULL, NULL);
    // Of Q there are itself, the random numbers, and with warm start what it started from.
    const int64_t copies = p->o.strategy.hook.warm_start ? 3 : 2;
    return sizeof(float) * (uint64_t)(size.p + copies * size.q + size.errors) +
           workspace_bytes(p, needs);
}

static size_t bytes_of(int64_t count)
{
    return (size_t)count * sizeof(float);
}

static status alloc_shared(powersgd *s, int64_t count, float **out, err *e)
{
    void *ptr = NULL;
    const status result = count ? comm_alloc(s->comm, s->device, bytes_of(count), &ptr, e) : OK;
    *out = ptr;
    return result;
}

static status alloc_local(powersgd *s, device_memory_kind kind, int64_t count, float **out, err *e)
{
    void *ptr = NULL;
    const status result = count ? device_alloc(s->device, kind, bytes_of(count), &ptr, e) : OK;
    *out = ptr;
    return result;
}

status powersgd_open(const plan *p, device *d, comm *c, uint64_t seed, powersgd **out, err *e)
{
    status result = OK;
    powersgd *s = NULL;
    *out = NULL;
    TRY(alloc_zeroed(&s, 1, sizeof *s, "PowerSGD", e));
    *s = (powersgd){.plan = p, .device = d, .comm = c, .seed = seed};
    TRY(alloc_zeroed(&s->matrix, (size_t)p->local_rows, sizeof *s->matrix, "PowerSGD", e));
    TRY(alloc_zeroed(&s->bucket, (size_t)p->buckets + 1, sizeof *s->bucket, "PowerSGD", e));
    s->size = lay_out(p, s->matrix, s->bucket);
    TRY(alloc_shared(s, s->size.p, &s->p, e));
    TRY(alloc_shared(s, s->size.q, &s->q, e));
    TRY(alloc_local(s, MEMORY_HOST, s->size.q, &s->drawn, e));
    if (p->o.strategy.hook.warm_start) TRY(alloc_local(s, MEMORY_DEVICE, s->size.q, &s->first, e));
    TRY(alloc_local(s, MEMORY_DEVICE, s->size.errors, &s->errors, e));
    s->workspace_bytes = workspace_bytes(p, d->needs);
    if (s->workspace_bytes > 0)
        TRY(device_alloc(d, MEMORY_DEVICE, s->workspace_bytes, &s->workspace, e));
    *out = s;
    s = NULL;
done:
    powersgd_close(s);
    return result;
}

void powersgd_close(powersgd *s)
{
    if (!s) return;
    if (s->p) comm_release(s->comm, s->device, s->p, bytes_of(s->size.p));
    if (s->q) comm_release(s->comm, s->device, s->q, bytes_of(s->size.q));
    device_release(s->device, MEMORY_HOST, s->drawn, bytes_of(s->size.q));
    device_release(s->device, MEMORY_DEVICE, s->first, bytes_of(s->size.q));
    device_release(s->device, MEMORY_DEVICE, s->errors, bytes_of(s->size.errors));
    device_release(s->device, MEMORY_DEVICE, s->workspace, s->workspace_bytes);
    free(s->matrix);
    free(s->bucket);
    free(s);
}

void powersgd_end_step(powersgd *s, uint64_t step, bool restart)
{
    s->carries = !restart && step > (uint64_t)s->plan->o.strategy.hook.start_step;
    for (int b = 0; restart && b < s->plan->buckets; b++) s->bucket[b].carries = false;
}

// ---- What a checkpoint saves

bool powersgd_carries(const powersgd *s)
{
    return s->carries;
}

int64_t powersgd_part_elements(const plan *p, const plan_row *r, powersgd_part part)
{
    if (!hook_factors_row(p, r)) return 0;
    if (part == POWERSGD_ERROR) return p->o.strategy.hook.error_feedback ? r->count : 0;
    return p->o.strategy.hook.warm_start ? r->cols * hook_rank(p, r) : 0;
}

float *powersgd_part_ptr(powersgd *s, int row, powersgd_part part)
{
    const powersgd_matrix *x = s->matrix;
    while (x->row != row) x++;
    if (part == POWERSGD_ERROR) return s->errors + x->error;
    return (part == POWERSGD_RIGHT ? s->q : s->first) + x->q;
}

void powersgd_resume(powersgd *s)
{
    s->carries = true;
    for (int b = 0; b < s->plan->buckets; b++) s->bucket[b].carries = true;
}

// ---- Kernels

static void launch(const powersgd *s, device_stream *on, kernel_call c)
{
    c.workspace = s->workspace;
    c.workspace_bytes = s->workspace_bytes;
    device_launch(on, &c);
}

static void orthogonalize(const powersgd *s, device_stream *on, float *x, int64_t rows,
                          int64_t cols, double eps)
{
    kernel_call c = {.kind = K_ORTHOGONALIZE};
    c.u.orthogonalize = (kernel_orthogonalize_args){
        .rows = rows, .cols = cols, .x = x, .eps = eps > FLT_MIN ? (float)eps : FLT_MIN};
    launch(s, on, c);
}

// c = op(a) op(b), all F32; `shape` is one of the products.
static void product(const powersgd *s, device_stream *on, kernel_matmul_args shape, const float *a,
                    const float *b, float *c)
{
    shape.a = a, shape.b = b, shape.c = c;
    launch(s, on, (kernel_call){.kind = K_MATMUL, .u.matmul = shape});
}

// ---- The three calls of a step

// The number of ranks that sum the gradients of a bucket.
static int summing_ranks(const powersgd *s, int bucket)
{
    return mesh_group_size(&s->plan->o.mesh, plan_group_axes(plan_group_of(s->plan, bucket)));
}

// The matrix M: the gradient, or with error feedback the gradient plus the error, kept in s->errors.
static const float *matrix_ptr(const powersgd *s, const powersgd_matrix *x, const float *gradients)
{
    return s->errors ? s->errors + x->error : gradients + x->offset;
}

// Every rank draws the same numbers: they are keyed by the row and the step.
static void draw(powersgd *s, powersgd_bucket *f, uint64_t step)
{
    if (f->drawn == step + 1) return;
    for (int i = 0; i < f->matrices; i++) {
        const powersgd_matrix *x = &s->matrix[f->first + i];
        const rng_key key = rng_key_make(s->seed, RNG_POWERSGD, (uint64_t)x->row, step);
        rng_normals(key, 0, (size_t)(x->m * x->rank), s->drawn + x->q);
    }
    f->drawn = step + 1;
}

static void start_right(powersgd *s, powersgd_bucket *f, uint64_t step, device_stream *on)
{
    const size_t bytes = bytes_of(f->q_count);
    if (f->carries && s->first) {
        launch_add(on, s->q + f->q, s->q + f->q, s->first + f->q, RESTART_FACTOR, f->q_count);
        return;
    }
    draw(s, f, step);
    s->device->ops->copy(on, s->q + f->q, s->drawn + f->q, bytes);
    if (s->first) s->device->ops->copy(on, s->first + f->q, s->drawn + f->q, bytes);
}

powersgd_factors powersgd_left(powersgd *s, int bucket, const float *gradients, uint64_t step,
                               device_stream *on)
{
    powersgd_bucket *f = &s->bucket[bucket];
    // A Q that is kept is a sum over the ranks; epsilon is relative to their mean.
    const bool kept = f->carries && s->first;
    const double eps = s->plan->o.strategy.hook.epsilon * (kept ? summing_ranks(s, bucket) : 1);
    if (f->matrices == 0) return (powersgd_factors){0};
    start_right(s, f, step, on);
    for (int i = 0; i < f->matrices; i++) {
        const powersgd_matrix *x = &s->matrix[f->first + i];
        if (s->errors) {
            float *sum = s->errors + x->error;
            launch_add(on, sum, gradients + x->offset, f->carries ? sum : NULL, 1, x->n * x->m);
        }
        orthogonalize(s, on, s->q + x->q, x->m, x->rank, eps);
        product(s, on, left_product(x), matrix_ptr(s, x, gradients), s->q + x->q, s->p + x->p);
    }
    return (powersgd_factors){s->p, f->p_count};
}

powersgd_factors powersgd_right(powersgd *s, int bucket, const float *gradients, device_stream *on)
{
    const powersgd_bucket *f = &s->bucket[bucket];
    if (f->matrices == 0) return (powersgd_factors){0};
    for (int i = 0; i < f->matrices; i++) {
        const powersgd_matrix *x = &s->matrix[f->first + i];
        float *p = s->p + x->p;
        orthogonalize(s, on, p, x->n, x->rank, s->plan->o.strategy.hook.epsilon);
        // A column that depended on others is rounding noise now. It may lie along one of
        // them, whose direction would then count twice.
        if (x->rank > 1) orthogonalize(s, on, p, x->n, x->rank, 0);
        product(s, on, right_product(x), matrix_ptr(s, x, gradients), p, s->q + x->q);
    }
    return (powersgd_factors){s->q + f->q, f->q_count};
}

void powersgd_product(powersgd *s, int bucket, float *gradients, device_stream *on)
{
    powersgd_bucket *f = &s->bucket[bucket];
    const float share = -1.0f / (float)summing_ranks(s, bucket);
    for (int i = 0; i < f->matrices; i++) {
        const powersgd_matrix *x = &s->matrix[f->first + i];
        product(s, on, full_product(x), s->p + x->p, s->q + x->q, gradients + x->offset);
        if (!s->errors) continue;
        float *error = s->errors + x->error;
        launch_add(on, error, error, gradients + x->offset, share, x->n * x->m);
    }
    f->carries = true;
}
