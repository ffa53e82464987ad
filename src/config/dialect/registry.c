// registry.c -- the dialects by name. See dialect.h.
#include "config/dialect/dialect.h"

#include <string.h>

extern const dialect dialect_deepspeed, dialect_accelerate, dialect_megatron, dialect_instructlab,
    dialect_torch, dialect_tensorflow, dialect_trainer, dialect_trl, dialect_axolotl,
    dialect_llamafactory;

const dialect *const DIALECTS[] = {
    &dialect_deepspeed,
    &dialect_accelerate,
    &dialect_megatron,
    &dialect_instructlab,
    &dialect_torch,
    &dialect_tensorflow,
    &dialect_trainer,
    &dialect_trl,
    &dialect_axolotl,
    &dialect_llamafactory,
    NULL, // the end
};

const dialect *dialect_find(const char *name)
{
    for (int i = 0; DIALECTS[i]; i++)
        if (strcmp(DIALECTS[i]->name, name) == 0) return DIALECTS[i];
    return NULL;
}
