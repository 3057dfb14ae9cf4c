"""What storage costs: by the settings, by cluster, beside what can be given back."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dashboard.core.clock import utc_now
from dashboard.core.errors import SettingsError
from dashboard.exporter import own
from dashboard.exporter.own_reading import Reader
from dashboard.purge.plan.drafts import PlanRequest
from dashboard.purge.plan.preview import preview
from dashboard.purge.plan.targets import parse_target
from dashboard.purge.receipt.model import Receipt
from dashboard.settings.sections import Price, beside, price_settings
from dashboard.settings.settings import load
from dashboard.ui.purge.plan_view import totals_html
from dashboard.ui.purge.run_view import receipt_html
from tests.pages.purges import a_plan
from tests.support import sample_store


def test_a_cluster_has_its_own_price_or_that_of_all() -> None:
    found = price_settings(
        {"per_gib_month": 0.08, "currency": "USD", "clusters": {"prod-us": 0.5, "ID": 0}}, "here"
    )
    assert found.of("prod-eu", "other") == Price(0.08, "USD")
    assert found.of("prod-us", "other") == Price(0.5, "USD")
    assert found.of("renamed", "ID") == Price(0.0, "USD")
    assert price_settings({}, "here").of("prod-eu") is None


def test_a_price_is_told_a_month_and_not_for_what_is_unknown() -> None:
    assert Price(0.08, "EUR").a_month(30 << 30) == "2.40 EUR a month"
    assert Price(0.08, "EUR").a_month(1 << 50) == "83\u202f886.08 EUR a month"
    assert Price(0.08, "EUR").a_month(None) == ""
    assert Price(0.08, "EUR").a_month(1 << 20) == "<0.01 EUR a month"
    assert Price(0.0, "EUR").a_month(1 << 20) == "0.00 EUR a month"
    assert beside(Price(0.08, "EUR"), 30 << 30) == " (2.40 EUR a month)"
    assert beside(None, 30 << 30) == beside(Price(0.08, "EUR"), 0) == ""


def test_a_preview_and_a_receipt_tell_what_their_bytes_cost() -> None:
    price, request = Price(1024.0, "EUR"), PlanRequest(("orders",), parse_target("committed"))
    shown = totals_html(preview(a_plan(request), utc_now()), price)
    assert re.search(r"over all replicas \(3\.00 EUR a month\)", shown)
    receipt = Receipt(predicted_bytes=5 << 20, freed_bytes=4 << 20)
    assert "freed (4.00 EUR a month)</small>" in receipt_html(receipt, (), price)
    assert "EUR" not in receipt_html(receipt, ())


@pytest.mark.parametrize("value", [-1, "8 cents", True, float("nan"), float("inf")])
def test_a_price_is_a_number_from_zero_up(value: object) -> None:
    for table in ({"per_gib_month": value}, {"clusters": {"prod-us": value}}):
        with pytest.raises(SettingsError, match=r"per_gib_month|prod-us"):
            price_settings(table, "here")


def test_the_file_has_it_and_our_metrics_tell_it(tmp_path: Path) -> None:
    file = tmp_path / "lowwater.toml"
    file.write_text("[price]\nper_gib_month = 0.08\n[price.clusters]\nprod-eu = 0.1\n")
    cluster = sample_store.write(tmp_path / "data")
    price = load(file, {}).price.of(cluster.name)
    told = own.samples(own.families(Reader(cluster, lambda: None, price).read(), utc_now(), 5))
    (sample,) = [s for s in told if s["name"] == "lowwater_price_per_gib_month"]
    assert sample == {
        "name": "lowwater_price_per_gib_month",
        "labels": {"currency": "EUR"},
        "value": 0.1,
    }
    without = own.families(Reader(cluster, lambda: None).read(), utc_now(), 5)
    assert "lowwater_price_per_gib_month" not in {family.name for family in without}
