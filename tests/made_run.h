// made_run.h -- writes the folder of a made-up run: log.jsonl and the record of each rank (base/spans.h). So whatever reads
// a run from outside is tested without training, with as many ranks as it likes. The same options give the same bytes.
//
// A step has one order on every rank, and nothing overlaps: LOAD_BATCH, FORWARD and BACKWARD of each micro-batch with the
// messages of a pipeline (gpipe), REDUCE_GRAD over the stage, CLIP_GRAD_NORM over all ranks, OPTIMIZER_STEP. A rank that
// comes early waits for the last one, and the wait is charged to that one.
#ifndef TRIREME_TESTS_MADE_RUN_H
#define TRIREME_TESTS_MADE_RUN_H

#include "base/file.h"
#include "base/spans.h"
#include "base/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef enum made_cause { MADE_NOTHING, MADE_COMPUTE, MADE_INPUT, MADE_LINK } made_cause;

// {0} is a run of 1 rank and 10 steps of 100 ms with 10 % exposed communication. Shares are of a step, from 0 to 1.
typedef struct made_run {
    int ranks, steps;
    double step_ms;
    int hosts;  // "a", "b", …, each with as many neighbouring ranks
    int micro;  // micro-batches of a step
    int stages; // of a pipeline; a stage is a run of neighbouring ranks
    double
        stage_by; // passes of each stage take so much longer than those of the stage before, as a share of a pass

    made_cause cause; // of the slow rank; MADE_NOTHING: none is slow
    int slow_rank;    // slow_host: all ranks of this host
    bool slow_host;
    double slow_by;           // that it adds to a step, as a share
    int slow_from, slow_last; // the steps in which it does; 0: the first, the last

    int spike_every; // steps between slow moments: each time another rank is slower by spike_by
    double spike_by;
    double jitter;       // of every pass, as a share of it, drawn anew
    double comm, input;  // shares of a step, of all ranks; comm < 0: none
    double creep;        // growth of memory in 1,000 steps, as a share
    int save_every;      // steps between checkpoints; 0: none
    double save;         // share of the run's time that they take
    int spike_step;      // whose loss is three times as high; 0: none
    double matmul_share; // 0: the log says none
    bool goes_on;        // neither the log nor the records have ended
    uint32_t ring;       // spans that a record has room for; 0: those of all steps
} made_run;

enum { MADE_ROWS = 128, MADE_WAITS = 8 };

// What happened in a row in this step.
typedef struct made_span {
    int64_t begin_ns, duration_ns, waited_ns;
    int last;
    bool runs;
} made_span;

typedef struct made_rank {
    spans *record;
    int rows, load, forward, backward, reduce, clip, update, calls, loader, eval, save;
    int receive_act, send_act, receive_grad, send_grad; // -1: none
    spans_row row[MADE_ROWS];
    made_span span[MADE_ROWS];
    uint32_t sent[2];                       // messages so far, to the stage after and before
    int64_t now_ns, begin_ns, end_ns, work; // work: duration of a pass in this step
    uint64_t spans;
} made_rank;

typedef struct made {
    made_run o;
    made_rank *rank;
    uint64_t random;
    text log;
    int64_t step_ns, save_ns;
} made;

static inline double made_draw(made *m) // in [0, 1)
{
    m->random = m->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(m->random >> 40) / (double)(1 << 24);
}

static inline int made_stage(const made *m, int rank)
{
    return rank / (m->o.ranks / m->o.stages);
}

static inline int made_host(const made *m, int rank)
{
    return rank / ((m->o.ranks + m->o.hosts - 1) / m->o.hosts);
}

// ---- Rows

static inline int made_add_row(made_rank *r, spans_kind kind, spans_phase phase, int stream,
                               const char *name)
{
    spans_row *row = &r->row[r->rows];
    *row = (spans_row){.kind = kind, .phase = phase, .stream = stream, .parent = -1};
    row->instr = kind == SPANS_INSTR ? r->rows : -1;
    row->call = row->peer = row->micro = -1;
    (void)snprintf(row->name, sizeof row->name, "%s", name);
    return r->rows++;
}

// A row for each micro-batch. Returns the first one's.
static inline int made_add_rows(const made *m, made_rank *r, spans_phase phase, int stream,
                                const char *word, int peer)
{
    const int first = r->rows;
    for (int i = 0; i < m->o.micro; i++) {
        char name[56];
        (void)snprintf(name, sizeof name, "%s micro-batch %d", word, i);
        spans_row *row = &r->row[made_add_row(r, SPANS_INSTR, phase, stream, name)];
        row->micro = i;
        row->peer = peer;
        row->bytes = phase == PHASE_COMM || phase == PHASE_INPUT ? 4096 : 0;
        row->flops = phase == PHASE_FORWARD ? 1e9 : phase == PHASE_BACKWARD ? 2e9 : 0;
    }
    return first;
}

static inline void made_add_call(made_rank *r, int parent, const char *name, const char *group)
{
    const int i = made_add_row(r, SPANS_CALL, PHASE_COMM, 1, name);
    r->row[i].parent = parent;
    r->row[i].call = 0;
    r->row[i].peer = r->row[parent].peer;
    r->row[i].bytes = r->row[parent].bytes;
    (void)snprintf(r->row[i].group, sizeof r->row[i].group, "%s", group);
}

static inline void made_set_rows(const made *m, int rank)
{
    made_rank *r = &m->rank[rank];
    const int apart = m->o.ranks / m->o.stages, stage = made_stage(m, rank);
    const int before = stage > 0 ? rank - apart : -1;
    const int after = stage < m->o.stages - 1 ? rank + apart : -1;
    r->receive_act = r->send_act = r->receive_grad = r->send_grad = -1;
    r->load = made_add_rows(m, r, PHASE_INPUT, 2, "LOAD_BATCH", -1);
    if (before >= 0) r->receive_act = made_add_rows(m, r, PHASE_COMM, 1, "RECV_ACT", before);
    r->forward = made_add_rows(m, r, PHASE_FORWARD, 0, "FORWARD", -1);
    if (after >= 0) r->send_act = made_add_rows(m, r, PHASE_COMM, 1, "SEND_ACT", after);
    if (after >= 0) r->receive_grad = made_add_rows(m, r, PHASE_COMM, 1, "RECV_GRAD", after);
    r->backward = made_add_rows(m, r, PHASE_BACKWARD, 0, "BACKWARD", -1);
    if (before >= 0) r->send_grad = made_add_rows(m, r, PHASE_COMM, 1, "SEND_GRAD", before);
    r->reduce = made_add_row(r, SPANS_INSTR, PHASE_COMM, 1, "REDUCE_GRAD bucket 0");
    r->row[r->reduce].bytes = 1 << 20;
    r->clip = made_add_row(r, SPANS_INSTR, PHASE_COMM, 1, "CLIP_GRAD_NORM");
    r->row[r->clip].bytes = 64;
    r->update = made_add_row(r, SPANS_INSTR, PHASE_OPTIMIZER, 0, "OPTIMIZER_STEP bucket 0");
    r->calls = r->rows;
    for (int i = 0; i < r->calls; i++) {
        const char *name = r->row[i].name;
        if (r->row[i].phase != PHASE_COMM) continue;
        const bool is_message = r->row[i].peer >= 0;
        made_add_call(r, i,
                      !is_message      ? "all_reduce"
                      : name[0] == 'S' ? "send"
                                       : "recv",
                      is_message       ? "pp"
                      : i == r->reduce ? "dp_shard"
                                       : "world");
    }
    r->loader = made_add_row(r, SPANS_LOADER, PHASE_INPUT, -1, "loader");
    r->eval = made_add_row(r, SPANS_EVAL, PHASE_EVAL, -1, "evaluation");
    r->save = made_add_row(r, SPANS_SAVE, PHASE_SAVE, -1, "checkpoint");
}

// ---- A step

static inline void made_run_row(made_rank *r, int row, int64_t duration_ns)
{
    r->span[row] = (made_span){r->now_ns, duration_ns, 0, -1, true};
    r->now_ns += duration_ns;
}

static inline bool made_is_slow(const made *m, int rank, int step, made_cause cause)
{
    const made_run *o = &m->o;
    const bool is_rank =
        o->slow_host ? made_host(m, rank) == made_host(m, o->slow_rank) : rank == o->slow_rank;
    return o->cause == cause && is_rank && step >= o->slow_from &&
           (!o->slow_last || step <= o->slow_last);
}

static inline void made_load(made *m, int rank, int step)
{
    made_rank *r = &m->rank[rank];
    double input = m->o.input + (made_is_slow(m, rank, step, MADE_INPUT) ? m->o.slow_by : 0);
    double pass = (1 - m->o.input - m->o.comm) / 1.05; // the update takes a twentieth of them
    pass *= 1 + m->o.stage_by * made_stage(m, rank);
    pass *= 1 + m->o.jitter * made_draw(m);
    if (made_is_slow(m, rank, step, MADE_COMPUTE)) pass += m->o.slow_by / 1.05;
    if (m->o.spike_every && step % m->o.spike_every == 0 &&
        (step / m->o.spike_every * 7919) % m->o.ranks == rank)
        pass += m->o.spike_by / 1.05;
    r->begin_ns = r->now_ns;
    r->work = (int64_t)(pass * (double)m->step_ns / 3.0 / m->o.micro);
    for (int i = 0; i < m->o.micro; i++)
        made_run_row(r, r->load + i, (int64_t)(input * (double)m->step_ns / m->o.micro));
    r->span[r->loader] = (made_span){r->begin_ns, r->now_ns - r->begin_ns, 0, -1, true};
}

// Waits until `sent_ns` for the message of `from`.
static inline void made_receive(made_rank *r, int row, int64_t sent_ns, int from)
{
    const int64_t wait_ns = sent_ns > r->now_ns ? sent_ns - r->now_ns : 0;
    r->span[row] = (made_span){r->now_ns, wait_ns, wait_ns, wait_ns ? from : -1, true};
    r->now_ns += wait_ns;
}

static inline void made_pass(made *m, int rank, bool is_forward)
{
    made_rank *r = &m->rank[rank];
    const int receive = is_forward ? r->receive_act : r->receive_grad;
    const int send = is_forward ? r->send_act : r->send_grad;
    const int pass = is_forward ? r->forward : r->backward;
    for (int i = 0; i < m->o.micro; i++) {
        if (receive >= 0) {
            const int from = r->row[receive].peer;
            const made_rank *peer = &m->rank[from];
            const int sends = is_forward ? peer->send_act : peer->send_grad;
            made_receive(r, receive + i, peer->span[sends + i].begin_ns, from);
        }
        made_run_row(r, pass + i, is_forward ? r->work : 2 * r->work);
        if (send >= 0) made_run_row(r, send + i, 0);
    }
}

// Ranks first … first+count-1 meet in a collective.
static inline void made_meet(made *m, int first, int count, int step, bool is_reduce)
{
    const double share = is_reduce ? 0.9 * m->o.comm : 0.1 * m->o.comm;
    int last = first;
    for (int r = first; r < first + count; r++)
        if (m->rank[r].now_ns > m->rank[last].now_ns) last = r;
    const int64_t come_ns = m->rank[last].now_ns;
    for (int i = first; i < first + count; i++) {
        made_rank *r = &m->rank[i];
        const int row = is_reduce ? r->reduce : r->clip;
        const int64_t wait_ns = come_ns - r->now_ns;
        const double slow = is_reduce && made_is_slow(m, i, step, MADE_LINK) ? m->o.slow_by : 0;
        const int64_t own_ns = (int64_t)((share + slow) * (double)m->step_ns);
        r->span[row] = (made_span){r->now_ns, wait_ns + own_ns, wait_ns, wait_ns ? last : -1, true};
        r->now_ns += wait_ns + own_ns;
    }
}

static inline void made_fold(made *m, int rank, int step, double loss, int64_t gap_ns)
{
    made_rank *r = &m->rank[rank];
    struct {
        int rank, row;
        int64_t ns;
    } waits[MADE_WAITS];
    int count = 0;
    const double base = 1e9, grown = m->o.creep * step / 1000.0;
    spans_step s = {.step = (uint64_t)step,
                    .begin_ns = r->begin_ns,
                    .duration_ns = r->now_ns - r->begin_ns,
                    .gap_ns = gap_ns,
                    .waited_for = -1,
                    .waited_row = -1,
                    .bytes_now = (uint64_t)(base * (1 + grown)),
                    .first_span = r->spans,
                    .loss = loss};
    for (int i = 0; i < r->rows; i++) {
        const int of = r->row[i].kind == SPANS_CALL ? r->row[i].parent : i;
        const made_span *x = &r->span[of];
        if (!x->runs) continue;
        span one = {
            x->begin_ns, x->duration_ns, x->waited_ns, (uint32_t)i, (uint32_t)step, x->last, 0};
        if (r->row[i].peer >= 0)
            one.peer_span = (uint32_t)((step - 1) * m->o.micro + r->row[of].micro);
        // The wait is charged once: by the call.
        if (r->row[i].kind == SPANS_INSTR && r->row[i].phase == PHASE_COMM) one.last = -1;
        spans_add(r->record, &one);
        s.spans++;
        if (r->row[i].kind != SPANS_INSTR) continue;
        s.phase_ns[r->row[i].phase] += x->duration_ns;
        if (r->row[i].phase == PHASE_COMM) s.comm_ns += x->duration_ns;
        s.waited_ns += x->waited_ns;
        int w = 0;
        while (w < count && waits[w].rank != x->last) w++;
        if (x->last < 0 || w == MADE_WAITS) continue;
        if (w == count) waits[count++].ns = 0;
        waits[w].rank = x->last;
        waits[w].row = i;
        waits[w].ns += x->waited_ns;
        if (waits[w].ns <= s.waited_for_ns) continue;
        s.waited_for_ns = waits[w].ns;
        s.waited_for = waits[w].rank;
        s.waited_row = waits[w].row;
    }
    s.phase_ns[PHASE_OTHER] = s.duration_ns;
    for (int p = 0; p < SPANS_PHASES; p++)
        if (p != PHASE_OTHER) s.phase_ns[PHASE_OTHER] -= s.phase_ns[p];
    r->spans += s.spans;
    atomic_store(&r->record->head->bytes_now, s.bytes_now);
    atomic_store(&r->record->head->bytes_peak, s.bytes_now);
    spans_add_step(r->record, &s);
    for (int i = 0; i < r->rows; i++) r->span[i].runs = false;
    r->end_ns = r->now_ns;
}

static inline void made_save(made *m, int step)
{
    for (int i = 0; i < m->o.ranks; i++) {
        made_rank *r = &m->rank[i];
        const span one = {r->now_ns, m->save_ns, 0, (uint32_t)r->save, (uint32_t)step, -1, 0};
        spans_add(r->record, &one);
        r->spans++;
        r->now_ns += m->save_ns;
    }
    text_addf(&m->log,
              "{\"event\":\"save\",\"step\":%d,\"path\":\"checkpoints/"
              "step-%08d\",\"bytes\":1000000,\"seconds\":%.9g}\n",
              step, step, (double)m->save_ns * 1e-9);
}

static inline void made_step(made *m, int step)
{
    const int ranks = m->o.ranks, apart = ranks / m->o.stages;
    const double loss = (2 + 2 * exp(-step / 100.0)) * (step == m->o.spike_step ? 3 : 1);
    int64_t longest_ns = 0;
    for (int r = 0; r < ranks; r++) made_load(m, r, step);
    for (int r = 0; r < ranks; r++) made_pass(m, r, true);
    for (int stage = m->o.stages - 1; stage >= 0; stage--)
        for (int r = stage * apart; r < (stage + 1) * apart; r++) made_pass(m, r, false);
    for (int stage = 0; stage < m->o.stages; stage++)
        made_meet(m, stage * apart, apart, step, true);
    made_meet(m, 0, ranks, step, false);
    for (int i = 0; i < ranks; i++) {
        made_rank *r = &m->rank[i];
        made_run_row(r, r->update, (int64_t)(0.05 * 3.0 * m->o.micro * (double)r->work));
        const int64_t gap_ns = step > 1 ? r->begin_ns - r->end_ns : 0;
        made_fold(m, i, step, loss, gap_ns);
        if (r->now_ns - r->begin_ns > longest_ns) longest_ns = r->now_ns - r->begin_ns;
    }
    text_addf(&m->log,
              "{\"event\":\"step\",\"step\":%d,\"loss\":%.17g,\"grad_norm\":1,\"lr\":0.001,"
              "\"tokens\":%d,\"seconds\":%.9g,"
              "\"tokens_per_s\":%.9g",
              step, loss, 1024 * ranks, (double)longest_ns * 1e-9,
              1024.0 * ranks / ((double)longest_ns * 1e-9));
    if (m->o.matmul_share > 0) text_addf(&m->log, ",\"matmul_share\":%.9g", m->o.matmul_share);
    text_add(&m->log, ",\"skipped\":false}\n");
    if (m->o.save_every && step % m->o.save_every == 0) made_save(m, step);
}

// ---- The run

static inline void made_defaults(made_run *o)
{
    if (!o->ranks) o->ranks = 1;
    if (!o->steps) o->steps = 10;
    if (o->step_ms <= 0) o->step_ms = 100;
    if (!o->hosts) o->hosts = 1;
    if (!o->micro) o->micro = o->stages > 1 ? 4 : 1;
    if (!o->stages) o->stages = 1;
    if (!o->slow_from) o->slow_from = 1;
    if (o->comm == 0) o->comm = 0.1;
    if (o->comm < 0) o->comm = 0;
}

static inline status made_open_rank(made *m, const char *folder, int rank, err *e)
{
    status result = OK;
    char *path = NULL;
    text name = {0};
    made_rank *r = &m->rank[rank];
    const int apart = m->o.ranks / m->o.stages;
    spans_head head = {.rank = rank,
                       .ranks = m->o.ranks,
                       .stage = made_stage(m, rank),
                       .pid = 1,
                       .device = "cpu",
                       .step_flops = 3e9 * m->o.micro,
                       .clock = {.realtime_ns = INT64_C(1700000000000000000)}};
    const int host = made_host(m, rank);
    const uint32_t kept = (uint32_t)(m->o.steps < SPANS_STEPS ? m->o.steps + 1 : SPANS_STEPS);
    made_set_rows(m, rank);
    head.local_rank = rank - host * ((m->o.ranks + m->o.hosts - 1) / m->o.hosts);
    (void)snprintf(head.host, sizeof head.host, host < 26 ? "%c" : "%c%d", 'a' + host % 26,
                   host / 26);
    (void)snprintf(head.boot, sizeof head.boot, "made-%d", host);
    (void)snprintf(head.place, sizeof head.place, "pp %d dp_shard %d", head.stage, rank % apart);
    for (int i = 0; i < SPANS_MEMORIES; i++) head.plan_bytes[i] = (uint64_t)(1 + i) << 20;
    text_addf(&name, "spans/rank-%05d.spans", rank);
    TRY(text_check(&name, e));
    TRY(file_join(folder, name.chars, &path, e));
    const uint32_t ring = m->o.ring ? m->o.ring : (kept + 2) * (uint32_t)r->rows;
    TRY(spans_create(path, &head, r->row, (uint32_t)r->rows, (spans_room){kept, ring}, &r->record,
                     e));
    r->now_ns = r->end_ns = INT64_C(1000000000000);
done:
    text_clear(&name);
    free(path);
    return result;
}

static inline status made_write_log(made *m, const char *folder, err *e)
{
    status result = OK;
    char *path = NULL;
    if (!m->o.goes_on)
        text_addf(&m->log, "{\"event\":\"end\",\"step\":%d,\"reason\":\"done\",\"seconds\":%.9g}\n",
                  m->o.steps, (double)(m->rank[0].now_ns - INT64_C(1000000000000)) * 1e-9);
    TRY(text_check(&m->log, e));
    TRY(file_join(folder, "log.jsonl", &path, e));
    TRY(file_replace(path, m->log.chars, m->log.bytes, e));
done:
    free(path);
    return result;
}

// Writes the run into `folder`, which is made. The ranks are a multiple of the stages.
static inline status made_run_write(const char *folder, const made_run *options, err *e)
{
    status result = OK;
    made m = {.o = *options, .random = 1};
    made_defaults(&m.o);
    m.rank = calloc((size_t)m.o.ranks, sizeof *m.rank);
    m.step_ns = (int64_t)(m.o.step_ms * 1e6);
    m.save_ns = (int64_t)(m.o.save / (1 - m.o.save) * m.o.save_every * (double)m.step_ns);
    TRY(file_make_directories(folder, e));
    for (int r = 0; r < m.o.ranks; r++) TRY(made_open_rank(&m, folder, r, e));
    text_addf(&m.log,
              "{\"event\":\"start\",\"version\":\"made\",\"ranks\":%d,\"threads_per_rank\":1,"
              "\"as\":\"processes\",\"mesh\":{\"pp\":%d,"
              "\"dp_shard\":%d},\"model\":\"gpt2\",\"policy\":\"ddp\",\"precision\":\"fp32\","
              "\"device\":\"cpu\",\"params\":1000000,"
              "\"plan_bytes_per_rank\":29360128,\"steps\":%d,\"tokens_per_step\":%d}\n",
              m.o.ranks, m.o.stages, m.o.ranks / m.o.stages, m.o.steps, 1024 * m.o.ranks);
    for (int step = 1; step <= m.o.steps; step++) made_step(&m, step);
    TRY(made_write_log(&m, folder, e));
done:
    for (int r = 0; m.rank && r < m.o.ranks; r++)
        m.o.goes_on ? spans_close(m.rank[r].record) : spans_finish(m.rank[r].record);
    free(m.rank);
    text_clear(&m.log);
    return result;
}

#endif
