// matrix_cover.c -- chooses points of the matrix. See matrix_cover.h. A greedy search makes the
// covering array: for each uncovered pair it draws a few random points that have the pair and takes
// the one with the most uncovered pairs.
#include "equiv/matrix_cover.h"

#include "base/rng.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_VALUES = 11, TRIES = 400, CANDIDATES = 24 };

void points_add(points *l, const point *p)
{
    for (int i = 0; i < l->count; i++)
        if (!memcmp(&l->items[i], p, sizeof *p)) return;
    if (l->count == l->room) {
        l->room = l->room ? 2 * l->room : 256;
        l->items = realloc(l->items, (size_t)l->room * sizeof *l->items);
        if (!l->items) abort();
    }
    l->items[l->count++] = *p;
}

void points_clear(points *l)
{
    free(l->items);
    *l = (points){NULL, 0, 0};
}

// ---- Random points

int dice_throw(dice *d, int sides)
{
    return (int)(((uint64_t)rng_word(d->key, d->thrown++) * (uint64_t)sides) >> 32);
}

static int throw_value(dice *d, dim which)
{
    // Prefers fp32, for which the equivalence is strictest.
    if (which == DIM_PRECISION && dice_throw(d, 2)) return 0;
    return dice_throw(d, matrix_values(which));
}

// Sets dimensions that have no effect to 0, unless they are fixed.
static void drop_idle(point *p, const bool fixed[DIMS])
{
    static const dim may_idle[] = {DIM_OUTER, DIM_INNER, DIM_SCHEDULE, DIM_NO_SYNC, DIM_RESHARD};
    const bool needed[] = {p->v[DIM_REPLICATE] > 0, p->v[DIM_SHARD] > 0 || p->v[DIM_CP] > 0,
                           p->v[DIM_PP] > 0, p->v[DIM_MICROS] != 1, true};
    for (int i = 0; i < 5; i++)
        if (!needed[i] && !fixed[may_idle[i]]) p->v[may_idle[i]] = 0;
    static const dim may_be_illegal[] = {DIM_SPLIT, DIM_RESHARD, DIM_GROUPS};
    for (int i = 0; i < 3 && !matrix_legal(p); i++)
        if (!fixed[may_be_illegal[i]]) p->v[may_be_illegal[i]] = 0;
}

bool points_draw(dice *d, const point *with, const bool fixed[DIMS], point *out)
{
    for (int i = 0; i < TRIES; i++) {
        *out = *with;
        for (int k = 0; k < DIMS; k++)
            if (!fixed[k]) out->v[k] = throw_value(d, (dim)k);
        // Shrinks axes until the mesh fits, because few meshes of five axes do.
        static const dim sizes[] = {DIM_REPLICATE, DIM_SHARD, DIM_PP, DIM_CP, DIM_TP};
        while (matrix_ranks(out) > MATRIX_RANKS) {
            const dim k = sizes[dice_throw(d, 5)];
            if (fixed[k]) {
                if (dice_throw(d, 8) == 0) break;
                continue;
            }
            out->v[k] = dice_throw(d, out->v[k] + 1);
        }
        drop_idle(out, fixed);
        if (matrix_legal(out)) return true;
    }
    return false;
}

void matrix_sample(points *out, int count, uint64_t seed)
{
    dice d = {.key = rng_key_make(seed, RNG_MOCK, 0, 0)};
    const bool fixed[DIMS] = {false};
    const point none = {{0}};
    point p;
    for (int misses = 0; out->count < count && misses < 1000;) {
        const int before = out->count;
        if (points_draw(&d, &none, fixed, &p)) points_add(out, &p);
        misses = out->count == before ? misses + 1 : 0;
    }
}

// ---- Pairs of values

typedef struct pairs {
    bool has[DIMS][MOST_VALUES][DIMS][MOST_VALUES];
} pairs;

static int new_pairs(const pairs *s, const point *p)
{
    int n = 0;
    for (int a = 0; a < DIMS; a++)
        for (int b = a + 1; b < DIMS; b++) n += !s->has[a][p->v[a]][b][p->v[b]];
    return n;
}

static void mark(pairs *s, const point *p)
{
    for (int a = 0; a < DIMS; a++)
        for (int b = a + 1; b < DIMS; b++) s->has[a][p->v[a]][b][p->v[b]] = true;
}

static pairs *pairs_of(const points *l)
{
    pairs *s = calloc(1, sizeof *s);
    if (!s) abort();
    for (int i = 0; i < l->count; i++) mark(s, &l->items[i]);
    return s;
}

// Draws a few points that have this pair and keeps the one with the most uncovered pairs.
static bool best_with(dice *d, const pairs *have, dim a, int x, dim b, int y, point *best)
{
    bool fixed[DIMS] = {false};
    point with = {{0}}, p;
    int most = -1;
    fixed[a] = fixed[b] = true;
    with.v[a] = x, with.v[b] = y;
    for (int i = 0; i < CANDIDATES; i++) {
        if (!points_draw(d, &with, fixed, &p)) break;
        const int n = new_pairs(have, &p);
        if (n <= most) continue;
        most = n;
        *best = p;
    }
    return most >= 0;
}

void matrix_cover(points *out)
{
    dice d = {.key = rng_key_make(4, RNG_MOCK, 0, 0)};
    pairs *have = pairs_of(out);
    point best;
    for (int a = 0; a < DIMS; a++)
        for (int b = a + 1; b < DIMS; b++)
            for (int x = 0; x < matrix_values((dim)a); x++)
                for (int y = 0; y < matrix_values((dim)b); y++) {
                    if (have->has[a][x][b][y]) continue;
                    if (!best_with(&d, have, (dim)a, x, (dim)b, y, &best)) continue;
                    mark(have, &best);
                    points_add(out, &best);
                }
    free(have);
}

int matrix_pairs(const points *l, const points *cover, int *missing)
{
    pairs *some = pairs_of(l), *others = pairs_of(cover);
    const bool *x = &some->has[0][0][0][0], *y = &others->has[0][0][0][0];
    int n = 0;
    *missing = 0;
    for (size_t i = 0; i < sizeof some->has / sizeof(bool); i++) {
        n += x[i];
        *missing += x[i] && !y[i];
    }
    free(some);
    free(others);
    return n;
}

// ---- All of the core

static bool next_value(point *p, const bool moves[DIMS])
{
    for (int d = 0; d < DIMS; d++) {
        if (!moves[d]) continue;
        if (++p->v[d] < matrix_values((dim)d)) return true;
        p->v[d] = 0;
    }
    return false;
}

void matrix_core(points *out)
{
    const bool sizes[DIMS] = {[DIM_REPLICATE] = true,
                              [DIM_SHARD] = true,
                              [DIM_PP] = true,
                              [DIM_CP] = true,
                              [DIM_TP] = true},
               rest[DIMS] = {[DIM_MODEL] = true,    [DIM_OUTER] = true,     [DIM_INNER] = true,
                             [DIM_SCHEDULE] = true, [DIM_RECOMPUTE] = true, [DIM_TIER] = true};
    point m = {{0}};
    do {
        if (matrix_ranks(&m) > MATRIX_RANKS) continue;
        point p = m;
        do {
            // The steps of a context-parallel group lie within the passes, which know no tier.
            const int tiers = p.v[DIM_CP] > 0 ? 1 : 4;
            if (p.v[DIM_TIER] >= tiers || !matrix_legal(&p)) continue;
            if (out->count == out->room) {
                out->room = out->room ? 2 * out->room : 4096;
                out->items = realloc(out->items, (size_t)out->room * sizeof *out->items);
                if (!out->items) abort();
            }
            out->items[out->count++] = p; // the loops visit each point once
        } while (next_value(&p, rest));
    } while (next_value(&m, sizes));
}
