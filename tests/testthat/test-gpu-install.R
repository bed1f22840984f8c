# The GPU engine as a file: where it is looked for, what is said of a file that cannot be used, and install_gpu().

internal <- asNamespace("flashkernel")
GPU_FILE <- internal$GPU_FILE

# A shared object, compiled from C code; skips without a compiler.
shared_object <- function(code) {
  folder <- tempfile("engine")
  dir.create(folder)
  writeLines(code, file.path(folder, "stub.c"))
  to <- file.path(folder, GPU_FILE)
  suppressWarnings(system2(
    file.path(R.home("bin"), "R"), c("CMD", "SHLIB", "-o", shQuote(to), shQuote(file.path(folder, "stub.c"))),
    stdout = FALSE, stderr = FALSE
  ))
  if (!file.exists(to)) skip("no C compiler")
  to
}
OTHER_ABI <- "const int *flashkernel_gpu(int abi, const void *host) { static const int table[64] = {999}; return table; }"

# The error of using a file as the engine.
refusal <- function(path) tryCatch(.Call(internal$ffi_gpu_try, path), error = identity)
expect_refusal <- function(path, text) {
  error <- refusal(path)
  expect_s3_class(error, "flashkernel_error_no_device")
  expect_match(conditionMessage(error), text)
}

# In a new process with FLASHKERNEL_GPU = path and an empty user folder: `work`.
with_engine <- function(path, work) {
  folder <- tempfile("data")
  with_variable("FLASHKERNEL_GPU", path, with_variable("R_USER_DATA_DIR", folder, in_child(work)))
}

sha256 <- function(file) .Call(internal$ffi_sha256, file)

test_that("files that are no engine of this version are refused in words", {
  expect_refusal(tempfile(), "cannot be loaded")
  text <- tempfile(fileext = ".so")
  writeLines(rep("not a shared object", 100), text)
  expect_refusal(text, "cannot be loaded")
  expect_refusal(shared_object("int other(void) { return 1; }"), "is not a GPU engine of flashkernel")
  other <- shared_object(OTHER_ABI)
  expect_refusal(other, "for another version of flashkernel \\(interface 999, not [0-9]+\\)")
  skip_on_os("windows")
  skip_on_os("mac")
  whole <- readBin(other, "raw", file.size(other))
  for (part in c(0.02, 0.5, 0.99)) {
    cut <- tempfile(fileext = ".so")
    writeBin(whole[seq_len(part * length(whole))], cut)
    expect_refusal(cut, "cut short")
  }
  whole[19:20] <- as.raw(c(0xf3, 0)) # RISC-V
  writeBin(whole, cut)
  expect_refusal(cut, "cannot be loaded")
})

test_that("a file that cannot be used is the status of gpu_info(), an error of backend = \"cuda\", and no more", {
  found <- with_engine(shared_object(OTHER_ABI), function() {
    big <- matrix(stats::qnorm(seq(0.01, 0.99, length.out = 6000)), ncol = 2)
    sums <- \(backend) kernel_sum(big, bandwidth = 1, tol = 0, control = flash_control(backend = backend))
    list(
      loaded = flashkernel:::backend_info()$gpu_engine, status = gpu_info()$status, text = utils::capture.output(gpu_info()),
      error = tryCatch(sums("cuda"), error = identity), auto = sums("auto"), cpu = sums("cpu"), engine = gpu_info()$engine
    )
  })
  expect_true(found$loaded)
  expect_match(found$status, "another version")
  expect_match(found$text[1], "CUDA: not available, the GPU engine is for another version")
  expect_s3_class(found$error, "flashkernel_error_no_device")
  expect_identical(found$auto, found$cpu)
  expect_identical(basename(found$engine), GPU_FILE)
})

test_that("the variable is looked at first, then the package, then the user's folder", {
  folder <- tempfile("data")
  with_variable("R_USER_DATA_DIR", folder, with_variable("FLASHKERNEL_GPU", "", {
    own <- file.path(internal$gpu_folders()[1], GPU_FILE)
    expect_identical(internal$gpu_file(), if (file.exists(own)) own else "")
    users <- file.path(internal$gpu_folders()[2], GPU_FILE)
    dir.create(dirname(users), recursive = TRUE)
    file.create(users)
    expect_identical(internal$gpu_file(), if (file.exists(own)) own else users)
    Sys.setenv(FLASHKERNEL_GPU = "/not/here.so")
    expect_identical(internal$gpu_file(), "/not/here.so")
  }))
})

test_that("without an engine, gpu_info() says how to get one", {
  found <- with_engine("", \() list(engine = flashkernel:::gpu_file(), info = gpu_info()))
  skip_if(nzchar(found$engine), "this package has an engine")
  expect_identical(found$info$status, "no GPU engine is installed; see ?install_gpu")
  expect_identical(found$info$engine, NA_character_)
  expect_identical(found$info$toolkit, NA_character_)
})

test_that("install_gpu() checks its arguments and the checksum, and keeps an earlier file that works", {
  folder <- tempfile("data")
  with_variable("R_USER_DATA_DIR", folder, {
    users <- file.path(internal$gpu_folders()[2], GPU_FILE)
    other <- shared_object(OTHER_ABI)
    expect_argument_error(install_gpu(tempfile()), "file")
    expect_argument_error(install_gpu(1), "file")
    expect_argument_error(install_gpu(other, ask = NA), "ask")
    expect_argument_error(install_gpu(other, sha256 = strrep("0", 64)), "sha256")
    writeLines(paste(strrep("1", 64), GPU_FILE), paste0(other, ".sha256"))
    expect_argument_error(install_gpu(other), "sha256")
    writeLines(paste(sha256(other), GPU_FILE), paste0(other, ".sha256"))
    dir.create(dirname(users), recursive = TRUE)
    writeLines("earlier", users)
    expect_error(install_gpu(other), "another version", class = "flashkernel_error_no_device")
    expect_identical(readLines(users), "earlier")
    expect_identical(list.files(dirname(users)), GPU_FILE) # nothing is left behind
  })
})

test_that("install_gpu() downloads a file with its checksum, and says so if it cannot", {
  other <- shared_object(OTHER_ABI)
  address <- paste0("file://", normalizePath(other, "/"))
  folder <- tempfile("data")
  with_variable("R_USER_DATA_DIR", folder, {
    expect_message(tryCatch(install_gpu(url = address, ask = FALSE), error = identity), "NVIDIA's license")
    none <- tryCatch(suppressMessages(install_gpu(url = address, ask = FALSE)), error = conditionMessage)
    expect_match(none, "cannot be downloaded.*tools/gpu-plugin")
    writeLines(sha256(other), paste0(other, ".sha256"))
    suppressMessages({
      expect_error(install_gpu(url = address, ask = FALSE), "another version")
      expect_argument_error(install_gpu(url = address, sha256 = "00", ask = FALSE), "sha256")
      expect_null(install_gpu(url = address, ask = TRUE)) # nobody answers
    })
  })
})

test_that("an engine from a file is installed, found and used", {
  file <- Sys.getenv("FLASHKERNEL_GPU", file.path(internal$gpu_folders()[1], GPU_FILE))
  skip_if_not(file.exists(file), "no GPU engine")
  folder <- tempfile("data")
  with_variable("R_USER_DATA_DIR", folder, with_variable("FLASHKERNEL_GPU", "", {
    expect_message(to <- install_gpu(file, sha256 = sha256(file)), "Installed")
    expect_identical(sha256(to), sha256(file))
    info <- with_variable("FLASHKERNEL_GPU", to, in_child(\() gpu_info()))
    expect_match(info$toolkit, "^[0-9]+[.][0-9]+$")
    expect_match(info$architectures, "[0-9]{2}")
    expect_identical(info$engine, to)
    whole <- readBin(file, "raw", file.size(file))
    writeBin(whole[seq_len(length(whole) - 100)], to)
    expect_refusal(to, "cut short")
  }))
})

test_that("SHA-256 is that of the standard", {
  file <- tempfile()
  digest_of <- function(text) {
    writeBin(charToRaw(text), file)
    sha256(file)
  }
  expect_identical(digest_of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
  expect_identical(digest_of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
  expect_identical(
    digest_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
    "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"
  )
  expect_identical(sha256(tempfile()), "")
})
