"""What `/metrics` of a gateway shows."""

from __future__ import annotations

from lakequeue import metrics
from lakequeue.metrics.declaring import Sample
from lakequeue.metrics.sqs import SQS, SQS_REQUESTS, SQS_SECONDS
from lakequeue.settings import Settings
from serving.front_samples import FrontSamples
from serving.host_samples import HostSamples
from serving.meters import Meters


class Metrics:
    """Thread-safe."""

    def __init__(self, settings: Settings) -> None:
        self._meters = Meters((metrics.every.READY, *metrics.every.HOST, *SQS))
        self._meters.counts(SQS_REQUESTS, SQS_SECONDS)
        host = HostSamples(settings, None)
        self._meters.on_scrape(host.samples, *metrics.every.HOST)
        self.front = FrontSamples()
        self._meters.on_scrape(self.front.samples, *metrics.front.FRONT)
        self._meters.on_scrape(lambda: [Sample(metrics.every.READY, 1.0)], metrics.every.READY)
        self.text = self._meters.text
        self.silent = self._meters.silent

    def answered(self, operation: str, outcome: str, seconds: float) -> None:
        """A request was answered."""
        self._meters.count(SQS_REQUESTS, 1, operation, outcome)
        self._meters.observe(SQS_SECONDS, seconds, operation)
