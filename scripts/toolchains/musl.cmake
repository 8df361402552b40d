# Debian's musl-gcc compiles C only. The C++ compiler is the system's g++ with musl's C headers
# below the header-only part of its own C++ headers; linking is done by musl-gcc, as C.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ${CMAKE_HOST_SYSTEM_PROCESSOR})
set(CMAKE_C_COMPILER musl-gcc)
set(CMAKE_CXX_COMPILER g++)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)

function(ask_compiler variable)
  execute_process(COMMAND g++ ${ARGN} OUTPUT_VARIABLE answer OUTPUT_STRIP_TRAILING_WHITESPACE)
  set(${variable} ${answer} PARENT_SCOPE)
endfunction()
ask_compiler(version -dumpversion)
ask_compiler(arch -print-multiarch)
ask_compiler(builtin_headers -print-file-name=include)
string(REGEX MATCH "^[0-9]+" version "${version}")

# musl has no kernel headers; the system's serve both, without glibc's beside them.
set(kernel_headers ${CMAKE_BINARY_DIR}/kernel-headers)
file(MAKE_DIRECTORY ${kernel_headers})
foreach(folder linux asm-generic ${arch}/asm)
  cmake_path(GET folder FILENAME name)
  if(NOT EXISTS ${kernel_headers}/${name})
    file(CREATE_LINK /usr/include/${folder} ${kernel_headers}/${name} SYMBOLIC)
  endif()
endforeach()

set(musl_headers /usr/include/${CMAKE_HOST_SYSTEM_PROCESSOR}-linux-musl)
string(JOIN " " CMAKE_C_FLAGS_INIT -idirafter ${kernel_headers})
string(JOIN " " CMAKE_CXX_FLAGS_INIT -nostdinc -nostdinc++
  -include ${CMAKE_CURRENT_LIST_DIR}/musl_libstdcxx.h
  -isystem /usr/include/c++/${version} -isystem /usr/include/${arch}/c++/${version}
  -isystem ${builtin_headers} -isystem ${musl_headers} -idirafter ${kernel_headers})
