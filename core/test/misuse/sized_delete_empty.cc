// dies: sized free
// An object of no bytes is deleted as one of 40 bytes.
#include <new>

#include "../check.h"

int main() { ::operator delete (Hide(::operator new(HideSize(0))), size_t{40}); }
