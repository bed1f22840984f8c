/* What was measured, with which script of bench/ (bench/NOTES.md explains it), where and when.
 *
 *   EPYC    AMD EPYC 9005 (Zen 5), 2 cores, AVX-512, gcc 12 -O2
 *   H200    one NVIDIA H200
 *
 * all in November 2026. For other machines only ratios matter: a Xeon with AVX-512 takes 2 to 3 times as long with
 * any engine; a smaller card's factor is little beside the distance to the CPU. */
#include "costs.h"

#include <math.h>

const struct fk_costs fk_costs = {
    /* threads.R on the EPYC: a thread takes tens of microseconds to wake, far longer where the cores are busy, so
     * that about a millisecond is the least to share; more than fill the memory's bus only have to be woken. Loops
     * often follow each other closely: those of a fit and its prediction within half a millisecond, and to wake a
     * thread takes the caller 19 us on a virtual machine beside an H200. A chunk is short enough to stop soon,
     * long enough not to be felt; steps: no script. The 16 and what `many` do: passes from host to host of gpu.R,
     * gpu-fast.R and host-to-host.R, 16 cores beside an H200. The second .work: default fits there, no script. */
    .threads = {.work = {3e7, 6e6},
                .bytes = 8e6,
                .bytes_awake = 1e6,
                .most = 8,
                .most_beyond = 16,
                .beyond = 1e9,
                .patience = {5e-5, 5e-4},
                .many = 8,
                .step = 1e6,
                .step_bytes = 1e6,
                .chunk_pairs = 4e6,
                .chunk_seconds = 0.05},

    /* Errors of the exponent in tests/testthat/test-reference.R (accuracy.R): under about 1e-12 in double (1e-11
     * up to .normal_f64, of normal products) and 3e-5 in single; of products of halves (normal_tiles.cu, emulated)
     * under 3e-5 for a pair, and under 1e-5 in sums. The dimension: dimensions.R on the EPYC. */
    .limits = {.gram_f64 = 1400,
               .normal_f64 = 3e4,
               .gram_f32 = 250,
               .gram_half = 100,
               .difference_f32 = 1e4,
               .difference_f64 = 16384,
               .frames = 0x1p60,
               .difference_dimension = 4},

    /* dimensions.R on the EPYC: multiply-adds as pair_cost() of common.R counts them. .normal_bytes:
     * normal-product.R on a Xeon with 2 MB of second-level cache a core. */
    .exact_cpu = {.share = 0.7, .clock = 4e9, .normal_bytes = 2e6},

    /* real.R on an EPYC 9004 (Zen 4), 2 cores. */
    .near = {.pairs = 1e8,
             .sampled = {0.75, 0.2},
             .low = 3,
             .points = 32768,
             .share = 0.85,
             .sample_sources = 960,
             .sample_targets = 192,
             .sample_blocks = 256},

    /* gpu.R and gpu-dimensions.R on the H200; .call: small-gpu.R. Kernels rounded to 2^-12 move a point that has
     * few neighbours by some 1e-5 of a bandwidth; with fewer pairs than .coarse_pairs they save less than half a
     * millisecond (gpu.R). .difference_f64: 7 to 12 in 1 to 4 dimensions. .tensor_f64, .gaussian_f64: kernels
     * alone (NOTES.md). .mma_wide: densities of 128 to 1024 dimensions before there was wgmma for them. .gemm,
     * .gemm_half: a little less than cuBLAS does, of doubles and of halves. They, .memory, .launch and
     * .measured_pairs: no script. .symmetric_strips: bench/NOTES.md, and so are .matrix and .matrix_value.
     * .order_points on: gpu-real.R, as far as it was tried. */
    .exact_cuda = {.call = 1.2e-4,
                   .host = 8e9,
                   .f64 = 1e13,
                   .f32 = 2e13,
                   .kernel_f64 = 30,
                   .kernel_f32 = 16,
                   .gaussian_f32 = 8,
                   .difference_f64 = 10,
                   .tensor_f64 = 2e13,
                   .gaussian_f64 = 17,
                   .tensor = 2.5e12,
                   .tensor_width = 32,
                   .mma_wide = 8e13,
                   .gemm = 5e13,
                   .gemm_half = 5e14,
                   .memory = 4e12,
                   .launch = 0.05,
                   .coarse_pairs = 5e8,
                   .symmetric_strips = 80,
                   .matrix_pairs = 1e8,
                   .matrix = 5.6e-12,
                   .matrix_value = 1.1e-14,
                   .measured_pairs = 1e10,
                   .order_points = 1e5,
                   .order_targets = 16384,
                   .order_pairs = 1e10,
                   .order_guess = 0.5,
                   .order_kept = 0.75},

    /* No script: other programs may use the device, and allocations are rounded up; by the bytes of a source and
     * of a target. */
    .cuda_memory = {.of_free = 0.9, .kept = 0.5, .sources = 0.6, .targets = 0.25, .partials = 0.1},

    /* tolerance.R --time on the EPYC, where "auto" is not to take longer than exact sums; fast.R. */
    .fast_cpu = {.look = {1e-3, 3e-2},
                 .low = 3,
                 .point = 4e-8,
                 .growth = 2.5,
                 .growth_most = 2,
                 .value = 0.5,
                 .mixture = 5 /* fast_kernels.R */},

    /* gpu-fast.R on the H200, roughly; .call: small-gpu.R; .mixture: no script. */
    .fast_cuda = {.call = 2e-3, .host = 16e9, .point = 2e-10, .growth = 3, .mixture = 5},

    /* kernel_matvec() and cdf() of 3e3 to 1e6 normal numbers, 0.01 to 1 bandwidths, on an EPYC (no script). Sums
     * change their last bits where they go by boxes: .exact and .times leave a factor of four and more. */
    .line = {.start = 3e-4, .point = 6e-8, .value = 0.5, .exact = 0.01, .below = 8e-9, .times = 4, .range = 2048},

    /* fast.R on the EPYC, one thread; loops by themselves under perf. .same_points: tolerance.R --time (each pair
     * is computed once). .most_bytes: no script. */
    .grid_cpu =
        {
            .device = {.call = 0, .most_bytes = 16e9, .same_points = 0.55},
            .sort = {4, 3},
            .sort_coordinate = {5, 3},
            .point = 8,
            .add = {0.7, 1.0, 1.25},
            .add_f32 = 0.6,
            .read = {0.35, 0.35, 0.77},
            .read_f32 = 0.28,
            .gradient = 2,
            .near_bytes = 5e5, /* the first two caches */
            .far = 2,
            .visit = 300,
            .visit_cell = {2.2, 1.5},
            .batch = 4e6,
            .scratch_points = 8192,
            .batch_least = 1 << 20, /* this and what follows: no script */
            .batch_most = 1 << 22,
            .batch_block = 2048,
            .sort_thread = 65536,
            .sort_share = 32768,
            .filter_step = 1e9,
            .envelope_step = 1 << 24,
            .envelope_piece = {1 << 18, 1 << 14},
            .filter = {2.8, 1.8},
            .filter_tap = {0.036, 0.022},
            .filter_kernel = {2, 1}, /* fast_kernels.R */
            .start = 2e-5,
            .thread = 0.9,          /* threads.R */
            .sorted_once = 1 << 27, /* no script */
        },

    /* Arithmetic for an H200, no script: 132 processors at 1.75 GHz, each of which brings a warp's load of shared
     * memory or a first-level hit a cycle and four multiply-adds. gpu-fast.R measures the sums as a whole. Devices
     * tell how large a grid may be when they are asked. */
    .grid_cuda = {.device = {.call = 1.2e-4, .most_bytes = INFINITY, .same_points = 1},
                  .memory = 4.2e12,
                  .host = 16e9,
                  .processors = 132,
                  .clock = 1.75e9,
                  .sort = 1e-10,
                  .atomics = 5e10,
                  .point = 0.2,
                  .apart = 16,
                  .launches = 5e-4},

    /* fast.R and tolerance.R --time on the EPYC, one thread. Samples: tolerance.R --time; the choice is to take a
     * few percent of the time. */
    .direct = {.group = 1800,
               .order = 50,
               .order_serial = 0.4, /* threads.R */
               .visit = 2,
               .visit_coordinate = 0.7,
               .pack = 0.75,
               .f32 = 0.10,
               .f32_coordinate = 0.028,
               .f32_value = 0.03,
               .f64 = 0.22,
               .f64_coordinate = 0.045,
               .f64_value = 0.06,
               .shifted = 0.1,
               .groups = 64,
               .groups_least = 4,
               .groups_share = 16,
               .sample_sources = 1 << 15,
               .sample_targets = 1 << 13,
               .target = 2e4,
               .sampled = 1e6},

    /* Counted, no script: they decide on threads, and on when to look for an interrupt. Values: moments;
     * bandwidths and five for each chain of powers; sums; polynomial terms of all coordinates; y or probabilities;
     * a kernel's cost; for windows, of a place, the square of the number of powers. */
    .loops = {[FK_OP_MOMENTS] = {20, 2, 2},
              [FK_OP_SCALES] = {0, 1, 2},
              [FK_OP_LEVELS] = {20, 2, 0},
              [FK_OP_NEIGHBOURS] = {4, 1, 0},
              [FK_OP_DERIVATIVES] = {20, 0, 1},
              [FK_OP_RECTANGLES] = {0, 10, 0},
              [FK_OP_CUBES] = {0, 8, 1},
              [FK_OP_CONDITIONAL] = {0, 0, 60},
              [FK_OP_SPARSE] = {1, 0, 1},
              [FK_OP_POLYGON] = {100, 0, 0},
              [FK_OP_WINDOWS] = {0, 0, 40},
              [FK_OP_CDF] = {30, 0, 0}},

    /* tolerance.R --time and fast.R on the EPYC, unless it is said. */
    .choice = {.sample_least = 1 << 13,
               .sample_most = 1 << 16,
               .sample_share = 8,
               .node = 15e-9,
               .nodes_least = 1 << 20,
               .nodes_wished = 1 << 24,
               .nodes_share = 0.5,
               .nodes_bytes = 2e9,       /* no script */
               .device_points = 1 << 16, /* gpu-fast.R on the H200 */
               .pair = 0.3,
               .pair_coordinate = 0.1,
               .guess = 3e-3,
               /* eight rows take 4 ns for each source, more than a twentieth of some sums; the pairs half a
                * millisecond */
               .check_rows = 8,
               .check_pairs = 1e6,
               .unproven = 1 << 13,
               .rows_least = 8,
               .rows_share = 1e-3,
               .component = 6e-4,    /* fast_kernels.R: 0.5 to 0.8 ms */
               .mixture_part = 0.4,  /* half of it would take 3 to 10 per cent more Gaussians */
               .survey = 1 << 16,    /* no script */
               .direct_hopeless = 4, /* fast_kernels.R */
               .few_rows = 100,
               .few_row = 0.5,
               .few_row_coordinate = 0.1},

    /* On the host blocks and strips are for interrupts alone. One core of an EPYC 9004 (59 GFLOP/s at most) has 42
     * to 47 GFLOP/s in gemm, trsm and trtri of an order of 3000, and 41 in potrf (no script). On an H200 gemm does
     * 58 TFLOP/s where potrf does 48 and lauum 45, from an order of 3e4 on. Tiles: no script.
     * .own: no script; cuBLAS and cuSOLVER take 0.2 s to start, and larger matrices are cut into tiles of more.
     * .whole_halves: a guess, not measured. .thread: no script; two cores take half a second for the factors of an
     * order of 2000 and an iteration's solves. */
    .dense = {.whole = {1024, 1024, 1 << 15},
              .block = {512, 512, 4096},
              .strip = {4096, 4096, 1 << 15},
              .tile = 2048,
              .own = 2047,
              .whole_halves = 1 << 14,
              .alone = 512,     /* no script: 16 threads of OpenBLAS invert an order of 300 in 4.5 ms, we in 1.1 */
              .together = 1e8,  /* no script: what check_memory() of R does not count */
              .awake = 4,       /* no script */
              .few_columns = 4, /* no script: the time is that of reading the other factor */
              .staying = 0.99,  /* no script */
              .thread = 8e9},

    /* as-exact.R on an EPYC 9004, 2 cores. */
    .as_exact = {.reach = 1024, .dimensions = 3, .exact = 0.25, .times = 2},

    /* No script: what is long to wait for. Guesses without the points take it that few of them are neighbours in
     * more than .low dimensions. */
    .hint = {.work = 1e10, .exact = 5, .fast = 1, .tol = 1e-6, .growth = 2.5, .low = 3, .own = 0.5},

    /* dimensions.R and memory.R on the EPYC; none is critical. The pieces of normal products, and the tails: no
     * script. */
    .cpu_cuts = {.split = 256 * 48,
                 .chunk = 1 << 19,
                 .least_chunk = 4096,
                 .tasks = 512,
                 .group = 1 << 20,
                 .least_tasks = 64,
                 .packed_bytes = 5e6,
                 .blocks = 128,
                 .longest_block = 2112,
                 .repacked = 32,
                 .long_block = 768,
                 .pieces = 512,
                 .longest_piece = 3072,
                 .least_pieces = 64,
                 .tails = 1024,
                 .ordered = 1 << 14},

    /* Arithmetic for an H200 of 132 processors, no script. */
    .cuda_cuts = {.blocks = 132 * 16,
                  .slot = 512,
                  .slot_tensor = 1024,
                  .shard_targets = 1024,
                  .shard_rows = 1 << 22,
                  .framed_share = 1.0 / 256,
                  .framed_pairs = 1e7,
                  .normal_shards = 16,
                  .normal_rows = 1 << 15,
                  .normal_numbers = 1 << 26,
                  .normal_bytes = 1 << 27,
                  .tile_numbers = 1 << 27,
                  .tile_rows = 4096,
                  .tile_blocks = 4 * 132,
                  .grid_sources = 0.35,
                  .grid_targets = 0.15,
                  .grid_b = 0.15,
                  .grid_chunk = 0.25},

    /* pair-moments.R and default-times.R (NOTES.md). A choice of rows by a clock would not be the same twice. */
    .nominal = {.pairs = 4e8, .coordinates = 8, .linear = {5e-7, 8e-7, 5e-6}, .moments = 2e-8},

    .kept_bytes = 0x1p30,

    /* small-gpu.R on the H200, beside 16 cores of a Xeon; .dense: a guess, not measured. */
    .gpu = {.start = 0.3, .dense = 5e-3, .host = 2.75, .number = 1e-9},
};
