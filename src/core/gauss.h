/* The standard normal distribution: fk_normal_below() is P(Z <= z), fk_normal_density() its density. */
#pragma once

#include <math.h>

static inline double fk_normal_below(double z) { return 0.5 * erfc(-0.707106781186547524401 * z); }
static inline double fk_normal_density(double z) { return 0.398942280401432677940 * exp(-0.5 * z * z); }
