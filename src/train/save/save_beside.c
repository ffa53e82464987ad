// save_beside.c -- a checkpoint that is written while steps go on. Every rank copies what it writes into memory of its
// own (save_copy.h), which the plan counts, and a thread of each rank writes it. After each step the ranks tell each
// other how far they are; when all have written, a thread of rank 0 publishes the folder. So a kill at any moment leaves
// what it leaves of a save that is waited for. Called by the session.
#include "base/alloc.h"
#include "train/exchange.h"
#include "train/save/save.h"
#include "train/save/save_copy.h"
#include "train/state_shards.h"
#include "train/trainer_private.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

// How far a rank is. Numbers that ranks exchange.
typedef enum saving_stage { SAVING_WRITES, SAVING_WRITTEN, SAVING_PUBLISHED } saving_stage;

struct trainer_saving {
    char *space; // of the copy; the trainer's memory
    size_t bytes;
    bool active;
    uint64_t step; // of the checkpoint
    save_run run;  // its options are `o`
    trainer_save_options o;
    save_copy *copy;
    // On rank 0
    ckpt_save_options c;
    char *config_json, *facts;
    ckpt_save_job *job; // NULL: none, or `publish` has it
    pthread_t thread;   // of the publishing
    bool publishing;
    atomic_bool published;
    status result;
    err error;
    char *folder;
};

// ---- Memory

// At most the bytes that this rank writes: of shards that several ranks have, its share and one more tensor.
static size_t bytes_of(const trainer *t)
{
    uint64_t sum = 0, most = 0;
    for (int part = 0; part <= STATE_GRADIENT; part++)
        for (int p = 0; p < t->model->params; p++) {
            const plan_row *r = &t->plan->row[p];
            const plan_group *g = &t->plan->group[r->group];
            const bool is_weights = part == STATE_GRADIENT; // of the HuggingFace folder
            const trainer_state_kind kind = is_weights ? STATE_WEIGHT : (trainer_state_kind)part;
            if (r->bucket < 0 || (!is_weights && !save_is_stored(t, kind, p))) continue;
            const state_shards x = state_shards_of(g, kind);
            const plan_shard s = plan_local_shard(t->plan, r, x.shards, t->plan->coord);
            const uint64_t bytes = (uint64_t)s.count * dtype_bytes(is_weights ? g->o.compute : F32);
            sum += bytes / (uint64_t)state_shards_copies(t, r, x.shards);
            if (bytes > most) most = bytes;
        }
    return sum + most;
}

status saving_allocate(trainer *t, err *e)
{
    status result = OK;
    if (!t->o.copies_saves) return OK;
    TRY(trainer_object(&t->saving, sizeof *t->saving, e));
    t->saving->bytes = bytes_of(t);
    TRY(memory_take(t->memory, BYTES_BUFFERS, FROM_HOST, t->saving->bytes, &t->saving->space, e));
done:
    return result;
}

// ---- The folder

// Ends the checkpoint without publishing it, or after it.
static void clear(trainer_saving *s)
{
    if (s->publishing) {
        pthread_join(s->thread, NULL);
        s->job = NULL; // the thread has ended it
    }
    save_copy_close(s->copy);
    if (s->job) (void)ckpt_save_end(s->job, E_INTERRUPTED, NULL, NULL);
    save_run_clear(&s->run);
    free(s->config_json);
    free(s->facts);
    free(s->folder);
    *s = (trainer_saving){.space = s->space, .bytes = s->bytes};
}

void saving_close(trainer *t)
{
    if (!t->saving) return;
    clear(t->saving);
    free(t->saving);
}

bool trainer_is_saving(const trainer *t)
{
    return t->saving && t->saving->active;
}

// Rank 0's options of the checkpoint, which outlive those of the caller.
static status open_folder(trainer *t, trainer_saving *s, const char **folder, err *e)
{
    status result = OK;
    TRY(text_copy(s->o.config_json, &s->config_json, e));
    TRY(save_facts(t, &s->o, &s->facts, e));
    s->c = save_options(&s->run, s->facts);
    s->c.config_json = s->config_json;
    TRY(ckpt_save_begin(&s->c, &s->job, folder, e));
done:
    return result;
}

status trainer_save_begin(trainer *t, const trainer_save_options *o, err *e)
{
    status result = OK;
    trainer_saving *s = t->saving;
    const char *folder = NULL;
    if (!s || s->active) FAIL(E_INTERNAL, "a checkpoint cannot begin here");
    s->active = true;
    s->step = results_steps_done(t);
    s->o = *o;
    TRY(save_run_make(&s->run, t, &s->o, e));
    TRY(save_copy_open(s->space, s->bytes, &s->copy, e));
    if (t->o.comm->rank == 0) TRY(open_folder(t, s, &folder, e));
    TRY(save_write(t, &s->run.list, o->folder, &s->run.files, o->out, folder, s->copy, e));
    TRY(tiers_close_staging(t, e));
    TRY(save_copy_start(s->copy, e));
done:
    return result;
}

// ---- Afterwards

static void *publish(void *arg)
{
    trainer_saving *s = arg;
    s->result = ckpt_save_end(s->job, OK, &s->folder, &s->error);
    atomic_store(&s->published, true);
    return NULL;
}

static status start_publishing(trainer_saving *s, err *e)
{
    sigset_t all, before; // signals are for the rank's own thread
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    s->publishing = pthread_create(&s->thread, NULL, publish, s) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!s->publishing) return err_set(e, E_MEMORY, "a checkpoint: cannot start a thread");
    return OK;
}

static status end_publishing(trainer_saving *s, err *e)
{
    pthread_join(s->thread, NULL);
    s->publishing = false;
    s->job = NULL;
    if (s->result != OK && e) *e = s->error;
    return s->result;
}

static status end_writing(trainer_saving *s, err *e)
{
    const status result = save_copy_wait(s->copy, e);
    if (result != OK)
        err_prefix(e,
                   "the checkpoint of step %" PRIu64 " is not saved, older ones stay: ", s->step);
    return result;
}

// This rank's stage, for which it waits if `waits`.
static status stage_of(trainer_saving *s, bool waits, saving_stage *out, err *e)
{
    status result = OK;
    *out = SAVING_WRITES;
    if (!waits && !save_copy_ended(s->copy)) goto done;
    TRY(end_writing(s, e));
    *out = SAVING_WRITTEN;
    if (!s->publishing || (!waits && !atomic_load(&s->published))) goto done;
    TRY(end_publishing(s, e));
    *out = SAVING_PUBLISHED;
done:
    return result;
}

// One exchange. *all are written, *published by rank 0.
static status look(trainer *t, bool waits, bool *all, bool *published, err *e)
{
    status result = OK;
    saving_stage own;
    const uint64_t *stage;
    TRY(stage_of(t->saving, waits, &own, e));
    exchange_set_number(t, 0, own);
    TRY(exchange_gather(t, &stage, e));
    *all = true;
    for (int r = 0; r < t->o.comm->size; r++)
        *all = *all && stage[r * exchange_numbers(t)] != SAVING_WRITES;
    *published = stage[0] == SAVING_PUBLISHED;
done:
    return result;
}

status trainer_save_follow(trainer *t, bool waits, bool *done, char **folder, err *e)
{
    status result = OK;
    trainer_saving *s = t->saving;
    bool all;
    TRY(look(t, waits, &all, done, e));
    if (all && !*done && t->o.comm->rank == 0 && !s->publishing) TRY(start_publishing(s, e));
    if (waits && !*done) TRY(look(t, waits, &all, done, e));
    if (!*done) goto done;
    if (folder) *folder = s->folder, s->folder = NULL;
    clear(s);
done:
    return result;
}
