// drawing.h -- how the commands that write text draw its tokens: their common flags, checked. generate.c and chat.c use
// it.
#ifndef TRIREME_CMD_TEXT_DRAWING_H
#define TRIREME_CMD_TEXT_DRAWING_H

#include "cmd/flags.h"
#include "infer/generator.h"

typedef struct text_drawing {
    double temperature, top_p;
    int64_t tokens, top_k, seed, threads;
    const char *precision;
    dtype type; // after drawing_check: that of the precision
} text_drawing;

// The flags of `member`, a text_drawing of the struct `request`. --tokens is the command's own.
#define DRAWING_FLAGS(request, member)                                                             \
    {"--temperature", FLAG_NUMBER, offsetof(request, member.temperature), "T",                     \
     "Divides the logits by T; 0 always takes the most likely token (default: 0.8)."},             \
        {"--top-k", FLAG_COUNT, offsetof(request, member.top_k), "K",                              \
         "Draws among the K most likely tokens; 0 means all (default: 0)."},                       \
        {"--top-p", FLAG_NUMBER, offsetof(request, member.top_p), "P",                             \
         "Draws among the most likely tokens whose probabilities sum to P (default: 1)."},         \
        {"--seed", FLAG_COUNT, offsetof(request, member.seed), "S",                                \
         "Seeds the draws; the same seed gives the same text (default: 0)."},                      \
        {"--threads", FLAG_COUNT, offsetof(request, member.threads), "N",                          \
         "Sets the number of compute threads (default: all cores)."},                              \
    {                                                                                              \
        "--precision", FLAG_TEXT, offsetof(request, member.precision), "fp32|bf16",                \
            "Sets the number format of computation (default: fp32)."                               \
    }

// The defaults, but for the number of tokens.
static inline text_drawing drawing_defaults(int64_t tokens)
{
    return (text_drawing){.tokens = tokens, .temperature = 0.8, .top_p = 1};
}
// E_USAGE "generate: --top-p: …" names the command.
status drawing_check(const char *command, text_drawing *d, err *e);
// The options of sample `stream` of the seed.
sample_options drawing_sample(const text_drawing *d, uint64_t stream);

#endif
