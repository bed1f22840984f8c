/* The kernel density estimate as one writes it first, in one dimension: a thread for each query, which walks
 * over all n sources in global memory. naive.R builds and runs it:
 *
 *   naive X Y SECONDS N H [N H ...]
 *
 * X, Y: files of floats, sources and queries; each N takes the first N of both, with bandwidth H. Prints
 * "n,width,seconds,error": seconds of one launch by CUDA events (median), for blocks of 2 to 1,024 threads, and
 * the largest relative error of 16 queries. Widths that would take longer than SECONDS, judged by a quarter as
 * many pairs before, are left out.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <algorithm>
#include <vector>
#include <cuda_runtime.h>

#define CHECK(call)                                                                                               \
  do {                                                                                                            \
    cudaError_t error = (call);                                                                                   \
    if (error != cudaSuccess) {                                                                                   \
      fprintf(stderr, "line %d: %s\n", __LINE__, cudaGetErrorString(error));                                      \
      exit(1);                                                                                                    \
    }                                                                                                             \
  } while (0)

__global__ void density(const float *x, int n, const float *y, int m, float inv_h, float norm, float *out) {
  int j = blockIdx.x * blockDim.x + threadIdx.x;
  if (j >= m) return;
  float at = y[j], sum = 0;
  for (int i = 0; i < n; i++) {
    float z = (at - x[i]) * inv_h;
    sum += expf(-0.5f * z * z);
  }
  out[j] = sum * norm;
}

static std::vector<float> read_floats(const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file) {
    fprintf(stderr, "cannot read %s\n", path);
    exit(1);
  }
  std::vector<float> values;
  float buffer[4096];
  for (size_t n; (n = fread(buffer, sizeof *buffer, 4096, file)) > 0;)
    values.insert(values.end(), buffer, buffer + n);
  fclose(file);
  return values;
}

/* Largest error at 16 queries, against sums in double. */
static double largest_error(const std::vector<float> &x, const std::vector<float> &y, int n, double h,
                            const float *device_out) {
  std::vector<float> out(n);
  CHECK(cudaMemcpy(out.data(), device_out, n * sizeof(float), cudaMemcpyDeviceToHost));
  double largest = 0;
  for (int k = 0; k < 16; k++) {
    int j = (int)((long long)k * n / 16);
    double sum = 0;
    for (int i = 0; i < n; i++) {
      double z = ((double)y[j] - x[i]) / h;
      sum += exp(-0.5 * z * z);
    }
    double want = sum / (n * h * sqrt(2 * M_PI));
    largest = std::max(largest, fabs(out[j] - want) / want);
  }
  return largest;
}

int main(int argc, char **argv) {
  if (argc < 6 || argc % 2 != 0) {
    fprintf(stderr, "usage: naive X Y SECONDS N H [N H ...]\n");
    return 2;
  }
  std::vector<float> x = read_floats(argv[1]), y = read_floats(argv[2]);
  double limit = atof(argv[3]);
  float *dx, *dy, *out;
  CHECK(cudaMalloc(&dx, x.size() * sizeof(float)));
  CHECK(cudaMalloc(&dy, y.size() * sizeof(float)));
  CHECK(cudaMalloc(&out, y.size() * sizeof(float)));
  CHECK(cudaMemcpy(dx, x.data(), x.size() * sizeof(float), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(dy, y.data(), y.size() * sizeof(float), cudaMemcpyHostToDevice));
  cudaEvent_t start, stop;
  CHECK(cudaEventCreate(&start));
  CHECK(cudaEventCreate(&stop));

  double seconds_per_pair[11] = {0}; /* by log2 of the width, at the size before */
  printf("n,width,seconds,error\n");
  for (int a = 4; a + 1 < argc; a += 2) {
    int n = atoi(argv[a]);
    double h = atof(argv[a + 1]);
    if (n < 16 || (size_t)n > x.size() || (size_t)n > y.size()) {
      fprintf(stderr, "n must be 16 to the number of points in both files\n");
      return 2;
    }
    for (int k = 1, width = 2; width <= 1024; k++, width *= 2) {
      if (seconds_per_pair[k] * n * n > limit) continue;
      auto launch = [&]() {
        density<<<(n + width - 1) / width, width>>>(dx, n, dy, n, (float)(1 / h),
                                                    (float)(1 / (n * h * sqrt(2 * M_PI))), out);
        CHECK(cudaGetLastError());
      };
      if (seconds_per_pair[k] * n * n < 0.5) launch(); /* warm; a long run needs no warming */
      std::vector<double> seconds;
      double total = 0;
      while (seconds.empty() || (total < 0.1 && seconds.size() < 21)) {
        CHECK(cudaEventRecord(start));
        launch();
        CHECK(cudaEventRecord(stop));
        CHECK(cudaEventSynchronize(stop));
        float ms;
        CHECK(cudaEventElapsedTime(&ms, start, stop));
        seconds.push_back(ms / 1e3);
        total += ms / 1e3;
      }
      std::sort(seconds.begin(), seconds.end());
      double median = seconds[seconds.size() / 2];
      seconds_per_pair[k] = median / n / n;
      printf("%d,%d,%.9g,%.3g\n", n, width, median, largest_error(x, y, n, h, out));
      fflush(stdout);
    }
  }
  return 0;
}
