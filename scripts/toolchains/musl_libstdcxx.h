// Included before everything in a musl build: makes the header-only part of a libstdc++ that was
// configured for glibc true of musl.
#pragma once
#define __GLIBC_PREREQ(major, minor) 0
#include <bits/c++config.h>
#undef _GLIBCXX_USE_PTHREAD_COND_CLOCKWAIT
#undef _GLIBCXX_USE_PTHREAD_MUTEX_CLOCKLOCK
#define __locale_t locale_t
