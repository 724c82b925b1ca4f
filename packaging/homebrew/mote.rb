# SPDX-License-Identifier: Apache-2.0
# Homebrew formula. scripts/release writes the address and the checksum of the source archive into it.
# Not run on a Mac yet: docs/portability.md says what was tested.
class Mote < Formula
  desc "Runtime and server for Qwen 3.5 language models on CPUs"
  homepage "@HOMEPAGE@"
  url "@URL@/mote-@VERSION@.tar.gz"
  sha256 "@SHA256@"
  license "Apache-2.0"

  depends_on "cmake" => :build
  depends_on "ninja" => :build
  depends_on "pkgconf" => :build
  depends_on "giflib"
  depends_on "jpeg-turbo"
  depends_on "libpng"
  depends_on "libuv"
  depends_on "openssl@3"
  depends_on "utf8proc"
  depends_on "webp"
  depends_on "xxhash"

  uses_from_macos "curl"
  uses_from_macos "libedit"

  on_linux do
    depends_on "libseccomp"
  end

  def install
    system "cmake", "-S", ".", "-B", "build", "-G", "Ninja", "-DBUILD_TESTING=OFF", *std_cmake_args
    system "cmake", "--build", "build"
    system "cmake", "--install", "build"
  end

  service do
    run [opt_bin/"mote", "serve"]
    keep_alive true
    log_path var/"log/mote.log"
    error_log_path var/"log/mote.log"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/mote version")
    assert_match "bit for bit", shell_output("#{bin}/mote selftest")
  end
end
