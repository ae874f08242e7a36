"""What a process says of its machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakequeue import metrics
from lakequeue.settings import Settings, TlsSettings
from serving.host_samples import HostSamples, expiry, memory_limit
from tests.support.access.certificates import Authority


def test_the_expiry_is_that_of_the_certificate_that_is_served(tmp_path: Path) -> None:
    signed = Authority(tmp_path).sign("node")
    settings = Settings(tls=TlsSettings(cert=signed.cert, key=signed.key), work_dir=tmp_path)
    found = {sample.metric: sample.value for sample in HostSamples(settings, None).samples()}
    assert found[metrics.every.CERTIFICATE] == expiry(signed.cert.read_bytes())
    with pytest.raises(ValueError, match="PEM"):
        expiry(b"half a file")


def test_without_tls_no_expiry_is_told_and_each_place_has_its_room(tmp_path: Path) -> None:
    host = HostSamples(Settings(work_dir=tmp_path / "not" / "made" / "yet"), tmp_path)
    found = {(sample.metric, sample.labels): sample.value for sample in host.samples()}
    assert metrics.every.CERTIFICATE not in {metric for metric, _ in found}
    for place in ("work", "root"):
        free = found[metrics.every.DISK_FREE, (place,)]
        assert 0 < free <= found[metrics.every.DISK_SIZE, (place,)]


def test_the_limit_of_memory_is_the_smallest_that_is_set(tmp_path: Path) -> None:
    machine = memory_limit(())
    none, small = tmp_path / "max", tmp_path / "small"
    none.write_text("max\n")
    small.write_text("1048576\n")
    assert machine > 1 << 26
    assert memory_limit((none, tmp_path / "gone")) == machine
    assert memory_limit((none, small)) == 1 << 20
