// accelerate_questions.h -- the questions of `accelerate config` as a table. Private to cmd/accelerate/.
#ifndef TRIREME_CMD_ACCELERATE_ACCELERATE_QUESTIONS_H
#define TRIREME_CMD_ACCELERATE_ACCELERATE_QUESTIONS_H

typedef enum config_query_kind {
    ASK_WORD,   // one of `words`, by its number from 0 or by itself
    ASK_RANK,   // a number below num_machines
    ASK_BOOL,   // yes or no
    ASK_WHOLE,  // a whole number
    ASK_NUMBER, // any number
    ASK_TEXT,   // any text
    REFUSE      // nothing is asked: these answers together are refused
} config_query_kind;

typedef struct config_query {
    config_query_kind kind;
    const char *name;     // dotted path in the file; "?name": it decides about other questions only
    const char *text;     // what the user reads
    const char *fallback; // the answer to an empty line; NULL: there is none
    const char *words;    // ASK_WORD: separated by spaces, as they are shown
    const char *values;   // ASK_WORD: in the file, in the same order; NULL: the words
    // Conditions, separated by spaces, all of which must hold: "name=a|b" is answered so, "name!a|b" is answered
    // otherwise, "name~a" is not answered so, "name>2" is answered with a larger number. NULL: always.
    const char *when;
} config_query;

enum { QUESTION_COUNT = 82 };
extern const config_query QUESTIONS[QUESTION_COUNT]; // in the order in which they come up

#endif
