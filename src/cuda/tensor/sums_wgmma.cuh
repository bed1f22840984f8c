/* The tasks of tensor.cuh on wgmma (Hopper; built where FK_CUDA_SM90A is defined, else nothing is supported):
 * plan, pack the columns once, launch over any rows. Packed columns depend on the task's columns, values, weights
 * and on whether it has a factor or leaves pairs out, not on rows, slots and precision.
 */
#ifndef FK_CUDA_SUMS_WGMMA_CUH
#define FK_CUDA_SUMS_WGMMA_CUH

#include "tensor.cuh"

#include <cuda_runtime.h>
#include <stddef.h>

/* On devices of capability 9.0. */
bool fk_wgmma_supports(const struct fk_tensor_task *task);
/* Are the rows' low parts left out as well? Their offsets are to be those of the high parts, then. */
bool fk_wgmma_has_high_rows(const struct fk_tensor_task *task);
/* unit: what slots are multiples of. */
void fk_wgmma_plan(int64_t n_cols, int64_t n_rows_total, bool has_values, int unit, int *slots,
                   int64_t *cols_per_slot);
/* The columns of a stage and the rows of a block, of a task that is not wide. */
void fk_wgmma_tiles(const struct fk_tensor_task *task, int *stage_cols, int *block_rows);
size_t fk_wgmma_pack_bytes(const struct fk_tensor_task *task);
cudaError_t fk_wgmma_pack(const struct fk_tensor_task *task, void *packed, cudaStream_t stream);
/* The task's weights alone, to columns that are packed. */
cudaError_t fk_wgmma_weigh(const struct fk_tensor_task *task, void *packed, cudaStream_t stream);
/* Rows of wide points are packed like columns, too, to be the task's row_stages; others take 0 bytes. */
size_t fk_wgmma_row_bytes(const struct fk_tensor_task *task);
cudaError_t fk_wgmma_pack_rows(const struct fk_tensor_task *task, void *stages, cudaStream_t stream);
cudaError_t fk_wgmma_launch(const struct fk_tensor_task *task, const void *packed, cudaStream_t stream);

#endif
