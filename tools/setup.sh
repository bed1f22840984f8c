# shellcheck shell=bash disable=SC2034
# Functions shared by tools/demo, tools/site, tools/check and tools/check-memory that find or install what a run needs.
# To be sourced by bash. Everything that is installed is announced first.

fk_root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"

say() { printf '== %s\n' "$*"; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

# Fails without root and without a usable sudo; sudo may ask for a password on a terminal only.
can_be_root() {
  [ "$(id -u)" -eq 0 ] || { have sudo && { sudo -n true 2>/dev/null || [ -t 0 ]; }; }
}
as_root() { if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -E "$@"; fi; }

apt_has() { dpkg-query -W -f='${Status}' "$1" 2>/dev/null | grep -q 'ok installed'; }
apt_known() { apt-cache show "$1" >/dev/null 2>&1; }

fk_apt_updated=no
apt_update_once() {
  [ "$fk_apt_updated" = yes ] && return 0
  say "apt-get update"
  as_root apt-get update -qq </dev/null || say "apt-get update failed: continuing with the package lists of this machine"
  fk_apt_updated=yes
}

# Reads the output of a command and reports the elapsed time every 20 s.
tell_time() {
  local line from=$SECONDS told=$SECONDS
  while IFS= read -r -t 10 line || [ $? -gt 128 ]; do
    if [ $((SECONDS - told)) -ge 20 ]; then printf '   %d s\n' $((SECONDS - from)); told=$SECONDS; fi
  done
  return 0
}

# apt_install PACKAGE...: installs the missing packages; exit status nonzero if that fails.
apt_install() {
  local missing=() package
  for package in "$@"; do apt_has "$package" || missing+=("$package"); done
  [ "${#missing[@]}" -eq 0 ] && return 0
  can_be_root || return 1
  apt_update_once
  say "apt-get install ${missing[*]} (takes some minutes if R is among them)"
  as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${missing[@]}" </dev/null 2>&1 | tee "$fk_scratch/apt.log" | tell_time ||
    { tail -n 20 "$fk_scratch/apt.log" >&2; return 1; }
}

# System programs. r-base-dev includes the compiler and the BLAS headers that R links with.
need_r() {
  if ! have R || ! have Rscript || ! have make || ! have "$(R CMD config CC 2>/dev/null | cut -d' ' -f1)"; then
    have apt-get || die "R (>= 4.1) and a C compiler are needed, and this machine has no apt-get"
    apt_install r-base-core r-base-dev ||
      die "cannot install R here; run as root: apt-get install r-base-core r-base-dev"
  fi
  Rscript -e 'if (getRversion() < "4.1.0") quit(status = 1)' </dev/null ||
    die "R >= 4.1 is needed, found $(Rscript -e 'cat(as.character(getRversion()))')"
  say "R $(Rscript -e 'cat(as.character(getRversion()))'), $(R CMD config CC)"
}

# described_r_packages FIELD: the packages that this field of DESCRIPTION names, without those of base R.
described_r_packages() {
  Rscript --vanilla -e '
    field <- read.dcf(file.path(commandArgs(TRUE)[1], "DESCRIPTION"), commandArgs(TRUE)[2])
    names <- trimws(sub("[(].*", "", strsplit(field, ",")[[1]]))
    cat(setdiff(names, rownames(utils::installed.packages(priority = "base"))))' "$fk_root" "$1" </dev/null
}

# missing_r_packages PACKAGE...: the packages that are missing, or older than DESCRIPTION requires.
missing_r_packages() {
  Rscript --vanilla -e '
    fields <- read.dcf(file.path(commandArgs(TRUE)[1], "DESCRIPTION"), c("Imports", "Suggests"))
    wanted <- trimws(unlist(strsplit(fields, ",")))
    for (p in commandArgs(TRUE)[-1]) {
      least <- sub(".*>= *([0-9.-]+).*", "\\1", grep(paste0("^", p, " *[(]"), wanted, value = TRUE))
      found <- tryCatch(utils::packageVersion(p), error = function(e) NULL)
      if (is.null(found) || any(found < least)) cat(p, "")
    }' "$fk_root" "$@" </dev/null
}

# need_r_packages PACKAGE...: installs packages from the distribution if it has them, otherwise from CRAN. Names those
# that could not be installed.
need_r_packages() {
  local missing package debian=()
  missing="$(missing_r_packages "$@")"
  [ -z "${missing// /}" ] && return 0
  if have apt-get && can_be_root; then
    apt_update_once
    for package in $missing; do
      package="r-cran-$(printf '%s' "$package" | tr '[:upper:]' '[:lower:]')"
      if apt_known "$package"; then debian+=("$package"); fi
    done
    [ "${#debian[@]}" -gt 0 ] && { apt_install "${debian[@]}" || say "apt-get did not install all of them"; }
    missing="$(missing_r_packages $missing)"
  fi
  [ -z "${missing// /}" ] && return 0
  say "install.packages: $missing"
  Rscript -e '
    if (identical(unname(getOption("repos")["CRAN"]), "@CRAN@"))
      utils::chooseCRANmirror(graphics = FALSE, ind = 1, local.only = TRUE)
    library <- .libPaths()[1]
    if (file.access(library, 2) != 0) {
      library <- Sys.getenv("R_LIBS_USER")
      dir.create(library, recursive = TRUE, showWarnings = FALSE)
    }
    utils::install.packages(commandArgs(TRUE), lib = library, Ncpus = 2)' $missing </dev/null \
    2>&1 | tee "$fk_scratch/packages.log" | tell_time || true
  missing="$(missing_r_packages $missing)"
  [ -z "${missing// /}" ] && return 0
  tail -n 10 "$fk_scratch/packages.log" >&2
  say "could not be installed from the distribution or from CRAN: $missing"
  return 1
}

# need_described FIELD [PACKAGE...]: installs the packages of this field of DESCRIPTION, and those named.
need_described() {
  local names
  names="$(described_r_packages "$1")"
  shift
  need_r_packages $names "$@"
}

# The library for an R user's packages: the first one that can be written to.
user_library() {
  Rscript -e '
    candidates <- .libPaths()
    writable <- candidates[file.access(candidates, 2) == 0]
    library <- if (length(writable) > 0) writable[1] else path.expand(Sys.getenv("R_LIBS_USER"))
    dir.create(library, recursive = TRUE, showWarnings = FALSE)
    cat(library)' </dev/null
}

# The architecture of the first GPU, as FLASHKERNEL_CUDA_ARCH; fails if there is no GPU.
gpu_arch() {
  local capability
  capability="$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1 | tr -d .)"
  case "$capability" in
    "" | *[!0-9]*) return 1 ;;
    90) echo 90a ;; # with wgmma
    *) echo "$capability" ;;
  esac
}

# copy_sources DIRECTORY: copies the files of the repository, so that no other file gets into the package.
copy_sources() {
  rm -rf "$1"
  mkdir -p "$1"
  if have git && git -C "$fk_root" rev-parse --is-inside-work-tree >/dev/null 2>&1; then
    (cd "$fk_root" && git ls-files -co --exclude-standard -z |
      while IFS= read -r -d '' file; do [ -e "$file" ] && printf '%s\0' "$file"; done |
      tar --null -cf - -T -) | tar -C "$1" -xf -
  else
    (cd "$fk_root" && tar -cf - --exclude='./*.tar.gz' --exclude='./.git' .) | tar -C "$1" -xf -
  fi
}

# build_tarball DIRECTORY [R CMD build option...]: sets fk_tarball. R CMD build installs the package to build vignettes.
# It does so without the CUDA engine, which takes minutes, and without byte code, which takes longer than it saves.
build_tarball() {
  local where="$1"
  shift
  copy_sources "$where/source/flashkernel"
  say "packing the sources: R CMD build $*"
  (cd "$where" && FLASHKERNEL_CUDA=no R_COMPILE_PKGS=0 R CMD build "$@" source/flashkernel </dev/null) >"$where/build.log" 2>&1 ||
    { cat "$where/build.log" >&2; return 1; }
  fk_tarball="$(ls "$where"/flashkernel_*.tar.gz)"
}

# install_tarball LIBRARY: installs fk_tarball and reports the stages of R CMD INSTALL. Shows the whole log on failure.
install_tarball() {
  local log="$fk_scratch/install.log"
  say "installing the package into $1"
  R CMD INSTALL --library="$1" "$fk_tarball" 2>&1 </dev/null | tee "$log" | tell_stages
  [ "${PIPESTATUS[0]}" -eq 0 ] || { cat "$log" >&2; return 1; }
}

# Reads the output of R CMD INSTALL; prints a line for each stage, and one every 20 to 30 s within a stage.
tell_stages() {
  local line stage files=0 cuda=no from=$SECONDS told=$SECONDS
  while IFS= read -r -t 10 line || [ $? -gt 128 ]; do
    stage=""
    case "$line" in
      "configure: CUDA:"*toolkit*) stage="${line#configure: }" ;;
      "** libs"*) stage="compiling the C code (about 30 s of two cores)" ;;
      *nvcc*" -c "*)
        files=$((files + 1))
        [ "$cuda" = yes ] || stage="compiling the CUDA engine (about 2 min of two cores; FLASHKERNEL_CUDA=no skips it)"
        cuda=yes ;;
      *" -c "*" -o "*.o*) files=$((files + 1)) ;;
      "** R") stage="preparing the R code (about 20 s)" files=0 ;;
      "** help") stage="preparing the help pages (about 10 s)" ;;
    esac
    if [ -n "$stage" ]; then
      say "$stage"
      from=$SECONDS told=$SECONDS
    elif [ $((SECONDS - told)) -ge 20 ]; then
      printf '   %d s%s\n' $((SECONDS - from)) "$([ "$files" -eq 0 ] || echo ", $files files compiled")"
      told=$SECONDS
    fi
  done
  return 0
}

# Objects are compiled once for all installations of this run, without symbols for a debugger. The user's own Makevars is
# still read; the Makevars of the package has set NVCC before.
keep_objects() {
  local own="${R_MAKEVARS_USER:-$HOME/.R/Makevars}" compiler
  compiler="$(R CMD config CC)"
  mkdir -p "$fk_scratch/objects"
  {
    [ -r "$own" ] && cat "$own"
    echo "CC = $fk_root/tools/keep-object $compiler"
    echo "CFLAGS += -g0"
    echo "NVCC := $fk_root/tools/keep-object \$(NVCC)"
  } >"$fk_scratch/Makevars"
  export FK_OBJECTS="$fk_scratch/objects" R_MAKEVARS_USER="$fk_scratch/Makevars"
}

fk_scratch="$(mktemp -d "${TMPDIR:-/tmp}/flashkernel.XXXXXX")"
trap 'rm -rf "$fk_scratch"' EXIT
MAKEFLAGS="${MAKEFLAGS:--j$(nproc 2>/dev/null || echo 2)}"
export MAKEFLAGS
