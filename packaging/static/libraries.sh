# SPDX-License-Identifier: Apache-2.0
# libraries.sh - one function per library of the static binary. Sourced by `build`.
#
# Each function runs in a copy of the unpacked source. PATH begins with the compiler of the target
# (cc, ar, ranlib, pkg-config); $prefix gets headers, archives and .pc files; $arch is x86_64 or
# aarch64; $toolchain is the file for CMake. A path of the build must not get into an archive: so
# prefixes are /usr and DESTDIR is not.

# library_cmake [OPTION...]: configures, builds and installs the source in the current directory.
library_cmake() {
    cmake -S . -B mote-build -G Ninja --toolchain "$toolchain" -DCMAKE_BUILD_TYPE=Release \
        -DCMAKE_INSTALL_PREFIX="$prefix" -DCMAKE_INSTALL_LIBDIR=lib -DBUILD_SHARED_LIBS=OFF \
        -DCMAKE_POLICY_DEFAULT_CMP0074=NEW "$@"
    cmake --build mote-build
    cmake --install mote-build
}

library_configure() {
    CC=cc AR=ar RANLIB=ranlib PKG_CONFIG=pkg-config ./configure --host="$arch-linux-musl" --build="$(uname -m)-linux-gnu" --prefix="$prefix" \
        --disable-shared --enable-static "$@"
}

# library_pc NAME VERSION LIBS [REQUIRES]: a .pc file for sources whose own one has wrong paths.
library_pc() {
    mkdir -p "$prefix/lib/pkgconfig"
    cat >"$prefix/lib/pkgconfig/$1.pc" <<EOF
Name: $1
Description: $1
Version: $2
Requires: ${4:-}
Libs: -L$prefix/lib $3
Cflags: -I$prefix/include
EOF
}

build_zlib() {
    CC=cc AR=ar RANLIB=ranlib CFLAGS=-O2 ./configure --static --prefix="$prefix"
    make -j "$jobs" libz.a
    make install
}

build_utf8proc() { library_cmake; }

# Only its header is used.
build_xxhash() { install -D -m 644 xxhash.h "$prefix/include/xxhash.h"; }

# `cmake --build` would also link a shared library.
build_libuv1() {
    cmake -S . -B mote-build -G Ninja --toolchain "$toolchain" -DCMAKE_BUILD_TYPE=Release \
        -DLIBUV_BUILD_TESTS=OFF -DLIBUV_BUILD_BENCH=OFF
    cmake --build mote-build --target uv_a
    install -D -m 644 mote-build/libuv_a.a "$prefix/lib/libuv_a.a"
    mkdir -p "$prefix/include"
    cp -R include/uv.h include/uv "$prefix/include"
    library_pc libuv 1.44.2 "-luv_a -lpthread"
}

build_libpng1.6() {
    library_cmake -DPNG_SHARED=OFF -DPNG_TESTS=OFF -DPNG_EXECUTABLES=OFF -DZLIB_ROOT="$prefix"
}

build_libjpeg-turbo() {
    library_cmake -DENABLE_SHARED=OFF -DWITH_TURBOJPEG=OFF -DWITH_ARITH_ENC=OFF -DREQUIRE_SIMD=ON \
        -DCMAKE_INSTALL_LIBDIR="$prefix/lib"
}

build_giflib() {
    local file
    for file in dgif_lib egif_lib gif_err gif_hash gifalloc openbsd-reallocarray; do
        cc -O2 -std=gnu99 -c "$file.c"
    done
    ar rcs libgif.a ./*.o
    install -D -m 644 libgif.a "$prefix/lib/libgif.a"
    install -D -m 644 gif_lib.h "$prefix/include/gif_lib.h"
}

build_libwebp() {
    local part options=()
    for part in ANIM_UTILS CWEBP DWEBP GIF2WEBP IMG2WEBP VWEBP WEBPINFO WEBPMUX EXTRAS; do
        options+=(-DWEBP_BUILD_$part=OFF)
    done
    library_cmake "${options[@]}" -DWEBP_LINK_STATIC=ON
}

build_libseccomp() {
    library_configure
    make -j "$jobs" -C include
    make -j "$jobs" -C src libseccomp.la
    make -C include install
    make -C src install-libLTLIBRARIES
    library_pc libseccomp 2.5.4 -lseccomp
}

# The terminals that have a description in the binary work without a terminfo database.
build_ncurses() {
    library_configure --prefix=/usr --without-shared --with-normal --without-debug --without-cxx \
        --without-cxx-binding --without-ada --without-manpages --without-tests --without-progs \
        --with-termlib=tinfo --enable-widec --disable-home-terminfo --disable-root-environ \
        --with-build-cc=/usr/bin/cc --with-tic-path=/usr/bin/tic --with-infocmp-path=/usr/bin/infocmp \
        --with-terminfo-dirs=/etc/terminfo:/lib/terminfo:/usr/share/terminfo \
        --with-default-terminfo-dir=/usr/share/terminfo \
        --with-fallbacks=xterm-256color,xterm,screen-256color,screen,tmux-256color,tmux,linux,vt100,vt220,rxvt-unicode-256color,alacritty,foot
    make -j "$jobs" -C include
    make -j "$jobs" -C ncurses ../lib/libtinfo.a
    install -D -m 644 lib/libtinfo.a "$prefix/lib/libtinfo.a"
    for header in curses.h term.h termcap.h unctrl.h ncurses_dll.h; do
        install -D -m 644 include/$header "$prefix/include/$header"
    done
}

# wchar_t of musl is Unicode; its headers do not say so.
build_libedit() {
    CFLAGS="-O2 -D__STDC_ISO_10646__=201206L -I$prefix/include" LDFLAGS="-L$prefix/lib" \
        library_configure --disable-examples
    make -j "$jobs" -C src
    make -C src install-libLTLIBRARIES install-nobase_includeHEADERS
    library_pc libedit 3.1 "-ledit -ltinfo"
}

# A client of TLS 1.2 and 1.3. It reads no openssl.cnf: that of the machine may name modules that
# this library cannot load.
build_openssl() {
    local without
    without="aria bf blake2 camellia cast cmp cms comp ct des dgram dsa dso dtls ec2m engine gost idea
        legacy md4 mdc2 module multiblock nextprotoneg ocb ocsp psk rc2 rc4 rfc3779 rmd160 scrypt seed
        shared siphash siv sm2 sm3 sm4 srp srtp ssl3 ssl-trace tests tls1 tls1_1 ts
        ui-console whirlpool"
    # shellcheck disable=SC2086
    CC=cc AR=ar RANLIB=ranlib ./Configure "linux-$arch" --prefix=/usr --libdir=lib \
        --openssldir=/etc/ssl no-autoload-config no-capieng no-afalgeng no-devcryptoeng \
        $(printf 'no-%s ' $without) -O2
    make -j "$jobs" build_generated
    make -j "$jobs" libcrypto.a libssl.a
    mkdir -p "$prefix/lib" "$prefix/include/openssl"
    install -m 644 libcrypto.a libssl.a "$prefix/lib"
    install -m 644 include/openssl/*.h "$prefix/include/openssl"
    library_pc libcrypto 3.0.22 "-lcrypto -lpthread"
    library_pc libssl 3.0.22 "-lssl" libcrypto
    library_pc openssl 3.0.22 "" "libssl libcrypto"
}

# HTTPS and proxies. mote-pull names the file of authorities.
build_curl() {
    library_cmake -DBUILD_CURL_EXE=OFF -DBUILD_TESTING=OFF -DHTTP_ONLY=ON -DCURL_USE_OPENSSL=ON \
        -DOPENSSL_ROOT_DIR="$prefix" -DOPENSSL_USE_STATIC_LIBS=ON -DCURL_ZLIB=OFF -DCURL_BROTLI=OFF \
        -DCURL_ZSTD=OFF -DUSE_NGHTTP2=OFF -DUSE_LIBIDN2=OFF -DCURL_USE_LIBSSH2=OFF -DENABLE_MANUAL=OFF \
        -DCURL_USE_LIBSSH=OFF -DENABLE_THREADED_RESOLVER=ON -DCURL_DISABLE_NTLM=ON \
        -DCURL_DISABLE_ALTSVC=ON -DCURL_DISABLE_HSTS=ON -DCURL_DISABLE_COOKIES=ON \
        -DCURL_DISABLE_NETRC=ON -DCURL_DISABLE_MIME=ON -DCURL_DISABLE_DOH=ON -DCURL_DISABLE_GETOPTIONS=ON \
        -DCURL_CA_BUNDLE=none -DCURL_CA_PATH=none -DHAVE_POLL_FINE=1 -DHAVE_POLL_FINE_EXITCODE=0
    library_pc libcurl 7.88.1 "-lcurl -lpthread" "libssl libcrypto"
}
