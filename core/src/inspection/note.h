// The ELF note by which a reader finds the descriptor in a process or a core file. The note is in
// the first page of the library's file, which is mapped and which core files contain. Its words are
// distances from themselves, so it needs no relocation. Include this header once, in a file that
// every program with the library links.
//
// Words of the note (name "Granary", type 1): the version of the note, which is also the request
// word, then the distances to the descriptor and to the bases, in the order of granary::Base.
//
// The request word is a futex whose value never changes. Background threads wait on it as well as
// on their own futex. A process that can open the file can map this page and wake the background
// threads of all processes that use the file.
#pragma once

__asm__(
    ".pushsection .note.granary, \"a\", %note\n"
    ".balign 4\n"
    ".long 8, 9f - 8f, 1\n"
    ".asciz \"Granary\"\n"
    ".globl granary_request_word\n"
    ".hidden granary_request_word\n"
    "granary_request_word:\n"
    "8:\n"
    ".quad 1\n"
    ".quad granary_descriptor - .\n"
    ".quad _ZN7granary6layersE - .\n"
    ".quad _ZN7granary8page_mapE - .\n"
    ".quad _ZN7granary6anchorE - .\n"
    ".quad _ZN7granary7optionsE - .\n"
    ".quad _ZN7granary7threadsE - .\n"
    ".quad _ZN7granary12system_callsE - .\n"
    ".quad _ZN7granary6upkeepE - .\n"
    ".quad _ZN7granary12kept_reportsE - .\n"
    "9:\n"
    ".popsection\n");
