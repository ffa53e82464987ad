// plan.c -- lays parameters out in buckets and counts bytes. See plan.h.
#include "parallel/plan.h"

#include <inttypes.h>
#include <stdlib.h>

static int64_t round_up(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

// Closes the bucket that ends with row `last`.
static void close_bucket(plan *p, int last)
{
    bucket_range *b = &p->bucket[p->buckets++];
    int64_t end = p->row[last].first + p->row[last].count;
    b->count = round_up(end - b->first, (int64_t)p->mesh.ranks * BUCKET_ALIGN);
    p->elements = b->first + b->count;
}

status plan_make(const plan_options *o, const plan_param *params, int count, plan **out, err *e)
{
    plan *p = calloc(1, sizeof *p);
    if (!p) return err_set(e, E_IO, "no memory for the plan");
    p->mesh = o->mesh, p->policy = o->policy, p->state_tensors = o->state_tensors,
    p->compute = o->compute;
    p->rows = count;
    p->row = calloc((size_t)count, sizeof *p->row);
    p->bucket = calloc((size_t)count, sizeof *p->bucket);
    if (!p->row || !p->bucket) {
        plan_free(p);
        return err_set(e, E_IO, "no memory for the plan");
    }
    int64_t limit = o->bucket_bytes / 4;
    for (int i = 0, start = 0; i < count; i++) {
        bool new_block = i > 0 && params[i].block != params[i - 1].block;
        if (new_block && p->elements - p->bucket[p->buckets].first >= limit) {
            close_bucket(p, i - 1);
            start = i;
        }
        bucket_range *b = &p->bucket[p->buckets];
        if (i == start) *b = (bucket_range){.first = p->elements, .first_block = params[i].block};
        b->last_block = params[i].block;
        p->row[i] = (plan_row){.name = params[i].name,
                               .first = p->elements,
                               .count = params[i].count,
                               .bucket = p->buckets,
                               .decays = params[i].is_matrix || o->decay_all};
        p->elements = round_up(p->elements + params[i].count, BUCKET_ALIGN);
    }
    close_bucket(p, count - 1);
    uint64_t n = (uint64_t)p->elements;
    p->bytes[BYTES_WEIGHTS] = 4 * n;
    p->bytes[BYTES_LOW_WEIGHTS] = o->compute == F32 ? 0 : n * dtype_bytes(o->compute);
    p->bytes[BYTES_GRADIENTS] = 4 * n;
    p->bytes[BYTES_OPTIMIZER] = 4 * n * (uint64_t)o->state_tensors;
    *out = p;
    return OK;
}

void plan_free(plan *p)
{
    if (!p) return;
    free(p->row);
    free(p->bucket);
    free(p);
}

uint64_t plan_bytes(const plan *p)
{
    uint64_t sum = 0;
    for (int c = 0; c < CATEGORIES; c++) sum += p->bytes[c];
    return sum;
}

const char *category_name(category c)
{
    static const char *const name[CATEGORIES] = {"weights",   "low_weights", "gradients",
                                                 "optimizer", "activations", "work",
                                                 "data",      "kernels",     "runtime"};
    return name[c];
}

static void print_json(const plan *p, text *out)
{
    text_addf(out, "{\"policy\":\"%s\",\"word\":\"%c%c%c\",\"buckets\":%d,\"bytes_per_rank\":{",
              p->policy->name, placement_letter(p->policy->weight),
              placement_letter(p->policy->gradient), placement_letter(p->policy->optimizer),
              p->buckets);
    for (int c = 0; c < CATEGORIES; c++)
        text_addf(out, "\"%s\":%" PRIu64 ",", category_name((category)c), p->bytes[c]);
    text_addf(out, "\"total\":%" PRIu64 "}}", plan_bytes(p));
}

void plan_print(const plan *p, bool json, text *out)
{
    if (json) {
        print_json(p, out);
        return;
    }
    text_addf(out, "plan: policy %s, word %c%c%c (weight, gradient, optimizer state); mesh",
              p->policy->name, placement_letter(p->policy->weight),
              placement_letter(p->policy->gradient), placement_letter(p->policy->optimizer));
    for (int a = 0; a < AXES; a++) text_addf(out, " %s=%d", axis_name((axis)a), p->mesh.size[a]);
    text_addf(out, "\n  per micro-batch: %s; per step: gradient %s, weight %s\n",
              transition_name(placement_move(p->policy->weight, WHOLE)),
              transition_name(placement_move(p->policy->gradient, p->policy->optimizer)),
              transition_name(placement_move(p->policy->optimizer, p->policy->weight)));
    text_addf(out, "  %d parameters, %d buckets\n  bytes per rank:\n", p->rows, p->buckets);
    char size[24];
    for (int c = 0; c < CATEGORIES; c++) {
        text_bytes(size, (double)p->bytes[c]);
        text_addf(out, "    %-12s %16" PRIu64 "  %s\n", category_name((category)c), p->bytes[c],
                  size);
    }
    text_bytes(size, (double)plan_bytes(p));
    text_addf(out, "    %-12s %16" PRIu64 "  %s\n", "total", plan_bytes(p), size);
}
