/* The tasks of tensor.cuh by wgmma (Hopper; built if FK_CUDA_SM90A is defined, otherwise nothing is supported):
 * plan, pack the columns once, launch over any rows. Packed columns depend on the task's columns, values and
 * weights and on whether it has a factor or omits pairs, but not on rows, slots and precision. */
#ifndef FK_CUDA_SUMS_WGMMA_CUH
#define FK_CUDA_SUMS_WGMMA_CUH

#include "tensor.cuh"

#include <cuda_runtime.h>
#include <stddef.h>

/* For devices of capability 9.0. */
bool fk_wgmma_supports(const struct fk_tensor_task *task);
/* Are the rows' low parts omitted as well? If so, their offsets must be those of the high parts. */
bool fk_wgmma_has_high_rows(const struct fk_tensor_task *task);
/* unit: slots are multiples of it. */
void fk_wgmma_plan(int64_t n_cols, int64_t n_rows_total, bool has_values, int unit, int *slots,
                   int64_t *cols_per_slot);
/* The columns of a stage and the rows of a block, for tasks of few dimensions. */
void fk_wgmma_tiles(const struct fk_tensor_task *task, int *stage_cols, int *block_rows);
size_t fk_wgmma_pack_bytes(const struct fk_tensor_task *task);
cudaError_t fk_wgmma_pack(const struct fk_tensor_task *task, void *packed, cudaStream_t stream);
/* Packs only the task's weights, into columns that are packed already. */
cudaError_t fk_wgmma_weigh(const struct fk_tensor_task *task, void *packed, cudaStream_t stream);
/* Rows of points of many dimensions are also packed like columns, as the task's row_stages; other tasks need 0
 * bytes. */
size_t fk_wgmma_row_bytes(const struct fk_tensor_task *task);
cudaError_t fk_wgmma_pack_rows(const struct fk_tensor_task *task, void *stages, cudaStream_t stream);
cudaError_t fk_wgmma_launch(const struct fk_tensor_task *task, const void *packed, cudaStream_t stream);

#endif
