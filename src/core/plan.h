/* Where and how: the engines of this build, and which of them does a job. Engines say what they can do and what it
 * would take by a guess, by the constants of costs.h; the fast ones choose their method once more when they have
 * seen a sample of the points (fast/choose.h).
 */
#pragma once

#include "../fk.h"

/* What is promised of sums in double: an error of so much of the sum of |b| k of the same target, of gradients, in
 * bandwidths, in all directions together. */
#define FK_PLAN_AS_EXACT 1e-12
#define FK_PLAN_AS_EXACT_GRADIENT 2e-12

struct fk_plan_choice {
  const struct fk_engine *engine;
  struct fk_opts opts; /* for it */
  double seconds;      /* by its guess */
};

/* Of the engines that the options allow and that can do the work, the one that should finish first. Says why in
 * stats. An operation that no fast engine has is done exactly, whatever the options say. */
enum fk_status fk_plan_choose(const struct fk_opts *opts, const struct fk_work *work,
                              struct fk_plan_choice *choice, struct fk_stats *stats, struct fk_error *err);
/* Are there any, whether or not they work just now? Touches nothing. */
bool fk_plan_has(const struct fk_opts *opts, const struct fk_work *work);
/* How an engine keeps to the options. */
struct fk_opts fk_plan_options(const struct fk_engine *engine, const struct fk_opts *opts,
                               const struct fk_work *work);
bool fk_engine_can(const struct fk_engine *engine, enum fk_operation operation);

/* The seconds of exact sums, where they are long and a tolerance would make them short; else 0. own: targets are
 * the sources. share: of the pairs, that they compute. */
double fk_plan_hint(const struct fk_opts *opts, const struct fk_work *work, bool own, double share);

/* Multiply-adds of a pair of a loop, by costs.h. */
double fk_plan_pair_work(enum fk_operation operation, int64_t d, double values);
/* What a loop of the CPU reports: in double, since `started` (fk_seconds()), its operation as the method. */
void fk_plan_describe(const struct fk_opts *opts, enum fk_operation operation, double pairs, double started,
                      int threads, struct fk_stats *stats);

/* Why this engine and method: in words, or by what each of `names` would take. The one that was chosen comes
 * first, without its name where that is NULL; those of infinite seconds are left out. */
void fk_plan_say(struct fk_stats *stats, const char *format, ...);
void fk_plan_say_seconds(struct fk_stats *stats, int chosen, int n, const char *const *names,
                         const double *seconds);

int fk_engine_count(void);
const struct fk_engine *fk_engine_at(int i);
const char *fk_operation_name(enum fk_operation operation);
const char *fk_operation_words(enum fk_operation operation);
bool fk_operation_of(const char *name, enum fk_operation *operation); /* false: there is none of this name */
