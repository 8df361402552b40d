#!/usr/bin/env python3
"""Tests that the record keeps the lines of machines that were not booted here."""

import pathlib
import tempfile
import unittest

import counts
import report
import tables

COUNTED = """| 8 | larson | Granary | 1 | 2 | 3 | 4 | 5 |
| 8 | larson | glibc | 6 | 7 | 8 | 9 | 10 |
| 32 | larson | Granary | 11 | 12 | 13 | 14 | 15 |
"""
PAGE = f"""Before
<!-- measured -->
| arm64 | 6.1-arm64 | 2 | 1 | plain | edges | 6.1 | 37 | 1 | 0 | 0 | 2026-11-25 |

- arm64: failed: `one`: status 1
<!-- end of measured -->
<!-- counted -->
{COUNTED}<!-- end of counted -->
After
"""


class Record(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(setattr, tables, "STORE", tables.STORE)
        self.addCleanup(setattr, report, "PAGE", report.PAGE)
        tables.STORE = pathlib.Path(folder.name)
        report.PAGE = tables.STORE / "page.md"
        report.PAGE.write_text(PAGE)

    def record(self):
        report.record(tables.read_machines().values())
        return report.PAGE.read_text()

    def count(self, machine, row):
        run = tables.STORE / "runs" / f"{machine}.{counts.GROUP}"
        run.mkdir(parents=True)
        (run / "counts.tsv").write_text(row)

    def test_keeps_all_where_nothing_ran(self):
        page = self.record()
        self.assertIn(COUNTED, page)
        self.assertIn("| arm64 | 6.1-arm64 | 2 | 1 | plain | edges | 6.1 | 37 | 1 |", page)
        self.assertIn("- arm64: failed: `one`: status 1\n", page)
        self.assertEqual(page, self.record())

    def test_replaces_what_was_counted_here_only(self):
        library = counts.ALLOCATORS["glibc"]
        self.count("8cpu-2node", f"larson\t{library}\tinstructions=60000000 calls=70 futex=80 faults=90 switches=100\n")
        page = self.record()
        self.assertIn("| 8 | larson | Granary | 1 | 2 | 3 | 4 | 5 |\n| 8 | larson | glibc | 60 | 70 | 80 | 90 | 100 |\n", page)
        self.assertIn("| 32 | larson | Granary | 11 | 12 | 13 | 14 | 15 |\n", page)


if __name__ == "__main__":
    unittest.main()
