// drawing.c -- see drawing.h.
#include "cmd/text/drawing.h"

#include <string.h>

enum { MOST_THREADS = 1024 };

status drawing_check(const char *command, text_drawing *d, err *e)
{
    status result = OK;
    if (d->tokens < 1) FAIL(E_USAGE, "%s: --tokens: found 0; valid: 1 or more", command);
    if (!(d->temperature >= 0 && d->temperature <= 100))
        FAIL(E_USAGE, "%s: --temperature: found %g; valid: 0 to 100", command, d->temperature);
    if (!(d->top_p >= 0 && d->top_p <= 1))
        FAIL(E_USAGE, "%s: --top-p: found %g; valid: 0 to 1", command, d->top_p);
    if (d->threads > MOST_THREADS)
        FAIL(E_USAGE, "%s: --threads: found %lld; valid: 0 (all cores) to %d", command,
             (long long)d->threads, MOST_THREADS);
    if (d->precision && strcmp(d->precision, "bf16") == 0)
        d->type = BF16;
    else if (d->precision && strcmp(d->precision, "fp32") != 0)
        FAIL(E_USAGE, "%s: --precision: found '%s'; valid: fp32, bf16", command, d->precision);
done:
    return result;
}

sample_options drawing_sample(const text_drawing *d, uint64_t stream)
{
    return (sample_options){d->temperature, d->top_p, d->top_k, (uint64_t)d->seed, stream};
}
