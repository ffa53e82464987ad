// trireme.h -- Trireme as a library: trains a neural network on many devices from your own program.
// This is the only public header. It is C17 and can be included from C++. In order of use:
//
//   1 errors   2 a job   3 your own data   4 your own model   5 training   6 text from a model
//
// A job has the keys of a job file (`trireme train --help` lists them). trm_run starts the ranks of
// the job, and each rank calls your function with a trainer. Functions marked *Collective* must be
// called by every rank, in the same order, with the same arguments.
//
// Functions that can fail return a trm_status and fill a trm_error (NULL allowed). They print
// nothing, never end the process, and change none of its signal handlers. Two signals follow:
//
//   SIGXFSZ  A program that limits the size of files should ignore it, so that a write fails.
//   SIGBUS   It is raised when another program truncates a data file in use. A rank that is a
//            process ends, and the error of trm_run names the file. A rank that is a thread raises
//            it in your process.
//
// A NULL handle is not checked. A handle is used by one thread at a time: the one that opened it.
#ifndef TRIREME_H
#define TRIREME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define TRM_API                         __attribute__((visibility("default")))
#define TRM_FORMAT(format_index, first) __attribute__((format(printf, format_index, first)))
#else
#define TRM_API
#define TRM_FORMAT(format_index, first)
#endif

#ifdef __cplusplus
extern "C" {
#endif

// ---- 1 Errors ----------------------------------------------------------------------------------

// The exit codes of the program `trireme`, which your main may return.
typedef enum trm_status {
    TRM_OK = 0,
    TRM_FAILED = 1,       // the run failed: a file, a lost rank, NaN or Inf
    TRM_USAGE = 2,        // a wrong argument, key or input; nothing was started or changed
    TRM_TOO_LARGE = 3,    // the job does not fit in memory
    TRM_END = 4,          // returned by read_own (below) only: the rank has no more samples
    TRM_INTERRUPTED = 130 // a rank's function ended early without an error
} trm_status;

// One line that names the file, key or rank, what was found and what is valid.
typedef struct trm_error {
    trm_status code;
    char text[1024];
} trm_error;

// The version of the loaded library: "0.1.0".
TRM_API const char *trm_version(void);

// Fills `error` (NULL allowed) and returns `code`, for failures of your own code. In a callback or
// a rank's function: `return trm_fail(error, TRM_FAILED, "sample %d is empty", i);`
TRM_API trm_status trm_fail(trm_error *error, trm_status code, const char *format, ...)
    TRM_FORMAT(3, 4);

// ---- 2 A job -----------------------------------------------------------------------------------

typedef struct trm_job trm_job;

// Opens a job from a job file. With path NULL all keys have their defaults. Close it with
// trm_job_close. TRM_USAGE names the file, line and key that is wrong.
TRM_API trm_status trm_job_open(const char *path, trm_job **out, trm_error *error);
TRM_API void trm_job_close(trm_job *job); // NULL allowed

// Sets a key by its dotted path, as on the command line: "train.steps", "100"; "model.layers",
// "4"; lists as "a,b". It wins over the file and over earlier calls. TRM_USAGE for an unknown key
// or an invalid value; then the job is as before. trm_job_explain and trm_run check whether keys
// agree with each other.
//
// Mesh, policy and memory are keys, too. Your own data and model run under any of them:
// "parallel.dp", "zero3"; "parallel.tp", "2"; "parallel.offload.optimizer", "file".
//
// train.eval_every, train.save_every and train.eval_batches have no effect, because a program
// evaluates and saves by its own calls. Ranks are processes unless launch.as is "threads".
TRM_API trm_status trm_job_set(trm_job *job, const char *key, const char *value, trm_error *error);

// Sets keys from a string of YAML, as a job file has it: "optimizer: {lr: 1e-3}", or many lines. The
// later call wins. On TRM_USAGE, which names "yaml", the line and the key, nothing changes.
TRM_API trm_status trm_job_set_yaml(trm_job *job, const char *yaml, trm_error *error);

// Adds a parameter group behind earlier ones, as add_param_group of torch.optim does: the tensors of
// model.safetensors whose names match `match` ("*" stands for any characters), but for those of an
// earlier group. `settings` are keys of an entry of `groups`, as "lr_scale: 2, eps: 1e-6"; NULL: none.
// TRM_USAGE names what is wrong; then the job is as before. trm_run refuses a pattern without a match.
TRM_API trm_status trm_job_add_group(trm_job *job, const char *match, const char *settings,
                                     trm_error *error);

// Reads a configuration of another system ("deepspeed": ds.json) from a file, or from a string, as a
// program in Python gives a dict. It counts as on the command line: it wins over the job file, and
// trm_job_set wins over it. *lost (NULL allowed) has a line for each value that has no equal and so
// changes the run, or is NULL; it belongs to the job until the next such call.
TRM_API trm_status trm_job_read_dialect(trm_job *job, const char *system, const char *path,
                                        const char **lost, trm_error *error);
TRM_API trm_status trm_job_set_dialect(trm_job *job, const char *system, const char *text,
                                       const char **lost, trm_error *error);

// Explains what trm_run would do: every value and its origin, the bytes of a rank, the schedule of a
// step. *text belongs to the job until the next such call. The errors are those of trm_run.
TRM_API trm_status trm_job_explain(trm_job *job, const char **text, trm_error *error);

typedef enum trm_event_kind {
    TRM_EVENT_START, // ranks, steps; step: of the checkpoint that the run resumed from, or 0
    TRM_EVENT_STEP, // step, steps, loss, grad_norm, lr, tokens, seconds, tokens_per_s, mfu, skipped
    TRM_EVENT_EVAL, // step, loss
    TRM_EVENT_SAVE, // step, text: the folder; saved_bytes, seconds
    TRM_EVENT_NOTE, // text: a line for the user
    TRM_EVENT_STRAGGLER, // step, rank, host, text: the cause; share, chronic
    TRM_EVENT_VERDICT,   // verdict: its name; text: its line; next: what to try
    TRM_EVENT_ERROR,     // rank, text
    TRM_EVENT_END        // step, text: "done", "interrupted" or "failed"; seconds
} trm_event_kind;

// What a run tells, as log.jsonl does. A member that the kind does not have, or that is not known, is
// 0, NULL or false; a double is NaN, and step, steps and rank are -1.
typedef struct trm_event {
    size_t bytes; // of this struct in the loaded library; later versions append members
    trm_event_kind kind;
    int ranks, rank;
    int64_t step, steps;
    double loss, grad_norm, lr; // as in trm_step
    double seconds;             // of the step, the checkpoint or the run
    double tokens, tokens_per_s, mfu;
    double share; // of a step, in which other ranks waited for the straggler
    int64_t saved_bytes;
    const char *text, *host, *verdict, *next;
    bool skipped, chronic;
} trm_event;

// Takes an event. Its texts belong to the library until the return. A status other than TRM_OK ends the
// run with this error.
typedef trm_status (*trm_sink)(void *context, const trm_event *event, trm_error *error);

// Calls `sink` for each event of trm_run, from the first step or checkpoint on, behind sinks that were
// added before. Rank 0 calls it: where ranks are processes, with rank 0's copy of `context`. Only
// TRM_EVENT_ERROR and the end behind it come from trm_run itself, when all ranks have ended; what the
// sink returns then is ignored. `context` is borrowed until trm_job_close.
TRM_API trm_status trm_job_add_sink(trm_job *job, trm_sink sink, void *context, trm_error *error);

// ---- 3 Your own data ---------------------------------------------------------------------------

// Samples of your program, instead of the files of data.train or data.valid. A sample has
// `positions` positions: the tokens of a sequence, or 1 for a single vector.
typedef struct trm_dataset {
    uint64_t samples;  // in an epoch; 0 with read_own
    int64_t positions; // of a sample
    int64_t features;  // fp32 numbers of a position; 0: each position is a token id
    int64_t targets;   // fp32 targets of a position; 0: a class or token id, -100 = ignored
    // Reads one sample, 0 <= sample < samples:
    //   inputs  float [positions, features], or int32_t [positions]
    //   labels  float [positions, targets], or int32_t [positions]
    // A sample must have the same contents on every rank and in every call. Several threads call it
    // at once. Ids are checked against the model's vocabulary and classes.
    trm_status (*read)(void *context, uint64_t sample, void *inputs, void *labels,
                       trm_error *error);
    void *context; // passed to read and read_own
    // Instead of read, for training data: each data-parallel rank reads samples of its own, without
    // shuffling and without epochs. It reads sample `index` of data-parallel rank `rank`, 0 <= rank
    // < ranks. Ranks that share a batch (of tensor parallelism, or stages of a pipeline) have the
    // same `rank` and must read the same contents. Indices rise by 1, from 0 or from the first one
    // that a resumed run has not read. TRM_END: the rank has no sample of this or a later index.
    // Ranks may run out of data in different steps. A rank without data takes part in the step with
    // padding rows, which are not counted. Loss and gradients are always means over the samples
    // that were read. When no rank has data, the run has ended.
    trm_status (*read_own)(void *context, int rank, int ranks, uint64_t index, void *inputs,
                           void *labels, trm_error *error);
    // A sample is several documents, which do not see each other, one after the other. `inputs` is
    // int32_t [2, positions]: ids, and then for each position the one at which its document begins,
    // from which its positions count. The label of the position before a start is ignored.
    bool packed;
} trm_dataset;

typedef enum trm_part { TRM_TRAIN, TRM_VALID } trm_part;

// Makes the job read `data`, which is copied; its context is borrowed until trm_job_close.
// TRM_USAGE for impossible shapes, and of trm_run if the job also names files for the same part.
TRM_API trm_status trm_job_use_data(trm_job *job, trm_part part, const trm_dataset *data,
                                    trm_error *error);

// ---- 4 Your own model --------------------------------------------------------------------------
//
// A family writes the forward pass block by block; Trireme derives backward, memory and cost. The
// first block starts with trm_ids or trm_features, every other block with trm_input. The last block
// ends with a loss, every other block with trm_output. A value is a matrix; its rows are the
// positions of all samples of the micro-batch, which is what "rows" means below.
//
// Call the builder's functions inside `trace` only. After a mistake they return NULL, and they
// accept NULL as an argument. So `trace` needs no checks: trm_run returns the first mistake as its
// error.

typedef struct trm_builder trm_builder;
typedef struct trm_value trm_value; // belongs to the builder

typedef struct trm_family {
    const char *name;                  // model_type of config.json
    int (*blocks)(const void *config); // returns the number of blocks: 1 to 4096
    // Returns equal numbers for blocks with equal forward passes; such blocks share one graph.
    // NULL: all blocks differ.
    int (*key)(const void *config, int block);
    // Returns the number that replaces "{}" in names of parameters. NULL: the block's number.
    int (*layer)(const void *config, int block);
    // Writes the forward pass of a block with the functions below. A pure function.
    void (*trace)(trm_builder *b, const void *config, int block);
} trm_family;

// Makes the job train this family instead of the one of model.*. `family` is copied; its name, its
// functions and `config` are borrowed until trm_job_close. config_json is copied and becomes the
// config.json of checkpoints; NULL: {"model_type": NAME}. TRM_USAGE when a function is missing.
TRM_API trm_status trm_job_use_model(trm_job *job, const trm_family *family, const void *config,
                                     const char *config_json, trm_error *error);

TRM_API trm_value *trm_ids(trm_builder *b);                    // [rows] token ids of the inputs
TRM_API trm_value *trm_features(trm_builder *b, int64_t cols); // [rows, cols] inputs
TRM_API trm_value *trm_input(trm_builder *b, int64_t cols);    // [rows, cols] of the block before
TRM_API void trm_output(trm_builder *b, trm_value *x); // becomes trm_input of the next block

typedef enum trm_init { TRM_NORMAL, TRM_ONES, TRM_ZEROS } trm_init;

// A parameter [rows, cols], or a vector [rows] if cols is 0. `name` is its tensor in
// model.safetensors, at most 95 bytes; blocks that use one name share it. std is of TRM_NORMAL.
TRM_API trm_value *trm_weight(trm_builder *b, const char *name, int64_t rows, int64_t cols,
                              trm_init init, double std);

// The role of a dimension of a parameter. VOCAB, HEADS and MLP are sharded over tensor-parallel
// ranks (parallel.tp), whose number must divide the number of heads and the inner widths.
typedef enum trm_role {
    TRM_NO_ROLE,
    TRM_VOCAB, // tokens: rows of the embedding's table or of the weight of trm_cross_entropy
    TRM_EMBED, // the hidden size, which passes between blocks
    TRM_HEADS, // queries, keys and values of trm_attention, or its result
    TRM_MLP    // an inner width of an MLP
} trm_role;

// Sets the roles of parameter w; call it right after its trm_weight. The cols of a vector are
// TRM_NO_ROLE. Without this call w is replicated on all tensor-parallel ranks; a model without any
// such call cannot use parallel.tp. Sizes are always those of the full model. A layer [MLP, EMBED]
// is column-parallel: each rank computes its columns of the result, and activations, trm_glu and
// trm_attention work on those. The layer [EMBED, MLP] after them is row-parallel: its result is
// summed over the ranks. Only one of the two dimensions of a parameter may be sharded.
TRM_API void trm_roles(trm_builder *b, trm_value *w, trm_role rows, trm_role cols);
// How model.safetensors stores parameter w: as its transpose; or as several tensors with `rows`
// rows each, in the order of the calls (at most 3).
TRM_API void trm_stored_transposed(trm_builder *b, trm_value *w);
TRM_API void trm_stored_rows(trm_builder *b, trm_value *w, const char *name, int64_t rows);

// Row ids[r] of `tokens` [V, C], plus row r % positions of `positions` [P, C] (NULL: none)
// -> [rows, C]
TRM_API trm_value *trm_embedding(trm_builder *b, trm_value *ids, trm_value *tokens,
                                 trm_value *positions);
// x w^T + bias.   x [rows, in], w [out, in], bias [out] or NULL -> [rows, out]
TRM_API trm_value *trm_linear(trm_builder *b, trm_value *x, trm_value *w, trm_value *bias);
// Normalizes each row of x [rows, C]; gain [C], bias [C] or NULL -> [rows, C]
TRM_API trm_value *trm_layer_norm(trm_builder *b, trm_value *x, trm_value *gain, trm_value *bias,
                                  double eps);
TRM_API trm_value *trm_rms_norm(trm_builder *b, trm_value *x, trm_value *gain, double eps);
// Rotary position embedding: rotates pair i of each of the first `heads` heads of x by position x
// frequency[i]. It overwrites x, so no other function may read x. `positions` is the length of the
// longest sequence; frequency [half] is copied and must be equal in all blocks.
TRM_API trm_value *trm_rope(trm_builder *b, trm_value *x, int64_t heads, int64_t head_dim,
                            int64_t positions, const double *frequency, int64_t half);
// Causal self-attention. qkv is a result of trm_linear or trm_rope: `heads` queries, kv_heads keys
// and kv_heads values of head_dim numbers each, in this order. The usual scale is 1/sqrt(head_dim).
//   qkv [rows, (heads + 2 kv_heads) head_dim] -> [rows, heads head_dim]
TRM_API trm_value *trm_attention(trm_builder *b, trm_value *qkv, int64_t heads, int64_t kv_heads,
                                 int64_t head_dim, double scale, double dropout);

typedef enum trm_act { TRM_GELU, TRM_GELU_TANH, TRM_RELU, TRM_SILU, TRM_TANH, TRM_RELU2 } trm_act;

TRM_API trm_value *trm_activation(trm_builder *b, trm_value *x, trm_act act);
// act(gate) * up, of x = [gate | up] [rows, 2 F] -> [rows, F]
TRM_API trm_value *trm_glu(trm_builder *b, trm_value *x, trm_act act);
TRM_API trm_value *trm_add(trm_builder *b, trm_value *x, trm_value *y); // of the same shape
TRM_API trm_value *trm_dropout(trm_builder *b, trm_value *x, double p); // while training only

// The last linear layer and the loss: the mean over all ranks and positions of the cross-entropy of
// softmax(x w^T + bias), w [classes, C], or of the squared error of x w^T + bias, w [targets, C].
TRM_API void trm_cross_entropy(trm_builder *b, trm_value *x, trm_value *w, trm_value *bias);
TRM_API void trm_square_error(trm_builder *b, trm_value *x, trm_value *w, trm_value *bias);

// ---- 5 Training --------------------------------------------------------------------------------

typedef struct trm_trainer trm_trainer; // the trainer of one rank; belongs to trm_run

// The function of a rank. A status other than TRM_OK ends the run on all ranks.
typedef trm_status (*trm_rank_main)(trm_trainer *t, void *arg, trm_error *error);

// Checks the job, its data, its model and its memory. Then it starts launch.ranks ranks, opens a
// trainer on each, with equal weights on all, and calls fn with it. It returns when all ranks have
// ended. The error is that of the first rank that failed: "rank 1: …". It may be called again.
// With its first step or checkpoint a run starts to write train.out/log.jsonl, in the format of
// `trireme train`. Where a launcher (torchrun, mpirun, srun) has started a process for each rank, each
// calls trm_run with the same job, data and model; rank 0's job counts, and all get one error.
//
// By default ranks are processes, which are forked from the caller: they see a copy of `arg`, and
// the caller does not see what they write to memory. TRM_USAGE if the process has other threads at
// that time (training with threads and trm_decoder_open leave some). With launch.as "threads" ranks
// share all memory, and the process may have other threads.
TRM_API trm_status trm_run(trm_job *job, trm_rank_main fn, void *arg, trm_error *error);

TRM_API int trm_trainer_rank(const trm_trainer *t);  // this rank, 0 to trm_trainer_ranks - 1
TRM_API int trm_trainer_ranks(const trm_trainer *t); // the number of ranks
// A line about a setting that could not take full effect (a file system without O_DIRECT, a host
// tier on a device that has no other memory), or NULL. Belongs to the trainer.
TRM_API const char *trm_trainer_note(const trm_trainer *t);

typedef struct trm_step {
    uint64_t step, steps; // finished optimizer steps, including this one; steps of the job
    double loss;          // mean over the global batch, before the update
    double grad_norm;     // over all parameters, before clipping
    double lr;            // learning rate of this step
    double positions;     // tokens (or vectors) of the global batch; fewer after a TRM_END
    double seconds;
    bool skipped;   // no update, because of NaN or Inf (checks.nonfinite: skip)
    bool exhausted; // no rank had data (read_own), so there was no step; `step` is the last one
} trm_step;

// The steps that are left: 0 after train.steps, after a requested stop, or when no rank has more
// data. Equal on all ranks, so `while (trm_trainer_steps_left(t) > 0)` is a training loop.
TRM_API uint64_t trm_trainer_steps_left(const trm_trainer *t);
// Runs one optimizer step. *out may be NULL. TRM_FAILED, before the update, where the loss or a
// gradient is not finite; the error names rank, step and tensor. *Collective over all ranks.*
TRM_API trm_status trm_trainer_step(trm_trainer *t, trm_step *out, trm_error *error);

// A step in parts, for loops that are ported (docs/porting.md): forward, backward and step of each
// micro-batch. They execute the instructions of trm_trainer_step, with the same bits. TRM_USAGE, and
// no effect, for another order, for parallel.pp above 1, and for other functions of the trainer
// before the step has ended. *Collective over all ranks.*
//
// *loss is the mean over the valid positions of this rank's micro-batch; NaN where it has none
// (padding; tensor-parallel ranks but the first). With NULL the host does not wait for it.
TRM_API trm_status trm_engine_forward(trm_trainer *t, double *loss, trm_error *error);
TRM_API trm_status trm_engine_backward(trm_trainer *t, trm_error *error); // adds to the gradients
// Returns whether the micro-batch, or after its step the next one, is the last one of a step.
TRM_API bool trm_engine_is_boundary(const trm_trainer *t);
// At the boundary: clips, updates, and fills *out (NULL allowed). Before it: changes nothing.
TRM_API trm_status trm_engine_step(trm_trainer *t, trm_step *out, trm_error *error);

typedef struct trm_bucket_tensor {
    const char *name;    // of the parameter
    size_t first, count; // its elements in the bucket
} trm_bucket_tensor;
// Gradients that are reduced together: this rank's sums over the positions of its micro-batches, in
// fp16 times the loss scale. Elements between tensors have no meaning.
typedef struct trm_bucket {
    int index;     // from the first layers on, which are reduced last
    bool is_last;  // of the step
    float *buffer; // [count] fp32, in the host's memory
    size_t count;
    int tensors;
    const trm_bucket_tensor *tensor; // [tensors]
} trm_bucket;
// Leaves the sum over the ranks in bucket->buffer; the update divides it by all positions.
typedef trm_status (*trm_comm_hook)(void *state, trm_trainer *t, const trm_bucket *bucket,
                                    trm_error *error);
// Calls `hook` for each bucket in place of the all-reduce, as DDP does, and waits for it; NULL: none.
// TRM_USAGE where ranks reduce gradients to shards or compress them, or the device is not cpu.
TRM_API trm_status trm_trainer_register_comm_hook(trm_trainer *t, void *state, trm_comm_hook hook,
                                                  trm_error *error);
// In a hook: sums elements first … first + count - 1 over the data-parallel ranks. *Collective.*
TRM_API trm_status trm_bucket_all_reduce(trm_trainer *t, size_t first, size_t count,
                                         trm_error *error);

// Requests that the run stops: after the next step trm_trainer_steps_left is 0 on every rank. Any
// rank may call it, at any time, also in a signal handler.
TRM_API void trm_trainer_stop(trm_trainer *t);

// Computes the mean loss over the first `batches` global batches of the validation data; 0 = all.
// For data with targets it leaves out the last samples, if they do not fill a micro-batch on every
// rank. Does not change weights. *Collective over all ranks.*
TRM_API trm_status trm_trainer_evaluate(trm_trainer *t, int64_t batches, double *loss,
                                        trm_error *error);

// The kind of prediction for each position of a sample.
typedef enum trm_prediction {
    // float: the logits of all classes or tokens. A model with squared error has none.
    TRM_LOGITS,
    // int32_t: the class with the largest logit, the first of equal ones; -1 if all are NaN.
    TRM_CLASSES,
    // float: the predicted targets of a model with squared error; else the input of the last linear
    // layer.
    TRM_VECTORS
} trm_prediction;

// The numbers of a position: of classes or tokens, 1, or the vector's. 0: no such prediction.
TRM_API int64_t trm_trainer_width(const trm_trainer *t, trm_prediction what);
// Predicts for the caller's samples. The inputs have the layout of trm_dataset.read: float
// [samples, positions, features], or int32_t [samples, positions], or [samples, 2, positions] where
// the training data are packed. All ranks pass the same inputs; each computes some of the samples.
// `out` belongs to the caller and receives, in the order of the samples,
//   [samples, positions, width]
//   [samples, width]             with last_only, for the last position of each sample
// on every rank that does not pass NULL. `count` must be that product. TRM_USAGE for another count,
// a token outside the vocabulary, or a prediction that the model does not have; then nothing is
// computed. Dropout is off. Weights and the order of the data do not change. *Collective over all
// ranks.*
TRM_API trm_status trm_trainer_predict(trm_trainer *t, trm_prediction what, bool last_only,
                                       const void *inputs, int64_t samples, void *out, size_t count,
                                       trm_error *error);

// Writes the checkpoint train.out/checkpoints/step-NNNNNNNN, a HuggingFace folder, and points
// checkpoints/latest to it. It is written to disk completely, or does not appear. train.keep
// applies. The first step or checkpoint of a run that did not resume from train.out moves an earlier
// run's files there to log-1.jsonl, checkpoints-1, …. *Collective over all ranks.*
TRM_API trm_status trm_trainer_save(trm_trainer *t, trm_error *error);
// Resumes from a checkpoint, bit for bit: weights, optimizer state, step and position in the data.
// `folder` is a checkpoint, or the folder of a run, whose newest valid checkpoint is taken. NULL
// means train.out; if it has no checkpoint, nothing happens. TRM_USAGE names the folder and the
// keys if the checkpoint has another model, optimizer, precision, seed, batch or sequence length.
// The first step after an older checkpoint of train.out moves later ones to checkpoints-1.
// *Collective over all ranks.*
TRM_API trm_status trm_trainer_resume(trm_trainer *t, const char *folder, trm_error *error);

// A tensor of the model under its name in model.safetensors.
typedef struct trm_tensor {
    const char *name;   // belongs to the trainer
    int64_t rows, cols; // cols 0: a vector
} trm_tensor;

// Tensor number `index` of the model, from 0 on; false after the last one.
TRM_API bool trm_trainer_tensor(const trm_trainer *t, int index, trm_tensor *out);
// Copies a tensor's fp32 values, `count` elements in the order of the file. TRM_USAGE for an
// unknown name or a count other than the tensor's size. Writing uses the values of rank 0.
// *Collective over all ranks*, because each rank may have a shard of the tensor.
TRM_API trm_status trm_trainer_read(trm_trainer *t, const char *name, float *out, size_t count,
                                    trm_error *error);
TRM_API trm_status trm_trainer_write(trm_trainer *t, const char *name, const float *in,
                                     size_t count, trm_error *error);

// ---- 6 Text from a model -----------------------------------------------------------------------

typedef struct trm_decoder trm_decoder; // one token sequence with its key-value cache

// Opens a model folder (a checkpoint, or a HuggingFace folder) to continue token sequences. family
// NULL is the one that config.json names; else it is yours, with its config, borrowed until
// trm_decoder_close. max_tokens is the largest length of prompt and answer together, at most the
// model's positions. It computes in fp32 on all cores. TRM_USAGE names what is missing or wrong.
TRM_API trm_status trm_decoder_open(const char *folder, const trm_family *family,
                                    const void *config, int64_t max_tokens, trm_decoder **out,
                                    trm_error *error);
TRM_API void trm_decoder_close(trm_decoder *d); // NULL allowed

// Appends `count` tokens to the sequence. *logits (logits NULL allowed) are the logits of the next
// token, float [trm_decoder_vocab]; they belong to the decoder until the next call. TRM_USAGE where
// max_tokens is exceeded or an id is outside the vocabulary; then the sequence is as before.
TRM_API trm_status trm_decoder_feed(trm_decoder *d, const int32_t *ids, int64_t count,
                                    const float **logits, trm_error *error);
// Draws the token after the sequence, without appending it. temperature 0 takes the most likely one.
// top_k (0: off) and top_p (1: off) first remove unlikely ones. A seed always draws the same one.
TRM_API trm_status trm_decoder_sample(trm_decoder *d, double temperature, int64_t top_k,
                                      double top_p, uint64_t seed, int32_t *id, trm_error *error);
TRM_API int64_t trm_decoder_vocab(const trm_decoder *d);
TRM_API void trm_decoder_rewind(trm_decoder *d); // empties the sequence

typedef struct trm_tokenizer trm_tokenizer;

// Reads a tokenizer.json (byte-level BPE).
TRM_API trm_status trm_tokenizer_open(const char *path, trm_tokenizer **out, trm_error *error);
TRM_API void trm_tokenizer_close(trm_tokenizer *t); // NULL allowed
// Encodes `bytes` bytes of UTF-8. *ids [*count] belongs to the tokenizer until the next call.
TRM_API trm_status trm_tokenizer_encode(trm_tokenizer *t, const char *text, size_t bytes,
                                        const int32_t **ids, size_t *count, trm_error *error);
// Decodes ids to a zero-terminated text without special tokens. The text belongs to the tokenizer
// until the next call. It may end inside a character.
TRM_API const char *trm_tokenizer_decode(trm_tokenizer *t, const int32_t *ids, size_t count);
TRM_API int32_t trm_tokenizer_end(const trm_tokenizer *t); // id of the end-of-text token; -1: none

#ifdef __cplusplus
}
#endif

#endif
