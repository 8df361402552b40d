# What is shipped: a shared library, an archive, and one object that overrides malloc in a static link.

# GCC 12 has no -nostdlib++: linking as C, without CMake's list of C++ libraries, has that effect.
set(CMAKE_CXX_IMPLICIT_LINK_LIBRARIES "")
add_library(granary SHARED ${objects})
set_target_properties(granary PROPERTIES LINKER_LANGUAGE C VERSION 1 SOVERSION 1)
target_link_options(granary PRIVATE -static-libgcc
  # Far from everything else, so that no fault maps it by the way; see entry/layout.cc.
  LINKER:--section-start=.granary_descriptor=0x100000
  LINKER:--as-needed LINKER:-z,now LINKER:-z,noseparate-code LINKER:-z,relro LINKER:-z,nodelete LINKER:--gc-sections LINKER:--no-undefined)

add_library(granary_static STATIC ${objects})
set_target_properties(granary_static PROPERTIES OUTPUT_NAME granary EXPORT_NAME static)

foreach(library granary granary_static)
  target_include_directories(${library} INTERFACE
    $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/include>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endforeach()

set(override_object ${CMAKE_BINARY_DIR}/lib/granary.o)
add_custom_command(OUTPUT ${override_object}
  COMMAND ${CMAKE_C_COMPILER} -nostdlib -r -o ${override_object} ${objects}
  DEPENDS ${objects} COMMAND_EXPAND_LISTS VERBATIM
  COMMENT "Linking the override object granary.o")
add_custom_target(granary_object ALL DEPENDS ${override_object})
add_custom_target(ship DEPENDS granary granary_static granary_object)

install(TARGETS granary granary_static EXPORT granary)
install(FILES ${override_object} DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/granary DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(PROGRAMS ${CMAKE_BINARY_DIR}/bin/granary DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES ${CMAKE_SOURCE_DIR}/LICENSE ${CMAKE_SOURCE_DIR}/CHANGELOG.md
  DESTINATION ${CMAKE_INSTALL_DOCDIR})

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
