# The operating system: src/base has one os_<system>.c for each, and the sandboxes are Linux's or absent.
if(CMAKE_SYSTEM_NAME STREQUAL Linux)
    set(MOTE_SYSTEM linux)
    set(MOTE_SANDBOX linux)
elseif(CMAKE_SYSTEM_NAME STREQUAL Darwin)
    set(MOTE_SYSTEM macos)
    set(MOTE_SANDBOX absent)
    if(CMAKE_CROSSCOMPILING) # CMake asks the machine whether its libraries are found by @rpath
        set(CMAKE_SHARED_LIBRARY_RUNTIME_C_FLAG "-Wl,-rpath,")
    endif()
else()
    message(FATAL_ERROR "${CMAKE_SYSTEM_NAME} is not supported: src/base/os.h is implemented for Linux and macOS")
endif()
