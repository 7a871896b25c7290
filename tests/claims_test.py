"""The statistics of examples/claims, and that the pages' tables are what its command prints. Run by tests/claims.cmake."""
import pathlib
import sys
import unittest

root = pathlib.Path(__file__).parent.parent
sys.path.insert(0, str(root / "examples" / "claims"))
import paired  # noqa: E402
import judge  # noqa: E402
import papers  # noqa: E402
import tables  # noqa: E402

# freedom, t, P(|T| >= t) by mpmath 1.3.0: some of tests/core/student_t_test.cpp. scipy 1.17.1 agrees.
tails = [(1, 0.5, 0.704832764699133452), (1, 64, 0.00994637455790082571), (2, 2.5, 0.129611720221510809),
         (3, 4, 0.028008456010146167), (4, 2.5, 0.066766544811988145), (5, 10, 0.000170947575742963591),
         (9, 0.03125, 0.975752203222630573), (9, 64, 2.8012475896940788e-13)]
# confidence, freedom, t: scipy 1.17.1, stats.t.ppf((1 + confidence) / 2, freedom).
quantiles = [(0.95, 4, 2.7764451051977934), (0.95, 7, 2.3646242515927849), (0.95, 12, 2.1788128296672284),
             (0.90, 7, 1.8945786050900073)]
differences = [0.012, 0.018, 0.009, 0.015, 0.011, 0.02, 0.014, 0.013]
others = [0.005, 0.008, 0.003, 0.006, 0.007, 0.006, 0.004, 0.009]


class Statistics(unittest.TestCase):
    def test_student_t_is_the_recorded_one(self):
        for freedom, t, p in tails:
            self.assertAlmostEqual(paired.tail(t, freedom) / p, 1, delta=1e-12)
        for confidence, freedom, t in quantiles:
            self.assertAlmostEqual(paired.quantile(confidence, freedom), t, delta=1e-12)

    def test_p_at_the_ends_of_an_interval_is_what_it_leaves_out(self):
        for end in paired.interval(differences):
            self.assertAlmostEqual(paired.two_sided(differences, end), 0.05, delta=1e-12)

    def test_an_equivalence_is_shown_where_the_90_percent_interval_touches_the_margin(self):
        low, high = paired.interval(differences, 0.90)
        self.assertGreater(low, 0)
        self.assertAlmostEqual(paired.equivalence(differences, high), 0.05, delta=1e-12)

    def test_fieller_ends_are_ratios_that_the_pairs_just_allow(self):
        for end in paired.fieller(differences, others):
            self.assertAlmostEqual(paired.two_sided([a - end * b for a, b in zip(differences, others)]), 0.05, delta=1e-10)
        self.assertIsNone(paired.fieller(differences, [0.01, -0.01] * 4))

    def test_holm_steps_down(self):
        for got, want in zip(paired.holm([0.01, 0.04, 0.03, 0.005]), [0.03, 0.06, 0.06, 0.02]):
            self.assertAlmostEqual(got, want)


class Verdicts(unittest.TestCase):
    def row(self, values, **spec):
        runs = [{"seed": i, "loss": v} for i, v in enumerate(values)]
        base = [{"seed": i, "loss": 0.0} for i, _ in enumerate(values)]
        half = [{"seed": i, "loss": v} for i, v in enumerate(others)]
        results = {"arms": [{"name": "a", "runs": runs}, {"name": "b", "runs": base}, {"name": "c", "runs": half}]}
        return judge.judged({"of": "a - b", **spec}, results, list(range(len(values))))

    def test_weights_and_signs_of_a_contrast(self):
        arms = {"a, b": {1: 5.0}, "c": {1: 2.0}}
        self.assertEqual(judge.contrast(arms, "a, b - 2*c + a, b", [1]), [6.0])

    def test_the_side_of_the_limit_decides_between_holds_and_fails(self):
        self.assertTrue(self.row(differences, want="above 0")["side"])
        self.assertTrue(self.row(differences, want="within 0.02")["side"])
        outside = self.row(differences, want="within 0.01")
        self.assertFalse(outside["side"])
        self.assertAlmostEqual(outside["p"], paired.two_sided(differences, 0.01))

    def test_a_share_of_seeds_and_a_number_of_errors_are_wanted_besides(self):
        values = differences[:6] + [-0.001, -0.001]
        self.assertTrue(self.row(values, want="above 0", share=0.75)["enough"])
        self.assertFalse(self.row(values, want="above 0", share=0.8)["enough"])
        self.assertTrue(self.row(differences, want="above 0", errors=3)["enough"])
        self.assertFalse(self.row(differences, want="above 0.012", errors=3)["enough"])

    def test_a_ratio_is_tested_as_a_difference(self):
        row = self.row(differences, over="c - b", want="above 3")
        self.assertFalse(row["side"])
        self.assertAlmostEqual(row["p"], paired.two_sided([a - 3 * b for a, b in zip(differences, others)]))


class Efficiency(unittest.TestCase):
    def test_one_beyond_the_curves_says_why_there_is_none(self):
        found = {"ratio": {"value": 0.704, "interval95": [0.6, 0.81]}, "why": ""}
        self.assertEqual(papers.efficiency_text(found), "0.70 [0.60, 0.81]")
        self.assertEqual(papers.efficiency_text({"ratio": None, "why": "beyond the curves with 1 of 3 seeds"}),
                         "beyond the curves with 1 of 3 seeds")


class Pages(unittest.TestCase):
    def test_tables_are_those_that_the_results_give(self):
        for page in ("docs/claims.md", "docs/papers.md"):
            text = (root / page).read_text()
            self.assertIn("<!-- table:", text)
            self.assertEqual(tables.renewed(text, page), text, f"examples/claims/tables.py --write {page}")


unittest.main()
