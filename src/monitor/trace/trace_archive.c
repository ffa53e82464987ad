// trace_archive.c -- writes the archive for Perfetto: a tar file with the manifest, a file for each rank, and the file of
// calls (trace_perfetto.h). The manifest's format is docs/reference/perfetto-manifest.md of Perfetto, version 1.
#include "base/file.h"
#include "monitor/trace/trace.h"
#include "monitor/trace/trace_packets.h"
#include "monitor/trace/trace_perfetto.h"
#include "monitor/trace/trace_tar.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { NAME_BYTES = 32 };

// Perfetto reads the files of an archive in the order of their names, and version 52 dies where that is not their order in
// the archive. So this name stands behind those of ranks.
static const char CALLS_FILE[] = "ranks-calls.pftrace";

static void name_file(int rank, char out[NAME_BYTES])
{
    snprintf(out, NAME_BYTES, "rank-%05d.pftrace", rank);
}

// ---- The manifest

static void add_file(text *t, const char *name, const trace_machine *m)
{
    text_add(t, "  {\"path\": ");
    text_add_json(t, name);
    text_add(t, ", \"machine\": {\"name\": ");
    text_add_json(t, m->name);
    text_add(t, "}");
}

// A machine's clock is related once, in the entry of its first rank.
static void add_files(text *t, const run_view *v, const trace_clocks *c)
{
    char name[NAME_BYTES], base[NAME_BYTES];
    name_file(c->machine[0].first, base);
    for (int r = 0; r < v->ranks; r++) {
        if (!v->rank[r]) continue;
        const trace_machine *m = &c->machine[c->of[r]];
        name_file(r, name);
        add_file(t, name, m);
        if (m->first == r && c->of[r] > 0)
            text_addf(t,
                      ",\n   \"clocks\": {\"clock\": \"MONOTONIC\", \"sync_to\": {\"file\": "
                      "\"%s\", \"clock\": \"MONOTONIC\"}, \"offset_ns\": %lld}",
                      base, (long long)m->offset_ns);
        text_add(t, "},\n");
    }
    add_file(t, CALLS_FILE, &c->machine[0]);
    text_add(t, "}\n");
}

static void add_attributes(text *t, const run_view *v, const trace_clocks *c)
{
    text_addf(t, "  \"trireme.ranks\": %d", v->recorded);
    if (strcmp(c->machine[0].head->boot, SPANS_SIMULATED) == 0) {
        text_add(t, ",\n  \"trireme.simulated\": 1,\n  \"trireme.simulated_machine\": ");
        text_add_json(t, c->machine[0].head->device);
    }
    for (int i = 0; i < c->machines; i++) {
        text key = {0};
        text_addf(&key, "trireme.clock_error_ns.%s", c->machine[i].name);
        text_add(t, ",\n  ");
        text_add_json(t, key.chars ? key.chars : "");
        text_addf(t, ": %lld", (long long)c->machine[i].error_ns);
        text_clear(&key);
    }
}

static void make_manifest(text *t, const run_view *v, const trace_clocks *c)
{
    char base[NAME_BYTES];
    name_file(c->machine[0].first, base);
    text_addf(t,
              "{\"perfetto_manifest\": {\n \"version\": 1,\n \"trace_time\": {\"clock\": "
              "\"MONOTONIC\", \"file\": \"%s\"},\n \"files\": [\n",
              base);
    add_files(t, v, c);
    text_add(t, " ],\n \"attributes\": {\n");
    add_attributes(t, v, c);
    text_add(t, "\n }\n}}\n");
}

// ---- The archive

static status add_rank(file_writer *w, const spans *record, const trace_clocks *c, text *calls,
                       text *file, int64_t seconds, err *e)
{
    status result = OK;
    trace_rank r = {0};
    char name[NAME_BYTES];
    const int rank = record->head->rank;
    const trace_machine *m = &c->machine[c->of[rank]];
    file->bytes = 0;
    TRY(trace_rank_read(record, &r, e));
    // One machine's time of day is enough: those of two machines differ.
    if (rank == c->machine[0].first && r.steps)
        packets_describe_clock(file, record->head->clock.realtime_ns);
    TRY(trace_perfetto_rank(&r, m, file, e));
    TRY(trace_perfetto_calls(&r, m, calls, e));
    name_file(rank, name);
    TRY(trace_tar_add(w, name, file->chars, file->bytes, seconds, e));
done:
    trace_rank_clear(&r);
    return result;
}

status trace_write_perfetto(const run_view *cut, const char *path, err *e)
{
    status result = OK;
    file_writer *w = NULL;
    trace_clocks c = {0};
    text manifest = {0}, calls = {0}, file = {0};
    const int64_t now = (int64_t)time(NULL);
    TRY(trace_clocks_find(cut, &c, e));
    make_manifest(&manifest, cut, &c);
    TRY(text_check(&manifest, e));
    TRY(file_create(path, &w, e));
    TRY(trace_tar_add(w, "perfetto_manifest.json", manifest.chars, manifest.bytes, now, e));
    trace_perfetto_calls_begin(cut->ranks, &calls);
    for (int r = 0; r < cut->ranks; r++)
        if (cut->rank[r]) TRY(add_rank(w, cut->rank[r], &c, &calls, &file, now, e));
    TRY(trace_tar_add(w, CALLS_FILE, calls.chars, calls.bytes, now, e));
    TRY(trace_tar_end(w, e));
    result = file_finish(w, e);
    w = NULL;
done:
    file_abandon(w);
    trace_clocks_clear(&c);
    text_clear(&manifest);
    text_clear(&calls);
    text_clear(&file);
    return result;
}
