// axolotl.h -- functions that the files of axolotl's dialect share. Private to axolotl*.c.
#ifndef TRIREME_CONFIG_DIALECT_TUNING_AXOLOTL_H
#define TRIREME_CONFIG_DIALECT_TUNING_AXOLOTL_H

#include "config/dialect/tuning/training_arguments.h"

extern const dialect_names AXOLOTL_IGNORED[]; // keys without a row
// Sets what several keys decide together.
status axolotl_finish(const dialect_reader *r, err *e);
// Sets data.train, data.valid and what is trained of them.
status axolotl_finish_data(const dialect_reader *r, err *e);
// Returns the word of a key that may be a truth value or another word: NULL for false, null and "".
const char *axolotl_word(const dialect_reader *r, const char *theirs);

#endif
