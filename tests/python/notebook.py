"""The notebooks of experiments/python run, cell by cell, without Jupyter, pandas or matplotlib."""

import ast
import contextlib
import io
import json
import sys
import unittest

from testing import SOURCE, Case, tandem


class Notebook(Case):
    def run_cells(self, path):
        """What each code cell prints."""
        notebook = json.loads(path.read_text(encoding="utf-8"))
        self.assertEqual(notebook["nbformat"], 4)
        names, said = {"__name__": "__main__"}, []
        for cell in notebook["cells"]:
            self.assertIn(cell["cell_type"], ("markdown", "code"))
            if cell["cell_type"] == "markdown":
                continue
            self.assertEqual(cell["outputs"], [], "a notebook in the tree has no outputs")
            out = io.StringIO()
            code = compile(ast.parse("".join(cell["source"])), f"{path.name}:{cell['id']}", "exec")
            with contextlib.redirect_stdout(out):
                exec(code, names)
            said.append(out.getvalue())
        return names, said

    def test_capacity(self):
        # As if neither were installed: an import of them fails.
        hidden = {name: None for name in ("matplotlib", "matplotlib.pyplot", "pandas")}
        before = {name: sys.modules.get(name) for name in hidden}
        sys.modules.update(hidden)
        try:
            names, said = self.run_cells(SOURCE / "experiments" / "python" / "capacity.ipynb")
        finally:
            for name, module in before.items():
                if module is None:
                    del sys.modules[name]
                else:
                    sys.modules[name] = module
        self.assertRegex(said[1], r"tp1.* on dgx-h100: \d+ GPUs?, \d")
        self.assertEqual(said[2].count("TPOT p99"), 3)
        curve = names["curve"]
        self.assertEqual({len(column) for column in curve.values()}, {3})
        self.assertLess(curve["tpot_p99_s"][0], curve["tpot_p99_s"][2])
        self.assertIn("ttft_s", said[3])

    def test_columns_fill_what_is_missing(self):
        rows = [{"a": 1, "b": "x"}, {"a": None, "c": 2.5}]
        columns = tandem.columns(rows)
        self.assertEqual(list(columns), ["a", "b", "c"])
        self.assertEqual((columns["a"][0], columns["b"], columns["c"][1]), (1, ["x", None], 2.5))
        self.assertNotEqual(columns["a"][1], columns["a"][1])  # NaN
        self.assertNotEqual(columns["c"][0], columns["c"][0])
        self.assertEqual(tandem.columns([]), {})


if __name__ == "__main__":
    unittest.main()
