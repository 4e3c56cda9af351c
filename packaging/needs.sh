# shellcheck shell=sh
# Installs what brisk's own scripts need and this machine lacks. `dev` includes this file and defines `say` and `die`.

as_root() {
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	elif command -v sudo >/dev/null; then
		sudo "$@"
	else
		die "need root to run: $* (install sudo, or run that command as root)"
	fi
}

apt_updated=
apt_update() {
	if [ -z "$apt_updated" ]; then
		command -v apt-get >/dev/null || die "no apt-get here; install by hand what this needs: $*"
		# A broken third-party source must not stop this: the install step fails if a package is really missing.
		as_root apt-get -qq -o DPkg::Lock::Timeout=300 update </dev/null || say "apt-get update complained; going on"
		apt_updated=yes
	fi
}

# --no-remove: a package that conflicts with something installed is refused, never swapped in.
apt_install() {
	say "installing $*"
	apt_update "$@"
	# What dpkg says about each package matters only if one cannot be installed.
	said=$(as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 \
		install --no-install-recommends --no-remove -y "$@" 2>&1 </dev/null) || {
		say "cannot install $*: $said"
		return 2
	}
}

# need WHAT:PACKAGE...  installs the packages whose WHAT (a command, or a file when it holds a slash) is missing.
need() {
	missing=
	for pair in "$@"; do
		what=${pair%%:*}
		case $what in
		*/*) [ -e "$what" ] || missing="$missing ${pair#*:}" ;;
		*) PATH=$PATH:/usr/sbin:/sbin command -v "$what" >/dev/null || missing="$missing ${pair#*:}" ;;
		esac
	done
	# shellcheck disable=SC2086 # a list of package names
	[ -z "$missing" ] || apt_install $missing
}

# True when `cargo` is found, works, and is not older than the crate asks for.
cargo_is_recent() {
	wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
	found=$(cargo --version 2>/dev/null | cut -d' ' -f2)
	[ -n "$found" ] && [ "$(printf '%s\n%s\n' "$wanted" "$found" | sort -V | head -n 1)" = "$wanted" ]
}

# A rustup toolchain that is recent enough is used; otherwise Debian's, which is current as `cargo-web` and lies
# in /usr/bin beside whatever rustup keeps in the home folder.
need_rust() {
	need gcc:gcc /usr/lib/x86_64-linux-gnu/libc.a:libc6-dev /etc/ssl/certs/ca-certificates.crt:ca-certificates
	cargo_is_recent && return
	PATH=/usr/bin:$PATH
	export PATH
	hash -r
	# Only Debian has these packages; elsewhere the last line says what to do.
	cargo_is_recent || apt_install cargo-web rustc-web || :
	hash -r
	cargo_is_recent || die "cargo $wanted or newer is needed, $(cargo --version 2>&1 | head -n 1) was found: https://rustup.rs"
}

# packaging/build-release fetches a compiler where the one in force has no musl.
need_release() {
	need_rust
	need curl:curl /etc/ssl/certs/ca-certificates.crt:ca-certificates xz:xz-utils readelf:binutils
}

need_lint_tools() {
	need shellcheck:shellcheck
	need_rust
	cargo fmt --version >/dev/null 2>&1 && cargo clippy --version >/dev/null 2>&1 && return
	case $(command -v cargo) in
	/usr/bin/cargo) apt_install rust-web-clippy rustfmt-web ;;
	*) rustup component add clippy rustfmt ;;
	esac
}

# The lab fetches its kernels itself, through apt's lists but without installing them.
need_lab() {
	need qemu-system-x86_64:qemu-system-x86 make:make patch:patch kmod:kmod xz:xz-utils \
		/usr/lib/x86_64-linux-gnu/libelf.so.1:libelf1 perl:perl mkfs.ext4:e2fsprogs
	need_package_lists
}

# Packages of Python that Debian lacks lie in the cache; PYTHONPATH names them.
need_python_package() { # NAME REQUIREMENT
	need python3:python3 pip3:python3-pip
	folder=${XDG_CACHE_HOME:-$HOME/.cache}/brisk/$1
	if [ ! -e "$folder/$2" ]; then
		say "installing $2 into $folder"
		rm -rf "$folder"
		mkdir -p "$folder"
		python3 -m pip install --quiet --disable-pip-version-check --no-compile --target "$folder" "$2" >&2 ||
			die "cannot install $2; is there a network?"
		touch "$folder/$2"
	fi
	PYTHONPATH=$folder${PYTHONPATH:+:$PYTHONPATH}
	export PYTHONPATH
}

# Guests of arm64: TARGET's standard library, which only rustup adds to the compiler in use, their emulator, and the compiler
# that links their program and builds their modules. False, with the reason, where one cannot be had.
need_lab_arm64() { # TARGET
	case $(rustc --print sysroot) in
	*/toolchains/*) rustup target add "$1" || : ;;
	esac
	if ! ls "$(rustc --print target-libdir --target "$1" 2>/dev/null)"/libstd-*.rlib >/dev/null 2>&1; then
		say "no standard library for $1, which rustup has: guests of arm64 are skipped"
		return 1
	fi
	if ! need qemu-system-aarch64:qemu-system-arm aarch64-linux-gnu-gcc:gcc-aarch64-linux-gnu; then
		say "no emulator or no compiler for arm64: its guests are skipped"
		return 1
	fi
}

# For kernels that the lab builds from a distribution's sources.
need_kernel_build() {
	need bc:bc bison:bison flex:flex /usr/include/gelf.h:libelf-dev /usr/include/openssl/opensslv.h:libssl-dev
}

# A container's image comes without apt's lists.
need_package_lists() {
	apt-cache show linux-image-amd64 >/dev/null 2>&1 || apt_update
}
