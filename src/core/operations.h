/* The operations of engines, and those that are loops on the CPU only. Their names are in core/plan.c. */
#pragma once

enum fk_operation {
  FK_OP_SUMS,         /* sums of kernels */
  FK_OP_LOGS,         /* sums of kernels with a log scale for each row, so that none underflows */
  FK_OP_COORDINATES,  /* sums of kernels times coordinates, for scores and debiasing */
  FK_OP_SHIFT,        /* debiased points that stay on the device */
  FK_OP_DEBIASED_LOO, /* leave-one-out sums of SD-KDE */
  FK_OP_STREAM,       /* sums over sources that come in chunks, on one grid (fast/stream.h) */
  FK_OP_NORMAL,       /* normal products; n: points of the columns of K, m: points of its rows */
  /* Loops on the CPU with functions of their own, which are called without a choice of the engine. */
  FK_OP_MOMENTS,
  FK_OP_SCALES,
  FK_OP_LEVELS,
  FK_OP_NEIGHBOURS,
  FK_OP_DERIVATIVES,
  FK_OP_RECTANGLES,
  FK_OP_CUBES,
  FK_OP_CONDITIONAL,
  FK_OP_SPARSE,
  FK_OP_POLYGON,
  FK_OP_LINE_MOMENTS,
  FK_OP_WINDOWS,
  FK_OP_CDF,
  FK_OPERATIONS
};
/* Bits of struct fk_engine's `operations`: one operation; all loops. */
#define FK_CAN(operation) (1u << (operation))
#define FK_CAN_LOOPS (FK_CAN(FK_OPERATIONS) - FK_CAN(FK_OP_MOMENTS))
