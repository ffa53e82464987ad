// trireme.h -- Trireme as a library: train a neural network on many devices from a program of your
// own. The only public header; C17, readable from C++. In order of use:
//
//   1 errors   2 a job   3 your own data   4 your own model   5 training   6 text from a model
//
// A job says everything that a job file says (`trireme train --help` lists the keys). trm_run
// starts its ranks, and each of them calls your function with a trainer. What a rank may not do
// alone is marked *Collective*: every rank calls it, in the same order, with the same arguments.
//
// Functions that can fail return a trm_status and fill a trm_error (NULL allowed) when they do.
// They print nothing and never end the process, and change none of its signal handlers: a program
// that limits the size of files ignores SIGXFSZ, so that a write fails instead; and a data file
// that another program cuts off while it is in use raises SIGBUS in ranks that are threads (ranks
// that are processes end, and the error of trm_run names the file). A NULL handle is a mistake that
// is not caught. Handles are used by one thread at a time, which is the one that opened them.
#ifndef TRIREME_H
#define TRIREME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define TRM_API            __attribute__((visibility("default")))
#define TRM_FORMAT(at, to) __attribute__((format(printf, at, to)))
#else
#define TRM_API
#define TRM_FORMAT(at, to)
#endif

#ifdef __cplusplus
extern "C" {
#endif

// ---- 1 Errors ----------------------------------------------------------------------------------

// The exit codes of the program `trireme`: main may return one.
typedef enum trm_status {
    TRM_OK = 0,
    TRM_FAILED = 1,       // the run failed: a file, a lost rank, NaN or Inf
    TRM_USAGE = 2,        // a wrong argument, key or input; nothing was started or changed
    TRM_TOO_LARGE = 3,    // does not fit in memory
    TRM_END = 4,          // only from read_own, below: there is no such sample
    TRM_INTERRUPTED = 130 // a rank's function ended early, in good order
} trm_status;

// One line that names file, key or rank, what was found and what is valid.
typedef struct trm_error {
    trm_status code;
    char text[1024];
} trm_error;

// The version of the library that runs: "0.1.0".
TRM_API const char *trm_version(void);

// Fills `error` (NULL allowed) for a failure of your own code and returns `code`: in a callback or
// a rank's function, `return trm_fail(error, TRM_FAILED, "sample %d is empty", i);`
TRM_API trm_status trm_fail(trm_error *error, trm_status code, const char *format, ...)
    TRM_FORMAT(3, 4);

// ---- 2 A job -----------------------------------------------------------------------------------

typedef struct trm_job trm_job;

// A job from a job file, or without one (path NULL): all keys at their defaults. Close it with
// trm_job_close. TRM_USAGE names file, line and key of what is wrong.
TRM_API trm_status trm_job_open(const char *path, trm_job **out, trm_error *error);
TRM_API void trm_job_close(trm_job *job); // NULL allowed

// Sets a key by its dotted path, as on the command line: "train.steps", "100"; "model.layers",
// "4"; lists as "a,b". It wins over the file and over earlier calls. TRM_USAGE for an unknown key
// or a value that it cannot have, and the job is as before. Whether keys agree with each other is
// checked when the job is complete, by trm_job_explain and trm_run.
//
// Mesh, policy and memory are keys, too, and all that a program brings itself runs under any of
// them: "parallel.dp", "zero3"; "parallel.tp", "2"; "parallel.offload.optimizer", "file".
//
// What a program does by its own calls has no effect as a key: train.eval_every, train.save_every,
// train.eval_batches. Ranks are processes unless launch.as is "threads".
TRM_API trm_status trm_job_set(trm_job *job, const char *key, const char *value, trm_error *error);

// Sets keys from a string of YAML, as a job file has them: "optimizer: {lr: 1e-3}", or many lines.
// As trm_job_set in all else: the later call wins, and nothing changes on TRM_USAGE, which names
// "yaml", line and key.
TRM_API trm_status trm_job_set_yaml(trm_job *job, const char *yaml, trm_error *error);

// What trm_run would do: every value and where it comes from, bytes per rank, the schedule of a
// step. *text belongs to the job until it is explained again or closed. Same errors as trm_run.
TRM_API trm_status trm_job_explain(trm_job *job, const char **text, trm_error *error);

// ---- 3 Your own data ---------------------------------------------------------------------------

// Numbered samples, instead of the files of data.train or data.valid. A sample has `positions`
// positions: the tokens of a sequence, or 1 when it is a lone vector.
typedef struct trm_dataset {
    uint64_t samples;  // an epoch's length; 0 with read_own
    int64_t positions; // of a sample
    int64_t features;  // fp32 numbers a position; 0: each position is a token id
    int64_t targets;   // fp32 targets a position; 0: a class or token id, -100 = ignored
    // Reads sample 0 <= sample < samples:
    //   inputs  float [positions, features], or int32_t [positions]
    //   labels  float [positions, targets], or int32_t [positions]
    // The same sample must read the same on every rank, whenever it is asked for. Called on several
    // threads at once. Ids are checked against the model's vocabulary and classes.
    trm_status (*read)(void *context, uint64_t sample, void *inputs, void *labels,
                       trm_error *error);
    void *context; // handed to read and read_own
    // Or, instead of read, training data that each data-parallel rank has for itself, without an
    // order by seed and without epochs: sample `index` of rank 0 <= rank < ranks. Ranks are counted
    // along data parallelism: those that share a batch (tensor parallelism, a pipeline's stages)
    // have the same number and must read the same. Indices are asked for in order from 0 on, or
    // from where a resumed run goes on. TRM_END: the rank has no such sample, nor any later one.
    //
    // Ranks may end at different times and none waits for another: one without data goes on taking
    // part, with positions that count for nothing. Loss and gradients are always the means over
    // the samples that there were. When the data of all ranks have ended, so has the run.
    trm_status (*read_own)(void *context, int rank, int ranks, uint64_t index, void *inputs,
                           void *labels, trm_error *error);
} trm_dataset;

typedef enum trm_part { TRM_TRAIN, TRM_VALID } trm_part;

// From now on the job reads `data` (copied; its context is borrowed until trm_job_close). TRM_USAGE
// for impossible shapes; when the job names files for the same part, trm_run says so.
TRM_API trm_status trm_job_use_data(trm_job *job, trm_part part, const trm_dataset *data,
                                    trm_error *error);

// ---- 4 Your own model --------------------------------------------------------------------------
//
// A family writes the forward pass, block by block; backward, memory and cost are derived. The
// first block takes trm_ids or trm_features, every other one trm_input; the last ends in a loss,
// all others in trm_output. Values are matrices of batch x positions rows; below, rows means those.
//
// The builder's functions are called inside `trace` only. They return NULL after a misuse, which
// they accept as an argument: write without checks, the first misuse is the error of trm_run.

typedef struct trm_builder trm_builder;
typedef struct trm_value trm_value; // belongs to the builder

typedef struct trm_family {
    const char *name;                            // as model_type in config.json
    int (*blocks)(const void *config);           // how many: 1 to 4096
    int (*key)(const void *config, int block);   // equal for blocks that trace alike, so that
                                                 // they share a graph; NULL: all differ
    int (*layer)(const void *config, int block); // what "{}" in names of parameters stands for;
                                                 // NULL: the block's number
    void (*trace)(trm_builder *b, const void *config, int block); // writes a block's forward pass.
                                                                  // A pure function
} trm_family;

// From now on the job trains this family instead of what model.* names. `family` is copied; its
// name, functions and `config` are borrowed until trm_job_close. config_json (copied) becomes
// config.json of checkpoints; NULL: {"model_type": NAME}. TRM_USAGE when a function is missing.
TRM_API trm_status trm_job_use_model(trm_job *job, const trm_family *family, const void *config,
                                     const char *config_json, trm_error *error);

TRM_API trm_value *trm_ids(trm_builder *b);                    // [rows] token ids of the data
TRM_API trm_value *trm_features(trm_builder *b, int64_t cols); // [rows, cols] of the data
TRM_API trm_value *trm_input(trm_builder *b, int64_t cols);    // [rows, cols] of the block before
TRM_API void trm_output(trm_builder *b, trm_value *x);         // what the next block takes

typedef enum trm_init { TRM_NORMAL, TRM_ONES, TRM_ZEROS } trm_init;

// A parameter [rows, cols], or a vector [rows] when cols is 0. `name` is that of its tensor in
// model.safetensors, at most 95 bytes. Blocks that use the same name share the parameter. std is
// the standard deviation of TRM_NORMAL.
TRM_API trm_value *trm_weight(trm_builder *b, const char *name, int64_t rows, int64_t cols,
                              trm_init init, double std);

// What a dimension of a parameter is. VOCAB, HEADS and MLP are split over the ranks of tensor
// parallelism (parallel.tp), which must divide heads and inner widths.
typedef enum trm_role {
    TRM_NO_ROLE,
    TRM_VOCAB, // token ids: of an embedding's table, of the weight of trm_cross_entropy
    TRM_EMBED, // the width between blocks
    TRM_HEADS, // queries, keys and values of trm_attention, or its result
    TRM_MLP    // an inner width
} trm_role;

// The roles of parameter w, right after its trm_weight; a vector's cols: TRM_NO_ROLE. Without this
// call every rank has all of w; a model without any such call cannot have parallel.tp. Sizes are
// always those of the whole model. A layer [MLP, EMBED] gives each rank its columns of the result,
// which activations, trm_glu and trm_attention work on; the layer [EMBED, MLP] after them sums over
// the ranks. At most one of both may be split.
TRM_API void trm_roles(trm_builder *b, trm_value *w, trm_role rows, trm_role cols);
// How files hold parameter w, where it differs: as its transpose; or as several tensors, `rows`
// rows of it in each, in the order of the calls (at most 3).
TRM_API void trm_stored_transposed(trm_builder *b, trm_value *w);
TRM_API void trm_stored_rows(trm_builder *b, trm_value *w, const char *name, int64_t rows);

// Row ids[r] of tokens [V, C], plus row r % positions of positions [P, C] (NULL: none) -> [rows, C]
TRM_API trm_value *trm_embedding(trm_builder *b, trm_value *ids, trm_value *tokens,
                                 trm_value *positions);
// x w^T + bias.   x [rows, in], w [out, in], bias [out] or NULL -> [rows, out]
TRM_API trm_value *trm_linear(trm_builder *b, trm_value *x, trm_value *w, trm_value *bias);
// Over each row of x [rows, C]; gain [C], bias [C] or NULL -> [rows, C]
TRM_API trm_value *trm_layer_norm(trm_builder *b, trm_value *x, trm_value *gain, trm_value *bias,
                                  double eps);
TRM_API trm_value *trm_rms_norm(trm_builder *b, trm_value *x, trm_value *gain, double eps);
// Rotary positions: turns pair i of each of the first `heads` heads of x by position x
// frequency[i]. It works in x's memory: nothing else may read x. `positions` is the longest
// sequence; frequency [half] is copied and the same in all blocks.
TRM_API trm_value *trm_rope(trm_builder *b, trm_value *x, int64_t heads, int64_t head_dim,
                            int64_t positions, const double *frequency, int64_t half);
// Causal self-attention. qkv is a result of trm_linear or trm_rope: heads queries, kv_heads keys
// and kv_heads values of head_dim each, in this order. scale: 1/sqrt(head_dim) as a rule.
//   qkv [rows, (heads + 2 kv_heads) head_dim] -> [rows, heads head_dim]
TRM_API trm_value *trm_attention(trm_builder *b, trm_value *qkv, int64_t heads, int64_t kv_heads,
                                 int64_t head_dim, double scale, double dropout);

typedef enum trm_act { TRM_GELU, TRM_GELU_TANH, TRM_RELU, TRM_SILU, TRM_TANH } trm_act;

TRM_API trm_value *trm_activation(trm_builder *b, trm_value *x, trm_act act);
// act(gate) * up, of x = [gate | up] [rows, 2 F] -> [rows, F]
TRM_API trm_value *trm_glu(trm_builder *b, trm_value *x, trm_act act);
TRM_API trm_value *trm_add(trm_builder *b, trm_value *x, trm_value *y); // of the same shape
TRM_API trm_value *trm_dropout(trm_builder *b, trm_value *x, double p); // while training only

// The losses, with the last linear layer in them: of x w^T + bias against the labels of the data.
// Means over all ranks and positions: softmax cross-entropy of w [classes, C], or squared error of
// w [targets, C].
TRM_API void trm_cross_entropy(trm_builder *b, trm_value *x, trm_value *w, trm_value *bias);
TRM_API void trm_square_error(trm_builder *b, trm_value *x, trm_value *w, trm_value *bias);

// ---- 5 Training --------------------------------------------------------------------------------

typedef struct trm_trainer trm_trainer; // a rank's part of the run; belongs to trm_run

// What a rank does. Another status than TRM_OK ends the run on all ranks.
typedef trm_status (*trm_rank_main)(trm_trainer *t, void *arg, trm_error *error);

// Checks the whole job, its data, model and memory; then starts launch.ranks ranks, opens a trainer
// on each (equal weights everywhere) and calls fn with it; returns when all ranks have
// ended. The error is the first failing rank's: "rank 1: …". May be called again. TRM_USAGE when
// the environment says that another launcher (torchrun, mpirun, srun) has started several
// processes. From its first step or checkpoint on a run writes train.out/log.jsonl, the log that
// `trireme train` writes.
//
// Ranks that are processes (the default) are forked from the caller: they see `arg` as it is now,
// and nothing that they write in memory comes back. It is TRM_USAGE when the process has other
// threads then (training with threads and trm_decoder_open leave some); ranks that are threads
// (launch.as: threads) share all memory and have no such condition.
TRM_API trm_status trm_run(trm_job *job, trm_rank_main fn, void *arg, trm_error *error);

TRM_API int trm_trainer_rank(const trm_trainer *t);  // this rank: 0 to trm_trainer_ranks - 1
TRM_API int trm_trainer_ranks(const trm_trainer *t); // how many there are
// One line for the user about what was asked for and could not quite be had (a file system that
// refuses O_DIRECT, a tier that is no other memory on this device), or NULL. The trainer's.
TRM_API const char *trm_trainer_note(const trm_trainer *t);

typedef struct trm_step {
    uint64_t step, steps; // optimizer steps finished, this one included; of how many
    double loss;          // mean over the global batch, before the update
    double grad_norm;     // global, before clipping
    double lr;            // learning rate of this step
    double positions;     // tokens (or vectors) of the global batch; fewer after a TRM_END
    double seconds;
    bool skipped;   // no update, because of NaN or Inf (checks.nonfinite: skip)
    bool exhausted; // no rank had data (read_own): nothing was done, `step` is the last one before
} trm_step;

// Steps that the job has left: 0 after train.steps, when a stop was asked for, or when the data of
// all ranks have ended. Equal on all
// ranks: `while (trm_trainer_steps_left(t) > 0)` is a training loop.
TRM_API uint64_t trm_trainer_steps_left(const trm_trainer *t);
// One optimizer step. *out may be NULL. TRM_FAILED, before the update, when loss or gradients are
// not finite: names rank, step and tensor. *Collective over all ranks.*
TRM_API trm_status trm_trainer_step(trm_trainer *t, trm_step *out, trm_error *error);
// Asks for the run to end in good order: trm_trainer_steps_left is 0 on every rank after the same
// step. Any rank may ask, at any time, also in a signal handler.
TRM_API void trm_trainer_stop(trm_trainer *t);

// Mean loss over the validation data: their first `batches` global batches, 0 = all. Of data with
// targets, samples that do not fill a micro-batch on every rank are left out. Changes nothing.
// *Collective over all ranks.*
TRM_API trm_status trm_trainer_evaluate(trm_trainer *t, int64_t batches, double *loss,
                                        trm_error *error);

// What is predicted for each position of a sample.
typedef enum trm_prediction {
    TRM_LOGITS,  // float: those of all classes or tokens; a model with squared error has none
    TRM_CLASSES, // int32_t: the one with the largest logit, of equal ones the first; -1: all are
                 // NaN
    TRM_VECTORS  // float: with squared error the predicted targets; else the vector that the last
                 // linear layer reads
} trm_prediction;

// How many numbers a position has: classes or tokens, 1, or the vector's width. 0: the model has no
// such prediction.
TRM_API int64_t trm_trainer_width(const trm_trainer *t, trm_prediction what);
// Predictions for samples of the caller's own, whose inputs lie one after the other as
// trm_dataset.read gives them: float [samples, positions, features], or int32_t [samples,
// positions]. All ranks pass the same inputs and share the work. out[count], the caller's, receives
//   [samples, positions, width], or with last_only, for the last position of each sample alone,
//   [samples, width]
// on every rank that does not pass NULL, in the order of the samples. count must be that product:
// TRM_USAGE otherwise, for a token outside the vocabulary, and for what the model has not; nothing
// is computed then. Dropout is off; weights and data order stay as they are. *Collective over all
// ranks.*
TRM_API trm_status trm_trainer_predict(trm_trainer *t, trm_prediction what, bool last_only,
                                       const void *inputs, int64_t samples, void *out, size_t count,
                                       trm_error *error);

// Writes checkpoint train.out/checkpoints/step-NNNNNNNN, a HuggingFace folder that
// checkpoints/latest then names; durable and complete, or not there at all. train.keep applies.
// What an earlier run left in train.out is kept beside (log-1.jsonl, checkpoints-1, …) at the first
// step or checkpoint of a run that did not resume from there. *Collective over all ranks.*
TRM_API trm_status trm_trainer_save(trm_trainer *t, trm_error *error);
// Goes on from a checkpoint, bit for bit: weights, optimizer, step, data. `folder` is a checkpoint,
// or the folder of a run, of which it is the newest valid one; NULL: train.out, and without any
// checkpoint there nothing happens. TRM_USAGE names the folder and the keys when it was saved by
// another model, optimizer, precision, seed, batch or sequence length. After an older checkpoint of
// train.out the first step moves all later ones to checkpoints-1. *Collective over all ranks.*
TRM_API trm_status trm_trainer_resume(trm_trainer *t, const char *folder, trm_error *error);

// A tensor of the model under its name in model.safetensors.
typedef struct trm_tensor {
    const char *name;   // belongs to the trainer
    int64_t rows, cols; // cols 0: a vector
} trm_tensor;

// Tensor number `index` of the model; false when there are not so many.
TRM_API bool trm_trainer_tensor(const trm_trainer *t, int index, trm_tensor *out);
// Copies a tensor's fp32 values, `count` elements in the order of the file. TRM_USAGE for an
// unknown name or a count that is not its size. Writing takes rank 0's values for all.
// *Collective over all ranks*, because each of them may hold a part.
TRM_API trm_status trm_trainer_read(trm_trainer *t, const char *name, float *out, size_t count,
                                    trm_error *error);
TRM_API trm_status trm_trainer_write(trm_trainer *t, const char *name, const float *in,
                                     size_t count, trm_error *error);

// ---- 6 Text from a model -----------------------------------------------------------------------

typedef struct trm_decoder trm_decoder; // one sequence, with its cache of keys and values

// A model folder (a checkpoint, or one from elsewhere) to continue token sequences with. family
// NULL: the one that config.json names; else your own, with its config (borrowed until the close).
// max_tokens: room for prompt and answer together, at most the model's positions. Runs in fp32 on
// all cores. TRM_USAGE names what is missing or does not fit.
TRM_API trm_status trm_decoder_open(const char *folder, const trm_family *family,
                                    const void *config, int64_t max_tokens, trm_decoder **out,
                                    trm_error *error);
TRM_API void trm_decoder_close(trm_decoder *d); // NULL allowed

// Appends `count` tokens to the sequence. *logits (NULL allowed) are then those of the next token,
// float [trm_decoder_vocab], owned by the decoder until the next call. TRM_USAGE when there is no
// room, or an id is outside the vocabulary; the sequence is as before.
TRM_API trm_status trm_decoder_feed(trm_decoder *d, const int32_t *ids, int64_t count,
                                    const float **logits, trm_error *error);
// Draws the next token after what was fed, without appending it: temperature 0 takes the most
// likely; top_k and top_p (0 and 1: off) cut the tail first. The same seed draws the same.
TRM_API trm_status trm_decoder_sample(trm_decoder *d, double temperature, int64_t top_k,
                                      double top_p, uint64_t seed, int32_t *id, trm_error *error);
TRM_API int64_t trm_decoder_vocab(const trm_decoder *d);
TRM_API void trm_decoder_rewind(trm_decoder *d); // forgets the sequence

typedef struct trm_tokenizer trm_tokenizer;

// Reads a tokenizer.json (byte-level BPE).
TRM_API trm_status trm_tokenizer_open(const char *path, trm_tokenizer **out, trm_error *error);
TRM_API void trm_tokenizer_close(trm_tokenizer *t); // NULL allowed
// Ids of `bytes` bytes of UTF-8. *ids belongs to the tokenizer until the next call.
TRM_API trm_status trm_tokenizer_encode(trm_tokenizer *t, const char *text, size_t bytes,
                                        const int32_t **ids, size_t *count, trm_error *error);
// Text of ids, zero-terminated, without special tokens; it belongs to the tokenizer until the next
// call. It may end inside a character.
TRM_API const char *trm_tokenizer_decode(trm_tokenizer *t, const int32_t *ids, size_t count);
TRM_API int32_t trm_tokenizer_end(const trm_tokenizer *t); // id of the end of text; -1: none

#ifdef __cplusplus
}
#endif

#endif
