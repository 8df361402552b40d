#!/usr/bin/env python3
"""Tests that check_suites.py rejects each kind of wrong row, in a temporary tree."""

import pathlib
import tempfile
import unittest

import check_suites

SOURCE = """void Called() {
  free(nullptr);
}
void NeverCalled() {
}
int main() { Called(); }
"""


class CheckSuites(unittest.TestCase):
    def check(self, cell, head="tests"):
        with tempfile.TemporaryDirectory() as folder:
            tests = pathlib.Path(folder)
            (tests / "conform").mkdir()
            (tests / "conform" / "one.cc").write_text(SOURCE)
            (tests / "programs.cmake").write_text("foreach(test conform.two)")
            page = tests / "page.md"
            page.write_text(f"| case | checks | {head} |\n|---|---|---|\n| a | b | {cell} |\n")
            return "\n".join(check_suites.check(page, tests)[0])

    def test_accepts_tests_functions_and_reasons(self):
        for cell in ("`conform.one`", "`conform.one`: `Called`; in short", "not applicable: nothing of the kind"):
            self.assertEqual(self.check(cell), "", cell)

    def test_refuses_a_test_that_does_not_exist(self):
        self.assertIn("page.md:3: a: no test is called conform.two", self.check("`conform.two`"))
        self.assertIn("hardened.conform.one", self.check("`hardened.conform.one`"))

    def test_refuses_functions_that_are_missing_or_not_called(self):
        self.assertIn("Missing", self.check("`conform.one`: `Missing`"))
        self.assertIn("NeverCalled", self.check("`conform.one`: `NeverCalled`"))

    def test_refuses_a_row_without_test_or_reason(self):
        self.assertIn("names no test", self.check("somewhere else"))

    def test_refuses_a_page_without_a_table(self):
        self.assertIn("no table", self.check("`conform.one`", head="other"))


if __name__ == "__main__":
    unittest.main()
