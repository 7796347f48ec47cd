#!/bin/sh
# The program on aarch64, which hosts of GH200 and GB200 are, without such a host: cross-built and
# run under qemu-user, in build-aarch64/.
#
#     tests/aarch64.sh            what that needs; then 'meson test -C build-aarch64 TEST...'
#
# Compiler, emulator and libraries are packages of this system's own sources, fetched once and
# unpacked in the folder, not installed: root is not needed. Exit status 77: they cannot be had.
set -eu
cd "$(dirname "$0")/.."
build=$PWD/build-aarch64
triple=aarch64-linux-gnu
tools='gcc-aarch64-linux-gnu qemu-user'
libraries='libgsl-dev libyaml-dev libsqlite3-dev zlib1g-dev libcriterion-dev libopenblas0'

skip() {
  echo "$0: skipped: $*" >&2
  exit 77
}

# fetch FOLDER ARCHITECTURE STATUS PACKAGES : with all they need that the file STATUS does not have
# as installed.
fetch() {
  mkdir -p "$1/lists/partial" "$1/archives/partial"
  for command in update "install --download-only $4"; do
    # shellcheck disable=SC2086 # words of a command
    apt-get --yes --no-install-recommends -o APT::Architecture="$2" -o APT::Architectures::="$2" \
      -o Dir::State="$1" -o Dir::State::Lists="$1/lists" -o Dir::State::status="$3" \
      -o Dir::Cache="$1" -o Debug::NoLocking=1 -o APT::Sandbox::User= \
      $command >"$1/log" 2>&1 </dev/null || {
      cat "$1/log" >&2
      skip "no packages for $2"
    }
  done
}

# unpack NAME ARCHITECTURE STATUS PACKAGES : as $build/NAME, whole or not at all.
unpack() {
  [ ! -d "$build/$1" ] || return 0
  fetch "$build/packages/$1" "$2" "$3" "$4"
  rm -rf "$build/$1.part"
  mkdir "$build/$1.part"
  for package in "$build/packages/$1/archives"/*.deb; do
    [ ! -e "$package" ] || dpkg-deb -x "$package" "$build/$1.part"
  done
  mv "$build/$1.part" "$build/$1"
}

# launcher NAME PROGRAM OPTION... : $build/bin/NAME runs a program of $build/tools, or this system's
# where it has one.
launcher() {
  name=$1 program=$build/tools/usr/bin/$2
  [ -x "$program" ] || program=$2
  shift 2
  cat >"$build/bin/$name" <<END
#!/bin/sh
export LD_LIBRARY_PATH='$build/tools/usr/lib/$(gcc -dumpmachine)'
exec '$program' $* "\$@"
END
  chmod +x "$build/bin/$name"
}

# Absolute links are meant for a system whose root this is.
mend_links() {
  find "$1" -type l -lname '/*' -printf '%p\n' | while IFS= read -r link; do
    target=$(readlink "$link")
    case $target in "$1"/*) ;; *) ln -sfn "$1$target" "$link" ;; esac
  done
  ln -sf openblas-pthread/libopenblas.so.0 "$1/usr/lib/$triple/libopenblas.so.0"
}

make_tools() {
  mkdir -p "$build/packages" "$build/bin"
  : >"$build/packages/nothing"
  unpack tools "$(dpkg --print-architecture)" /var/lib/dpkg/status "$tools"
  unpack sysroot arm64 "$build/packages/nothing" "$libraries"
  mend_links "$build/sysroot"
  launcher cc $triple-gcc "--sysroot='$build/sysroot'"
  launcher ar $triple-gcc-ar
  launcher strip $triple-strip
  launcher emulate qemu-aarch64 -U LD_LIBRARY_PATH -L "'$build/sysroot'"
  ccache=
  ! command -v ccache >/dev/null 2>&1 || ccache="'ccache', "
  cat >"$build/cross.ini" <<END
[binaries]
c = [$ccache'$build/bin/cc']
ar = '$build/bin/ar'
strip = '$build/bin/strip'
pkgconfig = 'pkg-config'
exe_wrapper = '$build/bin/emulate'
[properties]
emulator = '$build/bin/emulate'
sys_root = '$build/sysroot'
pkg_config_libdir = '$build/sysroot/usr/lib/$triple/pkgconfig'
[host_machine]
system = 'linux'
cpu_family = 'aarch64'
cpu = 'armv8-a'
endian = 'little'
END
}

[ "$(uname -m)" != aarch64 ] || skip 'this is such a host: meson test -C build'
for program in apt-get dpkg-deb; do
  command -v $program >/dev/null 2>&1 || skip "no $program, so no packages"
done
[ -f "$build/cross.ini" ] || make_tools
[ -f "$build/build.ninja" ] ||
  meson setup "$build" --cross-file "$build/cross.ini" -Doptimization=2 -Ddebug=false
