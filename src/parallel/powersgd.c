// powersgd.c -- the factors of low-rank gradients, and their errors. See powersgd.h. Called by
// compress.c, which sums over ranks between the thirds. Does not know policies, levels of arrays or
// shorter types: it sees a bucket of whole gradients.
#include "parallel/powersgd.h"

#include "base/alloc.h"
#include "base/rng.h"
#include "device/kernels.h"

#include <float.h>
#include <stdlib.h>

// Added to factors that are kept, times the first ones: nothing beside numbers, a start beside 0.
static const float SPARK = 1e-30f;

typedef struct matrix {
    int row; // by parameter
    int64_t n, m, rank;
    int64_t at;    // in its bucket
    int64_t p;     // in P of its bucket
    int64_t q;     // in Q of all buckets
    int64_t error; // in the errors
} matrix;

typedef struct factored_bucket {
    int first, matrices;
    int64_t p_count, q, q_count;
    uint64_t drawn; // 1 + the step whose numbers are in `drawn`; 0: none
    bool carries;   // Q and errors are those of an earlier call
} factored_bucket;

// Elements.
typedef struct sizes {
    int64_t p, q, errors;
} sizes;

struct powersgd {
    const plan *plan;
    device *device;
    comm *comm;
    uint64_t seed;
    sizes room;
    matrix *matrix;
    factored_bucket *bucket;
    float *p, *q;  // comm_alloc'ed; P of one bucket, Q of all
    float *drawn;  // host: random numbers, as Q
    float *first;  // those that Q started from; NULL without warm start
    float *errors; // NULL without error feedback
};

static int64_t rank_of(const plan *p, const plan_row *r)
{
    int64_t least = r->rows < r->cols ? r->rows : r->cols;
    return p->o.hook.rank < least ? p->o.hook.rank : least;
}

bool powersgd_takes(const plan *p, const plan_row *r)
{
    if (p->o.hook.kind != HOOK_POWERSGD || r->cols < 2) return false;
    double packed = (double)((r->rows + r->cols) * rank_of(p, r));
    return packed * p->o.hook.min_compression_rate < (double)r->count;
}

int64_t powersgd_factor_elements(const plan *p, const plan_row *r)
{
    return powersgd_takes(p, r) ? (r->rows + r->cols) * rank_of(p, r) : 0;
}

// Where everything lies. `matrices` and `buckets` are NULL where only the sizes are asked for.
static sizes lay_out(const plan *p, matrix *matrices, factored_bucket *buckets)
{
    sizes all = {0};
    int at = 0;
    for (int b = 0; b < p->buckets; b++) {
        factored_bucket f = {.first = at, .q = all.q};
        for (int i = 0; i < p->bucket[b].rows; i++) {
            const int row = p->order[p->bucket[b].first_row + i];
            const plan_row *r = &p->row[row];
            if (!powersgd_takes(p, r)) continue;
            matrix x = {.row = row, .n = r->rows, .m = r->cols, .rank = rank_of(p, r)};
            x.at = r->offset[LAYOUT_FULL] - p->bucket[b].first[LAYOUT_FULL];
            x.p = f.p_count, x.q = all.q, x.error = all.errors;
            f.p_count += x.n * x.rank;
            all.q += x.m * x.rank;
            all.errors += (r->count + BUCKET_ALIGN - 1) / BUCKET_ALIGN * BUCKET_ALIGN;
            if (matrices) matrices[at] = x;
            at++;
        }
        f.matrices = at - f.first;
        f.q_count = all.q - f.q;
        if (f.p_count > all.p) all.p = f.p_count;
        if (buckets) buckets[b] = f;
    }
    if (!p->o.hook.error_feedback) all.errors = 0;
    return all;
}

uint64_t powersgd_bytes(const plan *p)
{
    sizes room = lay_out(p, NULL, NULL);
    int64_t copies = p->o.hook.warm_start ? 3 : 2; // of Q: itself, as drawn, as it started
    return sizeof(float) * (uint64_t)(room.p + copies * room.q + room.errors);
}

static size_t bytes_of(int64_t count)
{
    return (size_t)count * sizeof(float);
}

static status take_shared(powersgd *s, int64_t count, float **out, err *e)
{
    void *at = NULL;
    status result = count ? comm_alloc(s->comm, s->device, bytes_of(count), &at, e) : OK;
    *out = at;
    return result;
}

static status take_own(powersgd *s, device_memory_kind kind, int64_t count, float **out, err *e)
{
    void *at = NULL;
    status result = count ? device_alloc(s->device, kind, bytes_of(count), &at, e) : OK;
    *out = at;
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
    s->room = lay_out(p, s->matrix, s->bucket);
    TRY(take_shared(s, s->room.p, &s->p, e));
    TRY(take_shared(s, s->room.q, &s->q, e));
    TRY(take_own(s, MEMORY_HOST, s->room.q, &s->drawn, e));
    if (p->o.hook.warm_start) TRY(take_own(s, MEMORY_DEVICE, s->room.q, &s->first, e));
    TRY(take_own(s, MEMORY_DEVICE, s->room.errors, &s->errors, e));
    *out = s;
    s = NULL;
done:
    powersgd_close(s);
    return result;
}

void powersgd_close(powersgd *s)
{
    if (!s) return;
    if (s->p) comm_release(s->comm, s->device, s->p, bytes_of(s->room.p));
    if (s->q) comm_release(s->comm, s->device, s->q, bytes_of(s->room.q));
    device_release(s->device, MEMORY_HOST, s->drawn, bytes_of(s->room.q));
    device_release(s->device, MEMORY_DEVICE, s->first, bytes_of(s->room.q));
    device_release(s->device, MEMORY_DEVICE, s->errors, bytes_of(s->room.errors));
    free(s->matrix);
    free(s->bucket);
    free(s);
}

void powersgd_restart(powersgd *s)
{
    for (int b = 0; b < s->plan->buckets; b++) s->bucket[b].carries = false;
}

// ---- What is carried

bool powersgd_carries(const powersgd *s)
{
    for (int b = 0; b < s->plan->buckets; b++)
        if (!s->bucket[b].carries) return false;
    return s->plan->buckets > 0;
}

int64_t powersgd_part_elements(const plan *p, const plan_row *r, powersgd_part part)
{
    if (!powersgd_takes(p, r)) return 0;
    if (part == POWERSGD_ERROR) return p->o.hook.error_feedback ? r->count : 0;
    return p->o.hook.warm_start ? r->cols * rank_of(p, r) : 0;
}

float *powersgd_part_at(powersgd *s, int row, powersgd_part part)
{
    const matrix *x = s->matrix;
    while (x->row != row) x++;
    if (part == POWERSGD_ERROR) return s->errors + x->error;
    return (part == POWERSGD_RIGHT ? s->q : s->first) + x->q;
}

void powersgd_resume(powersgd *s)
{
    for (int b = 0; b < s->plan->buckets; b++) s->bucket[b].carries = true;
}

// ---- Kernels

static void add(device_stream *on, float *y, const float *a, const float *b, float beta,
                int64_t count)
{
    kernel_call c = {.kind = K_ADD};
    c.u.add = (kernel_add_args){
        .count = count, .a = a, .b = b, .y = y, .alpha = 1, .beta = beta, .type = F32};
    device_launch(on, &c);
}

static void orthogonalize(device_stream *on, float *x, int64_t rows, int64_t cols, double eps)
{
    kernel_call c = {.kind = K_ORTHOGONALIZE};
    c.u.orthogonalize = (kernel_orthogonalize_args){
        .rows = rows, .cols = cols, .x = x, .eps = eps > FLT_MIN ? (float)eps : FLT_MIN};
    device_launch(on, &c);
}

static void product(device_stream *on, kernel_matmul_args a)
{
    kernel_call c = {.kind = K_MATMUL};
    a.type = a.c_type = F32;
    c.u.matmul = a;
    device_launch(on, &c);
}

// ---- The thirds

// The matrix that is sent: the gradient, or with error feedback the sum of both, where errors are.
static const float *sent(const powersgd *s, const matrix *x, const float *at)
{
    return s->errors ? s->errors + x->error : at + x->at;
}

// Every rank draws the same numbers, whatever lies where.
static void draw(powersgd *s, factored_bucket *f, uint64_t step)
{
    if (f->drawn == step + 1) return;
    for (int i = 0; i < f->matrices; i++) {
        const matrix *x = &s->matrix[f->first + i];
        const rng_key key = rng_key_make(s->seed, RNG_POWERSGD, (uint64_t)x->row, step);
        rng_normals(key, 0, (size_t)(x->m * x->rank), s->drawn + x->q);
    }
    f->drawn = step + 1;
}

static void start_right(powersgd *s, factored_bucket *f, uint64_t step, device_stream *on)
{
    const size_t bytes = bytes_of(f->q_count);
    if (f->carries && s->first) {
        add(on, s->q + f->q, s->q + f->q, s->first + f->q, SPARK, f->q_count);
        return;
    }
    draw(s, f, step);
    s->device->ops->copy(on, s->q + f->q, s->drawn + f->q, bytes);
    if (s->first) s->device->ops->copy(on, s->first + f->q, s->drawn + f->q, bytes);
}

powersgd_factors powersgd_left(powersgd *s, int b, const float *at, uint64_t step,
                               device_stream *on)
{
    factored_bucket *f = &s->bucket[b];
    // Q that is kept is a sum over the ranks, where epsilon is meant beside their mean.
    const bool kept = f->carries && s->first;
    const double eps = s->plan->o.hook.epsilon * (kept ? mesh_data_ranks(&s->plan->o.mesh) : 1);
    if (f->matrices == 0) return (powersgd_factors){0};
    start_right(s, f, step, on);
    for (int i = 0; i < f->matrices; i++) {
        const matrix *x = &s->matrix[f->first + i];
        if (s->errors) {
            float *sum = s->errors + x->error;
            add(on, sum, at + x->at, f->carries ? sum : NULL, 1, x->n * x->m);
        }
        orthogonalize(on, s->q + x->q, x->m, x->rank, eps);
        product(on, (kernel_matmul_args){.m = x->n,
                                         .n = x->rank,
                                         .k = x->m,
                                         .a = sent(s, x, at),
                                         .lda = x->m,
                                         .b = s->q + x->q,
                                         .ldb = x->rank,
                                         .c = s->p + x->p,
                                         .ldc = x->rank});
    }
    return (powersgd_factors){s->p, f->p_count};
}

powersgd_factors powersgd_right(powersgd *s, int b, const float *at, device_stream *on)
{
    const factored_bucket *f = &s->bucket[b];
    if (f->matrices == 0) return (powersgd_factors){0};
    for (int i = 0; i < f->matrices; i++) {
        const matrix *x = &s->matrix[f->first + i];
        float *p = s->p + x->p;
        orthogonalize(on, p, x->n, x->rank, s->plan->o.hook.epsilon);
        // A column that depended on others is rounding noise now, and may lie along one of them:
        // that part would count twice.
        if (x->rank > 1) orthogonalize(on, p, x->n, x->rank, 0);
        product(on, (kernel_matmul_args){.m = x->m,
                                         .n = x->rank,
                                         .k = x->n,
                                         .a = sent(s, x, at),
                                         .lda = x->m,
                                         .trans_a = true,
                                         .b = p,
                                         .ldb = x->rank,
                                         .c = s->q + x->q,
                                         .ldc = x->rank});
    }
    return (powersgd_factors){s->q + f->q, f->q_count};
}

void powersgd_product(powersgd *s, int b, float *at, device_stream *on)
{
    factored_bucket *f = &s->bucket[b];
    const float share = -1.0f / (float)mesh_data_ranks(&s->plan->o.mesh);
    for (int i = 0; i < f->matrices; i++) {
        const matrix *x = &s->matrix[f->first + i];
        product(on, (kernel_matmul_args){.m = x->n,
                                         .n = x->m,
                                         .k = x->rank,
                                         .a = s->p + x->p,
                                         .lda = x->rank,
                                         .b = s->q + x->q,
                                         .ldb = x->rank,
                                         .trans_b = true,
                                         .c = at + x->at,
                                         .ldc = x->m});
        if (!s->errors) continue;
        float *error = s->errors + x->error;
        add(on, error, error, at + x->at, share, x->n * x->m);
    }
    f->carries = true;
}
