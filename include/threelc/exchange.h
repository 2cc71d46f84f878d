/* SPDX-License-Identifier: MIT
 *
 * The exchange: who sends what to whom, what is averaged, what residuals keep, and what happens when a machine fails.
 * Objects make messages and take messages. They do no I/O: the caller carries the bytes, over MPI, sockets, files, or
 * in a loop of one process.
 *
 *   parameter server (3LC, section 2 and Figure 2)       all-reduce
 *
 *     worker           server                              rank: worker and owner of parts of the tensors
 *       push  ------->  push (once for each worker)          push   -> to[i], one message to each rank
 *                       reduce, answer                       reduce <- from[i]   -> to_all   (not with gather)
 *       pull  <-------  one message, the same for all        pull   <- from[i], and the results
 *
 * The optimizer may be at the workers, who get means. Or it is at the owners: then they answer with what it changes in
 * the model (tlc_server_answer; tlc_allreduce_average and _answer in place of reduce).
 * A third way needs neither servers nor a common model: threelc/gossip.h.
 *
 * One object covers a list of tensors that travel together. All machines create theirs with equal tensors and equal
 * configurations; dtype, seed, isa, keep, backup, alloc and parallel may differ. Steps are counted from 1.
 *
 * Units: n, first and counts of values are in values; lengths are in bytes.
 * Buffers: messages that an object made belong to it. A push is valid until the next push, an answer until `keep` more
 * answers were made. Messages that it takes must stay as they are during the call; tlc_server_push says more. Gradients
 * and results have the dtype of the configuration and need no alignment. Names and codec strings may be gone after the
 * call that makes the object.
 * Failure: a call that fails with anything but TLC_ERR_STEP changes nothing (E1), except what `_outcome` tells: a
 * sentence that names who was called, the argument or message, and the tensor. `_create` tells it through the
 * configuration; only `_outcome` itself, functions without a status and calls without an object leave none. Any bytes
 * are safe (E3). Only `_create` allocates (E5). Objects serve one thread at a time.
 *
 * Promises:
 *   E1  A call that fails with anything but TLC_ERR_STEP changes nothing but what `_outcome` tells.
 *   E2  If a step fails, all who wait for it are told in the same step. Residuals take back what was sent, if the codec
 *       keeps one. In gossip a node that cannot move stays where it is, and its neighbours go on.
 *   E3  Any bytes are safe as messages and states.
 *   E4  All workers and ranks get the same bits. All replicas of a node are equal to its model, of ECD its estimate.
 *   E5  No function allocates after `_create`.
 *   E6  To rounding, the gradients of a worker that were not dropped add up to its frames that were taken and its
 *       residual; the means or deltas of an owner add up to its answers and its residual.
 *   E7  Messages and results are bit-identical for any order of arrival, any number of threads, and on every machine.
 *
 * The pages exchange.md and format.md, which are installed in share/doc/threelc, explain the algorithms and draw the
 * messages.
 */
#ifndef THREELC_EXCHANGE_H
#define THREELC_EXCHANGE_H

#include <threelc/threelc.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TLC_MESSAGE_VERSION 1 /* the version of messages that this library writes and reads */

/* No rank. A constant and a macro, as TLC_UNKNOWN. */
static const uint32_t TLC_NOBODY = 4294967295u;
#define TLC_NOBODY UINT32_MAX

/* All tensors; no tensor. The same. */
#if SIZE_MAX > 0xffffffff
static const size_t TLC_ALL = 18446744073709551615ull;
#else
static const size_t TLC_ALL = 4294967295u;
#endif
#define TLC_ALL ((size_t)-1)

/* A tensor of the exchange. Start from tlc_tensor_init. In an array, the struct_size of the first one is the distance
 * between them. It means what it means in tlc_config. */
typedef struct tlc_tensor {
    size_t struct_size;
    const char *name;        /* not empty, unique in the object: states find their tensor by it */
    size_t n;                /* values */
    const char *push, *pull; /* codecs of pushes and of answers. NULL: those of the configuration, or raw with error
                                feedback if n < min_n */
    float *residual;         /* of the pushes. NULL: the object's own, at first 0. Else n floats of the caller, used as
                                they are; they must outlive the object. Servers do not use it. TLC_ERR_PARAM: the codec
                                keeps no residual */
    uint32_t only; /* the worker whose pushes alone count, as for the batch-norm statistics of 3LC's section 4;
                                the others do not send this tensor. TLC_NOBODY, the default: those of all count */
} tlc_tensor;
TLC_API tlc_status tlc_tensor_init(tlc_tensor *tensor, size_t struct_size);

/* For tensors that lie one after the other in one buffer, in the order of the list and without gaps: sets pointers[t]
 * to where tensor t begins, as push and pull want it. push takes const void *const *: in C cast it. base: the values of
 * all tensors, of dtype; its contents are not looked at. NULL is allowed if there are no values.
 * TLC_ERR_PARAM: a bad dtype, NULL, or the struct_size of the first tensor is too small. TLC_ERR_SIZE: more bytes than
 * the address space. On failure pointers do not change. */
TLC_API tlc_status tlc_tensor_pointers(void *base, tlc_dtype dtype, const tlc_tensor *tensors, size_t count,
                                       void **pointers);

/* What the last call found: push, reduce, average, answer, pull, join, lose, hello, greet, cancel or state_load, or any
 * other call that failed. struct_size is set by the caller, and means what it means in tlc_frame_info. */
typedef struct tlc_outcome {
    size_t struct_size;
    tlc_status status; /* what the call returned; of a worker: TLC_OK if the message of another server was at fault */
    tlc_status cause;  /* why a step failed, or went on without somebody, or why the call failed; TLC_OK: nothing */
    uint64_t step;     /* the step of the call */
    uint32_t rank;     /* who is at fault: a rank, a worker or a server; TLC_NOBODY: no one in particular */
    size_t tensor;     /* at fault; TLC_ALL: none in particular */
    const uint8_t *taken; /* after reduce, average and pull: bit i % 8 of byte i / 8 is 1 if the push of worker i was
                             taken; NULL: not known. It belongs to the object until its next call */
    uint32_t workers;     /* bits of taken */
    size_t unknown;       /* after state_load: entries of the states (a part in one direction) that have no place */
    size_t missing;       /* after state_load: tensors here that are in no state */
    char sentence[200];   /* printable ASCII, never empty: "worker 3 sent step 17, this is step 18" */
} tlc_outcome;
TLC_API tlc_status tlc_outcome_init(tlc_outcome *outcome, size_t struct_size);

#define TLC_EXCHANGE_CODEC "3lc" /* where no codec of pushes is given */

/* Start from tlc_exchange_config_init. */
typedef struct tlc_exchange_config {
    size_t struct_size;
    uint32_t workers;      /* at least 1, at most 2^20 */
    uint32_t servers;      /* 0: every rank is worker and owner (all-reduce). At most 2^20 */
    uint32_t owners;       /* all-reduce: at most this many ranks own parts; 0: all */
    uint32_t keep;         /* the answers that an owner keeps for those who fell behind or fetch again; default 4 */
    uint32_t backup;       /* a server is ready when workers - backup have pushed (3LC, section 2.1); default 0 */
    int gather;            /* all-reduce: 1: every rank sends its frames to all, and there is no second lossy step */
    int sum;               /* 1: results are sums; 0: means, weighted, over those who took part */
    const char *push;      /* codec of pushes; NULL, the default: "3lc", in gossip "qsgd:bits=8" */
    const char *pull;      /* codec of answers; NULL: tlc_pull_codec of push */
    const char *reserve;   /* codecs that `_set_codec` must be able to switch to, with ';' between them; or NULL. If one
                            of them has error feedback by default, tensors keep residuals from the start */
    size_t min_n;          /* smaller tensors are sent raw, if they name no codec; default 256 */
    size_t split_n;        /* tensors from this size on may be split among owners, in multiples of 16 values; the others
                            are dealt out whole. At least 1; default 65536 */
    int assume_finite;     /* 1: the caller has checked the gradients; else all are checked before the first is
                            compressed. With 1, a NaN may set the residual of its tensor to 0 */
    tlc_dtype dtype;       /* of gradients and results */
    uint64_t seed;         /* of stochastic codecs; each machine, tensor and direction draws its own numbers from it */
    tlc_isa isa;           /* these three are as in tlc_config */
    tlc_allocator alloc;   /* used only by `_create` and `_destroy`; by handles of mpi.h for what comes, too */
    tlc_parallel parallel; /* the threads of the calls */
    tlc_outcome *outcome;  /* NULL; else why `_create` failed. Its struct_size is set. It may be gone after the call. If
                             `_create` succeeds it is not written, but for an all-reduce whose pull starves: its
                             status is TLC_OK then, and its sentence names a codec that keeps up */
} tlc_exchange_config;

/* The codec of answers where the configuration names none. The mean of sparse pushes is sparse and uneven, and so is
 * what an optimizer makes of it at first. A codec that sends few of its values again starves: the residual of the owner
 * grows to many times the mean, or the training diverges. So where `push` is 3lc or 3lc-golomb with s > 1, sbc,
 * onebit, or topk with p < 0.25, this is "3lc-golomb"; else `push` itself. push NULL: the default of pushes. Returns a
 * text of the caller's, or a constant. */
TLC_API const char *tlc_pull_codec(const char *push);

/* The loop starves if the residual of answers is this many times their signal, step after step (tlc_exchange_stats).
 * Measured: up to 12 where trainings lose nothing or little, 17 to 117 where they lose 3 to 12 points. One step may
 * have more, as its gradient is small. A loop below it may lose something, too: one that diverges has gradients that
 * hide the residual, and in short trainings pushes starve first (3lc:s=1.9 both ways: 50 to 90). */
#define TLC_STARVES_FROM 15

/* Since the object was made; signals and residuals are those of the last step in which it made frames. struct_size as
 * in tlc_outcome.
 *
 * residual / signal, as 2-norms, tells whether a loop starves. The signal is what came to be sent: the gradients in
 * pushes, the means or deltas in answers. The residual is what the frames of that step left for later (error feedback).
 * Both are here as sums of squares, which add up over objects and ranks; the ratio is the square root of theirs. If
 * that of answers stays above TLC_STARVES_FROM, most of the means come too late: a `pull` that sends more keeps up, or
 * `gather`. That of pushes has no such limit: with few values in a push (p = 0.01) it is some tens, and does no harm.
 *
 * The values are looked at right after they were compressed, all of them in a frame of up to 1023 values. In a larger
 * one at least 512 and at least a 64th, other ones in each step: ratios of a model are off by 2 to 5% (one standard
 * deviation, four tensors of a ResNet-20). They are the same on every machine and for any number of threads. Frames
 * whose codec keeps no residual do not count, nor do those that the caller or tlc_natural_aggregate made. */
typedef struct tlc_exchange_stats {
    size_t struct_size;
    uint64_t steps;       /* that ended */
    uint64_t failed;      /* of them */
    uint64_t late;        /* server: pushes that came late. Worker: pushes that a server did not take */
    uint64_t float_bytes; /* what `sent` would be with the codec raw, without the heads of messages and frames: pushed
                             values in the dtype of the configuration, answers as f32, each for each receiver. Nothing
                             for messages without values: of somebody who is not in the round, or whose step failed */
    uint64_t sent;        /* bytes of messages to others, an answer counted once for each receiver; not those that were
                              fetched again */
    uint64_t received;    /* bytes of messages from others that were taken */
    uint64_t dropped;     /* values whose part of a failed step could not go back, as their codec keeps no residual */
    /* 0: nothing whose codec keeps a residual was sent in this direction; in gossip */
    double push_signal_squares, push_residual_squares; /* worker, all-reduce */
    double pull_signal_squares, pull_residual_squares; /* server; all-reduce: of the parts that this rank owns */
} tlc_exchange_stats;
TLC_API tlc_status tlc_exchange_stats_init(tlc_exchange_stats *stats, size_t struct_size);

/* A part of a tensor that this server or rank owns. struct_size as in tlc_outcome. Its arrays stay where they are for
 * the life of the object. */
typedef struct tlc_part {
    size_t struct_size;
    size_t tensor;         /* index */
    size_t first, n;       /* values first .. first + n - 1 of the tensor */
    const float *mean;     /* n values: mean (or sum) of the pushes; valid from reduce or average until the next one */
    const float *residual; /* n values: what answers did not send yet; NULL: the codec keeps no residual */
    uint64_t seed;         /* of the random words (tlc_philox) of its frames, pushed or, by an owner, answered; their
                              step is that of the object. 0: it shares a frame, or is pulled */
} tlc_part;
TLC_API tlc_status tlc_part_init(tlc_part *part, size_t struct_size);

/* Of a message that a server took. struct_size as in tlc_outcome. */
typedef struct tlc_push_info {
    size_t struct_size;
    uint32_t worker; /* who sent it */
    uint64_t step;   /* its step */
    int late;        /* 1: its step has been reduced. Send the worker the answers from `step` on (tlc_server_again) */
    int repeated;    /* 1: the same message came before; this one is not needed */
} tlc_push_info;
TLC_API tlc_status tlc_push_info_init(tlc_push_info *info, size_t struct_size);

/* Sets *cfg to the defaults above. TLC_ERR_PARAM: cfg is NULL, or struct_size is smaller than the first field. */
TLC_API tlc_status tlc_exchange_config_init(tlc_exchange_config *cfg, size_t struct_size);

/* ---- worker ------------------------------------------------------------------------------------------------------ */

/* A worker: pushes gradients, pulls answers. */
typedef struct tlc_worker tlc_worker;

/* worker: 0 .. workers - 1; cfg->servers is at least 1. On failure *out does not change. TLC_ERR_PARAM: a bad field,
 * name or codec. TLC_ERR_UNSUPPORTED: the machine does not have the ISA. TLC_ERR_SIZE: a size overflows.
 * TLC_ERR_NOMEM. */
TLC_API tlc_status tlc_worker_create(tlc_worker **out, const tlc_exchange_config *cfg, uint32_t worker,
                                     const tlc_tensor *tensors, size_t count);
TLC_API void tlc_worker_destroy(tlc_worker *w); /* NULL is allowed */

/* Makes the pushes of a step: to[i] is for server i. grads[t]: n values of tensor t, never written; NULL is allowed for
 * tensors of another worker (`only`). grads NULL: this worker is not in the round (SBC, Algorithm 1; federated
 * averaging); its messages say so. weight: of its gradients in the mean, 2^-50 to 2^50; 1 for a plain mean.
 * If a gradient is not finite, the call succeeds, the messages say so, and the whole gradient is dropped.
 * TLC_ERR_ORDER: the last push was not answered yet. */
TLC_API tlc_status tlc_worker_push(tlc_worker *w, const void *const *grads, double weight, tlc_message *to);

/* The same for gradients that were quantized elsewhere, as on a GPU. frames[i]: the frame of pushed part i, as
 * threelc/frames.h makes it; len 0: it is compressed as always. A tensor whose parts all have frames needs no gradient:
 * its entry of grads may be NULL, and what its frames do not send is the caller's to keep. Its residual here gets only
 * what comes back when a push is not taken.
 * If the outcome has a cause, a gradient was not finite, and no frame is sent.
 * TLC_ERR_PARAM: also for a frame of another codec, dtype or n, or a damaged one. TLC_ERR_ORDER: also in the step of
 * tlc_worker_join. */
TLC_API tlc_status tlc_worker_push_frames(tlc_worker *w, const void *const *grads, const tlc_message *frames,
                                          double weight, tlc_message *to);

/* The parts of tensors that have a frame of their own in pushes: tensors of at least min_n values, or with a codec of
 * their own. tlc_part: the mean is NULL, the residual that of pushes. TLC_ERR_PARAM: no such part. */
TLC_API size_t tlc_worker_pushed_parts(const tlc_worker *w);
TLC_API tlc_status tlc_worker_pushed_part(const tlc_worker *w, size_t i, tlc_part *part);

/* Ends the step. from[i]: the answer of server i. out[t]: n values of tensor t: what the servers answered. Allowed
 * without a push. What a server did not take goes back into the residuals.
 * TLC_ERR_STEP: the step failed on a server: its parts of out are not written. tlc_worker_outcome names the cause.
 * TLC_ERR_CORRUPT, _CHECKSUM, _VERSION, _PARAM, _ORDER (another step) and those of frames: a message is at fault. Fetch
 * it again, then repeat the call. */
TLC_API tlc_status tlc_worker_pull(tlc_worker *w, const tlc_message *from, void *const *out);

/* The same for who decodes elsewhere, as on a GPU. out[t] may be NULL if the parts of tensor t are pulled ones: then
 * frames[i] is the frame of each pulled part i of it, which was checked, and lies in a message of from. For the parts
 * of other tensors, and with TLC_ERR_STEP for those of a server on which the step failed, its len is 0.
 * tlc_decompress says what a frame stands for, or threelc/frames.h. */
TLC_API tlc_status tlc_worker_pull_frames(tlc_worker *w, const tlc_message *from, void *const *out,
                                          tlc_message *frames);

/* The parts of tensors that have a frame of their own in answers, as tlc_worker_pushed_part says it of pushes.
 * tlc_part: mean and residual are NULL. TLC_ERR_PARAM: no such part. */
TLC_API size_t tlc_worker_pulled_parts(const tlc_worker *w);
TLC_API tlc_status tlc_worker_pulled_part(const tlc_worker *w, size_t i, tlc_part *part);

/* momentum[t][i] = +0 where the last push sent a value that the server took (SBC, momentum masking). Call it after
 * tlc_worker_pull. momentum[t]: n floats, or NULL to leave it out. Tensors whose codec has no zero (raw, onebit) are
 * left alone. Momentum correction (Lin et al., 2018, Deep Gradient Compression, section 3): push velocities, which are
 * m * velocity + gradient, in place of gradients, and mask the velocities. */
TLC_API tlc_status tlc_worker_mask(tlc_worker *w, float *const *momentum);

/* The worker came late, or comes back: it has a model from the caller and goes on with `step`. In that step it only
 * listens: if tlc_worker_push is called, the gradient waits in the residual, and the messages say that the worker is
 * not in the round. So nothing counts twice that it sent before. taken[i]: what tlc_server_taken of server i says of
 * this worker: a push without an answer goes back into the residual if it was not taken. NULL: it counts as taken.
 * TLC_ERR_PARAM: step is 0, or above 2^62. TLC_ERR_ORDER: a push of `step` or of a later one has no answer yet. */
TLC_API tlc_status tlc_worker_join(tlc_worker *w, uint64_t step, const uint64_t *taken);

TLC_API uint64_t tlc_worker_step(const tlc_worker *w); /* the step under way; 0 for NULL */

/* A hash of the answers that came in the last step that did not fail. In the same step all workers have the same, and
 * those of all servers add up to it, modulo 2^64. States have it, so it tells whether two objects were loaded with
 * states of one run: compare it, where both know it, before the next push. 0: not known, as before the first step,
 * after tlc_worker_join, after a step that failed on some servers, or with a state of a release before 0.5.1. */
TLC_API uint64_t tlc_worker_history(const tlc_worker *w);

/* The most bytes of a message to this object: of all kinds, from any sender whose tensors and configuration are equal,
 * with codecs of the configuration or reserved ones. A receiver refuses a longer one before it takes memory for it, as
 * a length from the network may be anything. It never changes. 0 for NULL. SIZE_MAX: more than the address space. */
TLC_API size_t tlc_worker_message_bound(const tlc_worker *w);

/* Changes the codec of the pushes of a tensor (TLC_ALL: of all that have the codec of the configuration), as
 * tlc_set_codec does. TLC_ERR_PARAM: no such tensor, or one that is sent raw because it is small. */
TLC_API tlc_status tlc_worker_set_codec(tlc_worker *w, size_t tensor, const char *codec);

/* All residuals *= factor, for a new loss scale or learning rate. TLC_ERR_ORDER: a push has no answer yet.
 * TLC_ERR_PARAM: factor is not finite. TLC_ERR_NONFINITE: a product is not finite. */
TLC_API tlc_status tlc_worker_residual_scale(tlc_worker *w, float factor);

/* Of server `server` in the last call. TLC_ERR_PARAM: no such server, or struct_size is too small. */
TLC_API tlc_status tlc_worker_outcome(const tlc_worker *w, uint32_t server, tlc_outcome *outcome);

/* Since the object was made. TLC_ERR_PARAM: struct_size is too small. */
TLC_API tlc_status tlc_worker_stats(const tlc_worker *w, tlc_exchange_stats *stats);

/* ---- states ------------------------------------------------------------------------------------------------------ */

/* `_state_save` writes step, codecs and residuals, by names of tensors. The bytes are the same on every machine.
 * TLC_ERR_CAPACITY: cap < `_state_size`. TLC_ERR_ORDER: a step is under way. Server: messages that came but were not
 * reduced yet are not in the state.
 *
 * `_state_load` takes the states of objects of the same kind, of a run with any number of ranks. With as many workers
 * (or servers, or ranks) as before, and the same parts for each owner, an object needs its own state only, and goes on
 * with the same bits. Otherwise give each all states. Of old rank i, the residual of pushes goes to rank i mod workers,
 * times new workers / old workers (times 1 with sum, and for tensors of one worker), so that means stay what they would
 * have been. Owners take the parts of old owners that overlap theirs. Sums beyond the largest float become it.
 * `_outcome` reports names that found nothing. Where a rank had several objects, each with other tensors, an object
 * takes the states of all of them, and what its tensors have in them. Give all of a rank: one that is missing beside
 * another is not noticed.
 * TLC_ERR_CORRUPT, _VERSION, _CHECKSUM: of a state. TLC_ERR_PARAM: a state of another kind, a tensor twice of a rank,
 * states that do not fit together, as those of two runs, or states that are missing: the sentence names their ranks.
 * Where each object gets its own state alone, compare `_history` of all. TLC_ERR_SIZE: a tensor has another n.
 * TLC_ERR_CAPACITY: a codec was not reserved. TLC_ERR_ORDER: a step is under way.
 *
 * `_state_salvage` is `_state_load` for a run of which states are lost. What they had is taken for 0, so the run goes
 * on without these residuals. `_outcome` names the ranks. */
TLC_API size_t tlc_worker_state_size(const tlc_worker *w);
TLC_API tlc_status tlc_worker_state_save(const tlc_worker *w, void *dst, size_t cap, size_t *written);
TLC_API tlc_status tlc_worker_state_load(tlc_worker *w, const tlc_message *states, size_t count);
TLC_API tlc_status tlc_worker_state_salvage(tlc_worker *w, const tlc_message *states, size_t count);

/* ---- server ------------------------------------------------------------------------------------------------------ */

/* A server: averages what workers push, and answers. */
typedef struct tlc_server tlc_server;

/* server: 0 .. servers - 1. Failures as tlc_worker_create. */
TLC_API tlc_status tlc_server_create(tlc_server **out, const tlc_exchange_config *cfg, uint32_t server,
                                     const tlc_tensor *tensors, size_t count);
TLC_API void tlc_server_destroy(tlc_server *s); /* NULL is allowed */

/* Takes a push; pushes come in any order. Unless info says late or repeated, the bytes stay where they are until
 * tlc_server_answer. A push that says that its gradient was not finite is not taken; the step goes on without it.
 * info may be NULL. Failures: as tlc_worker_pull, and TLC_ERR_ORDER: another message of this worker and step came
 * before, or the step is one to come. */
TLC_API tlc_status tlc_server_push(tlc_server *s, tlc_message from, tlc_push_info *info);

/* 1: enough workers have pushed (workers - backup), and waiting gains nothing. It is advice. */
TLC_API int tlc_server_ready(const tlc_server *s);

/* Decodes the pushes, in rising order of workers, and averages them. A push with a frame that is no frame is not taken.
 * If nobody is in the round, the mean is 0. Later pushes of this step come late.
 * TLC_ERR_STEP: all pushes failed, or a mean is not finite: leave the model as it is; the answer will say so.
 * TLC_ERR_ORDER: no push came yet, or the step was reduced before. */
TLC_API tlc_status tlc_server_reduce(tlc_server *s);

TLC_API size_t tlc_server_parts(const tlc_server *s);                              /* 0 for NULL */
TLC_API tlc_status tlc_server_part(const tlc_server *s, size_t i, tlc_part *part); /* TLC_ERR_PARAM: no such part */

/* Ends the step, with one message for all workers. delta[i]: n floats of part i, the change of the model; NULL: the
 * means. If the step failed, or a delta is not finite, the call succeeds and the message says so.
 * TLC_ERR_ORDER: the step was not reduced yet. */
TLC_API tlc_status tlc_server_answer(tlc_server *s, const float *const *delta, tlc_message *to_all);

/* For servers that average and compress elsewhere; tlc_allreduce_owned_frames and _reduce_frames say what is what.
 * owned_frames: of the pushes that came. TLC_ERR_STEP: a frame is at fault; tlc_server_reduce does without its push.
 * reduce_rest: tlc_server_reduce without the parts i whose elsewhere[i] is not 0: their means are the caller's.
 * answer_frames: tlc_server_answer with frames of residual + delta (or mean): such parts need no entry in delta. If the
 * step failed (tlc_outcome: taken is NULL), no frame is sent. TLC_ERR_PARAM: a part has neither frame, delta nor mean.
 * TLC_ERR_ORDER: as the calls above; reduce_rest: also if owned_frames did not see all pushes. */
TLC_API tlc_status tlc_server_owned_frames(tlc_server *s, tlc_message *frames, float *factors);
TLC_API tlc_status tlc_server_reduce_rest(tlc_server *s, const uint8_t *elsewhere);
TLC_API tlc_status tlc_server_answer_frames(tlc_server *s, const float *const *delta, const tlc_message *frames,
                                            tlc_message *to_all);

/* The answer of a step before. TLC_ERR_PARAM: it is not kept any more: the worker must join. TLC_ERR_ORDER: this step
 * has no answer yet. */
TLC_API tlc_status tlc_server_again(const tlc_server *s, uint64_t step, tlc_message *answer);

/* *step: the last step in which a push of this worker was taken; 0: none. For tlc_worker_join. */
TLC_API tlc_status tlc_server_taken(const tlc_server *s, uint32_t worker, uint64_t *step);
TLC_API uint64_t tlc_server_step(const tlc_server *s);        /* the step under way; 0 for NULL */
TLC_API uint64_t tlc_server_history(const tlc_server *s);     /* of its own answer; tlc_worker_history */
TLC_API size_t tlc_server_message_bound(const tlc_server *s); /* as tlc_worker_message_bound */

/* As those of workers, for codecs and residuals of answers. tlc_server_residual_scale: TLC_ERR_ORDER between reduce and
 * answer. */
TLC_API tlc_status tlc_server_set_codec(tlc_server *s, size_t tensor, const char *codec);
TLC_API tlc_status tlc_server_residual_scale(tlc_server *s, float factor);
TLC_API tlc_status tlc_server_outcome(const tlc_server *s, tlc_outcome *outcome);
TLC_API tlc_status tlc_server_stats(const tlc_server *s, tlc_exchange_stats *stats);
TLC_API size_t tlc_server_state_size(const tlc_server *s);
TLC_API tlc_status tlc_server_state_save(const tlc_server *s, void *dst, size_t cap, size_t *written);
TLC_API tlc_status tlc_server_state_load(tlc_server *s, const tlc_message *states, size_t count);
TLC_API tlc_status tlc_server_state_salvage(tlc_server *s, const tlc_message *states, size_t count);

/* ---- all-reduce -------------------------------------------------------------------------------------------------- */

/* A rank of an all-reduce: a worker, and an owner of parts. */
typedef struct tlc_allreduce tlc_allreduce;

/* rank: 0 .. workers - 1; cfg->servers is 0. Failures as tlc_worker_create. */
TLC_API tlc_status tlc_allreduce_create(tlc_allreduce **out, const tlc_exchange_config *cfg, uint32_t rank,
                                        const tlc_tensor *tensors, size_t count);
TLC_API void tlc_allreduce_destroy(tlc_allreduce *a); /* NULL is allowed */

/* As tlc_worker_push. to[i] is for rank i, one's own too; len 0: rank i owns nothing and needs no message. With gather
 * all are the same message. */
TLC_API tlc_status tlc_allreduce_push(tlc_allreduce *a, const void *const *grads, double weight, tlc_message *to);

/* As tlc_worker_push_frames and those below it. Residuals get what comes back when a step fails. */
TLC_API tlc_status tlc_allreduce_push_frames(tlc_allreduce *a, const void *const *grads, const tlc_message *frames,
                                             double weight, tlc_message *to);
TLC_API size_t tlc_allreduce_pushed_parts(const tlc_allreduce *a);
TLC_API tlc_status tlc_allreduce_pushed_part(const tlc_allreduce *a, size_t i, tlc_part *part);

/* from[i]: the push of rank i, one's own too; len 0: nothing came. Averages the parts that this rank owns, and makes
 * the message for all ranks; its len is 0 if this rank owns nothing. If a message or a gradient is at fault, the call
 * succeeds and its message says so: the step fails for all. TLC_ERR_ORDER: not after a push, or there is gather. */
TLC_API tlc_status tlc_allreduce_reduce(tlc_allreduce *a, const tlc_message *from, tlc_message *to_all);

/* For owners that average and compress elsewhere, as on a GPU: owned_frames checks what came, and reduce_frames takes
 * the frames of answers. With R ranks and P parts (tlc_allreduce_parts):
 * owned_frames: frames[i * R + r]: the frame of part i that rank r pushed. It was checked, and lies in a message of
 * from. len 0: the part shares its frame with others, or the push of this rank does not count. factors: of these frames
 * in the mean, which is +0 + (factor * scale) * symbol of rank 0, then of rank 1 and so on, in binary32; where a symbol
 * is 0 a sum keeps its bits. Of other codecs it adds factor * value. A rank that owns nothing gets none. TLC_ERR_STEP:
 * a push is at fault, or says so; tlc_allreduce_reduce tells all. TLC_ERR_ORDER: as reduce. The step stays where it is.
 * reduce_frames: as tlc_allreduce_reduce. frames[i]: the frame of residual + mean of part i, as threelc/frames.h makes
 * it; len 0: the part is averaged and compressed as always. Those of parts that share a frame are not looked at, nor
 * are the pushes of parts that have one. TLC_ERR_PARAM: also for a frame of another codec, dtype or n, or a damaged
 * one. If the outcome has a cause, the step fails, and no frame is sent.
 * What these frames do not send is the caller's to keep. The residual of such a part (tlc_part) gets only what comes
 * back when a step fails. Between steps the caller may write it: cast the const away. After tlc_allreduce_cancel the
 * caller's residual is the one from before the step. */
TLC_API tlc_status tlc_allreduce_owned_frames(tlc_allreduce *a, const tlc_message *from, tlc_message *frames,
                                              float *factors);
TLC_API tlc_status tlc_allreduce_reduce_frames(tlc_allreduce *a, const tlc_message *from, const tlc_message *frames,
                                               tlc_message *to_all);

/* tlc_allreduce_reduce in two calls, for owners with optimizers: between them an owner makes deltas of the means
 * (tlc_allreduce_part), the changes of its parts of the model, as 3LC's servers do. All ranks take the same way, also
 * those that own nothing.
 * average: TLC_ERR_STEP: a message, a gradient or a mean is at fault: leave the model and the optimizer as they are;
 * the answer will say so. Messages stay as they are until the answer. TLC_ERR_ORDER: as tlc_allreduce_reduce.
 * answer: delta[i]: n floats of part i, which stay as they are until the step has ended; NULL: the means. If a delta is
 * not finite, the call succeeds and the message says so: the step fails for all. TLC_ERR_PARAM: an entry of delta is
 * NULL. TLC_ERR_ORDER: not after average, or there is gather.
 *
 * When pull fails with TLC_ERR_STEP, owners whose answer had deltas keep them in their residuals, and workers get them
 * later: such an owner leaves model and optimizer as they are after its step. Where the codec keeps no residual, deltas
 * are lost, and the owner takes its step back. So does an owner whose delta was not finite (tlc_allreduce_outcome after
 * answer has a cause): it sent nothing, and its pushes are back in the residuals. So do all owners after
 * tlc_allreduce_cancel. Then an owner's model is that of the others + its residual of answers (tlc_part), rounded. */
TLC_API tlc_status tlc_allreduce_average(tlc_allreduce *a, const tlc_message *from);
TLC_API tlc_status tlc_allreduce_answer(tlc_allreduce *a, const float *const *delta, tlc_message *to_all);

/* Ends the step. from[i]: the message of reduce (with gather: of push) of rank i, one's own too; those of ranks that
 * own nothing are not read. out[t]: n values of tensor t, the same bits on all ranks.
 * TLC_ERR_STEP: the step failed, on all ranks. out is not written. What was sent is back in residuals: what an owner
 * answered in its own, the rest in those of the senders.
 * Other failures as tlc_worker_pull: fetch the message again, then repeat the call. */
TLC_API tlc_status tlc_allreduce_pull(tlc_allreduce *a, const tlc_message *from, void *const *out);

/* As tlc_worker_pull_frames and those below it. With TLC_ERR_STEP there are no frames. With gather there are no pulled
 * parts. TLC_ERR_ORDER: also with gather. */
TLC_API tlc_status tlc_allreduce_pull_frames(tlc_allreduce *a, const tlc_message *from, void *const *out,
                                             tlc_message *frames);
TLC_API size_t tlc_allreduce_pulled_parts(const tlc_allreduce *a);
TLC_API tlc_status tlc_allreduce_pulled_part(const tlc_allreduce *a, size_t i, tlc_part *part);

/* The message that tlc_allreduce_pull of others takes, of a step before. Failures as tlc_server_again. */
TLC_API tlc_status tlc_allreduce_again(const tlc_allreduce *a, uint64_t step, tlc_message *to_all);

/* Ends a step that cannot end, as a rank is gone. What was pushed goes back into the residuals of pushes, and what was
 * reduced is taken out of the residuals of answers again. Either all ranks that are left call it, or none: not if one
 * of them has the results. TLC_ERR_ORDER: no step is under way. */
TLC_API tlc_status tlc_allreduce_cancel(tlc_allreduce *a);

/* The parts that this rank owns, none with gather; as tlc_server_part, with means from reduce or average. */
TLC_API size_t tlc_allreduce_parts(const tlc_allreduce *a);
TLC_API tlc_status tlc_allreduce_part(const tlc_allreduce *a, size_t i, tlc_part *part);

/* As those of workers and servers. A codec that is NULL stays as it is. With "raw" for both, if it was reserved, the
 * next step sends what residuals hold, as floats: after a step with gradients of 0 all are 0, as a training ends. */
TLC_API tlc_status tlc_allreduce_mask(tlc_allreduce *a, float *const *momentum);
TLC_API uint64_t tlc_allreduce_step(const tlc_allreduce *a);        /* the step under way; 0 for NULL */
TLC_API uint64_t tlc_allreduce_history(const tlc_allreduce *a);     /* as tlc_worker_history; the same on all ranks */
TLC_API size_t tlc_allreduce_message_bound(const tlc_allreduce *a); /* of pushes and answers */
TLC_API tlc_status tlc_allreduce_set_codec(tlc_allreduce *a, size_t tensor, const char *push, const char *pull);
TLC_API tlc_status tlc_allreduce_residual_scale(tlc_allreduce *a, float factor);
TLC_API tlc_status tlc_allreduce_outcome(const tlc_allreduce *a, tlc_outcome *outcome);
TLC_API tlc_status tlc_allreduce_stats(const tlc_allreduce *a, tlc_exchange_stats *stats);
TLC_API size_t tlc_allreduce_state_size(const tlc_allreduce *a);
TLC_API tlc_status tlc_allreduce_state_save(const tlc_allreduce *a, void *dst, size_t cap, size_t *written);
TLC_API tlc_status tlc_allreduce_state_load(tlc_allreduce *a, const tlc_message *states, size_t count);
TLC_API tlc_status tlc_allreduce_state_salvage(tlc_allreduce *a, const tlc_message *states, size_t count);

#ifdef __cplusplus
}
#endif
#endif
