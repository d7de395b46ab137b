"""`governor health`: whether the daemon takes asks."""

import click

from governor.cli.exits import Exit
from governor.cli.options import Settings, address_option, examples, output_option, with_settings
from governor.cli.output import say, say_json


@click.command(
    epilog=examples("governor health", "HEALTHCHECK CMD governor health --address unix:/run/governor/governor.sock")
)
@address_option
@output_option
@with_settings
def health(settings: Settings) -> Exit:
    """Ask whether the daemon serves.

    Exits with 0 if it does, 75 if it starts or drains, 3 if nobody answers: made for the health checks of
    containers. JSON: {"serving": true} or {"serving": false}.
    """
    from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse

    from governor.cli.connection import connect

    with connect(settings.where()) as daemon:
        check = daemon.channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            request_serializer=HealthCheckRequest.SerializeToString,
            response_deserializer=HealthCheckResponse.FromString,
        )
        answer = daemon.ask(check, HealthCheckRequest())
    serving = answer.status == HealthCheckResponse.SERVING
    if settings.json:
        say_json({"serving": serving})
    else:
        say(["serving" if serving else "not serving"])
    return Exit.OK if serving else Exit.TRY_LATER
