# SPDX-License-Identifier: Apache-2.0
# Recipe in the form of termux-packages: installs the static program for 64-bit ARM.
# scripts/release writes the address and the checksum of the archive into it.
# Not run on a phone yet: docs/portability.md says what was tested.
TERMUX_PKG_HOMEPAGE=@HOMEPAGE@
TERMUX_PKG_DESCRIPTION="Runtime and server for Qwen 3.5 language models on CPUs"
TERMUX_PKG_LICENSE="Apache-2.0"
TERMUX_PKG_MAINTAINER="@termux-user-repository"
TERMUX_PKG_VERSION=@VERSION@
TERMUX_PKG_SRCURL=@URL@/mote-$TERMUX_PKG_VERSION-linux-aarch64.tar.gz
TERMUX_PKG_SHA256=@SHA256@
TERMUX_PKG_DEPENDS="ca-certificates"
TERMUX_PKG_BUILD_IN_SRC=true
TERMUX_PKG_EXCLUDED_ARCHES="arm, i686, x86_64"

termux_step_make_install() {
    install -Dm700 -t "$TERMUX_PREFIX/bin" bin/mote
    cp -r share "$TERMUX_PREFIX/"
}
