/* The planner: the engines of this build, and the choice among them. Engines report what they can do and estimate
 * their run time from the constants of costs.h. Fast engines choose their method again from a sample of the points
 * (fast/choose.h). */
#pragma once

#include "../fk.h"

/* The promised error of sums in double, relative to the target's sum of |b| k; and the promised error of
 * gradients, in bandwidths, as a Euclidean norm. */
#define FK_PLAN_AS_EXACT 1e-12
#define FK_PLAN_AS_EXACT_GRADIENT 2e-12

struct fk_plan_choice {
  const struct fk_engine *engine;
  struct fk_opts opts; /* the options to pass to this engine */
  double seconds;      /* its estimated run time */
};

/* Chooses, among the engines that the options allow and that can do the work, the one with the shortest estimated
 * time, and writes the reason to stats. An operation that no fast engine has is done by an exact engine, whatever
 * the options say. Fails if no engine can do the work, or if the back end that was asked for is unavailable. */
enum fk_status fk_plan_choose(const struct fk_opts *opts, const struct fk_work *work,
                              struct fk_plan_choice *choice, struct fk_stats *stats, struct fk_error *err);
/* Does the build have an engine for this work, available or not? No side effects. */
bool fk_plan_has(const struct fk_opts *opts, const struct fk_work *work);
/* The options to pass to an engine: `opts`, in double precision if an exact engine replaces a fast one whose
 * tolerance single precision may not reach. */
struct fk_opts fk_plan_options(const struct fk_engine *engine, const struct fk_opts *opts,
                               const struct fk_work *work);
/* Does the engine have the operation? */
bool fk_engine_can(const struct fk_engine *engine, enum fk_operation operation);

/* The estimated seconds of exact sums, if they take long and sums with a tolerance would not; else 0. own: the
 * targets are the sources. share: the share of the pairs that exact sums compute. */
double fk_plan_hint(const struct fk_opts *opts, const struct fk_work *work, bool own, double share);

/* Multiply-adds of one pair of a loop in d dimensions with so many values, from costs.h. */
double fk_plan_pair_work(enum fk_operation operation, int64_t d, double values);
/* Fills in stats for a loop on the CPU: double precision, the operation as its method, and the time since
 * `started`, a value of fk_seconds(). */
void fk_plan_describe(const struct fk_opts *opts, enum fk_operation operation, double pairs, double started,
                      int threads, struct fk_stats *stats);

/* Set stats->reason_engine. fk_plan_say: from a format of C's output functions. fk_plan_say_seconds: from the
 * estimated seconds of n methods. The chosen one comes first, its name may be NULL; methods with infinite seconds
 * are omitted. */
void fk_plan_say(struct fk_stats *stats, const char *format, ...);
void fk_plan_say_seconds(struct fk_stats *stats, int chosen, int n, const char *const *names,
                         const double *seconds);

/* The engines of the build, and names of operations: a short name, and words for messages. All are constants. */
int fk_engine_count(void);
const struct fk_engine *fk_engine_at(int i);
const char *fk_operation_name(enum fk_operation operation);
const char *fk_operation_words(enum fk_operation operation);
/* Sets *operation from its short name. Returns false if there is none. */
bool fk_operation_of(const char *name, enum fk_operation *operation);
