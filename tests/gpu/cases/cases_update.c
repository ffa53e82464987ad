// cases_update.c -- cases of K_UPDATE and K_CLIP: every rule and type of rounded weights, segments whose
// arrays are laid out differently, steps that apply and steps that do not.
#include "case.h"

enum { MOST_SEGMENTS = 200 };

typedef struct shape {
    int64_t count, segments;
    kernel_update_rule rule;
    int low;                                  // 0: none, else 1 + its type
    bool no_m, first, no_step, skipped, even; // even: offsets are multiples of 16
} shape;

// The elements of segment i, and the gap before it in array k.
static int64_t segment_count(const shape *h, int64_t i)
{
    return i % 6 == 0 ? h->count : i % 6 * 13;
}

static int64_t gap(const shape *h, int64_t i, int k)
{
    return h->even ? 16 : (i + k) % 3;
}

// A table, and the elements of the three arrays that it names.
typedef struct layout {
    kernel_segment table[MOST_SEGMENTS];
    int64_t count, src, dst, state;
} layout;

static void lay_out(const shape *h, layout *l)
{
    *l = (layout){.count = 0};
    for (int64_t i = 0; i < h->segments; i++) {
        int64_t count = segment_count(h, i);
        if (h->even && i + 1 < h->segments) count = (count + 15) / 16 * 16;
        l->src += gap(h, i, 0), l->dst += gap(h, i, 1), l->state += gap(h, i, 2);
        l->table[i] = (kernel_segment){
            .count = count, .src = l->src, .dst = l->dst, .state = l->state, .decays = i % 2 == 0};
        l->count += count, l->src += count, l->dst += count, l->state += count;
    }
    if (h->segments == 0) l->count = l->src = l->dst = l->state = h->count;
}

static kernel_call describe(space *s, const void *args)
{
    const shape *h = args;
    layout l;
    lay_out(h, &l);
    kernel_step step;
    kernel_step_group group;
    memset(&step, 0, sizeof step); // the bytes between members too: they are compared
    memset(&group, 0, sizeof group);
    step.result.scale = 0.25, step.result.applies = !h->skipped;
    group.lr = 0.05f, group.beta1 = 0.9f, group.c1 = 0.271f, group.c2 = 0.0297f;
    group.first = h->first;
    kernel_update_args a = {
        .count = l.count,
        .segments = h->segments,
        .w = space_random(s, h->segments && !h->low ? l.dst : l.state, F32, 1, "w"),
        .g = space_random(s, l.src, F32, 1, NULL),
        .rule = h->rule,
        .beta2 = 0.99f,
        .eps = 1e-8f,
        .weight_decay = 0.1f,
        .step = h->no_step ? NULL : space_bytes(s, &step, sizeof step, NULL),
        .group = space_bytes(s, &group, sizeof group, NULL)};
    if (!h->no_m) a.m = space_random(s, l.state, F32, 1, "m");
    if (h->rule == UPDATE_ADAMW || h->rule == UPDATE_ADAM) {
        a.v = space_random(s, l.state, F32, 1, "v");
        for (int64_t i = 0; i < l.state; i++) a.v[i] = fabsf(a.v[i]);
    }
    if (h->low) {
        a.low_type = (dtype)(h->low - 1);
        a.low = space_random(s, l.dst, a.low_type, 1, "low");
    }
    if (h->segments)
        a.segment = space_bytes(s, l.table, sizeof *l.table * (size_t)h->segments, NULL);
    return (kernel_call){.kind = K_UPDATE, .u.update = a};
}

static void check(case_run *r, const shape *h)
{
    static const char *const rules[UPDATE_RULES] = {"adamw", "adam", "sgd", "lion"};
    case_check(r, describe, h, "update %s %lld, %lld segments, low %s%s%s%s%s%s", rules[h->rule],
               (long long)h->count, (long long)h->segments,
               h->low ? dtype_name((dtype)(h->low - 1)) : "none", h->no_m ? " no m" : "",
               h->first ? " first" : "", h->no_step ? " no step" : "", h->skipped ? " skipped" : "",
               h->even ? " even" : "");
}

static void check_rules(case_run *r, shape h)
{
    for (h.rule = 0; h.rule < UPDATE_RULES; h.rule++)
        for (h.low = 0; h.low <= 1 + F16; h.low++) {
            h.no_step = h.low == 1;
            h.skipped = false, check(r, &h);
            h.skipped = true, check(r, &h);
        }
    h = (shape){.count = h.count, .segments = h.segments, .rule = UPDATE_SGD, .no_m = true};
    check(r, &h);
    h.no_m = false, h.first = true, h.low = 1 + BF16;
    check(r, &h);
}

typedef struct clip_shape {
    double loss, count, squares, stop, samples, max_norm;
} clip_shape;

static kernel_call describe_clip(space *s, const void *args)
{
    const clip_shape *h = args;
    const kernel_step step = {.loss_scale = 8,
                              .sums = {h->loss, h->count, h->squares, h->stop, h->samples}};
    kernel_step *p = space_bytes(s, &step, sizeof step, "step");
    return (kernel_call){.kind = K_CLIP, .u.clip = {.step = p, .max_norm = h->max_norm}};
}

void cases_run(case_run *r)
{
    static const clip_shape clips[] = {{12, 5, 900, 0, 2, 1}, {12, 5, 0.5, 1, 2, 1},
                                       {12, 0, 900, 0, 2, 0}, {12, 5, INFINITY, 0, 2, 1},
                                       {NAN, 5, 3, 0, 2, 1},  {0, 0, 0, 0, 0, 1}};
    for (size_t i = 0; i < sizeof clips / sizeof *clips; i++)
        case_check(r, describe_clip, &clips[i], "clip %d", (int)i);
    check_rules(r, (shape){.count = 1000});
    check_rules(r, (shape){.count = 77, .segments = 9});
    check_rules(r, (shape){.count = 300, .segments = 13, .even = true});
    check(r, &(shape){.count = 0});
    check(r, &(shape){.count = 0, .segments = 1});
    check(r, &(shape){.count = 20001, .low = 1 + BF16}); // several pieces
    check(r, &(shape){.count = 9000, .segments = 8, .low = 1 + BF16});
    check(r, &(shape){.count = 50, .segments = MOST_SEGMENTS}); // more than a lane's segments
    for (int i = 0; i < 6; i++)
        check(r, &(shape){.count = case_pick(r, 1, 3000),
                          .segments = case_pick(r, 0, 20),
                          .rule = (kernel_update_rule)case_pick(r, 0, UPDATE_LION),
                          .low = (int)case_pick(r, 0, 3),
                          .even = case_pick(r, 0, 1)});
}
