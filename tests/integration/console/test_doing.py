"""Actions: a test record, a seek with a dry run, dead letters that go back; and who may."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.support.select import Select

from lakequeue import Producer
from tests.support.console.person import Person, body, press
from tests.support.console.running import ConsoleProcess, Running, die
from tests.support.services.zookeeper import wait_for

pytestmark = pytest.mark.zookeeper


def test_a_test_record_is_sent_and_shown(queue: Running, browser: Chrome) -> None:
    with queue.admin() as admin:
        admin.create_topic("scratch", partitions=1)
    browser.get(f"{queue.console.url}/topics/scratch/send")
    Select(browser.find_element(By.NAME, "kind")).select_by_visible_text("text")
    for name, text in (("value", "from the console"), ("headers", "who=me")):
        field = browser.find_element(By.NAME, name)
        field.clear()
        field.send_keys(text)
    press(browser, "Send")
    browser.find_element(By.LINK_TEXT, "scratch/0@0").click()
    assert "from the console" in body(browser)
    assert "who" in body(browser)


def test_a_seek_is_tried_first_and_done_when_the_name_is_typed(
    queue: Running, browser: Chrome
) -> None:
    with queue.admin() as admin:
        admin.seek("mover", "earliest", topics=["orders"])
        browser.get(f"{queue.console.url}/groups/mover")
        Select(browser.find_element(By.NAME, "to")).select_by_visible_text("latest")
        press(browser, "See what would change")
        assert "Nothing has changed yet." in body(browser)
        assert [p.committed_offset for p in admin.group("mover").partitions] == [0, 0]
        button = browser.find_element(By.CSS_SELECTOR, "button.danger")
        assert not button.is_enabled()
        browser.find_element(By.NAME, "confirm").send_keys("move")
        assert not button.is_enabled()
        browser.find_element(By.NAME, "confirm").send_keys("r")
        press(browser, "Move the group")
        assert "Moved." in body(browser)
        assert all(p.lag == 0 for p in admin.group("mover").partitions)
        admin.delete_group("mover")


def test_the_server_checks_the_typed_name_too(queue: Running) -> None:
    with queue.admin() as admin:
        admin.seek("typed", "earliest", topics=["orders"])
        person = Person(queue.console.url)
        page = person.form("/groups/typed", do="seek", to="latest", confirm="")
        assert page.status_code == 405
        shown = person.http.get("/groups/typed").text
        csrf = re.findall(r'name="csrf" value="(\w+)"', shown)[0]
        sent = {"csrf": csrf, "do": "seek", "to": "latest", "confirm": "other"}
        assert "is not that of the group" in person.http.post("/groups/typed/seek", data=sent).text
        assert sum(p.lag for p in admin.group("typed").partitions) > 0
        admin.delete_group("typed")


def dead(queue: Running, topic: str, count: int) -> str:
    """A topic of dead letters with so many; its name."""
    with queue.admin() as admin:
        admin.create_topic(topic, partitions=1, max_attempts=1)
        admin.create_topic(f"{topic}.dlq", partitions=1)
    with Producer(queue.ingest_url, acks="ordered") as producer:
        for number in range(count):
            producer.send(topic, number)
    die(topic, f"{topic}-workers", queue.ingest_url, queue.node.url, count)
    return f"{topic}.dlq"


def waiting(queue: Running, topic: str) -> int:
    with queue.admin() as admin:
        return sum(line.count for line in admin.dead_letters(topic))


def end(queue: Running, topic: str) -> int:
    with queue.admin() as admin:
        moves = admin.seek("nobody", "latest", topics=[topic], dry_run=True).partitions
        return sum(move.to_offset for move in moves)


def test_dead_letters_are_counted_and_go_back(queue: Running, browser: Chrome) -> None:
    topic = dead(queue, "returns", 3)
    browser.get(f"{queue.console.url}/dead-letters/{topic}")
    wait_for(lambda: "max_attempts" in body(browser), "they are counted")
    choice = "return document.querySelector('td a[href*=reason]').href"
    browser.get(browser.execute_script(choice))
    press(browser, "Count them")
    assert "3 would go back" in body(browser)
    assert waiting(queue, topic) == 3
    browser.find_element(By.NAME, "confirm").send_keys(topic)
    press(browser, "Send 3 back")
    wait_for(lambda: "3 went back" in body(browser), "it is told")
    assert end(queue, "returns") == 6
    assert waiting(queue, topic) == 0


def test_two_people_who_send_the_same_back_send_each_once(queue: Running) -> None:
    topic = dead(queue, "twice", 20)
    people = [Person(queue.console.url) for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:
        both = pool.map(
            lambda one: one.form(f"/dead-letters/{topic}", do="redrive", confirm=topic), people
        )
        assert {answer.status_code for answer in both} == {200}
    counts = [wait_until_over(person, topic) for person in people]
    assert sum(counts) == 20
    assert end(queue, "twice") == 40
    assert waiting(queue, topic) == 0


def wait_until_over(person: Person, topic: str) -> int:
    """How many went back by this person's doing."""
    page = ""

    def over() -> bool:
        nonlocal page
        page = person.http.get(f"/dead-letters/{topic}").text
        return "Sent back." in page or "Ended." in page

    wait_for(over, "the redrive is over", every_s=0.3)
    found = re.search(r"(\d+) went back", page)
    assert found, page
    return int(found[1])


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/topics/orders/send", {"value": "1", "kind": "json"}),
        ("/dead-letters/payments.dlq", {"do": "redrive", "confirm": "payments.dlq"}),
    ],
)
def test_no_form_of_another_page_is_taken(
    queue: Running, path: str, fields: dict[str, str]
) -> None:
    before = end(queue, "orders"), end(queue, "payments")
    with httpx2.Client(base_url=queue.console.url, timeout=20) as http:
        http.get("/")
        assert http.post(path, data=fields).status_code == 403
        assert http.post(path, data=fields | {"csrf": "0" * 64}).status_code == 403
        evil = {"Origin": "http://evil.example"}
        assert http.post(path, data=fields, headers=evil).status_code == 403
        refused = http.get("/", headers={"Host": "rebound.example"})
        assert refused.json()["code"] == "wrong_host"
    assert (end(queue, "orders"), end(queue, "payments")) == before


def test_a_console_that_only_shows_changes_nothing(queue: Running) -> None:
    console = ConsoleProcess(queue.queue.root.uri, queue.ingest_url, queue.node.url, "--read-only")
    try:
        before = end(queue, "orders")
        person = Person(console.url)
        page = person.http.get("/topics/orders").text
        assert "read-only" in page
        assert "Send a test record" not in page
        assert "Move it" not in person.http.get("/groups/billing").text
        token = re.findall(r'name="csrf" value="(\w+)"', person.http.get("/sign-in").text)[0]
        sent = {"csrf": token, "value": "1", "kind": "json"}
        answer = person.http.post("/topics/orders/send", data=sent)
        assert (answer.status_code, end(queue, "orders")) == (403, before)
    finally:
        console.stop()
