# Debian's musl-gcc compiles C only. The C++ compiler is the system's g++ with musl's C headers
# below the freestanding part of its own C++ headers; linking is done by musl-gcc, as C.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ${CMAKE_HOST_SYSTEM_PROCESSOR})
set(CMAKE_C_COMPILER musl-gcc)
set(CMAKE_CXX_COMPILER g++)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)

execute_process(COMMAND g++ -dumpversion OUTPUT_VARIABLE version OUTPUT_STRIP_TRAILING_WHITESPACE)
execute_process(COMMAND g++ -print-multiarch OUTPUT_VARIABLE arch OUTPUT_STRIP_TRAILING_WHITESPACE)
execute_process(COMMAND g++ -print-file-name=include OUTPUT_VARIABLE builtin
  OUTPUT_STRIP_TRAILING_WHITESPACE)
string(REGEX MATCH "^[0-9]+" version "${version}")
set(musl_headers /usr/include/${CMAKE_HOST_SYSTEM_PROCESSOR}-linux-musl)

# libstdc++ was configured for glibc and asks for its version; under musl the answer is no.
string(JOIN " " CMAKE_CXX_FLAGS_INIT -nostdinc -nostdinc++
  "-D'__GLIBC_PREREQ(major,minor)=0'"
  -isystem /usr/include/c++/${version} -isystem /usr/include/${arch}/c++/${version}
  -isystem ${builtin} -isystem ${musl_headers})
