// ref_preference.c -- the kernels of preference losses, of which the cpu device has no other form: they work on a few
// numbers a document. Called through the kernel table. It does not know how ranks share a document.
#include "device/cpu/ref/ref.h"

void ref_document_sums(const cpu_context *x, const void *args)
{
    (void)x;
    const kernel_document_sums_args *p = args;
    for (int64_t d = 0; d < p->documents; d++) {
        double sum = 0;
        for (int64_t r = p->first[d]; r < p->first[d + 1]; r++) sum -= p->losses[r];
        p->sums[2 * d] = sum;
        p->sums[2 * d + 1] = p->first[d + 1] - p->first[d];
    }
}

static void put_weights(const kernel_preference_args *p, int64_t document, double slope)
{
    for (int64_t r = p->first[document]; p->weights && r < p->first[document + 1]; r++)
        p->weights[r] = (float)-slope; // the log-probability is minus the cross-entropy
}

void ref_preference(const cpu_context *x, const void *args)
{
    (void)x;
    const kernel_preference_args *p = args;
    const int parts = 2 * kernel_preference_parts(&p->form);
    double loss = 0, count = 0, sum[PREFERENCE_SUMS] = {0};
    for (int64_t i = 0; i < p->documents / parts; i++) {
        bool both;
        const kernel_pair_loss l = kernel_pair_of(p, i, &both);
        const double whole = both ? 1 : 0;
        loss += l.loss, count += l.count;
        sum[PREFERENCE_CHOSEN] += whole * l.reward[0];
        sum[PREFERENCE_REJECTED] += whole * l.reward[1];
        sum[PREFERENCE_ACCURATE] += whole * (l.reward[0] > l.reward[1]);
        sum[PREFERENCE_PAIRS] += whole;
        for (int k = 0; k < parts; k++)
            put_weights(p, parts * i + k, kernel_pair_slope(&p->form, &l, k));
    }
    if (p->loss_sum) *p->loss_sum += loss;
    if (p->count) *p->count += count;
    for (int k = 0; p->metrics && k < PREFERENCE_SUMS; k++) p->metrics[k] += sum[k];
}
