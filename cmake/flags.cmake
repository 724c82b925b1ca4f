# Compiler flags, once. The numerics contract lives here as much as in the code:
# no contraction, no fast-math, and instruction sets only by file name
# (src/kernels/CMakeLists.txt).
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

# Warnings depend on the version of the compiler, so they fail the builds of developers and CI only:
# the presets ci, debug, asan and tsan, and .ci/run.
option(MOTE_WERROR "treat compiler warnings as errors" OFF)

add_compile_options(-ffp-contract=off -Wall -Wextra $<$<BOOL:${MOTE_WERROR}>:-Werror> -Wshadow
    -Wstrict-prototypes -Wmissing-prototypes -Wundef -Wpointer-arith -Wvla -fno-math-errno)
add_compile_definitions(_POSIX_C_SOURCE=200809L)
if(MOTE_SYSTEM STREQUAL macos) # there the line above hides what POSIX does not have
    add_compile_definitions(_DARWIN_C_SOURCE)
endif()

option(MOTE_FUZZ "build the libFuzzer targets (clang only)" OFF)
set(MOTE_MAX_ISA "" CACHE STRING "the highest instruction set level this build may use: ref, avx2, avxvnni, avx512; ref, neon, dotprod")
set(MOTE_SANITIZE "" CACHE STRING "comma-separated sanitizers, e.g. address,undefined")
if(MOTE_SANITIZE)
    add_compile_options(-fsanitize=${MOTE_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    add_link_options(-fsanitize=${MOTE_SANITIZE})
else()
    add_compile_options(-fstack-protector-strong)
    add_compile_options($<$<CONFIG:Release>:-D_FORTIFY_SOURCE=2>)
    if(MOTE_SYSTEM STREQUAL linux)
        add_link_options(-Wl,-z,relro,-z,now,-z,noexecstack)
    endif()
endif()
