# 64-bit ARM Linux with the cross compiler of Debian (gcc-aarch64-linux-gnu):
#   cmake -B build/aarch64 -G Ninja --toolchain cmake/toolchains/aarch64-linux-gnu.cmake ...
# Libraries for the target are found in PKG_CONFIG_LIBDIR. qemu-aarch64 runs what is built.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
