// run_spans.c -- see run_spans.h. Called by run.c on every rank. A record that cannot be written ends no run.
#include "session/run_spans.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/proc.h"
#include "rendezvous/hosts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// ---- What the rank is

static status record_path(const session_rank *r, int rank, char **out, err *e)
{
    status result = OK;
    text name = {0};
    text_addf(&name, "%s/rank-%05d.spans", SESSION_SPANS, rank);
    TRY(text_check(&name, e));
    TRY(file_join(r->run->job->train.out, name.chars, out, e));
done:
    text_clear(&name);
    return result;
}

// The ranks of one host have one clock. Where the hosts cannot compare theirs, the error is not known.
static spans_clock clock_of(const session_rank *r)
{
    struct timespec real;
    store_clock beside = {0};
    clock_gettime(CLOCK_REALTIME, &real);
    const int64_t real_ns = (int64_t)real.tv_sec * 1000000000 + real.tv_nsec;
    const bool known = !r->world->hosts || comm_hosts_clock(r->world, &beside, NULL) == OK;
    return (spans_clock){.realtime_ns = real_ns - clock_ns(),
                         .offset_ns = beside.offset_ns,
                         .error_ns = known ? beside.error_ns : -1};
}

static void fill_place(const plan *p, char *out, size_t room)
{
    size_t used = 0;
    out[0] = 0;
    for (int a = 0; a < AXES && used < room; a++)
        if (p->o.mesh.size[a] > 1)
            used += (size_t)snprintf(out + used, room - used, "%s%s %d", used ? " " : "",
                                     axis_name((axis)a), p->coord[a]);
}

static void fill_memory(const plan *p, uint64_t out[SPANS_MEMORIES])
{
    static const spans_memory memory[CATEGORIES] = {
        [BYTES_WEIGHTS] = MEMORY_OF_WEIGHTS,     [BYTES_MASTER] = MEMORY_OF_OPTIMIZER,
        [BYTES_GRADIENTS] = MEMORY_OF_GRADIENTS, [BYTES_OPTIMIZER] = MEMORY_OF_OPTIMIZER,
        [BYTES_BUFFERS] = MEMORY_OF_COMM,        [BYTES_ACTIVATIONS] = MEMORY_OF_ACTIVATIONS,
        [BYTES_WORKSPACE] = MEMORY_OF_WORKSPACE, [BYTES_DATA] = MEMORY_OF_OTHER,
        [BYTES_KERNELS] = MEMORY_OF_OTHER,       [BYTES_RUNTIME] = MEMORY_OF_OTHER};
    for (int c = 0; c < CATEGORIES; c++) out[memory[c]] += p->bytes[c];
}

static void fill_device(const session_rank *r, char *out, size_t room)
{
    const job *j = r->run->job;
    const device_options o = {.threads = j->launch.threads_per_rank,
                              .local_rank = r->rank - r->world->first_rank,
                              .local_ranks = r->world->ranks};
    device_description d = {.title = ""};
    const bool known = device_describe(j->launch.device, &o, &d, NULL) == OK;
    snprintf(out, room, "%s", known && d.title[0] ? d.title : r->session.device->ops->name);
}

static void fill_head(const session_rank *r, spans_head *h)
{
    const trainer *t = r->session.trainer;
    const plan *p = trainer_get_plan(t);
    memset(h, 0, sizeof *h);
    h->rank = r->rank;
    h->ranks = r->session.comm->size;
    h->local_rank = r->rank - r->world->first_rank;
    h->stage = p->coord[AXIS_PP];
    h->pid = getpid();
    h->step_flops = trainer_flops(t);
    proc_host_name(h->host, sizeof h->host);
    proc_boot_id(h->boot, sizeof h->boot);
    h->clock = clock_of(r);
    fill_place(p, h->place, sizeof h->place);
    fill_device(r, h->device, sizeof h->device);
    fill_memory(p, h->plan_bytes);
}

// ---- The file

// The ring keeps the spans of some seconds, and of many steps.
static spans_room room_for(uint32_t rows)
{
    enum { STEPS_IN_RING = 32, LEAST = 1 << 14, MOST = 1 << 18 };
    const uint64_t ring = (uint64_t)STEPS_IN_RING * rows;
    return (spans_room){SPANS_STEPS, ring < LEAST ? LEAST : ring > MOST ? MOST : (uint32_t)ring};
}

static status open_record(session_rank *r, err *e)
{
    status result = OK;
    spans_row *rows = NULL;
    uint32_t count;
    char *path = NULL;
    spans_head head;
    TRY(record_path(r, r->rank, &path, e));
    TRY(trainer_list_rows(r->session.trainer, &rows, &count, e));
    fill_head(r, &head);
    TRY(spans_create(path, &head, rows, count, room_for(count), &r->record, e));
    trainer_write_spans(r->session.trainer, r->record);
done:
    free(rows);
    free(path);
    return result;
}

// Returns whether the record of rank 0 is that of this run, because the host of this rank sees the folder of the run.
static bool sees_folder(const session_rank *r)
{
    char *path = NULL;
    spans *first = NULL;
    const bool opened =
        record_path(r, 0, &path, NULL) == OK && spans_open(path, &first, NULL) == OK;
    const char *boot = r->run->boot;
    const bool sees = opened && first->head->ranks == r->session.comm->size &&
                      (!boot[0] || strcmp(boot, first->head->boot) == 0);
    spans_close(first);
    free(path);
    return sees;
}

void session_spans_begin(session_rank *r)
{
    if (r->record || r->spans_steps > 0) return;
    trainer_time_steps(r->session.trainer);
    if (r->rank == 0 || r->run->claimed) (void)open_record(r, NULL);
}

// ---- Ranks without a record

static void find_missing(const session_rank *r, char **missing)
{
    text line = {0};
    int count = 0, first = -1;
    for (int i = 0; i < r->session.comm->size; i++) {
        char *path = NULL;
        const bool there = record_path(r, i, &path, NULL) == OK && file_exists(path);
        free(path);
        if (there) continue;
        if (count++ == 0) first = i;
    }
    if (count)
        text_addf(&line,
                  "no record of rank %d%s: its host does not see the folder %s, or cannot write "
                  "there; reports leave it out",
                  first, count > 1 ? " and others" : "", file_shown(r->run->job->train.out));
    *missing = line.chars;
}

void session_spans_follow(session_rank *r, char **missing)
{
    enum { ALL_HAVE_BEGUN = 2 }; // rank 0 ends its second step after the others have begun it
    *missing = NULL;
    r->spans_steps++;
    if (r->spans_steps == 1 && !r->record && r->rank > 0 && sees_folder(r))
        (void)open_record(r, NULL);
    if (r->rank == 0 && r->spans_steps == ALL_HAVE_BEGUN) find_missing(r, missing);
}

void session_spans_end(session_rank *r, bool complete)
{
    r->spans_steps = 0;
    if (r->session.trainer) trainer_write_spans(r->session.trainer, NULL);
    if (complete)
        spans_finish(r->record);
    else
        spans_close(r->record);
    r->record = NULL;
}
