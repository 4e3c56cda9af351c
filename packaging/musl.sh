# shellcheck shell=sh
# The standard libraries for devices, which stand on musl. A script that includes this file defines `die`.
#
# rustup adds these libraries. A toolchain that is not rustup's (Debian's) has none, and a mirror may lack one: Rust's own compiler
# is unpacked in the cache folder then, and nothing of the host changes.

# Rust's name of an architecture, and its emulator.
target_of() { # ARCHITECTURE
	case $1 in
	x86_64 | aarch64) echo "$1-unknown-linux-musl" ;;
	armv7) echo armv7-unknown-linux-musleabihf ;;
	*) die "there is no build for $1; there are x86_64, aarch64 and armv7" ;;
	esac
}

emulator_of() { # ARCHITECTURE
	case $1 in
	armv7) echo qemu-arm ;;
	*) echo "qemu-$1" ;;
	esac
}

has_library() { # TARGET
	ls "$(${RUSTC:-rustc} --print target-libdir --target "$1" 2>/dev/null)"/libstd-*.rlib >/dev/null 2>&1
}

# ---- Rust's own compiler, where the one in force is another ----

rust=1.95.0
# Mirrors may have a part in only one of these folders.
rust_urls='https://static.rust-lang.org/dist/2026-04-16 https://static.rust-lang.org/dist'
rust_folder=${XDG_CACHE_HOME:-$HOME/.cache}/brisk/rust-$rust

# Checksums (SHA-256) and names of its parts.
rust_parts() {
	cat <<-END
		8426a3d170a5879f5682f5fbdd024a1779b3951e7baba685af2d6dc32a6dfc15 rustc-$rust-x86_64-unknown-linux-gnu
		047ea7098803d3500fa1072e9cee5392697e21525559e4458128a2bf874aa382 rust-std-$rust-x86_64-unknown-linux-gnu
		aee540abf132920f791ef781489851a078d69dff493fb628d49c1d573f92bb3a rust-std-$rust-x86_64-unknown-linux-musl
		f6710416ed9a7d5cf2a15efa761eb79a1deeb43f9961bbe05cc97bec4ef9064a rust-std-$rust-aarch64-unknown-linux-musl
		77f9aaff4669c076edc96cdb99dc21749d2c692c862232b52176572c289fe671 rust-std-$rust-armv7-unknown-linux-musleabihf
	END
}

fetch_part() { # NAME ARCHIVE
	for url in $rust_urls; do
		curl -fsSL --retry 3 -o "$2" "$url/$1.tar.xz" && return
	done
	die "cannot fetch $1.tar.xz from $rust_urls"
}

fetch_rust() { # TARGET
	[ "$(uname -m)" = x86_64 ] || die "no standard library for musl here: take a toolchain of rustup's (https://rustup.rs)"
	mkdir -p "$rust_folder"
	rust_parts | while read -r checksum part; do
		case $part in
		*-musl*) [ "$part" = "rust-std-$rust-$1" ] || continue ;;
		esac
		[ -e "$rust_folder/$part" ] && continue
		printf '==> unpacking %s\n' "$part" >&2
		archive=$rust_folder/$part.tar.xz
		fetch_part "$part" "$archive"
		echo "$checksum  $archive" | sha256sum --quiet --check >&2 || die "$archive is not what was expected"
		tar --directory "$rust_folder" --strip-components=2 -xJf "$archive"
		rm "$archive"
		: >"$rust_folder/$part"
	done
}

provide_library() { # TARGET
	has_library "$1" && return
	case $(rustc --print sysroot) in
	*/toolchains/*) rustup target add "$1" >&2 && return ;;
	esac
	fetch_rust "$1"
	RUSTC=$rust_folder/bin/rustc
	export RUSTC
	has_library "$1" || die "there is no standard library for $1"
}
