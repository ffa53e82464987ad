// best.c -- see best.h.
#include "session/best.h"

#include "ckpt/ckpt.h"

bool session_best_take(trainer_best *b, int64_t step, double loss, double threshold)
{
    const bool first = b->step < 0 && loss == loss;
    if (first || loss < b->loss - threshold) {
        *b = (trainer_best){.step = step, .loss = loss};
        return true;
    }
    if (b->step >= 0) b->since++;
    return false;
}

bool session_best_ends(const trainer_best *b, int64_t patience)
{
    return patience > 0 && b->step >= 0 && b->since >= patience;
}

status session_best_read(const char *folder, trainer_best *out, err *e)
{
    status result = OK;
    ckpt *c = NULL;
    *out = session_best_none();
    TRY(ckpt_open(folder, &c, e));
    if (!json_object_get(c->values, "best_step")) goto done;
    TRY(ckpt_int(c, "best_step", &out->step, e));
    TRY(ckpt_real(c, "best_loss", &out->loss, e));
    TRY(ckpt_int(c, "evaluations_since_best", &out->since, e));
done:
    ckpt_close(c);
    return result;
}
