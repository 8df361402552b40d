#!/usr/bin/env python3
"""Tests that check_layers.py rejects each kind of violation, in temporary trees."""

import pathlib
import tempfile
import unittest

import check_layers

README = """```layers
descent: entry heap os
beside: compat/x inspection
below: base
```
"""

CLEAN = {
    "entry/malloc.cc": ["heap/heap.h", "granary/granary.h"],
    "compat/x/api.cc": ["inspection/control.h"],
    "heap/heap.h": ["heap/heap_impl.h", "os/os.h"],
    "heap/heap_impl.h": ["heap/heap.h"],
    "heap/heap.cc": ["heap/heap.h", "inspection/control.h"],
    "inspection/control.h": ["os/os.h", "base/text.h"],
    "inspection/control.cc": ["inspection/control.h"],
    "os/os.h": [],
    "base/text.h": [],
}


class CheckLayers(unittest.TestCase):
    def check(self, more):
        with tempfile.TemporaryDirectory() as folder:
            sources = pathlib.Path(folder)
            (sources / "README.md").write_text(README)
            for name, includes in {**CLEAN, **more}.items():
                (sources / name).parent.mkdir(parents=True, exist_ok=True)
                (sources / name).write_text("".join(f'#include "{i}"\n' for i in includes))
            return check_layers.check(sources, sources / "README.md")[0]

    def refused(self, more, *words):
        lines = "\n".join(self.check(more))
        for word in words:
            self.assertIn(word, lines)

    def drawn(self, *folders):
        with tempfile.TemporaryDirectory() as folder:
            readme, drawing = pathlib.Path(folder, "README.md"), pathlib.Path(folder, "descent.svg")
            readme.write_text(README)
            drawing.write_text("<title>heap/ entry/</title>" + "".join(f"<text>{name}</text>\n" for name in folders))
            return check_layers.check_drawing(drawing, readme)

    def test_accepts_a_drawing_in_the_order_of_the_readme(self):
        self.assertEqual(self.drawn("entry/", "runs heap/ inside", "heap/", "os/", "compat/x/  inspection/", "base/"), [])

    def test_refuses_a_drawing_without_a_folder_or_in_another_order(self):
        self.assertIn("descent.svg names entry heap os compat/x base;", self.drawn("entry/", "heap/", "os/", "compat/x/", "base/")[0])
        self.assertIn("entry os heap", self.drawn("entry/", "os/", "heap/", "compat/x/  inspection/", "base/")[0])

    def test_accepts_a_tree_in_order(self):
        self.assertEqual(self.check({}), [])

    def test_refuses_two_modules_of_one_folder_that_include_each_other(self):
        self.refused({"os/map.h": [], "os/map.cc": ["os/map.h", "os/lock.h"],
                      "os/lock.h": [], "os/lock.cc": ["os/lock.h", "os/map.h"]},
                     "modules include each other in a circle: os/lock -> os/map -> os/lock",
                     'core/src/os/lock.cc: #include "os/map.h"')

    def test_refuses_a_long_circle_of_modules(self):
        self.refused({"os/a.h": ["os/b.h"], "os/b.h": ["os/c.h"], "os/c.h": [], "os/c.cc": ["os/a.h"]},
                     "os/a -> os/b -> os/c -> os/a")

    def test_refuses_folders_of_two_lists_that_include_each_other(self):
        self.refused({"inspection/note.h": ["heap/fast.h"], "heap/fast.h": []},
                     "folders include each other in a circle: heap -> inspection -> heap")

    def test_refuses_an_include_upward(self):
        self.refused({"os/linux_memory.cc": ["heap/heap.h"]}, "heap comes before os")
        self.refused({"inspection/note.h": ["compat/x/api.h"], "compat/x/api.h": []}, "compat/x comes before inspection")

    def test_refuses_an_include_from_below(self):
        self.refused({"base/text.cc": ["os/os.h"]}, "base is below os")

    def test_refuses_a_folder_that_no_list_names(self):
        self.refused({"compat/y/api.cc": []}, "core/src/compat/y: name this folder")


PACKAGES = """| package | what it does |
|---|---|
| **commands** | |
| `top`, `ps` | two commands, `granary why` is none |
| `tool/internal/bench/report` | |
| **base** | |
| `procfs` | |

After the table.
"""

PACKAGES_CLEAN = {
    "top/top.go": ["ps", "procfs"],
    "ps/ps.go": ["procfs"],
    "bench/report/report.go": ["procfs"],
    "procfs/procfs.go": [],
    "procfs/procfs_test.go": ["top"],
}


class CheckPackages(unittest.TestCase):
    def check(self, more, readme=PACKAGES):
        with tempfile.TemporaryDirectory() as folder:
            internal = pathlib.Path(folder)
            (internal / "README.md").write_text(readme)
            for name, imports in {**PACKAGES_CLEAN, **more}.items():
                (internal / name).parent.mkdir(parents=True, exist_ok=True)
                lines = "".join(f'\t"host/granary/tool/internal/{i}"\n' for i in imports)
                (internal / name).write_text(f"package p\n\nimport (\n{lines})\n")
            return "\n".join(check_layers.check_packages(internal, internal / "README.md")[0])

    def test_accepts_packages_in_order(self):
        self.assertEqual(self.check({}), "")

    def test_refuses_an_import_of_an_earlier_package(self):
        self.assertIn("tool/internal/ps/more.go imports top", self.check({"ps/more.go": ["top"]}))
        self.assertIn("tool/internal/procfs/more.go imports bench/report", self.check({"procfs/more.go": ["bench/report"]}))

    def test_refuses_a_package_that_the_table_omits(self):
        self.assertIn("tool/internal/why: name this package", self.check({"why/why.go": []}))

    def test_refuses_a_row_without_a_package(self):
        readme = PACKAGES.replace("`ps`", "`ps`, `gone`")
        self.assertIn("gone is no package", self.check({}, readme))

    def test_refuses_a_package_that_is_listed_twice(self):
        readme = PACKAGES.replace("`ps`", "`ps`, `procfs`")
        self.assertIn("procfs is listed twice", self.check({}, readme))


if __name__ == "__main__":
    unittest.main()
