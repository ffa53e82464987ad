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
// c and d for chosen and rejected: the loss of a pair, where x = beta * (p - r) and m = x_c - x_d; of the losses marked
// with *, x is divided by n.
//   SIGMOID       -(1 - smoothing) * log s(m) - smoothing * log s(-m)    Rafailov et al. 2023
//   HINGE         max(0, 1 - m)                                          Liu et al. 2023
//   IPO *         ((m - 1/2) / beta)^2                                   Azar et al. 2023
//   EXO_PAIR      s(m) * (log s(m) - log(1 - smoothing)) + s(-m) * (log s(-m) - log smoothing)   Ji et al. 2024
//   NCA_PAIR      -log s(x_c) - log s(-x_c) / 2 - log s(-x_d) / 2        Chen et al. 2024
//   ROBUST        (-(1 - smoothing) * log s(m) + smoothing * log s(-m)) / (1 - 2 smoothing)      Chowdhury et al. 2024
//   BCO_PAIR      -log s(x_c) - log s(-x_d)                              Jung et al. 2024, with the reward shift 0
//   SPPO_HARD     ((x_c - 1/2) / beta)^2 + ((x_d + 1/2) / beta)^2        Wu et al. 2024
//   APO_ZERO      1 - s(x_c) + s(x_d)                                    D'Oosterlinck et al. 2024
//   APO_DOWN      s(x_c) + 1 - s(m)                                      the same
//   DISCOPOP      -log s(m) * (1 - g) + exp(-m) * g, g = s(m / tau)      Lu et al. 2024
//   SIGMOID_NORM * -log s(m)                                             Meng et al. 2024, with a reference
//   ORPO          -shared * (p_c + p of the prompt of c) - beta * log s(o), o = odds(p_c / n_c) - odds(p_d / n_d),
//                 odds(q) = q - log(1 - exp(q)); the first term is the mean over the tokens of the batch where
//                 shared is pairs / tokens                               Hong et al. 2024
//   KTO           desirable * (1 - s(x_c - beta * shared)) + undesirable * s(x_d - beta * shared), which counts as two;
//                 shared is an estimate of the KL divergence             Ethayarajh et al. 2024
//                 or 0                                                   D'Oosterlinck et al. 2024, unpaired
typedef enum kernel_preference_kind {
    PREFERENCE_NONE,
    PREFERENCE_SIGMOID, // the first of dpo.loss_type's words, whose order this is
    PREFERENCE_HINGE,
    PREFERENCE_IPO,
    PREFERENCE_EXO_PAIR,
    PREFERENCE_NCA_PAIR,
    PREFERENCE_ROBUST,
    PREFERENCE_BCO_PAIR,
    PREFERENCE_SPPO_HARD,
    PREFERENCE_APO_ZERO,
    PREFERENCE_APO_DOWN,
    PREFERENCE_DISCOPOP,
    PREFERENCE_SIGMOID_NORM,
    PREFERENCE_ORPO,
    PREFERENCE_KTO
} kernel_preference_kind;

typedef struct kernel_preference {
    kernel_preference_kind kind;
    double beta, smoothing, tau, desirable, undesirable;
} kernel_preference;

// Does the loss compare with a reference?
ON_DEVICE static inline bool kernel_preference_refers(const kernel_preference *f)
{
    return f->kind != PREFERENCE_NONE && f->kind != PREFERENCE_ORPO;
}

// The parts of which a document is: of ORPO its prompt, whose rows count in the first term only, and its answer. Of a
// rejected document no row of the prompt has a label.
ON_DEVICE static inline int kernel_preference_parts(const kernel_preference *f)
{
    return f->kind == PREFERENCE_ORPO ? 2 : 1;
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
    int64_t documents; // parts of documents: an even number of documents
    kernel_preference form;
    const double *shared; // device scalar: the number that all pairs of a step share; NULL: 0
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
    double prompt; // the log-probability of its prompt's rows
} kernel_completion;

// The loss of a pair, how many losses it counts as, the rewards, and the derivatives by the log-probabilities of both
// documents and of the first one's prompt.
typedef struct kernel_pair_loss {
    double loss, count, reward[2], slope[2], prompt;
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
                                                 const kernel_completion pair[2], double shared,
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
    out->loss = -shared * (pair[0].logp + pair[0].prompt);
    out->slope[0] = out->prompt = -shared;
    if (!whole) return;
    out->loss -= f->beta * kernel_log_logistic(odds);
    out->slope[0] += s / expm1(mean[0]) / pair[0].rows;
    out->slope[1] = -s / expm1(mean[1]) / pair[1].rows;
}

// A loss and its derivatives by the rewards of both documents.
typedef struct kernel_reward_loss {
    double loss, slope[2];
} kernel_reward_loss;

// Of a margin m, whose derivatives by the two rewards are opposite.
ON_DEVICE static inline kernel_reward_loss kernel_loss_of_margin(const kernel_preference *f,
                                                                 double m)
{
    const double high = kernel_log_logistic(m), low = kernel_log_logistic(-m),
                 s = kernel_logistic(m), keep = 1 - f->smoothing, flip = f->smoothing;
    double loss = -keep * high - flip * low, slope = flip * s - keep * (1 - s);
    if (f->kind == PREFERENCE_HINGE) {
        loss = m < 1 ? 1 - m : 0, slope = m < 1 ? -1 : 0;
    } else if (f->kind == PREFERENCE_IPO) {
        const double d = (m - 0.5) / f->beta;
        loss = d * d, slope = 2 * d / f->beta;
    } else if (f->kind == PREFERENCE_EXO_PAIR) {
        const double of_keep = log(keep), of_flip = log(flip);
        loss = s * (high - of_keep) + (1 - s) * (low - of_flip);
        slope = s * (1 - s) * (m - of_keep + of_flip);
    } else if (f->kind == PREFERENCE_ROBUST) {
        loss = (-keep * high + flip * low) / (1 - 2 * flip);
        slope = (-keep * (1 - s) - flip * s) / (1 - 2 * flip);
    } else if (f->kind == PREFERENCE_DISCOPOP) {
        const double g = kernel_logistic(m / f->tau), rest = exp(-m);
        loss = -high * (1 - g) + rest * g;
        slope = -(1 - s) * (1 - g) - rest * g + g * (1 - g) / f->tau * (high + rest);
    }
    const kernel_reward_loss out = {loss, {slope, -slope}};
    return out;
}

// Of two rewards.
ON_DEVICE static inline kernel_reward_loss kernel_loss_of_rewards(const kernel_preference *f,
                                                                  const double x[2])
{
    const double c = kernel_logistic(x[0]), d = kernel_logistic(x[1]);
    const double high = kernel_log_logistic(x[0]), low = kernel_log_logistic(-x[1]);
    kernel_reward_loss out = {-high + -low, {-(1 - c), d}}; // BCO_PAIR
    if (f->kind == PREFERENCE_NCA_PAIR) {
        out.loss = -high - 0.5 * kernel_log_logistic(-x[0]) - 0.5 * low;
        out.slope[0] = -(1 - c) + 0.5 * c, out.slope[1] = 0.5 * d;
    } else if (f->kind == PREFERENCE_SPPO_HARD) {
        const double a = (x[0] - 0.5) / f->beta, b = (x[1] + 0.5) / f->beta;
        out.loss = a * a + b * b;
        out.slope[0] = 2 * a / f->beta, out.slope[1] = 2 * b / f->beta;
    } else if (f->kind == PREFERENCE_APO_ZERO) {
        out.loss = 1 - c + d;
        out.slope[0] = -c * (1 - c), out.slope[1] = d * (1 - d);
    } else if (f->kind == PREFERENCE_APO_DOWN) {
        const double m = kernel_logistic(x[0] - x[1]);
        out.loss = c + 1 - m;
        out.slope[0] = c * (1 - c) - m * (1 - m), out.slope[1] = m * (1 - m);
    }
    return out;
}

// A document without a row has no loss.
ON_DEVICE static inline void kernel_pair_by_answers(const kernel_preference *f,
                                                    const kernel_completion pair[2], double shared,
                                                    kernel_pair_loss *out)
{
    const double point = f->beta * shared;
    const double c = kernel_logistic(out->reward[0] - point),
                 d = kernel_logistic(out->reward[1] - point);
    const double has[2] = {pair[0].rows > 0 ? 1.0 : 0.0, pair[1].rows > 0 ? 1.0 : 0.0};
    out->count = has[0] + has[1];
    out->loss = has[0] * f->desirable * (1 - c) + has[1] * f->undesirable * d;
    out->slope[0] = -f->desirable * f->beta * c * (1 - c);
    out->slope[1] = f->undesirable * f->beta * d * (1 - d);
}

ON_DEVICE static inline bool kernel_preference_by_rewards(const kernel_preference *f)
{
    return f->kind == PREFERENCE_NCA_PAIR || f->kind == PREFERENCE_BCO_PAIR ||
           f->kind == PREFERENCE_SPPO_HARD || f->kind == PREFERENCE_APO_ZERO ||
           f->kind == PREFERENCE_APO_DOWN;
}

// A document without a row has the log-probability 0.
ON_DEVICE static inline kernel_pair_loss
kernel_pair_loss_of(const kernel_preference *f, const kernel_completion pair[2], double shared)
{
    kernel_pair_loss out = {0, 1, {0, 0}, {0, 0}, 0};
    const bool norms = f->kind == PREFERENCE_IPO || f->kind == PREFERENCE_SIGMOID_NORM;
    double x[2], factor[2];
    for (int i = 0; i < 2; i++) {
        out.reward[i] = f->beta * (pair[i].logp - pair[i].reference);
        factor[i] = norms && pair[i].rows > 0 ? f->beta / pair[i].rows : f->beta;
        x[i] = factor[i] * (pair[i].logp - pair[i].reference);
    }
    if (f->kind == PREFERENCE_ORPO) {
        kernel_pair_by_odds(f, pair, shared, &out);
    } else if (f->kind == PREFERENCE_KTO) {
        kernel_pair_by_answers(f, pair, shared, &out);
    } else {
        const kernel_reward_loss l = kernel_preference_by_rewards(f)
                                         ? kernel_loss_of_rewards(f, x)
                                         : kernel_loss_of_margin(f, x[0] - x[1]);
        out.loss = l.loss;
        for (int i = 0; i < 2; i++) out.slope[i] = factor[i] * l.slope[i];
    }
    return out;
}

// The loss of pair `number`, of which a document has a row; else count is 0, and so is all else. *whole: both have one.
ON_DEVICE static inline kernel_pair_loss kernel_pair_of(const kernel_preference_args *p,
                                                        int64_t number, bool *whole)
{
    const int parts = kernel_preference_parts(&p->form);
    const kernel_pair_loss none = {0, 0, {0, 0}, {0, 0}, 0};
    kernel_completion pair[2];
    for (int i = 0; i < 2; i++) {
        const int64_t d = (2 * number + i) * parts + parts - 1;
        pair[i].logp = p->sums[2 * d];
        pair[i].rows = p->sums[2 * d + 1];
        pair[i].prompt = parts > 1 ? p->sums[2 * (d - 1)] : 0;
        pair[i].reference =
            p->reference ? (double)p->reference[2 * d] + (double)p->reference[2 * d + 1] : 0;
    }
    *whole = pair[0].rows > 0 && pair[1].rows > 0;
    if (pair[0].rows + pair[1].rows == 0) return none;
    return kernel_pair_loss_of(&p->form, pair, p->shared ? *p->shared : 0);
}

// The derivative by the log-probability of part `k` of a pair, of 2 * kernel_preference_parts.
ON_DEVICE static inline double kernel_pair_slope(const kernel_preference *f,
                                                 const kernel_pair_loss *l, int k)
{
    if (kernel_preference_parts(f) == 1) return l->slope[k];
    return k == 0 ? l->prompt : k % 2 == 1 ? l->slope[k / 2] : 0;
}

#endif
