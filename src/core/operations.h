/* What is computed: the operations of engines, and loops of the CPU alone. Names are in core/plan.c. */
#pragma once

enum fk_operation {
  FK_OP_SUMS,         /* of kernels */
  FK_OP_LOGS,         /* the same with a scale for each row, so that none underflows */
  FK_OP_COORDINATES,  /* of kernels times coordinates: scores, debiasing */
  FK_OP_SHIFT,        /* points moved by these, which stay on the device */
  FK_OP_DEBIASED_LOO, /* leave-one-out of score-debiased points */
  FK_OP_STREAM,       /* sums over sources that come in chunks, on one grid (fast/stream.h) */
  FK_OP_NORMAL,       /* normal products; n: of the points of K's columns, m: of its rows */
  /* Loops of the CPU that have a function of their own, called without a choice of the engine. */
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
#define FK_CAN(operation) (1u << (operation))
#define FK_CAN_LOOPS (FK_CAN(FK_OPERATIONS) - FK_CAN(FK_OP_MOMENTS))
