// kernel_preference.h -- the specification of the kernels of preference losses, which compare documents instead of
// predicting tokens: K_DOCUMENT_SUMS and K_PREFERENCE. A part of device/kernels.h, which has the conventions.
//
// Documents 2p and 2p + 1 of a micro-batch are pair p: the chosen and the rejected answer to one prompt. A loss of a
// pair depends on the log-probabilities of its documents only. So its gradient is that of the rows' cross-entropies,
// each times a number of the row's document.
#ifndef TRIREME_DEVICE_KERNEL_PREFERENCE_H
#define TRIREME_DEVICE_KERNEL_PREFERENCE_H

#include "base/target.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

// With p the log-probability of a document, r the reference's, n its rows with a label, s the logistic function, and
// c and d for chosen and rejected: the loss of a pair, where m = beta * ((p_c - r_c) - (p_d - r_d)).
//   SIGMOID  -(1 - smoothing) * log s(m) - smoothing * log s(-m)       Rafailov et al. 2023
//   HINGE    max(0, 1 - m)                                             Liu et al. 2023
//   IPO      ((p_c - r_c) / n_c - (p_d - r_d) / n_d - 1 / (2 beta))^2  Azar et al. 2023, averaged over tokens
//   ORPO     -p_c / n_c - beta * log s(o), o = odds(p_c / n_c) - odds(p_d / n_d), odds(q) = q - log(1 - exp(q))
//                                                                      Hong et al. 2024
//   KTO      desirable * (1 - s(beta * (p_c - r_c))) + undesirable * s(beta * (p_d - r_d)), which counts as two
//                                                                      D'Oosterlinck et al. 2024, unpaired
typedef enum kernel_preference_kind {
    PREFERENCE_NONE,
    PREFERENCE_SIGMOID,
    PREFERENCE_HINGE,
    PREFERENCE_IPO,
    PREFERENCE_ORPO,
    PREFERENCE_KTO
} kernel_preference_kind;

typedef struct kernel_preference {
    kernel_preference_kind kind;
    double beta, smoothing, desirable, undesirable;
} kernel_preference;

// Does the loss compare with a reference?
ON_DEVICE static inline bool kernel_preference_refers(const kernel_preference *f)
{
    return f->kind != PREFERENCE_NONE && f->kind != PREFERENCE_ORPO;
}

// Over the pairs of which both documents have rows, the sums of: the rewards beta * (p - r) of the chosen and of the rejected documents (of ORPO
// beta * p / n), and 1 where the chosen one's is larger.
typedef enum kernel_preference_sum {
    PREFERENCE_CHOSEN,
    PREFERENCE_REJECTED,
    PREFERENCE_ACCURATE,
    PREFERENCE_PAIRS,
    PREFERENCE_SUMS
} kernel_preference_sum;

// sums [d] = (-sum of the losses of rows first[d] … first[d + 1] - 1, the number of these rows)
typedef struct kernel_document_sums_args {
    int64_t documents;
    const int32_t *first; // [documents + 1]
    const double *losses; // [rows] cross-entropies of the rows
    double *sums;         // [documents, 2]
} kernel_document_sums_args;

// Adds the loss of each pair of which a document has a row: *loss_sum += its loss, *count += 1 (KTO: the documents with
// rows), metrics += its numbers. weights [r] = the derivative of the loss with respect to the cross-entropy of row r.
typedef struct kernel_preference_args {
    int64_t documents; // an even number
    kernel_preference form;
    const int32_t *first; // [documents + 1]
    const double
        *sums; // [documents, 2] of K_DOCUMENT_SUMS, over all ranks that have rows of the documents
    const float
        *reference; // [documents, 2] the reference's log-probability is the sum of both; NULL: 0
    float *weights; // [rows]; NULL: no gradient
    double *loss_sum, *count; // device scalars; each may be NULL
    double *metrics;          // [PREFERENCE_SUMS]; NULL: nobody asks
} kernel_preference_args;

// A document of a pair.
typedef struct kernel_completion {
    double logp, reference, rows;
} kernel_completion;

// The loss of a pair, how many losses it counts as, the rewards, and the derivatives by the log-probabilities.
typedef struct kernel_pair_loss {
    double loss, count, reward[2], slope[2];
} kernel_pair_loss;

ON_DEVICE static inline double kernel_logistic(double x)
{
    return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x));
}

ON_DEVICE static inline double kernel_log_logistic(double x)
{
    return x >= 0 ? -log1p(exp(-x)) : x - log1p(exp(x));
}

// Without a row of one document there are no odds.
ON_DEVICE static inline void kernel_pair_by_odds(const kernel_preference *f,
                                                 const kernel_completion pair[2],
                                                 kernel_pair_loss *out)
{
    double mean[2] = {0, 0};
    const bool whole = pair[0].rows > 0 && pair[1].rows > 0;
    for (int i = 0; i < 2; i++) {
        if (pair[i].rows > 0) mean[i] = pair[i].logp / pair[i].rows;
        out->reward[i] = f->beta * mean[i];
        // A probability of 1 has infinite odds.
        mean[i] = fmin(mean[i], -1e-9);
    }
    const double odds = (mean[0] - log(-expm1(mean[0]))) - (mean[1] - log(-expm1(mean[1])));
    const double s = whole ? f->beta * kernel_logistic(-odds) : 0;
    out->loss = pair[0].rows > 0 ? -mean[0] : 0;
    if (whole) out->loss -= f->beta * kernel_log_logistic(odds);
    if (pair[0].rows > 0) out->slope[0] = (-1 + s / expm1(mean[0])) / pair[0].rows;
    if (whole) out->slope[1] = -s / expm1(mean[1]) / pair[1].rows;
}

ON_DEVICE static inline void kernel_pair_by_margin(const kernel_preference *f, double margin,
                                                   kernel_pair_loss *out)
{
    const double m = f->beta * margin;
    double slope = m < 1 ? -f->beta : 0;
    out->loss = m < 1 ? 1 - m : 0;
    if (f->kind == PREFERENCE_SIGMOID) {
        out->loss =
            -(1 - f->smoothing) * kernel_log_logistic(m) - f->smoothing * kernel_log_logistic(-m);
        slope = f->beta *
                (f->smoothing * kernel_logistic(m) - (1 - f->smoothing) * kernel_logistic(-m));
    }
    out->slope[0] = slope, out->slope[1] = -slope;
}

// A document without a row has the log-probability 0.
ON_DEVICE static inline kernel_pair_loss kernel_pair_loss_of(const kernel_preference *f,
                                                             const kernel_completion pair[2])
{
    kernel_pair_loss out = {0, 1, {0, 0}, {0, 0}};
    double ratio[2], rows[2];
    for (int i = 0; i < 2; i++) {
        rows[i] = pair[i].rows > 0 ? pair[i].rows : 1;
        ratio[i] = pair[i].logp - pair[i].reference;
        out.reward[i] = f->beta * ratio[i];
    }
    if (f->kind == PREFERENCE_ORPO) {
        kernel_pair_by_odds(f, pair, &out);
    } else if (f->kind == PREFERENCE_IPO) {
        const double d = ratio[0] / rows[0] - ratio[1] / rows[1] - 1 / (2 * f->beta);
        out.loss = d * d, out.slope[0] = 2 * d / rows[0], out.slope[1] = -2 * d / rows[1];
    } else if (f->kind == PREFERENCE_KTO) {
        const double c = kernel_logistic(out.reward[0]), d = kernel_logistic(out.reward[1]);
        const double has[2] = {pair[0].rows > 0 ? 1.0 : 0.0, pair[1].rows > 0 ? 1.0 : 0.0};
        out.count = has[0] + has[1];
        out.loss = has[0] * f->desirable * (1 - c) + has[1] * f->undesirable * d;
        out.slope[0] = -f->desirable * f->beta * c * (1 - c);
        out.slope[1] = f->undesirable * f->beta * d * (1 - d);
    } else {
        kernel_pair_by_margin(f, ratio[0] - ratio[1], &out);
    }
    return out;
}

// Pair p; .rows of both are 0 where the micro-batch has no such pair.
ON_DEVICE static inline void kernel_pair_read(const kernel_preference_args *p, int64_t number,
                                              kernel_completion pair[2])
{
    for (int i = 0; i < 2; i++) {
        const int64_t d = 2 * number + i;
        pair[i].logp = p->sums[2 * d];
        pair[i].rows = p->sums[2 * d + 1];
        pair[i].reference =
            p->reference ? (double)p->reference[2 * d] + (double)p->reference[2 * d + 1] : 0;
    }
}

#endif
