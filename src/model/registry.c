// registry.c -- the families, in the order in which help lists them. A new family is a file that defines
// NAME_family, and a line here.
#include "model/model.h"

#define FAMILIES(F)                                                                                \
    F(gpt2)                                                                                        \
    F(llama)                                                                                       \
    F(qwen2)                                                                                       \
    F(qwen3)                                                                                       \
    F(mistral)                                                                                     \
    F(ministral3)                                                                                  \
    F(gemma2)                                                                                      \
    F(gemma3)                                                                                      \
    F(gemma4)                                                                                      \
    F(smollm3)                                                                                     \
    F(phi3)                                                                                        \
    F(granite)                                                                                     \
    F(granite_swa)                                                                                 \
    F(olmo2)                                                                                       \
    F(olmo3)                                                                                       \
    F(exaone4)                                                                                     \
    F(glm)                                                                                         \
    F(glm4)                                                                                        \
    F(cohere)                                                                                      \
    F(cohere2)                                                                                     \
    F(ernie4_5)                                                                                    \
    F(hunyuan_v1_dense)                                                                            \
    F(seed_oss)                                                                                    \
    F(starcoder2)                                                                                  \
    F(stablelm)                                                                                    \
    F(arcee)                                                                                       \
    F(apertus)                                                                                     \
    F(lfm2)                                                                                        \
    F(qwen3_5)                                                                                     \
    F(qwen3_next)                                                                                  \
    F(mlp)

#define DECLARE(name) extern const model_family name##_family;
#define POINTER(name) &name##_family,
#define WORD(name)    #name,
FAMILIES(DECLARE)
const model_family *const MODEL_FAMILIES[] = {FAMILIES(POINTER) NULL};
const char *const MODEL_FAMILY_NAMES[] = {FAMILIES(WORD) NULL};

const model_family *model_family_find(const char *name)
{
    for (int i = 0; MODEL_FAMILIES[i]; i++)
        if (strcmp(MODEL_FAMILY_NAMES[i], name) == 0) return MODEL_FAMILIES[i];
    return NULL;
}
