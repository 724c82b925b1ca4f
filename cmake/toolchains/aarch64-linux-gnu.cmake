# 64-bit ARM Linux with the cross compiler of Debian (gcc-aarch64-linux-gnu):
#   scripts/arm_sysroot build/arm-sysroot
#   cmake -B build/aarch64 -G Ninja --toolchain cmake/toolchains/aarch64-linux-gnu.cmake \
#       -DMOTE_SYSROOT=$PWD/build/arm-sysroot ...
# Libraries of the target are those of MOTE_SYSROOT. Without it they are found in PKG_CONFIG_LIBDIR, and the C library
# is that of the cross compiler. qemu-aarch64 runs what is built; QEMU_CPU and QEMU_PAGESIZE select CPU and page size.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES MOTE_SYSROOT)
if(MOTE_SYSROOT)
    set(CMAKE_SYSROOT ${MOTE_SYSROOT})
    set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
    set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
    set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
    set(ENV{PKG_CONFIG_LIBDIR} ${MOTE_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${MOTE_SYSROOT}/usr/share/pkgconfig)
    set(ENV{PKG_CONFIG_SYSROOT_DIR} ${MOTE_SYSROOT})
    set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L ${MOTE_SYSROOT})
else()
    set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu)
endif()
