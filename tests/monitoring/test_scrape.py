"""What a real Prometheus makes of the pages: over TLS with a token, as the README says, and with any names on them."""

import re
import tempfile
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from governor.cli.main import main
from governor.token import new
from tests.certificates import Authority
from tests.e2e.conftest import starting
from tests.e2e.process import until
from tests.metrics.messages import PROTOBUF
from tests.metrics.reading import OPENMETRICS
from tests.metrics.test_clients import NAUGHTY, Story
from tests.monitoring.boards import at, objects
from tests.monitoring.prometheus import data, scraping

_README: Final = Path(__file__).parents[2] / "deploy" / "monitoring" / "README.md"


def _told() -> tuple[str, dict[str, Any]]:
    """What the daemon is to say of its pages, and what Prometheus is to be told."""
    text = _README.read_text(encoding="utf-8")
    section = text[text.index("### Over TLS and with a token") :]
    found = re.search(r"`(http: [^`]+)`", section)
    (config,) = (yaml.safe_load(each) for each in re.findall(r"```yaml\n(scrape_configs:.*?)```", section, re.DOTALL))
    assert found is not None
    return found[1], config


def test_prometheus_scrapes_over_tls_as_a_client(
    program: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With its token, read anew for each scrape: when that is another it is refused, and it is seen who is."""
    prometheus = program("prometheus")
    http, config = _told()
    token, ca = tmp_path / "governor.token", tmp_path / "authority.crt"
    monkeypatch.setattr("sys.argv", ["governor", "token", "new", "--file", str(token)])
    assert main() == 0
    digest = capsys.readouterr().out.split()[-1]
    pair = Authority(tmp_path).certify("daemon", "localhost", "127.0.0.1")
    head = "listen: [unix:{folder}/governor.sock]\nhttp: off\ndrain_timeout: {drain}\n".replace(
        "http: off", http.replace("{", "{{").replace("}", "}}").replace("0.0.0.0:7412", "127.0.0.1:0")
    )
    tls = f"tls: {{cert: {pair.cert}, key: {pair.key}}}\n"
    declared = f"{tls}clients: {{prometheus: {{tokens: ['{digest}'], verbs: [read]}}}}\n"
    with tempfile.TemporaryDirectory(prefix="governor-") as name, starting(Path(name)) as start:
        daemon = start(declared, head=head)
        (job,) = config["scrape_configs"]
        assert job["authorization"]["credentials_file"] == "/etc/prometheus/governor.token"
        job |= {
            "authorization": {"credentials_file": str(token)},
            "tls_config": {"ca_file": str(ca)},
            "static_configs": [{"targets": [daemon.http]}],
            "scrape_interval": "1s",
            "scrape_timeout": "1s",
        }
        with scraping(prometheus, tmp_path, yaml.safe_dump(config)) as address:
            until(lambda: _value(address, "up") == 1, "it is scraped")
            until(lambda: _value(address, "governor_tls_last_reload_successful") == 1, "over TLS")
            token.write_text(new())
            until(lambda: _value(address, "up") == 0, "another token is refused")


def test_prometheus_takes_whatever_clients_call_themselves(program: Callable[[str], str], tmp_path: Path) -> None:
    """In each of the formats, every name is one label of one series, to the letter: none breaks or adds to a page."""
    story = Story(len(NAUGHTY))
    for name in NAUGHTY:
        story.grant(name)
    pages = {f"/{number}": story.metrics.page(accept) for number, accept in enumerate(("", OPENMETRICS, PROTOBUF))}
    bodies = {path: (page.content_type, b"".join(page.chunks)) for path, page in pages.items()}

    class Pages(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            kind, body = bodies[self.path]
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        target = f"127.0.0.1:{server.server_port}"
        jobs = [
            {"job_name": path, "metrics_path": path, "scrape_interval": "1s", "static_configs": [{"targets": [target]}]}
            for path in bodies
        ]
        config = yaml.safe_dump({"scrape_configs": [{**job, "scrape_timeout": "1s"} for job in jobs]})
        try:
            with scraping(program("prometheus"), tmp_path, config, "--enable-feature=native-histograms") as address:

                def seen() -> list[tuple[str, str]]:
                    series = objects(at(data(address, "query", query="governor_client_leases"), "result"))
                    return sorted(
                        (str(at(each, "metric", "job")), str(at(each, "metric", "client"))) for each in series
                    )

                expected = sorted((path, name) for path in bodies for name in NAUGHTY)
                until(lambda: seen() == expected, "each page is read as it was meant")
                assert _value(address, 'count(governor_build_info{version="forged"})') is None
        finally:
            server.shutdown()


def _value(address: str, expr: str) -> float | None:
    found = objects(at(data(address, "query", query=expr), "result"))
    values = [at(sample, "value") for sample in found]
    return float(str(values[0][1])) if values and isinstance(values[0], list) else None
