# The library as other programs see it: libmote.so, libmote.a, its two headers, a pkg-config
# file and a CMake package, all showing mote_* and nothing else.
include(CMakePackageConfigHelpers)

# Inside, symbols are hidden by the compiler (cmake/flags.cmake); MOTE_API shows them again.
add_library(mote_shared SHARED $<TARGET_OBJECTS:mote_objects>)
set_target_properties(mote_shared PROPERTIES OUTPUT_NAME mote EXPORT_NAME mote LINKER_LANGUAGE C
    VERSION ${PROJECT_VERSION} SOVERSION 0 LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
target_include_directories(mote_shared INTERFACE
    $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(mote_shared PRIVATE Threads::Threads PkgConfig::UTF8PROC m)
# The sanitizers' own functions come with the program, not the library. The linker of macOS allows no
# undefined symbol by default.
if(NOT MOTE_SANITIZE AND MOTE_SYSTEM STREQUAL linux)
    target_link_options(mote_shared PRIVATE -Wl,--no-undefined)
endif()

# A static archive hides nothing by itself: its pool_new would meet the program's own.
# So the one that is installed holds a single object in which only mote_* is global.
# mote_static keeps everything within reach, for the tests and the command line.
#
# This needs a linker and an objcopy that read the objects of the compiler. Neither macOS nor
# ziglang has them; the static library is then not installed.
function(mote_can_hide result)
    set(${result} FALSE PARENT_SCOPE)
    set(probe ${CMAKE_BINARY_DIR}/CMakeFiles/hide_probe)
    file(MAKE_DIRECTORY ${probe})
    set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
    try_compile(compiled SOURCE_FROM_CONTENT hide.c "int hide_probe(void); int hide_probe(void) { return 1; }\n"
        COPY_FILE ${probe}/hide.a NO_CACHE)
    if(NOT compiled OR NOT CMAKE_LINKER OR NOT CMAKE_OBJCOPY)
        return()
    endif()
    execute_process(COMMAND ${CMAKE_LINKER} -r -o ${probe}/hide.o --whole-archive ${probe}/hide.a
        RESULT_VARIABLE linked OUTPUT_QUIET ERROR_QUIET)
    execute_process(COMMAND ${CMAKE_OBJCOPY} --localize-hidden ${probe}/hide.o
        RESULT_VARIABLE hidden OUTPUT_QUIET ERROR_QUIET)
    if(linked EQUAL 0 AND hidden EQUAL 0)
        set(${result} TRUE PARENT_SCOPE)
    endif()
endfunction()

if(NOT DEFINED MOTE_CAN_HIDE)
    mote_can_hide(can_hide)
    set(MOTE_CAN_HIDE ${can_hide} CACHE INTERNAL "ld -r and objcopy --localize-hidden work")
endif()
if(MOTE_CAN_HIDE)
    set(one_object ${CMAKE_BINARY_DIR}/lib/mote.o)
    add_custom_command(OUTPUT ${one_object}
        COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/lib
        COMMAND ${CMAKE_LINKER} -r -o ${one_object} $<TARGET_OBJECTS:mote_objects>
        COMMAND ${CMAKE_OBJCOPY} --localize-hidden ${one_object}
        DEPENDS mote_objects $<TARGET_OBJECTS:mote_objects> COMMAND_EXPAND_LISTS VERBATIM
        COMMENT "Hiding the insides of the static library")
    set_source_files_properties(${one_object} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
    add_library(mote_archive STATIC ${one_object})
    set_target_properties(mote_archive PROPERTIES OUTPUT_NAME mote EXPORT_NAME mote_static
        LINKER_LANGUAGE C ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
    target_include_directories(mote_archive INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
    target_link_libraries(mote_archive PUBLIC Threads::Threads PkgConfig::UTF8PROC m)
    install(TARGETS mote_archive EXPORT mote-targets)
else()
    message(STATUS "No ld -r or objcopy for this compiler: the static library is not installed")
endif()

# Both descriptions find the rest from where they stand themselves, so that the
# tree can be installed to one place and moved to another.
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/mote)
file(RELATIVE_PATH PREFIX_FROM_PC /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" PREFIX_FROM_PC "${PREFIX_FROM_PC}")
configure_file(cmake/mote.pc.in ${CMAKE_BINARY_DIR}/lib/mote.pc @ONLY)
configure_package_config_file(cmake/mote-config.cmake.in ${CMAKE_BINARY_DIR}/lib/mote-config.cmake
    INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/lib/mote-config-version.cmake
    COMPATIBILITY SameMinorVersion)

install(TARGETS mote_shared EXPORT mote-targets)
install(EXPORT mote-targets NAMESPACE mote:: DESTINATION ${package_dir})
install(FILES include/mote.h include/mote_chat.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES ${CMAKE_BINARY_DIR}/lib/mote.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES ${CMAKE_BINARY_DIR}/lib/mote-config.cmake
    ${CMAKE_BINARY_DIR}/lib/mote-config-version.cmake DESTINATION ${package_dir})
