// replay_report.c -- see replay_report.h. The lines of a terminal are here, those of JSON too.
#include "monitor/replay/replay_report.h"

#include "base/alloc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char WHAT[] = "the report of a step";
enum { PATH_LINES = 12, RANK_LINES = 16 };
static const double MS = 1e3;

// ---- What is reported

static double mean_of_step(const replay_record *r, const double *end)
{
    double sum = 0;
    for (int k = 0; k < r->view->ranks; k++) sum += end[k] - r->start[k];
    return sum / r->view->ranks;
}

status replay_report_make(replay_record *r, replay_report *out, err *e)
{
    status result = OK;
    const size_t ranks = (size_t)r->view->ranks;
    double *end = NULL;
    *out = (replay_report){.record = r, .measured = replay_record_seconds(r)};
    TRY(alloc_array(&end, ranks, sizeof *end, WHAT, e));
    TRY(alloc_array(&out->time, (size_t)r->x.pieces, sizeof *out->time, WHAT, e));
    TRY(alloc_array(&out->uses, ranks, sizeof *out->uses, WHAT, e));
    TRY(replay_ranks_run(&r->x, r->start, out->time, NULL, e));
    replay_record_ends(r, out->time, end);
    out->replayed = mean_of_step(r, end);
    TRY(replay_path_find(r, out->time, &out->path, e));
    TRY(replay_uses_find(r, out->time, out->uses, e));
    TRY(replay_change_period(r, &(replay_change){.kind = CHANGE_NOTHING}, &out->period, e));
done:
    free(end);
    return result;
}

void replay_report_clear(replay_report *r)
{
    free(r->time);
    free(r->uses);
    replay_path_clear(&r->path);
    *r = (replay_report){.record = NULL};
}

void replay_report_answer(replay_report *r, const char *what, double period)
{
    if (r->answers == REPLAY_ANSWERS) return;
    replay_answer *a = &r->answer[r->answers++];
    (void)snprintf(a->what, sizeof a->what, "%s", what);
    a->seconds = r->replayed - (r->period - period);
}

status replay_report_ask(replay_report *r, const replay_change *c, err *e)
{
    status result = OK;
    char what[96] = "nothing were otherwise";
    double period;
    TRY(replay_change_period(r->record, c, &period, e));
    if (c->kind == CHANGE_RANK)
        (void)snprintf(what, sizeof what, "rank %d were as fast as its peers", c->rank);
    if (c->kind == CHANGE_COMM) (void)snprintf(what, sizeof what, "communication took no time");
    if (c->kind == CHANGE_INPUT) (void)snprintf(what, sizeof what, "no rank waited for a batch");
    if (c->kind == CHANGE_INSTR)
        (void)snprintf(what, sizeof what, "%s took %g %% less time", c->instr, 100 * c->faster);
    replay_report_answer(r, what, period);
done:
    return result;
}

status replay_report_ask_all(replay_report *r, err *e)
{
    status result = OK;
    int rank;
    TRY(replay_change_slowest(r->record, &rank, e));
    if (rank >= 0)
        TRY(replay_report_ask(r, &(replay_change){.kind = CHANGE_RANK, .rank = rank}, e));
    TRY(replay_report_ask(r, &(replay_change){.kind = CHANGE_COMM}, e));
    TRY(replay_report_ask(r, &(replay_change){.kind = CHANGE_INPUT}, e));
done:
    return result;
}

// ---- The critical path, summed by rank and row

// "the host", "BACKWARD micro 0 block 2", "REDUCE_GRAD bucket 0: all_reduce".
static void add_name(const replay_record *r, int piece, text *out)
{
    if (piece < 0) {
        text_add(out, "the host");
        return;
    }
    const spans_row *row = replay_record_row(r, piece), *instr = replay_record_instr(r, piece);
    text_add_printable(out, instr->name, strlen(instr->name), "");
    if (instr == row) return;
    text_add(out, ": ");
    text_add_printable(out, row->name, strlen(row->name), "");
}

static bool same_line(const replay_record *r, const replay_segment *a, const replay_segment *b)
{
    if (a->rank != b->rank || (a->piece < 0) != (b->piece < 0)) return false;
    return a->piece < 0 || r->part[a->piece].row == r->part[b->piece].row;
}

static int compare_segments(const void *a, const void *b)
{
    const replay_segment *x = a, *y = b;
    if (x->seconds != y->seconds) return x->seconds > y->seconds ? -1 : 1;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

// Fills `sums` with one segment for each rank and row, the longest first. Returns their number.
static int sum_segments(const replay_report *r, replay_segment *sums)
{
    int count = 0;
    for (int i = 0; i < r->path.count; i++) {
        const replay_segment *s = &r->path.items[i];
        int k = 0;
        while (k < count && !same_line(r->record, &sums[k], s)) k++;
        if (k == count)
            sums[count++] = *s;
        else
            sums[k].seconds += s->seconds;
    }
    if (count) qsort(sums, (size_t)count, sizeof *sums, compare_segments);
    return count;
}

static double percent(double part, double whole)
{
    return whole > 0 ? 100 * part / whole : 0;
}

static void print_path(const replay_report *r, text *out)
{
    replay_segment *sums = NULL;
    double rest = 0;
    if (alloc_array(&sums, (size_t)r->path.count, sizeof *sums, WHAT, NULL) != OK) {
        text_fail(out);
        return;
    }
    const int count = sum_segments(r, sums), shown = count < PATH_LINES ? count : PATH_LINES;
    text_addf(out, "\ncritical path, %.3f ms from the first begin to the last end:\n",
              r->path.seconds * MS);
    text_addf(out, "  %10s %6s %6s\n", "ms", "%", "rank");
    for (int i = 0; i < shown; i++) {
        text_addf(out, "  %10.3f %6.1f %6d  ", sums[i].seconds * MS,
                  percent(sums[i].seconds, r->path.seconds), sums[i].rank);
        add_name(r->record, sums[i].piece, out);
        text_add(out, "\n");
    }
    for (int i = shown; i < count; i++) rest += sums[i].seconds;
    if (shown < count)
        text_addf(out, "  %10.3f %6.1f         %d others\n", rest * MS,
                  percent(rest, r->path.seconds), count - shown);
    free(sums);
}

// ---- Ranks

static double waits_of(const replay_rank_uses *u)
{
    return u->seconds[USE_WAIT_RANK] + u->seconds[USE_WAIT_MESSAGE];
}

// The ranks to print: all, or those that wait least, which the others wait for.
static int choose_ranks(const replay_report *r, int *rank)
{
    int count = 0;
    for (int k = 0; k < r->record->view->ranks; k++) {
        int at = count < RANK_LINES ? count++ : RANK_LINES;
        while (at > 0 && r->record->view->ranks > RANK_LINES &&
               waits_of(&r->uses[k]) < waits_of(&r->uses[rank[at - 1]])) {
            if (at < RANK_LINES) rank[at] = rank[at - 1];
            at--;
        }
        if (at < RANK_LINES) rank[at] = k;
    }
    return count;
}

static void print_ranks(const replay_report *r, text *out)
{
    int rank[RANK_LINES];
    const int count = choose_ranks(r, rank), ranks = r->record->view->ranks;
    text_add(out, "\nwhat each rank does, in ms");
    if (count < ranks) text_addf(out, " (the %d of %d ranks that wait least)", count, ranks);
    text_addf(out, ":\n  %5s %10s %10s %10s %10s %10s %10s %10s  %s\n", "rank", "compute", "comm.",
              "input", "for ranks", "messages", "copies", "host", "waits most for");
    for (int i = 0; i < count; i++) {
        const replay_rank_uses *u = &r->uses[rank[i]];
        text_addf(out, "  %5d", rank[i]);
        for (int k = 0; k < REPLAY_USES; k++) text_addf(out, " %10.3f", u->seconds[k] * MS);
        if (u->last >= 0 && u->last_seconds >= u->stage_seconds)
            text_addf(out, "  rank %d", u->last);
        else if (u->stage >= 0)
            text_addf(out, "  stage %d", u->stage);
        text_add(out, "\n");
    }
}

// ---- Everything

static double error_of(const replay_report *r)
{
    return percent(r->replayed - r->measured, r->measured);
}

static void print_answers(const replay_report *r, text *out)
{
    if (r->answers) text_addf(out, "\nwhat the step would take if\n  %10s %8s\n", "ms", "change");
    for (int i = 0; i < r->answers; i++) {
        const replay_answer *a = &r->answer[i];
        text_addf(out, "  %10.3f %+7.1f %%  %s\n", a->seconds * MS,
                  percent(a->seconds - r->replayed, r->replayed), a->what);
    }
}

static void print_text(const replay_report *r, text *out)
{
    const replay_record *x = r->record;
    text_addf(out, "step %llu%s: %d rank%s, %.3f ms measured, %.3f ms replayed (%+.2f %%)\n",
              (unsigned long long)x->step, r->is_median ? ", of median duration" : "",
              x->view->ranks, x->view->ranks == 1 ? "" : "s", r->measured * MS, r->replayed * MS,
              error_of(r));
    if (r->note && x->apart) {
        text_add(out, "what streams wait for is not known, so that such waits count as work: ");
        text_add_printable(out, r->note, strlen(r->note), "");
        text_add(out, "\n");
    }
    print_path(r, out);
    print_ranks(r, out);
    print_answers(r, out);
}

static json_t *json_path(const replay_report *r)
{
    json_t *list = json_array();
    for (int i = 0; i < r->path.count; i++) {
        const replay_segment *s = &r->path.items[i];
        text name = {0};
        add_name(r->record, s->piece, &name);
        json_array_append_new(list, json_pack("{s:i, s:s, s:f, s:f, s:f}", "rank", s->rank, "name",
                                              name.chars ? name.chars : "", "begin", s->begin,
                                              "seconds", s->seconds, "share",
                                              percent(s->seconds, r->path.seconds) / 100));
        text_clear(&name);
    }
    return list;
}

static json_t *json_rank(const replay_rank_uses *u, int rank)
{
    json_t *x = json_pack("{s:i}", "rank", rank);
    for (int k = 0; k < REPLAY_USES; k++)
        json_object_set_new(x, replay_use_word((replay_use)k), json_real(u->seconds[k]));
    if (u->last >= 0)
        json_object_set_new(x, "waits_for_rank",
                            json_pack("{s:i, s:f}", "rank", u->last, "seconds", u->last_seconds));
    if (u->stage >= 0)
        json_object_set_new(
            x, "waits_for_stage",
            json_pack("{s:i, s:f}", "stage", u->stage, "seconds", u->stage_seconds));
    return x;
}

static void print_json(const replay_report *r, text *out)
{
    const replay_record *x = r->record;
    json_t *ranks = json_array(), *answers = json_array();
    for (int k = 0; k < x->view->ranks; k++)
        json_array_append_new(ranks, json_rank(&r->uses[k], k));
    for (int i = 0; i < r->answers; i++)
        json_array_append_new(answers, json_pack("{s:s, s:f, s:f}", "if", r->answer[i].what,
                                                 "seconds", r->answer[i].seconds, "change",
                                                 r->answer[i].seconds - r->replayed));
    json_t *all = json_pack(
        "{s:I, s:i, s:f, s:f, s:f, s:f, s:b, s:b, s:o, s:o, s:o}", "step", (json_int_t)x->step,
        "ranks", x->view->ranks, "measured", r->measured, "replayed", r->replayed, "error_percent",
        error_of(r), "missed", x->missed, "lists", x->known.order != NULL, "streams_apart",
        x->apart, "critical_path", json_path(r), "rank_seconds", ranks, "what_if", answers);
    char *chars = all ? json_dumps(all, JSON_COMPACT) : NULL;
    if (chars)
        text_add(out, chars);
    else
        text_fail(out);
    text_add(out, "\n");
    free(chars);
    json_decref(all);
}

void replay_report_print(const replay_report *r, bool json, text *out)
{
    if (json)
        print_json(r, out);
    else
        print_text(r, out);
}
