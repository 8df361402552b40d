# What is shipped: a shared library, an archive, and one object that overrides malloc in a static link.

# GCC 12 has no -nostdlib++: linking as C, without CMake's list of C++ libraries, has that effect.
set(CMAKE_CXX_IMPLICIT_LINK_LIBRARIES "")
add_library(granary SHARED ${objects} preload/dlopen.cc)
target_link_libraries(granary PRIVATE granary_flags)
target_compile_options(granary PRIVATE $<${language_cxx}:-fno-exceptions>)
set_target_properties(granary PROPERTIES LINKER_LANGUAGE C VERSION 1 SOVERSION 1)
target_link_options(granary PRIVATE -static-libgcc
  # Far from everything else, so that no fault maps it by the way; see inspection/descriptor.cc.
  LINKER:--section-start=.granary_descriptor=0x200000
  # musl-gcc asks for no index of frame tables, which walks of stacks begin with.
  LINKER:--eh-frame-hdr
  LINKER:--as-needed LINKER:-z,now LINKER:-z,noseparate-code
  # The kernel maps what is touched by windows of 64 KiB: begin on one.
  LINKER:-z,max-page-size=65536 LINKER:-z,relro LINKER:-z,nodelete LINKER:--gc-sections LINKER:--no-undefined
  LINKER:-T,${CMAKE_CURRENT_SOURCE_DIR}/cold.ld LINKER:-T,${CMAKE_CURRENT_SOURCE_DIR}/apart.ld)
set_target_properties(granary PROPERTIES LINK_DEPENDS
  "${CMAKE_CURRENT_SOURCE_DIR}/cold.ld;${CMAKE_CURRENT_SOURCE_DIR}/apart.ld")

add_library(granary_static STATIC ${objects})
set_target_properties(granary_static PROPERTIES OUTPUT_NAME granary EXPORT_NAME static)

foreach(library granary granary_static)
  target_include_directories(${library} INTERFACE
    $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/include>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endforeach()

# What `granary record` preloads in front of any allocator.
file(GLOB recorder_sources CONFIGURE_DEPENDS record/*.cc)
# It walks stacks as the library does.
set(walker "/src/(unwind|os)/")
add_library(granary_record SHARED ${recorder_sources}
  $<FILTER:$<TARGET_OBJECTS:granary_layers>,INCLUDE,${walker}>)
target_link_libraries(granary_record PRIVATE granary_flags ${CMAKE_DL_LIBS})
# Exceptions pass through its operators.
target_compile_options(granary_record PRIVATE -O2 -fno-exceptions -fasynchronous-unwind-tables)
set_target_properties(granary_record PROPERTIES LINKER_LANGUAGE C OUTPUT_NAME granary-record)
target_link_options(granary_record PRIVATE -static-libgcc LINKER:-z,now LINKER:-z,nodelete LINKER:--gc-sections LINKER:--no-undefined
  LINKER:-Bsymbolic-functions)  # in a process that is attached to, its symbols are not the first

set(override_object ${CMAKE_BINARY_DIR}/lib/granary.o)
add_custom_command(OUTPUT ${override_object}
  COMMAND ${CMAKE_C_COMPILER} -nostdlib -r -o ${override_object} ${objects}
  DEPENDS ${objects} COMMAND_EXPAND_LISTS VERBATIM
  COMMENT "Linking the override object granary.o")
add_custom_target(granary_object ALL DEPENDS ${override_object})

# For programs that carry a jemalloc with the prefix je_ in their source: the archive to put in its
# place. It has these names only, so that their malloc stays that of the C library, as with theirs.
function(granary_prefixed_archive name)
  set(archive ${CMAKE_BINARY_DIR}/lib/lib${name}.a)
  add_custom_command(OUTPUT ${archive}
    COMMAND ${CMAKE_C_COMPILER} -nostdlib -r -o ${name}.o ${ARGN}
    COMMAND ${CMAKE_OBJCOPY} --wildcard --keep-global-symbol=je_* ${name}.o
    COMMAND ${CMAKE_COMMAND} -E rm -f ${archive}
    COMMAND ${CMAKE_AR} rcs ${archive} ${name}.o
    DEPENDS ${ARGN} COMMAND_EXPAND_LISTS VERBATIM COMMENT "Linking lib${name}.a")
  add_custom_target(${name} DEPENDS ${archive})
endfunction()
granary_prefixed_archive(granary_je ${objects})
granary_prefixed_archive(granary_je_q3 $<TARGET_OBJECTS:granary_q3>)  # Valkey's; on demand
add_custom_target(ship DEPENDS granary granary_static granary_object granary_je granary_record)

install(TARGETS granary granary_static EXPORT granary)
install(TARGETS granary_record)
install(FILES ${override_object} ${CMAKE_BINARY_DIR}/lib/libgranary_je.a DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/granary DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

# The names under which programs look for jemalloc and TCMalloc, in a tree of their own, so that an
# installed Granary does not stand in the way of theirs: LD_LIBRARY_PATH, pkg-config or
# --with-jemalloc=DIR lead to it. All links are relative. build/names is the same without installing.
set(shared_names libgranary.so.1 libjemalloc.so libjemalloc.so.2 libtcmalloc.so libtcmalloc.so.4
  libtcmalloc_minimal.so libtcmalloc_minimal.so.4)
set(static_names libjemalloc.a libjemalloc_pic.a libtcmalloc.a libtcmalloc_minimal.a)
set(names ${CMAKE_INSTALL_LIBDIR}/granary)
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/names/lib)
foreach(kind shared static)
  set(target libgranary.a)
  if(kind STREQUAL shared)
    set(target libgranary.so.1)
  endif()
  foreach(name ${${kind}_names})
    file(CREATE_LINK ../../lib/${target} ${CMAKE_BINARY_DIR}/names/lib/${name} SYMBOLIC)
    install(CODE "
      set(folder \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${names}/lib\")
      file(MAKE_DIRECTORY \"\${folder}\")
      file(CREATE_LINK ../../${target} \"\${folder}/${name}\" SYMBOLIC)")
  endforeach()
endforeach()
install(DIRECTORY include/jemalloc include/gperftools include/google DESTINATION ${names}/include)
set(packages ${CMAKE_SOURCE_DIR}/integrations/packages)
foreach(package jemalloc libtcmalloc)
  install(FILES ${packages}/${package}.pc DESTINATION ${names}/lib/pkgconfig)
endforeach()
install(FILES ${packages}/libtcmalloc.pc DESTINATION ${names}/lib/pkgconfig
  RENAME libtcmalloc_minimal.pc)
install(PROGRAMS ${packages}/jemalloc-config DESTINATION ${names}/bin)
install(PROGRAMS ${CMAKE_BINARY_DIR}/bin/granary DESTINATION ${CMAKE_INSTALL_BINDIR})
# Manual pages and completion come from the command itself.
install(CODE "
  set(share \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}\")
  execute_process(COMMAND ${CMAKE_BINARY_DIR}/bin/granary man \"\${share}/man/man1\" COMMAND_ERROR_IS_FATAL ANY)
  foreach(file bash-completion/completions/granary zsh/site-functions/_granary fish/vendor_completions.d/granary.fish)
    string(REGEX MATCH \"^[a-z]+\" shell \${file})
    get_filename_component(folder \${share}/\${file} DIRECTORY)
    file(MAKE_DIRECTORY \${folder})
    execute_process(COMMAND ${CMAKE_BINARY_DIR}/bin/granary completion \${shell} OUTPUT_FILE \${share}/\${file} COMMAND_ERROR_IS_FATAL ANY)
  endforeach()")
install(FILES ${CMAKE_SOURCE_DIR}/LICENSE ${CMAKE_SOURCE_DIR}/CHANGELOG.md
  DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY ${CMAKE_SOURCE_DIR}/docs/reference ${CMAKE_SOURCE_DIR}/docs/guides
  ${CMAKE_SOURCE_DIR}/docs/design ${CMAKE_SOURCE_DIR}/docs/images DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES ${CMAKE_SOURCE_DIR}/docs/glossary.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

set(packages ${CMAKE_SOURCE_DIR}/integrations/packages)
set(cmake_package ${CMAKE_INSTALL_LIBDIR}/cmake/Granary)
configure_file(${packages}/granary.pc.in granary.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/granary.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
include(CMakePackageConfigHelpers)
write_basic_package_version_file(GranaryConfigVersion.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${packages}/GranaryConfig.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/GranaryConfigVersion.cmake DESTINATION ${cmake_package})
install(EXPORT granary NAMESPACE Granary:: FILE GranaryTargets.cmake DESTINATION ${cmake_package})
