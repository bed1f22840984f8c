/* Probabilities of two correlated Gaussians. */
#pragma once

/* P(X > h, Y > k) of two Gaussians with this correlation, |r| < 1, to about 1e-15. */
double fk_bivariate_upper(double h, double k, double r);
