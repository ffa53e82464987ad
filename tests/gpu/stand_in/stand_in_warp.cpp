// stand_in_warp.cpp -- words for which the lanes of a warp meet: shuffles, votes, matrix products and
// loads of matrices. The last lane to arrive does the work for all. Fragments are as in the PTX ISA,
// "Warp Level Matrix Multiply-Accumulate Instructions".
#include "stand_in_engine.h"

#include <string.h>

// Computes the results in the operands of the lanes of the mask.
typedef void (*meeting)(void *const *operand, unsigned mask);

static bool waits_for_same(const fiber *f, const fiber *self)
{
    return f->state == FIBER_IN_WARP && f->mask == self->mask && f->site.line == self->site.line &&
           f->site.word == self->site.word && f->site.file == self->site.file;
}

static bool all_here(const engine *x, const fiber *self, int start)
{
    for (int lane = 0; lane < STAND_IN_LANES; lane++)
        if (self->mask >> lane & 1 && !waits_for_same(&x->fibers[(size_t)(start + lane)], self))
            return false;
    return true;
}

static int lanes_of(unsigned mask)
{
    return mask == 0xffffffffu ? STAND_IN_LANES : __builtin_popcount(mask);
}

static void meet(unsigned mask, void *operand, stand_in_site site, meeting finish)
{
    engine *x = engine_now;
    const int start = engine_warp_start(x->running), self_lane = x->running - start;
    fiber *self = &x->fibers[(size_t)x->running];
    int *waiting = &x->warp_waiting[(size_t)(start / STAND_IN_LANES)];
    if (!(mask >> self_lane & 1))
        stand_in_broken("%s (%s:%d) has mask 0x%08x, in which its own lane %d is missing",
                        site.word, site.file, site.line, mask, self_lane);
    self->state = FIBER_IN_WARP;
    self->site = site;
    self->mask = mask;
    self->operand = operand;
    if (++*waiting < lanes_of(mask) || !all_here(x, self, start)) {
        engine_wait(x);
        return;
    }
    void *operands[STAND_IN_LANES];
    for (int lane = 0; lane < STAND_IN_LANES; lane++)
        if (mask >> lane & 1) operands[lane] = x->fibers[(size_t)(start + lane)].operand;
    finish(operands, mask);
    *waiting -= lanes_of(mask);
    self->state = FIBER_READY;
    for (int i = 0; i < STAND_IN_LANES; i++) {
        const int lane = (x->order == ORDER_DEPTH) != x->descending ? STAND_IN_LANES - 1 - i : i;
        if (mask >> lane & 1 && lane != self_lane) engine_make_ready(x, start + lane);
    }
}

// ---- Shuffles and votes

struct shuffle_operand {
    stand_in_kind kind;
    uint64_t value;
    int lane, width;
    stand_in_site site;
    uint64_t result;
};

// The lane whose value a lane gets.
static int source_lane(const shuffle_operand *o, int lane)
{
    const int last = lane | (o->width - 1); // of its group
    int from = lane;
    if (o->kind == STAND_IN_LANE) from = (lane & ~(o->width - 1)) | (o->lane & (o->width - 1));
    if (o->kind == STAND_IN_XOR) from = lane ^ o->lane;
    if (o->kind == STAND_IN_DOWN) from = lane + o->lane;
    return from > last ? lane : from;
}

static void finish_shuffle(void *const *operand, unsigned mask)
{
    unsigned ballot = 0;
    for (int lane = 0; lane < STAND_IN_LANES; lane++)
        if (mask >> lane & 1 && ((const shuffle_operand *)operand[lane])->value)
            ballot |= 1u << lane;
    for (int lane = 0; lane < STAND_IN_LANES; lane++) {
        if (!(mask >> lane & 1)) continue;
        auto *o = (shuffle_operand *)operand[lane];
        const int from = source_lane(o, lane);
        if (from < 0 || !(mask >> from & 1))
            stand_in_broken("%s (%s:%d) reads lane %d, which is not in its mask 0x%08x",
                            o->site.word, o->site.file, o->site.line, from, mask);
        o->result =
            o->kind == STAND_IN_BALLOT ? ballot : ((const shuffle_operand *)operand[from])->value;
    }
}

uint64_t stand_in_shuffle(stand_in_kind kind, unsigned mask, uint64_t value, int lane, int width,
                          stand_in_site site)
{
    shuffle_operand o = {kind, value, lane, width, site, 0};
    if (width < 1 || width > STAND_IN_LANES || (width & (width - 1)) != 0)
        stand_in_broken("%s (%s:%d) has width %d; valid are powers of two up to %d", site.word,
                        site.file, site.line, width, (int)STAND_IN_LANES);
    meet(mask, &o, site, finish_shuffle);
    return o.result;
}

// ---- Matrix products

struct mma_operand {
    float *d;
    const uint32_t *a, *b;
    float (*to_float)(uint16_t);
};

// The elements of the fragments as matrices. Sums are in double, and rounded once.
static void finish_mma(void *const *operand, unsigned)
{
    float a[16][16], b[16][8];
    for (int lane = 0; lane < STAND_IN_LANES; lane++) {
        const auto *o = (const mma_operand *)operand[lane];
        const int g = lane / 4, t = lane % 4;
        for (int half = 0; half < 2; half++) {
            for (int i = 0; i < 4; i++)
                a[g + i % 2 * 8][2 * t + i / 2 * 8 + half] =
                    o->to_float((uint16_t)(o->a[i] >> 16 * half));
            for (int i = 0; i < 2; i++)
                b[2 * t + i * 8 + half][g] = o->to_float((uint16_t)(o->b[i] >> 16 * half));
        }
    }
    for (int lane = 0; lane < STAND_IN_LANES; lane++) {
        const auto *o = (const mma_operand *)operand[lane];
        for (int i = 0; i < 4; i++) {
            const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
            double sum = o->d[i];
            for (int k = 0; k < 16; k++) sum += (double)a[row][k] * b[k][column];
            o->d[i] = (float)sum;
        }
    }
}

void stand_in_mma(float d[4], const uint32_t a[4], const uint32_t b[2], float (*to_float)(uint16_t),
                  stand_in_site site)
{
    mma_operand o = {d, a, b, to_float};
    meet(0xffffffffu, &o, site, finish_mma);
}

// ---- Loads of matrices

struct ldmatrix_operand {
    uint32_t *out;
    const unsigned char *row;
    bool transposed;
};

static uint16_t matrix_element(void *const *operand, int matrix, int row, int column)
{
    uint16_t element;
    memcpy(&element, ((const ldmatrix_operand *)operand[8 * matrix + row])->row + 2 * column, 2);
    return element;
}

static void finish_ldmatrix(void *const *operand, unsigned)
{
    for (int lane = 0; lane < STAND_IN_LANES; lane++) {
        auto *o = (ldmatrix_operand *)operand[lane];
        const int r = lane / 4, c = lane % 4 * 2;
        for (int m = 0; m < 4; m++) {
            const uint32_t low =
                o->transposed ? matrix_element(operand, m, c, r) : matrix_element(operand, m, r, c);
            const uint32_t high = o->transposed ? matrix_element(operand, m, c + 1, r)
                                                : matrix_element(operand, m, r, c + 1);
            o->out[m] = low | high << 16;
        }
    }
}

void stand_in_ldmatrix(uint32_t out[4], const void *row, bool transposed, stand_in_site site)
{
    const engine *x = engine_now;
    const auto *p = (const unsigned char *)row;
    ldmatrix_operand o = {out, p, transposed};
    if ((uintptr_t)p % 16 != 0)
        stand_in_broken("%s (%s:%d) has a row that is not aligned to 16 bytes", site.word,
                        site.file, site.line);
    if (p < x->shared || p + 16 > x->shared + x->launch->shared_bytes)
        stand_in_broken("%s (%s:%d) has a row outside the %zu bytes of shared memory", site.word,
                        site.file, site.line, x->launch->shared_bytes);
    meet(0xffffffffu, &o, site, finish_ldmatrix);
}
