"""Groups are paused and resumed, a queue is emptied, webhooks are made, changed and removed."""

from __future__ import annotations

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

from lakequeue import Consumer, Producer
from lakequeue.errors import UnknownWebhook
from lakequeue.wire.calls.webhooks import verify
from tests.support.access.locked import Locks
from tests.support.console.browser import said_by
from tests.support.console.person import Person, body, press, write
from tests.support.console.running import ConsoleProcess, Running
from tests.support.services.endpoint import Endpoint, status
from tests.support.services.zookeeper import wait_for

pytestmark = pytest.mark.zookeeper


def test_a_group_is_paused_and_resumed(queue: Running, browser: Chrome) -> None:
    with queue.admin() as admin:
        admin.seek("pausing", "earliest", topics=["orders"])
        browser.get(f"{queue.console.url}/groups/pausing")
        press(browser, "Pause")
        assert "The group is paused." in body(browser)
        assert admin.group("pausing").paused
        write(browser, "/pause", topic="orders", partition="1")
        press(browser, "Resume")
        assert "orders/1: delivered." in body(browser)
        browser.get(f"{queue.console.url}/groups/pausing")
        assert "Paused." in body(browser)
        press(browser, "Resume")
        assert "The group is not paused." in body(browser)
        assert not admin.group("pausing").paused
        write(browser, "/pause", partition="one")
        press(browser, "Pause")
        assert "is no whole number" in body(browser)
        assert not admin.group("pausing").paused
        admin.delete_group("pausing")
    assert said_by(browser) == []


def test_a_queue_is_emptied_when_its_name_is_typed(queue: Running, browser: Chrome) -> None:
    with queue.admin() as admin, Producer(queue.ingest_url, acks="ordered") as producer:
        admin.create_topic("chores", partitions=1)
        for number in range(5):
            producer.send("chores", number)
        producer.flush()
        with Consumer("chores", group="helpers", mode="queue", urls=queue.node.url) as worker:
            worker.poll(20, max_records=1)[0].ack()
        refused = Person(queue.console.url).form("/groups/helpers", "/groups/helpers/purge")
        assert "is not that of the group" in refused.text
        assert admin.group("helpers").partitions[0].lag == 4
        browser.get(f"{queue.console.url}/groups/helpers")
        button = browser.find_element(By.XPATH, "//button[contains(., 'Empty the queue')]")
        assert not button.is_enabled()
        write(browser, "/purge", confirm="helpers")
        press(browser, "Empty the queue")
        assert "chores/0 below 5" in body(browser)
        assert admin.group("helpers").partitions[0].lag == 0
        # A stream group is moved, not emptied: there is no such form.
        browser.get(f"{queue.console.url}/groups/billing")
        assert "Empty it" not in body(browser)
        admin.delete_group("helpers")


def test_a_webhook_is_made_shown_changed_and_removed(queue: Running, browser: Chrome) -> None:
    with queue.admin() as admin, Endpoint(status(204)) as endpoint:
        admin.create_topic("bells", partitions=1)
        browser.get(f"{queue.console.url}/webhooks")
        write(browser, "/webhooks", group="ringers", url=endpoint.url, topics="bells")
        press(browser, "Make it")
        assert "It is shown once" in body(browser)
        secret = browser.find_element(By.CSS_SELECTOR, ".copyable code").text
        with Producer(queue.ingest_url) as producer:
            producer.send("bells", "ding").result()
        wait_for(lambda: endpoint.posts, "it is posted")
        post = endpoint.posts[0]
        assert verify(secret, post.headers, post.body, int(post.headers["webhook-timestamp"]))
        browser.get(f"{queue.console.url}/webhooks")
        wait_for(lambda: listed(queue, endpoint.url), "it is in the list")
        browser.get(f"{queue.console.url}/webhooks/ringers")
        assert "consumer-1" in body(browser)
        assert secret not in browser.page_source
        # Made again is not made: whoever wants to change it has to say so.
        again = {"group": "ringers", "url": "http://127.0.0.1:9/", "topics": "bells"}
        assert "has a webhook" in Person(queue.console.url).form("/webhooks", **again).text
        admin.set_webhook("ringers", endpoint.url, ["bells"], format="cloudevents")
        browser.get(f"{queue.console.url}/webhooks/ringers")
        write(browser, "/webhooks/ringers", concurrency="2", confirm="ringers")
        press(browser, "Change the webhook")
        assert "It keeps its secret." in body(browser)
        changed = admin.webhook("ringers")
        assert (changed.concurrency, changed.format) == (2, "cloudevents")
        assert "a CloudEvent" in body(browser)
        field = "//section[@aria-labelledby='h-remove']//input[@name='confirm']"
        browser.find_element(By.XPATH, field).send_keys("ringers")
        press(browser, "Remove the webhook")
        assert "The group and its records stay." in body(browser)
        with pytest.raises(UnknownWebhook):
            admin.webhook("ringers")
    assert said_by(browser) == []


def listed(queue: Running, url: str) -> bool:
    return url in Person(queue.console.url).http.get("/webhooks").text


@pytest.mark.parametrize(
    ("path", "fields", "said"),
    [
        ("/webhooks", {"group": "w", "url": "ftp://x", "topics": "orders"}, "Not shown."),
        ("/webhooks", {"group": "a/b", "url": "http://x", "topics": "orders"}, "Not shown."),
        ("/webhooks/w", {"url": "http://127.0.0.1:9", "topics": "orders"}, "that was typed"),
        ("/webhooks/w", {"do": "remove", "confirm": "v"}, "that was typed"),
        ("/webhooks/w", {"do": "remove", "confirm": "w"}, "has no webhook"),
    ],
)
def test_what_is_wrong_about_a_webhook_is_said_and_nothing_is_made(
    queue: Running, path: str, fields: dict[str, str], said: str
) -> None:
    page = Person(queue.console.url).form(path, **fields)
    assert page.status_code == 200
    assert said in page.text
    with queue.admin() as admin, pytest.raises(UnknownWebhook):
        admin.webhook("w")


def test_only_who_may_manage_a_group_does_any_of_it(queue: Running, locked: Locks) -> None:
    """And a console that only shows does it for nobody."""
    reader = signed_in(queue, queue.console, locked.may("looker", "consume", "group", "billing"))
    hook = {"url": "http://127.0.0.1:9/", "topics": "orders", "confirm": "billing"}
    for to, fields in (
        ("/groups/billing/pause", {"do": "pause"}),
        ("/groups/billing/purge", {"confirm": "billing"}),
        ("/webhooks/billing", {**hook, "do": "put"}),
        ("/webhooks/billing", {"confirm": "billing", "do": "remove"}),
    ):
        answer = reader.form("/groups/billing", to, **fields)
        assert "has not the right manage" in answer.text, to
    shown = ConsoleProcess(queue.queue.root.uri, queue.ingest_url, queue.node.url, "--read-only")
    try:
        boss = signed_in(queue, shown, locked.keys["admin"])
        assert boss.form("/groups/billing", "/groups/billing/pause", do="pause").status_code == 403
        assert "Make one" not in boss.http.get("/webhooks").text
    finally:
        shown.stop()
    boss = signed_in(queue, queue.console, locked.keys["admin"])
    for verb, said in (("pause", "The group is paused."), ("resume", "The group is not paused.")):
        answer = boss.form("/groups/billing", "/groups/billing/pause", do=verb)
        assert said in answer.text


def signed_in(queue: Running, console: ConsoleProcess, key: str) -> Person:
    person = Person(console.url)

    def inside() -> bool:
        return bool(person.form("/sign-in", key=key, next="/topics").history)

    wait_for(inside, "the key is known", every_s=0.2)
    return person
