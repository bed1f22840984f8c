/* Every tuned number by which the package decides where and how to compute, in one table: costs.c says what each
 * was measured with. What is mathematics or a promise about errors stands where it is used, and so do the steps of
 * a search. Arrays of two are of doubles and of floats. What a kernel costs stands in the table of kernels.c. */
#pragma once

#include "../fk.h"

FK_BEGIN_C

/* What a thread is woken for. */
struct fk_thread_costs {
  double work[2];        /* multiply-adds: of few threads, and of at least so `many`, of which most are idle */
  double bytes;          /* of a pass through memory */
  double bytes_awake;    /* of such a pass, for a thread that need not be woken */
  int most, most_beyond; /* threads for such a pass, and for one of more than so many bytes */
  double beyond;
  double patience[2]; /* seconds for which one without work looks for more: of few, and of at least so `many` */
  int many;
  double step, step_bytes;           /* of a loop: multiply-adds or bytes that one item's call does */
  double chunk_pairs, chunk_seconds; /* between two looks for an interrupt: at first, for a thread, and wished */
};

/* How far points may reach, |u|^2 of the whitened ones at most. Farther than the last limit of doubles their
 * differences are those of double-doubles; on a GPU that is .frames where less than double is asked for. */
struct fk_exact_limits {
  double gram_f64, normal_f64, gram_f32, gram_half, difference_f32, difference_f64, frames;
  int difference_dimension; /* differences cost nothing up to here */
};

struct fk_exact_cpu_costs {
  double share, clock; /* of what the units could do; cycles a second */
  double normal_bytes; /* of a block's kernels, which normal products find in the cache again */
};

/* When the CPU's exact engine leaves out the pairs that cannot matter. */
struct fk_near_costs {
  double pairs;      /* fewer are not worth a look */
  double sampled[2]; /* share of a sample's pairs that matter, at most: up to `low` dimensions, and in more ... */
  int low;           /* ... where boxes are wide beside the points in them */
  double points;     /* with fewer it is less by as much, for what it takes to put them in order */
  double share;      /* of all pairs that would be computed, at most */
  int sample_sources, sample_targets; /* points of that sample */
  int sample_blocks;                  /* of targets, by which the share of all pairs is known */
};

struct fk_exact_cuda_costs {
  double call;                                 /* seconds, beside the work */
  double host;                                 /* bytes a second */
  double f64, f32;                             /* multiply-adds a second */
  double kernel_f64, kernel_f32, gaussian_f32; /* multiply-adds, as above */
  double difference_f64;                       /* the same of the Gaussian by differences in double */
  double tensor_f64, gaussian_f64;             /* the same of products in double on tensor cores */
  double tensor;                               /* pairs a second ... */
  double tensor_width;                         /* ... of so many coordinates and values */
  double mma_wide;             /* of wide points, without wgmma: operations a second, 8 a pair and dimension */
  double gemm, gemm_half;      /* operations a second */
  double memory;               /* bytes a second */
  double launch;               /* seconds, after which an interrupt is seen */
  double coarse_pairs;         /* fewer have no kernels rounded to halves */
  double matrix_pairs;         /* fewer make no matrices of kernels ... */
  double matrix, matrix_value; /* ... which take seconds a pair, beside their exponents, and for each value */
  double symmetric_strips;     /* points at themselves in fewer meet all pairs twice */
  double measured_pairs;       /* more tell how fast a device is beside others */
  /* So many points are put in order, for so many targets and pairs at least, where of the pairs of blocks no more
   * than a share is near then: by a guess, and as it turns out. */
  double order_points, order_targets, order_pairs, order_guess, order_kept;
};

/* Shares of a device's memory. */
struct fk_cuda_memory_shares {
  double of_free, kept;              /* of what is free; of all, for operators */
  double sources, targets, partials; /* of what a job may take */
};

/* The fast engines' seconds, before they have looked at the points. */
struct fk_fast_cpu_costs {
  double look[2]; /* seconds, up to `low` dimensions and in more */
  int low;
  double point;          /* seconds */
  double growth;         /* with each dimension after the first */
  double growth_most;    /* dimensions, where the CPU alone may do the work */
  double value, mixture; /* for each column; of a sum of Gaussians, times those of one */
};
struct fk_fast_cuda_costs {
  double call, host; /* seconds beside the work; bytes a second */
  double point, growth, mixture;
};

/* Costs of the grids of a back end. */
struct fk_grid_device_costs {
  double call;        /* seconds of a call, however many grids it takes */
  double most_bytes;  /* larger grids are left to other methods */
  double same_points; /* of the exact engine's guess, what is left of it where the targets are the sources */
};

/* One dimension, by boxes (cpu/line), one thread. */
struct fk_line_costs {
  double start, point, value; /* seconds; of a point; of it, for each column beside the mass */
  double exact;               /* seconds of all pairs, at least */
  double below;               /* of a pair of a distribution function */
  double times;               /* by boxes it has to be so many times faster ... */
  double range;               /* ... and points within so many bandwidths, for the digits of their places */
};

/* Nanoseconds of one core. */
struct fk_grid_cpu_costs {
  struct fk_grid_device_costs device;
  double sort[2], sort_coordinate[2]; /* a point */
  double point;                       /* beside its rows of nodes */
  double add[3], add_f32;             /* such a row: up to 4 nodes, up to 8, more */
  double read[3], read_f32;
  double gradient;                 /* times, of reading */
  double near_bytes, far;          /* of a scratch; times, where it is larger */
  double visit, visit_cell[2];     /* a block, and its cells that are touched */
  double batch, scratch_points;    /* points, after which a block is visited again */
  int64_t batch_least, batch_most; /* points sorted at a time, by the blocks that the last ones had ... */
  int64_t batch_block;             /* ... so many each */
  int64_t sort_thread, sort_share; /* points that are worth a thread, and a share of the sort */
  double filter_step;              /* multiply-adds of a filter between two looks for an interrupt */
  int64_t envelope_step;           /* points of the error's bound, the same */
  int64_t envelope_piece[2];       /* points that are worth a table of their own: of all, of those of a call */
  double filter[2], filter_tap[2]; /* a cell and dimension, and each tap of its filter */
  double filter_kernel[2];         /* a cell and wider kernel */
  double start;                    /* seconds */
  double thread;                   /* of what another thread could do */
  double sorted_once;              /* points at themselves that may be held a second time, at most */
};

struct fk_grid_cuda_costs {
  struct fk_grid_device_costs device;
  double memory, host;      /* bytes a second */
  double processors, clock; /* cycles a second of each */
  double sort;              /* seconds a pair and 32 bits */
  double atomics;           /* a second */
  double point;             /* warp's cycles, a column */
  double apart;             /* times, of reads at most, where targets are alone in their cells */
  double launches;          /* seconds */
};

/* Multiply-adds of a pair of a loop of the CPU, of each of its coordinates, and of each of its values: sums,
 * moments, places. */
struct fk_loop_costs {
  double pair, coordinate, value;
};

/* Nanoseconds of one core. */
struct fk_direct_costs {
  double group, order, order_serial;     /* a group of targets; a point, and its share on one thread */
  double visit, visit_coordinate;        /* a cell */
  double pack;                           /* a number of a source */
  double f32, f32_coordinate, f32_value; /* a pair */
  double f64, f64_coordinate, f64_value;
  double shifted;                         /* a pair in the log domain */
  int groups, groups_least, groups_share; /* that are counted: at most, at least, one of so many */
  int sample_sources, sample_targets;     /* points */
  double target, sampled;                 /* multiply-adds of a target, roughly, and of one of the sample */
};

/* How the fast engines choose by the points. */
struct fk_fast_choice_costs {
  int sample_least, sample_most, sample_share; /* points: from, to, one of so many */
  double node;                                 /* seconds of a node of the envelope, a plane and dimension */
  double nodes_least, nodes_wished;            /* nodes that there may be; where the grid is asked for */
  double nodes_share, nodes_bytes;             /* of the grid's seconds; bytes */
  double device_points;                        /* more have their envelope on the device */
  double pair, pair_coordinate;                /* nanoseconds of a pair of a row done again */
  double guess;                                /* seconds below which no guess is worth while */
  double check_rows, check_pairs; /* rows summed exactly to check: so many, and as many more as are pairs */
  int unproven;                   /* rows that it goes by, at most */
  double rows_least, rows_share;  /* rows left over that are few: so many, of all */
  double component;               /* seconds of each Gaussian of a sum */
  double mixture_part;            /* of the tolerance, for the error of such a sum */
  int survey;                     /* points by which a grid's cells are counted */
  double direct_hopeless;         /* times a grid, after which direct sums are not tried for wider ones */
  double few_rows, few_row, few_row_coordinate; /* rows that are not worth a tree */
};

/* Factors of dense matrices, by where they are: on the host beside the reference BLAS or a tuned one, on a
 * device. */
enum { FK_DENSE_HOST, FK_DENSE_TUNED, FK_DENSE_DEVICE, FK_DENSE_PLACES };
struct fk_dense_costs {
  int64_t
      whole[FK_DENSE_PLACES]; /* orders that the library gets as they are; larger ones are done in blocks ... */
  int64_t block[FK_DENSE_PLACES]; /* ... of this one ... */
  int64_t strip[FK_DENSE_PLACES]; /* ... and so many rows at a time */
  int64_t tile;                   /* on devices larger ones are block columns of this width */
  int64_t own;                    /* on devices matrices up to this order are given to our own functions */
  int64_t whole_halves;           /* so are those above this order whose products may be of halves */
  int64_t alone;                  /* an inverse up to this order is for our own operations */
  double together;                /* bytes of matrices that threads may have, each its own */
  double awake;                   /* threads are worth this much less work where operations follow each other */
  int few_columns;                /* of a product, fewer of which are made as those with vectors */
  double staying;                 /* share of the devices' memory for matrices that stay there */
  double thread;                  /* the cube of the order of what a thread of the host factorises a second */
};

/* What decides between the CPU and a GPU. */
struct fk_gpu_costs {
  double start;  /* seconds, once in a process */
  double dense;  /* seconds for the factors of a small matrix */
  double host;   /* times the estimate of the CPU's engines that a CPU beside a GPU takes */
  double number; /* seconds for a coordinate of a point, which the estimates of exact engines leave out */
};

/* When sums in double by the CPU may be those of the fast engine, to FK_PLAN_AS_EXACT. */
struct fk_as_exact_costs {
  double reach;      /* of the points, in bandwidths: farther out places lose digits that pairs keep */
  double dimensions; /* at most */
  double exact;      /* seconds of all pairs on one thread, at least */
  double times;      /* as many of the fast engine's, by the points */
};

/* When to tell that a tolerance would be faster. */
struct fk_hint_costs {
  double work;        /* multiply-adds, fewer of which are short on any machine */
  double exact, fast; /* seconds: from, and below */
  double tol;
  double growth, low; /* the guess times so much for each dimension beyond so many */
  double own;         /* of the exact engine's time, where the targets are the sources */
};

/* How sums on the CPU are cut. Bits of results go by these, and so are the same for any number of threads. */
struct fk_cpu_cuts {
  int64_t split;       /* sources in one task, fewer in many dimensions */
  int64_t chunk;       /* numbers held for targets at a time, packed points and accumulators; of so many targets */
  int64_t least_chunk; /* at least, so that packing the sources for each chunk costs little */
  int64_t tasks;       /* between two barriers: few targets are split over sources for it, ... */
  int64_t group;       /* ... as far as so many partial sums and packed coordinates go, but at least so many */
  int64_t least_tasks;
  double packed_bytes;           /* points at themselves that take no more are packed once */
  int64_t blocks;                /* into which points at themselves are cut, of at most ... */
  int64_t longest_block;         /* ... so many; those that are packed again and again are ... */
  int64_t repacked, long_block;  /* ... no more blocks than this, or so long */
  int64_t pieces, longest_piece; /* of a normal product, into which many rows are cut, each of so many at most */
  int64_t least_pieces;          /* whose results are held at a time, and as many as fit into .group */
  int64_t tails;                 /* rows in the tails that are worth a tree */
  int64_t ordered;               /* points that are worth several threads to put them in order */
};

/* How work is cut for devices. Bits of results go by these, and so are the same for any number of devices. */
struct fk_cuda_cuts {
  int64_t blocks;                    /* of a sum's launches: several times what a large card holds */
  int64_t slot, slot_tensor;         /* columns that are worth a block, on CUDA cores and on tensor cores */
  int64_t shard_targets, shard_rows; /* of so few targets sources are shared, so many at least to each shard */
  double framed_share, framed_pairs; /* what frames leave is few: of the others; beside what launches take */
  /* Normal products: shards and the rows and numbers of each; bytes of a chunk; numbers, rows and columns of a
   * tile, and the blocks that its product is cut into. */
  int64_t normal_shards, normal_rows, normal_numbers, normal_bytes;
  int64_t tile_numbers, tile_rows, tile_blocks;
  double grid_sources, grid_targets, grid_b, grid_chunk; /* shares of a device's memory, of a grid's job */
};

/* Seconds of a nominal core, by which the searches in R choose how many rows they take: the same on every
 * machine. */
struct fk_nominal_costs {
  double pairs, coordinates; /* (1 + d / coordinates) / pairs for a pair in d dimensions */
  double linear[3];          /* a point of a sum in linear time, in 1, 2 and 3 dimensions */
  double moments;            /* a pair with its moments */
};

struct fk_costs {
  struct fk_thread_costs threads;
  struct fk_exact_limits limits;
  struct fk_exact_cpu_costs exact_cpu;
  struct fk_near_costs near;
  struct fk_exact_cuda_costs exact_cuda;
  struct fk_cuda_memory_shares cuda_memory;
  struct fk_fast_cpu_costs fast_cpu;
  struct fk_fast_cuda_costs fast_cuda;
  struct fk_line_costs line;
  struct fk_grid_cpu_costs grid_cpu;
  struct fk_grid_cuda_costs grid_cuda;
  struct fk_direct_costs direct;
  struct fk_loop_costs loops[FK_OPERATIONS];
  struct fk_fast_choice_costs choice;
  struct fk_as_exact_costs as_exact;
  struct fk_dense_costs dense;
  struct fk_hint_costs hint;
  struct fk_cpu_cuts cpu_cuts;
  struct fk_cuda_cuts cuda_cuts;
  struct fk_nominal_costs nominal;
  double kept_bytes; /* of the host, that engines keep of operators where the options name no limit */
  struct fk_gpu_costs gpu;
};
extern const struct fk_costs fk_costs;

FK_END_C
