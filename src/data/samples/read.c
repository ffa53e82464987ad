// read.c -- the lines of a file as tokens, in rounds: one thread reads the lines of a round, all threads encode them, one
// thread takes them in their order. So the result does not depend on the number of threads. set.c, `data prepare --sft`
// and samples_show call it. It knows no rows.
#include "data/samples/samples_private.h"

#include "base/alloc.h"
#include "base/proc.h"
#include "data/prepare_source.h"
#include "data/workers.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { ROUND_LINES = 2048, ROUND_BYTES = 16 << 20 };

typedef struct read_slot {
    prepare_record r;
    samples_line line;
    status result;
    err why;
} read_slot;

typedef struct read_round {
    samples_format format;
    samples_encoder **encoder; // [workers]
    int workers;
    prepare_buffer bytes; // of all lines of the round
    read_slot *slot;      // [ROUND_LINES], of which `count` are in use
    size_t count;
    _Atomic size_t next; // slot to encode
} read_round;

void samples_place_prefix(const samples_place *at, err *e)
{
    if (at->is_shard)
        err_prefix(e, "%s.bin: document %" PRIu64 ": ", at->path, at->number - 1);
    else
        err_prefix(e, "%s:%" PRIu64 ": ", at->path, at->number);
}

static void encode_slots(void *arg, int worker)
{
    read_round *round = arg;
    for (;;) {
        const size_t i = atomic_fetch_add(&round->next, 1);
        if (i >= round->count) return;
        read_slot *s = &round->slot[i];
        s->result = samples_encode(round->encoder[worker], round->bytes.data + s->r.first,
                                   s->r.bytes, round->format, &s->line, &s->why);
        // All earlier lines are claimed, and the first one that fails is the one that is named.
        if (s->result != OK) atomic_store(&round->next, round->count);
    }
}

static status fill(read_round *round, prepare_source *from, bool *more, err *e)
{
    status result = OK;
    round->bytes.bytes = round->count = 0;
    *more = true;
    while (*more && round->count < ROUND_LINES && round->bytes.bytes < ROUND_BYTES) {
        read_slot *s = &round->slot[round->count];
        s->result = OK;
        TRY(prepare_source_next(from, &round->bytes, &s->r, more, e));
        round->count += *more;
    }
done:
    return result;
}

// A file has one form. InstructLab's lines are messages, of which some say more.
static status check_format(const samples_place *at, samples_format *first, samples_format found,
                           err *e)
{
    const samples_format form = found == FORMAT_INSTRUCTLAB ? FORMAT_MESSAGES : found;
    if (*first == FORMAT_AUTO) *first = form;
    if (*first == form) return OK;
    err_set(e, E_USAGE, "the line is %s, and lines before it are %s; valid: a file of one format",
            SAMPLES_FORMAT_NAMES[form], SAMPLES_FORMAT_NAMES[*first]);
    samples_place_prefix(at, e);
    return E_USAGE;
}

static status give(read_round *round, samples_format *first, samples_line_fn *take, void *arg,
                   err *e)
{
    status result = OK;
    for (size_t i = 0; i < round->count; i++) {
        const read_slot *s = &round->slot[i];
        const samples_place at = {.path = s->r.path, .number = s->r.line};
        if (s->result != OK) {
            if (e) *e = s->why;
            samples_place_prefix(&at, e);
            return s->result;
        }
        TRY(check_format(&at, first, s->line.format, e));
        TRY(take(arg, &at, &s->line, e));
    }
done:
    return result;
}

static status open_round(read_round *round, const samples_options *o, err *e)
{
    status result = OK;
    const int workers = o->threads > 0 ? o->threads : proc_usable_cores();
    TRY(alloc_zeroed(&round->slot, ROUND_LINES, sizeof *round->slot, "lines of data", e));
    TRY(alloc_zeroed(&round->encoder, (size_t)workers, sizeof *round->encoder, "lines of data", e));
    for (; round->workers < workers; round->workers++)
        TRY(samples_encoder_open(o, &round->encoder[round->workers], e));
done:
    return result;
}

static void clear_round(read_round *round)
{
    for (int i = 0; i < round->workers; i++) samples_encoder_close(round->encoder[i]);
    for (int i = 0; round->slot && i < ROUND_LINES; i++) samples_line_clear(&round->slot[i].line);
    free(round->encoder);
    free(round->slot);
    free(round->bytes.data);
}

status samples_read(const char *path, samples_format format, const samples_options *o,
                    samples_line_fn *take, void *arg, err *e)
{
    status result = OK;
    prepare_source *from = NULL;
    read_round round = {.format = format};
    samples_format first = FORMAT_AUTO;
    bool more = true;
    TRY(prepare_source_open(&path, 1, &(prepare_filter){0}, NULL, &from, e));
    TRY(open_round(&round, o, e));
    while (more) {
        TRY(fill(&round, from, &more, e));
        atomic_store(&round.next, 0);
        const int busy = (size_t)round.workers < round.count ? round.workers : (int)round.count;
        if (busy > 0) data_workers_run(busy, encode_slots, &round);
        TRY(give(&round, &first, take, arg, e));
    }
done:
    clear_round(&round);
    prepare_source_close(from);
    return result;
}
