// print_spans.c -- prints the records of a run as text, for spans.sh.
//   print_spans RUN
// Each line begins with its rank: head, row, step, span.
#include "monitor/run_view.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static void print_head(int rank, const spans_head *h)
{
    printf("%d head ranks=%d local=%d stage=%d place=%s device=%s flops=%g memory=%d ended=%d "
           "error_ns=%" PRId64 " running=%d\n",
           rank, h->ranks, h->local_rank, h->stage, h->place, h->device, h->step_flops,
           h->bytes_now > 0 && h->bytes_peak >= h->bytes_now, atomic_load(&h->ended),
           h->clock.error_ns, atomic_load(&h->running));
    printf("%d plan", rank);
    for (int m = 0; m < SPANS_MEMORIES; m++)
        printf(" %s=%" PRIu64, spans_memory_word((spans_memory)m), h->plan_bytes[m]);
    printf("\n");
}

static void print_rows(int rank, const spans *s)
{
    for (uint32_t i = 0; i < s->row_count; i++) {
        const spans_row *r = &s->rows[i];
        printf("%d row %u kind=%d phase=%s stream=%d parent=%d peer=%d micro=%d bytes=%" PRIu64
               " group=%s count=%" PRIu64 " us=%" PRIu64 " waited_us=%" PRIu64 " name=%s\n",
               rank, i, r->kind, spans_phase_word((spans_phase)r->phase), r->stream, r->parent,
               r->peer, r->micro, r->bytes, r->group, r->count, r->sum_ns / 1000,
               r->waited_ns / 1000, r->name);
    }
}

// "whole" where the phases are the step.
static void print_steps(int rank, const spans *s)
{
    const uint64_t end = atomic_load(&s->head->steps);
    spans_step x;
    for (uint64_t n = 0; n < end; n++) {
        int64_t sum = 0;
        if (!spans_read_step(s, n, &x)) continue;
        for (int p = 0; p < SPANS_PHASES; p++) sum += x.phase_ns[p];
        printf("%d step %" PRIu64 " %s spans=%u begin_us=%" PRId64 " us=%" PRId64, rank, x.step,
               sum == x.duration_ns ? "whole" : "broken", x.spans, x.begin_ns / 1000,
               x.duration_ns / 1000);
        for (int p = 0; p < SPANS_PHASES; p++)
            printf(" %s=%" PRId64, spans_phase_word((spans_phase)p), x.phase_ns[p] / 1000);
        printf(" gap=%" PRId64 " waited=%" PRId64 " for=%d row=%d loss=%.6g\n", x.gap_ns / 1000,
               x.waited_ns / 1000, x.waited_for, x.waited_row, x.loss);
    }
}

static void print_spans(int rank, const spans *s)
{
    static span got[1 << 16];
    uint64_t from = 0;
    const size_t count = spans_read(s, &from, got, sizeof got / sizeof *got);
    for (size_t i = 0; i < count; i++)
        printf("%d span row=%u step=%u pair=%u last=%d begin_us=%" PRId64 " us=%" PRId64 "\n", rank,
               got[i].row, got[i].step, got[i].peer_span, got[i].last, got[i].begin_ns / 1000,
               got[i].duration_ns / 1000);
}

int main(int argc, char **argv)
{
    run_view *v = NULL;
    err e = {0};
    if (argc != 2 || run_view_open(argv[1], &v, &e) != OK) {
        fprintf(stderr, "print_spans: %s\n", argc == 2 ? e.text : "RUN");
        return 1;
    }
    for (int r = 0; r < v->ranks; r++) {
        if (!v->rank[r]) continue;
        print_head(r, v->rank[r]->head);
        print_rows(r, v->rank[r]);
        print_steps(r, v->rank[r]);
        print_spans(r, v->rank[r]);
    }
    run_view_close(v);
    return 0;
}
