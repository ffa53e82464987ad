// bench_link_run.c -- the measurement of `trireme bench link` on one end: latency by messages that go there and back,
// bandwidth by messages of one direction, and the bytes of both compared. It does not know what moves them.
#include "cmd/bench/bench_link.h"
#include "cmd/console.h"

#include "base/clock.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

int64_t bench_link_messages(const bench_link_plan *p, int64_t bytes)
{
    enum { MOST = 1000, LEAST = 10, ALL_BYTES = 64 << 20 };
    if (p->iterations) return p->iterations;
    const int64_t n = ALL_BYTES / bytes;
    return n > MOST ? MOST : n < LEAST ? LEAST : n;
}

// The message of a row, which the end that measures sends, or its answer. It is of no short period.
static void make_message(char *out, int64_t bytes, bool is_answer)
{
    uint32_t x = (uint32_t)bytes * 2654435761u + is_answer;
    for (int64_t i = 0; i < bytes; i++) {
        x = x * 1664525u + 1013904223u;
        out[i] = (char)(x >> 24);
    }
}

static status clear_in(bench_link *l, int64_t bytes, err *e)
{
    // Nothing of this row's message is there before it arrives.
    make_message(l->host, bytes, l->measures);
    for (int64_t i = 0; i < bytes; i++) l->host[i] = (char)~l->host[i];
    return l->ops->write(l, l->in, l->host, (size_t)bytes, e);
}

static status count_wrong(bench_link *l, int64_t bytes, uint64_t *wrong, err *e)
{
    status result = OK;
    uint32_t x = (uint32_t)bytes * 2654435761u + l->measures;
    TRY(l->ops->read(l, l->host, l->in, (size_t)bytes, e));
    for (int64_t i = 0; i < bytes; i++) {
        x = x * 1664525u + 1013904223u;
        *wrong += l->host[i] != (char)(x >> 24);
    }
done:
    return result;
}

static status send_word(bench_link *l, uint64_t value, err *e)
{
    status result = OK;
    TRY(l->ops->write(l, l->word, &value, sizeof value, e));
    TRY(l->ops->send(l, l->word, sizeof value, e));
    TRY(l->ops->sync(l, e));
done:
    return result;
}

static status recv_word(bench_link *l, uint64_t *value, err *e)
{
    status result = OK;
    TRY(l->ops->recv(l, l->word, sizeof *value, e));
    TRY(l->ops->sync(l, e));
    TRY(l->ops->read(l, value, l->word, sizeof *value, e));
done:
    return result;
}

static status round_trip(bench_link *l, size_t bytes, int64_t times, err *e)
{
    status result = OK;
    for (int64_t i = 0; i < times; i++) {
        if (l->measures) TRY(l->ops->send(l, l->out, bytes, e));
        TRY(l->ops->recv(l, l->in, bytes, e));
        if (!l->measures) TRY(l->ops->send(l, l->out, bytes, e));
    }
    TRY(l->ops->sync(l, e));
done:
    return result;
}

// ---- The end that answers

static status answer_row(bench_link *l, int64_t bytes, err *e)
{
    status result = OK;
    uint64_t wrong = 0;
    const int64_t n = bench_link_messages(&l->plan, bytes);
    TRY(clear_in(l, bytes, e));
    make_message(l->host, bytes, true);
    TRY(l->ops->write(l, l->out, l->host, (size_t)bytes, e));
    TRY(send_word(l, 0, e)); // ready
    TRY(round_trip(l, (size_t)bytes, l->plan.warm_up + n, e));
    TRY(count_wrong(l, bytes, &wrong, e));
    TRY(clear_in(l, bytes, e));
    TRY(send_word(l, 0, e)); // ready again
    for (int64_t i = 0; i < n; i++) TRY(l->ops->recv(l, l->in, (size_t)bytes, e));
    TRY(send_word(l, 0, e)); // all have come
    TRY(count_wrong(l, bytes, &wrong, e));
    TRY(send_word(l, wrong, e));
    l->wrong += wrong;
done:
    return result;
}

// ---- The end that measures

typedef struct link_row {
    int64_t bytes, messages;
    double latency_us, rate; // GB/s
    uint64_t wrong;
} link_row;

static status measure_row(bench_link *l, int64_t bytes, link_row *r, err *e)
{
    status result = OK;
    uint64_t word = 0;
    const int64_t n = bench_link_messages(&l->plan, bytes);
    *r = (link_row){.bytes = bytes, .messages = n};
    TRY(clear_in(l, bytes, e));
    make_message(l->host, bytes, false);
    TRY(l->ops->write(l, l->out, l->host, (size_t)bytes, e));
    TRY(recv_word(l, &word, e));
    TRY(round_trip(l, (size_t)bytes, l->plan.warm_up, e));
    double start = clock_seconds();
    TRY(round_trip(l, (size_t)bytes, n, e));
    r->latency_us = (clock_seconds() - start) / (double)n / 2 * 1e6;
    TRY(count_wrong(l, bytes, &r->wrong, e));
    TRY(recv_word(l, &word, e));
    start = clock_seconds();
    for (int64_t i = 0; i < n; i++) TRY(l->ops->send(l, l->out, (size_t)bytes, e));
    TRY(recv_word(l, &word, e));
    r->rate = (double)bytes * (double)n / (clock_seconds() - start) * 1e-9;
    TRY(recv_word(l, &word, e));
    r->wrong += word;
    l->wrong += r->wrong;
done:
    return result;
}

static status print_row(const bench_link *l, const link_row *r, err *e)
{
    if (l->json)
        printf("%s{\"bytes\":%lld,\"messages\":%lld,\"latency_us\":%.6g,\"gb_per_s\":%.6g,"
               "\"wrong\":%llu}",
               r->bytes == l->plan.least ? "" : ",\n", (long long)r->bytes, (long long)r->messages,
               r->latency_us, r->rate, (unsigned long long)r->wrong);
    else
        printf("%12lld %10lld %12.2f %12.3f %8llu\n", (long long)r->bytes, (long long)r->messages,
               r->latency_us, r->rate, (unsigned long long)r->wrong);
    return console_flush(e);
}

static status print_header(const bench_link *l, err *e)
{
    status result = OK;
    text title = {0};
    if (l->json)
        text_add_json(&title, l->title);
    else
        text_add(&title, l->title);
    TRY(text_check(&title, e));
    if (l->json) {
        printf("{\"link\":%s,\"rows\":[", title.chars);
    } else {
        console_line("link: %s", title.chars);
        printf("%12s %10s %12s %12s %8s\n", "bytes", "messages", "latency us", "GB/s", "wrong");
    }
    TRY(console_flush(e));
done:
    text_clear(&title);
    return result;
}

status bench_link_run(bench_link *l, err *e)
{
    status result = OK;
    if (l->measures) TRY(print_header(l, e));
    for (int64_t bytes = l->plan.least; bytes <= l->plan.most; bytes *= l->plan.factor) {
        link_row r;
        if (!l->measures) {
            TRY(answer_row(l, bytes, e));
            continue;
        }
        TRY(measure_row(l, bytes, &r, e));
        TRY(print_row(l, &r, e));
    }
    if (!l->measures) goto done;
    if (l->json) printf("],\"wrong\":%llu}\n", (unsigned long long)l->wrong);
    TRY(console_flush(e));
    if (l->wrong) FAIL(E_IO, "bench link: %llu bytes arrived wrong", (unsigned long long)l->wrong);
done:
    return result;
}
